//! `berth run`: the engine on a real API server.
//!
//! Watches hand inputs to one engine thread; its decisions go to the dispatcher (writes) and the
//! event sender, whose outcomes come back as inputs. Nothing here decides anything.
//!
//! Reading order: [`client`], [`rate`], [`kinds`], [`watch`], [`request`], [`outcome`],
//! [`dispatch`], [`events`], [`clock`], [`driver`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod clock;
pub mod dispatch;
pub mod driver;
pub mod events;
pub mod kinds;
pub mod outcome;
pub mod rate;
pub mod request;
pub mod watch;

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_core::engine::{Engine, Input, Setup};
use berth_core::framework::Profile;
use berth_core::types::Text;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::config::ClientConnection;
use crate::wire::{Kind, Tables};

use client::{Api, Call, ConnectError, SendError, Target};
use clock::Clock;
use dispatch::{Dispatcher, Outbox};
use driver::{Driver, Told};
use events::{EventQueue, EventSender};
use rate::TokenBucket;
use watch::{Pace, Source, Watch};

/// A server that is not there yet is waited for so long at the start.
const REACH: Duration = Duration::from_secs(5);
const REACH_AGAIN: Duration = Duration::from_millis(500);
/// Events that still wait at the end get so long.
const FLUSH: Duration = Duration::from_secs(2);
/// Texts and specs that no object holds any more are forgotten so often.
const PURGE: Duration = Duration::from_secs(300);

/// What is run, and where.
pub struct Run {
    pub profiles: Vec<Profile>,
    pub setup: Setup,
    pub connection: ClientConnection,
    pub target: Target,
}

/// Why a run ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("the engine has failed; what it said is above")]
    Engine,
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> RunError {
    move |source| RunError::System { what, source }
}

/// Schedules until SIGTERM or SIGINT.
///
/// # Errors
/// [`RunError`]: no connection to begin with, or the engine's thread died.
pub fn run(run: Run) -> Result<(), RunError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().map_err(system("starting threads"))?;
    let outcome = runtime.block_on(run_until_signal(run));
    // Watches and what is not sent by now are given up.
    runtime.shutdown_background();
    outcome
}

async fn run_until_signal(run: Run) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(system("listening for SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("listening for SIGINT"))?;
    let (api, event_api) = tokio::select! {
        connected = connect(&run.target) => connected?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let (mut ended, parts) = start(run, api, event_api).map_err(system("starting a thread"))?;
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        _ = &mut ended => return Err(RunError::Engine),
    };
    info!(signal = name, "ending");
    // The engine's thread ends by itself only after a drain, so it hears this.
    let _ = parts.sink.send(Input::Drain);
    tokio::select! {
        outcome = &mut ended => outcome.map_err(|_| RunError::Engine)?,
        _ = terminate.recv() => warn!("a second signal: ending at once"),
        _ = interrupt.recv() => warn!("a second signal: ending at once"),
    }
    parts.events.flushed(FLUSH).await;
    Ok(())
}

/// Two clients, as kube-scheduler has: one for events alone.
async fn connect(target: &Target) -> Result<(Api, Api), ConnectError> {
    let api = Api::new(target).await?;
    let event_api = Api::new(target).await?;
    let begun = Instant::now();
    let version = loop {
        match reach(&api).await {
            Err(ConnectError::Unreachable { .. }) if begun.elapsed() < REACH => {
                tokio::time::sleep(REACH_AGAIN).await;
            }
            other => break other?,
        }
    };
    info!(server = api.server(), version, "connected");
    Ok((api, event_api))
}

/// Asks the server for its version.
async fn reach(api: &Api) -> Result<String, ConnectError> {
    let server = api.server().to_owned();
    let answer = match api.call(&Call::get("/version".to_owned()), REACH).await {
        Ok(answer) => answer,
        Err(SendError::NotSent(problem) | SendError::Lost(problem)) => {
            return Err(ConnectError::Unreachable { server, problem });
        }
    };
    let failure = answer.failure();
    match answer.status.as_u16() {
        200..=299 => {
            let version: serde_json::Value =
                serde_json::from_slice(&answer.body).unwrap_or_default();
            Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
        }
        401 => Err(ConnectError::Refused { server, problem: failure.message }),
        // Whoever may not see the version may still schedule.
        403 => Ok("hidden".to_owned()),
        _ => Err(ConnectError::Unreachable { server, problem: failure.message }),
    }
}

/// What is talked to once everything runs.
struct Parts {
    sink: Sender<Input>,
    events: Arc<EventQueue>,
}

/// Starts the engine's thread and all tasks. The receiver hears when the engine has ended, or
/// died.
fn start(
    run: Run,
    api: Api,
    event_api: Api,
) -> Result<(oneshot::Receiver<()>, Parts), std::io::Error> {
    let (sink, inputs) = mpsc::channel();
    let bucket = || Arc::new(TokenBucket::new(run.connection.qps, run.connection.burst));
    let (rate, event_rate) = (bucket(), bucket());
    let outbox = Arc::new(Outbox::default());
    let events = Arc::new(EventQueue::default());
    let kinds = kinds_needed(&run.profiles);

    let (api_of_writes, rate_of_writes) = (api.clone(), Arc::clone(&rate));
    tokio::spawn(
        Dispatcher {
            api: api_of_writes,
            rate: rate_of_writes,
            outbox: Arc::clone(&outbox),
            sink: sink.clone(),
        }
        .run(),
    );
    tokio::spawn(
        EventSender {
            api: event_api,
            rate: event_rate,
            queue: Arc::clone(&events),
            outbox: Arc::clone(&outbox),
            hostname: hostname(),
        }
        .run(),
    );
    start_watches(api, rate, &sink, &kinds);
    let ended = start_engine(run, kinds, inputs, outbox, Arc::clone(&events))?;
    Ok((ended, Parts { sink, events }))
}

fn start_watches(api: Api, rate: Arc<TokenBucket>, sink: &Sender<Input>, kinds: &[Kind]) {
    let tables = Arc::new(Mutex::new(Tables::default()));
    let (sink, pace) = (sink.clone(), Pace::default());
    let source = Source { api, rate, tables: Arc::clone(&tables), sink, pace };
    for kind in kinds {
        tokio::spawn(Watch::new(source.clone(), *kind).run());
    }
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(PURGE).await;
            tables.lock().unwrap_or_else(PoisonError::into_inner).purge();
        }
    });
}

fn start_engine(
    run: Run,
    kinds: Vec<Kind>,
    inputs: mpsc::Receiver<Input>,
    outbox: Arc<Outbox>,
    events: Arc<EventQueue>,
) -> Result<oneshot::Receiver<()>, std::io::Error> {
    let (ended, hears_end) = oneshot::channel();
    let watches = kinds.iter().map(|kind| Text::from(kinds::resource(*kind))).collect();
    let setup = Setup { watches, ..run.setup };
    let scheduler_names: BTreeSet<Text> =
        run.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
    let profiles = run.profiles;
    std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        let told = Told::new(scheduler_names);
        let engine = Engine::new(profiles, setup);
        Driver { engine, inputs, outbox, events, clock: Clock::start(), told }.run();
        // Dropped without a word if the driver panics: that is heard too.
        let _ = ended.send(());
    })?;
    Ok(hears_end)
}

/// Returns the kinds that something in the profiles reads. Pods that wait for what isn't built
/// yet need namespaces and claims, whatever the profile.
fn kinds_needed(profiles: &[Profile]) -> Vec<Kind> {
    let runs = |names: &[&str]| profiles.iter().any(|p| names.iter().any(|name| p.runs(name)));
    let spread = runs(&["PodTopologySpread"]);
    let volumes = runs(&["VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"]);
    let needed = |kind: &Kind| match kind {
        Kind::Node | Kind::Pod | Kind::Namespace | Kind::PersistentVolumeClaim => true,
        Kind::Service | Kind::ReplicationController | Kind::ReplicaSet | Kind::StatefulSet => {
            spread
        }
        Kind::PersistentVolume | Kind::StorageClass | Kind::CsiNode | Kind::VolumeAttachment => {
            volumes
        }
    };
    Kind::ALL.into_iter().filter(needed).collect()
}

/// Returns the name of this machine or pod, as events carry it.
fn hostname() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
