//! Watches of kinds that come and go while the program goes on.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Watch;

/// A watch that can be ended.
pub struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Watch {
    /// Runs as a task of its own. `failed` hears of each list that fails.
    pub fn spawn(self, failed: impl Fn() + Send + Sync + 'static) -> Running {
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(self.run_until(stopped, failed));
        Running { stop, ended }
    }
}

impl Running {
    /// Returns when all that was told of is told gone.
    pub async fn end(self) {
        drop(self.stop);
        // It ends by itself only with the runtime.
        let _ = self.ended.await;
    }
}
