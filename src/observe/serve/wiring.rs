//! What a run hands to the secure port: its election, metrics and state.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::health::{CheckFn, Health, Probes};
use super::{Bound, Pages, ServeError, ServeOptions, ServeState, serve};
use crate::live::lease::{Election, Leadership};
use crate::observe::metrics::Metrics;

/// A leader whose last renewal is older than this and the Lease's duration hangs.
/// Source: cmd/kube-scheduler/app/options/options.go, NewLeaderHealthzAdaptor.
const TOLERANCE: Duration = Duration::from_secs(20);

/// What is served, as far as the command line says it.
pub struct Serving {
    pub options: ServeOptions,
    /// The completed configuration.
    pub configuration: Value,
    pub flags: BTreeMap<String, String>,
    pub emulation_version: String,
    /// The gates ComponentFlagz and ComponentStatusz.
    pub flagz: bool,
    pub statusz: bool,
}

/// A port that is served beside a run.
pub struct Served {
    bound: Bound,
    ending: Arc<AtomicBool>,
    shutdown: watch::Sender<bool>,
}

impl Serving {
    /// Opens the port. `synced` tells what of all that is watched has not been listed.
    ///
    /// # Errors
    /// [`ServeError`], in one line.
    pub async fn start(
        self,
        election: Option<&Election>,
        metrics: &Metrics,
        synced: CheckFn,
    ) -> Result<Served, ServeError> {
        let ending = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ending);
        let health = Health::new(Probes {
            leader_election: election.map(renewed),
            ending: Arc::new(move || seen.load(Ordering::Relaxed)),
            synced,
        });
        let leadership = election.map(|election| election.leadership.clone());
        let state = ServeState {
            pages: Arc::new(Counted { metrics: metrics.clone(), leadership }),
            health,
            configuration: self.configuration,
            flags: self.flags,
            emulation_version: self.emulation_version,
            flagz: self.flagz,
            statusz: self.statusz,
        };
        let (shutdown, told) = watch::channel(false);
        let bound = serve(self.options, state, told).await?;
        Ok(Served { bound, ending, shutdown })
    }
}

impl Served {
    /// /readyz fails from here on; the rest goes on as before.
    pub fn ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Takes no more connections and waits at most 5 s for what is under way.
    pub async fn close(self) {
        // Nobody listens if the server's task has died, which is told elsewhere.
        let _ = self.shutdown.send(true);
        self.bound.ended().await;
    }
}

/// Fails only for a leader that has not noticed that it is none any more.
///
/// Source: client-go/tools/leaderelection, LeaderElector.Check.
fn renewed(election: &Election) -> CheckFn {
    let (leadership, limit) =
        (election.leadership.clone(), election.rules.lease_duration + TOLERANCE);
    let name = election.rules.name.clone();
    Arc::new(move || match leadership.last_renew_age() {
        Some(age) if age > limit => {
            Err(format!("failed election to renew leadership on lease {name}"))
        }
        _ => Ok(()),
    })
}

struct Counted {
    metrics: Metrics,
    /// None: we always lead.
    leadership: Option<Leadership>,
}

impl Pages for Counted {
    fn metrics(&self) -> Vec<u8> {
        self.metrics.render()
    }

    fn resources(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.leadership.as_ref().is_none_or(Leadership::is_leading) {
            self.metrics.resources(out)?;
        }
        Ok(())
    }
}
