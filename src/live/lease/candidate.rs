//! The election as the rest of the run sees it: a task that ends when the Lease is lost or given up.

use std::future::pending;

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

use super::run::{Campaign, Ended};

/// An election that is under way, or none.
#[derive(Default)]
pub struct Candidate {
    task: Option<(JoinHandle<Ended>, oneshot::Sender<bool>)>,
}

impl Candidate {
    pub fn start(campaign: Campaign) -> Candidate {
        let (resign, resigns) = oneshot::channel();
        Candidate { task: Some((tokio::spawn(campaign.run(resigns)), resign)) }
    }

    /// Waits until the Lease is lost, for ever if need be, and returns why it is.
    pub async fn lost(&mut self) -> String {
        match &mut self.task {
            Some((task, _)) => why_lost(task.await).unwrap_or_default(),
            None => pending().await,
        }
    }

    /// Gives the Lease up; `clean` tells whether all that was decided has ended.
    ///
    /// # Errors
    /// Why it was lost before.
    pub async fn resign(self, clean: bool) -> Result<(), String> {
        let Some((task, resign)) = self.task else { return Ok(()) };
        // It is not heard only if the election has ended.
        let _ = resign.send(clean);
        why_lost(task.await).map_or(Ok(()), Err)
    }
}

/// A panic of the election's task is a loss: nobody renews.
fn why_lost(ended: Result<Ended, JoinError>) -> Option<String> {
    match ended {
        Ok(Ended::Resigned) => None,
        Ok(Ended::Lost(why)) => Some(why),
        Err(panic) => Some(panic.to_string()),
    }
}
