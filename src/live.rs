//! `berth run`: the engine on a real API server.
//!
//! Watches hand inputs to one engine thread; its decisions go to the dispatcher (writes) and the
//! event sender, whose outcomes come back as inputs. Nothing here decides anything.
//!
//! Reading order: `complaint`, [`credentials`], [`pool`], [`client`], [`rate`], [`kinds`], [`watch`],
//! [`request`], [`outcome`], [`forbidden`], [`dispatch`], [`events`], [`clock`], `doubt`, `strangers`,
//! [`driver`], [`lease`], [`dialects`], [`optional`], [`preflight`], [`compare`]; `reach`, `discovery`
//! and `start` put them together.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod clock;
pub mod compare;
mod complaint;
pub mod credentials;
pub mod dialects;
mod discovery;
pub mod dispatch;
mod doubt;
pub mod driver;
pub mod events;
pub mod forbidden;
pub mod kinds;
pub mod lease;
pub mod optional;
pub mod outcome;
pub mod planted;
pub mod pool;
pub mod preflight;
pub mod rate;
mod reach;
pub mod request;
mod start;
mod strangers;
pub mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use berth_core::engine::{Input, Setup};
use berth_core::framework::Profile;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::config::ClientConnection;
use crate::observe::metrics::Metrics;
use crate::observe::serve::{ServeError, Served, Serving};
use crate::wire::Kind;

use client::{Api, ConnectError, Target};
use dialects::Dialects;
use lease::Election;
use optional::Optional;
use preflight::Preflight;
use start::Parts;

/// Events that still wait at the end get so long.
const FLUSH: Duration = Duration::from_secs(2);

/// What is run, and where.
pub struct Run {
    pub profiles: Vec<Profile>,
    pub setup: Setup,
    pub connection: ClientConnection,
    pub target: Target,
    /// None: this is the only scheduler, and leads from the start.
    pub election: Option<Election>,
    /// The gate TaintTolerationComparisonOperators.
    pub comparison_tolerations: bool,
    /// Where everything is counted.
    pub metrics: Metrics,
    /// The secure port; None: nothing is served.
    pub serve: Option<Serving>,
}

/// Why a run ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("the engine has failed; what it said is above")]
    Engine,
    #[error("lost the Lease: {0}")]
    LeaseLost(String),
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> RunError {
    move |source| RunError::System { what, source }
}

/// Schedules until SIGTERM or SIGINT.
///
/// # Errors
/// [`RunError`]: there can be no connection, the engine's thread died, or another leads. A server
/// that doesn't answer is waited for.
pub fn run(run: Run) -> Result<(), RunError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // One thread is busy for a fifth of its time while the server is for all of it, and several
    // spend as much on waking each other.
    let builder = builder.worker_threads(1).enable_all();
    let runtime = builder.build().map_err(system("starting threads"))?;
    let outcome = runtime.block_on(run_until_signal(run));
    // Watches and what is not sent by now are given up.
    runtime.shutdown_background();
    outcome
}

/// What a run listens to, from its very beginning: by itself SIGUSR2 would end it.
struct Signals {
    end: EndSignals,
    compare: Signal,
}

struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, RunError> {
        let listen = |kind, what| signal(kind).map_err(system(what));
        let end = EndSignals {
            terminate: listen(SignalKind::terminate(), "listening for SIGTERM")?,
            interrupt: listen(SignalKind::interrupt(), "listening for SIGINT")?,
        };
        let compare = listen(SignalKind::user_defined2(), "listening for SIGUSR2")?;
        Ok(Signals { end, compare })
    }
}

impl EndSignals {
    /// Returns the name of the next signal that asks for an end.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

async fn run_until_signal(mut run: Run) -> Result<(), RunError> {
    let mut signals = Signals::listen()?;
    // Before the server is looked for, so that probes are answered meanwhile.
    let lease = run.election.as_ref().map(|election| &election.rules);
    let dialects = Dialects::of(&run.profiles, lease);
    let optional = Optional::of(&run.profiles);
    let preflight = Preflight::of(&run, &dialects, &optional);
    let watched = Arc::new(OnceLock::new());
    let clients = reach::clients(&run.target, &run.metrics).await?;
    let served = tokio::select! {
        served = open_port(&mut run, Arc::clone(&watched)) => served?,
        name = signals.end.next() => return ended_waiting(name),
    };
    let kinds = tokio::select! {
        kinds = kinds_of(&clients.main, &run.profiles) => kinds,
        name = signals.end.next() => return ended_waiting(name),
    };
    let _ = watched.set(kinds.clone());
    let come_and_go = (dialects, optional);
    tokio::spawn(preflight.run(clients.main.clone(), kinds.clone(), come_and_go.clone()));
    let parts =
        start::start(run, clients, kinds, come_and_go).map_err(system("starting a thread"))?;
    until_ended(parts, signals, served).await
}

/// Waits for the server, and returns what is to be watched.
async fn kinds_of(api: &Api, profiles: &[Profile]) -> Vec<Kind> {
    reach::answered(api).await;
    discovery::served(api, kinds::needed(profiles)).await
}

/// Nothing was begun, so there is nothing to end.
fn ended_waiting(signal: &str) -> Result<(), RunError> {
    info!(signal, "ending; the API server has not answered yet");
    Ok(())
}

async fn until_ended(
    mut parts: Parts,
    mut signals: Signals,
    served: Option<Served>,
) -> Result<(), RunError> {
    tokio::spawn(parts.comparison.run(signals.compare));
    let name = tokio::select! {
        name = signals.end.next() => name,
        _ = &mut parts.ended => return Err(RunError::Engine),
        why = parts.candidate.lost() => return Err(RunError::LeaseLost(why)),
    };
    info!(signal = name, "ending");
    if let Some(served) = &served {
        served.ending();
    }
    // The engine's thread ends by itself only after a drain, so it hears this.
    let _ = parts.sink.send(Input::Drain);
    let clean = tokio::select! {
        outcome = &mut parts.ended => outcome.map_err(|_| RunError::Engine)?,
        why = parts.candidate.lost() => return Err(RunError::LeaseLost(why)),
        _ = signals.end.next() => { warn!("a second signal: ending at once"); false }
    };
    parts.events.flushed(FLUSH).await;
    if let Some(served) = served {
        served.close().await;
    }
    parts.candidate.resign(clean).await.map_err(RunError::LeaseLost)
}

/// Opens the secure port, if one is asked for. What is `watched` is known later.
async fn open_port(
    run: &mut Run,
    watched: Arc<OnceLock<Vec<Kind>>>,
) -> Result<Option<Served>, ServeError> {
    let Some(serving) = run.serve.take() else { return Ok(None) };
    let metrics = run.metrics.clone();
    let once = AtomicBool::new(false);
    let synced = move || is_current(watched.get(), &metrics, &once);
    let served = serving.start(run.election.as_ref(), &run.metrics, Arc::new(synced)).await?;
    Ok(Some(served))
}

/// Says what of the watched kinds is missing. As upstream's check: once everything has been listed it
/// stays passed, here unless the server is not heard any more.
fn is_current(
    watched: Option<&Vec<Kind>>,
    metrics: &Metrics,
    once: &AtomicBool,
) -> Result<(), String> {
    let Some(kinds) = watched else {
        return Err("the API server has not answered yet".to_owned());
    };
    let missing = |is_missing: &dyn Fn(&str) -> bool| {
        let names = kinds.iter().map(|kind| kinds::resource(*kind));
        let missing: Vec<String> = names.filter(|name| is_missing(name)).collect();
        missing.join(", ")
    };
    let overdue = missing(&|name| metrics.is_overdue(name));
    if !overdue.is_empty() {
        return Err(format!("nothing is heard of {overdue}"));
    }
    if once.load(Ordering::Relaxed) {
        return Ok(());
    }
    let unlisted = missing(&|name| !metrics.is_synced(name));
    if !unlisted.is_empty() {
        return Err(format!("not listed yet: {unlisted}"));
    }
    once.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns the name of this machine or pod, as events carry it.
fn hostname() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_all_is_listed_and_as_long_as_the_server_is_heard() {
        let (metrics, once) = (Metrics::default(), AtomicBool::new(false));
        let kinds = vec![Kind::Node, Kind::Pod];
        let missing = |kinds| is_current(kinds, &metrics, &once).err().unwrap_or_default();
        assert_eq!(missing(None), "the API server has not answered yet");
        metrics.synced("nodes", true);
        assert_eq!(missing(Some(&kinds)), "not listed yet: pods");
        metrics.synced("pods", true);
        assert_eq!(missing(Some(&kinds)), "");
        // A new list is no reason, as upstream.
        metrics.synced("nodes", false);
        assert_eq!(missing(Some(&kinds)), "");
        metrics.overdue("nodes", true);
        assert_eq!(missing(Some(&kinds)), "nothing is heard of nodes");
        metrics.overdue("nodes", false);
        assert_eq!(missing(Some(&kinds)), "");
    }
}
