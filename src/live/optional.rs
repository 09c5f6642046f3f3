//! Kinds that a profile reads where they are installed, and does without where they aren't: the server
//! is asked for them again and again, and their watches come and go.
//!
//! What they tell is help, not a fact that decisions stand on. So pods whose kind of question they
//! answer wait until they have been listed or a list has failed, and no longer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_core::engine::Input;
use berth_core::framework::Profile;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tracing::{debug, info};

use super::watch::{Running, Source, Watch, tell_synced};
use super::{discovery, kinds};
use crate::wire::Kind;

/// The kinds that count, and which of them are watched. Clones share it.
#[derive(Clone)]
pub struct Optional {
    kinds: Arc<Vec<Kind>>,
    running: Arc<Mutex<BTreeMap<Kind, Running>>>,
    /// True once the server has been asked for all of them.
    looked: Arc<watch::Sender<bool>>,
}

impl Optional {
    /// Takes those that something in the profiles reads.
    pub fn of(profiles: &[Profile]) -> Optional {
        let reads = |names: &[&str]| profiles.iter().any(|p| names.iter().any(|name| p.runs(name)));
        let cells = reads(&["NumaTopology", "NvlinkTopology"]);
        Optional::new(cells.then_some(Kind::NodeResourceTopology).into_iter().collect())
    }

    pub fn new(kinds: Vec<Kind>) -> Optional {
        let looked = Arc::new(watch::Sender::new(kinds.is_empty()));
        Optional { kinds: Arc::new(kinds), running: Arc::default(), looked }
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Kind, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kinds that are watched now.
    pub fn watched(&self) -> Vec<Kind> {
        self.running().keys().copied().collect()
    }

    /// Waits until the server has been asked for all kinds once.
    pub async fn looked(&self) {
        // The sender is kept by this very handle.
        let _ = self.looked.subscribe().wait_for(|looked| *looked).await;
    }

    /// Tells the engine that nothing is known yet. Call it before anything that tells of pods.
    pub fn announce(&self, sink: &Sender<Input>) {
        self.kinds.iter().for_each(|kind| tell_synced(sink, *kind, false));
    }

    /// Looks what is served, now and whenever it is time or a list fails, for ever.
    pub async fn run(self, source: Source) -> Infallible {
        let failed = Arc::new(Notify::new());
        loop {
            for kind in self.kinds.iter() {
                self.look(*kind, &source, &failed).await;
            }
            self.looked.send_replace(true);
            let _ = timeout(source.pace.look_again, failed.notified()).await;
        }
    }

    async fn look(&self, kind: Kind, source: &Source, failed: &Arc<Notify>) {
        let running = self.running().contains_key(&kind);
        match discovery::ask(&source.api, kind.names().0).await {
            Ok(resources) if resources.have(kind) && !running => {
                self.begin(kind, source, failed);
            }
            Ok(resources) if !resources.have(kind) => {
                let first = !*self.looked.borrow();
                let ended = self.running().remove(&kind);
                if ended.is_some() || first {
                    info!(
                        resource = kinds::resource(kind),
                        "is not served; it is looked for again"
                    );
                    if let Some(running) = ended {
                        running.end().await;
                    }
                    tell_synced(&source.sink, kind, true);
                }
            }
            Ok(_) => {}
            Err(problem) => debug!(resource = kinds::resource(kind), %problem, "not told of"),
        }
    }

    fn begin(&self, kind: Kind, source: &Source, failed: &Arc<Notify>) {
        info!(resource = kinds::resource(kind), "is served, and read");
        let (sink, failed) = (source.sink.clone(), Arc::clone(failed));
        let running = Watch::new(source.clone(), kind).spawn(move || {
            tell_synced(&sink, kind, true);
            failed.notify_one();
        });
        self.running().insert(kind, running);
    }
}
