//! Watches of kinds that come and go while the program goes on.

use std::sync::mpsc::Sender;

use berth_core::engine::Input;
use berth_core::types::Text;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Watch;
use crate::live::kinds;
use crate::wire::Kind;

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

/// Tells the engine of a kind that has no watch, or whose watch waits for its list. One that isn't
/// there has nothing that could be missed, and is up to date.
pub fn tell_synced(sink: &Sender<Input>, kind: Kind, synced: bool) {
    let kind = Text::from(kinds::resource(kind));
    // Nobody listens only while the program ends.
    let _ = sink.send(Input::Watch { kind, synced });
}
