//! `berth run`: the engine on a real API server.
//!
//! Watches hand inputs to one engine thread; its decisions go to the dispatcher (writes) and the
//! event sender, whose outcomes come back as inputs. Nothing here decides anything.
//!
//! Reading order: [`client`], [`rate`], [`kinds`], [`watch`], [`request`], [`outcome`],
//! [`dispatch`], [`events`], [`clock`], [`driver`], [`lease`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod clock;
pub mod dispatch;
pub mod driver;
pub mod events;
pub mod kinds;
pub mod lease;
pub mod outcome;
pub mod rate;
pub mod request;
pub mod watch;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_core::engine::{Answer, Engine, Input, QuestionId, Setup};
use berth_core::framework::Profile;
use berth_core::types::{Span, Text};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch as channel};
use tracing::{info, warn};

use crate::config::ClientConnection;
use crate::observe::metrics::{Metrics, Recorder};
use crate::observe::serve::{ServeError, Served, Serving};
use crate::wire::{Kind, Tables};

use client::{Api, Call, ConnectError, SendError, Target};
use clock::Clock;
use dispatch::{Dispatcher, Outbox};
use driver::{Driver, Told};
use events::{EventQueue, EventSender};
use lease::Election;
use lease::candidate::Candidate;
use lease::run::{Campaign, KIND};
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
/// [`RunError`]: no connection to begin with, the engine's thread died, or another leads.
pub fn run(run: Run) -> Result<(), RunError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().map_err(system("starting threads"))?;
    let outcome = runtime.block_on(run_until_signal(run));
    // Watches and what is not sent by now are given up.
    runtime.shutdown_background();
    outcome
}

async fn run_until_signal(mut run: Run) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(system("listening for SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("listening for SIGINT"))?;
    // Before the server is looked for, so that probes are answered meanwhile.
    let served = open_port(&mut run).await?;
    let clients = tokio::select! {
        connected = connect(&run.target, &run.metrics) => connected?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let mut parts = start(run, clients).map_err(system("starting a thread"))?;
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
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
        _ = terminate.recv() => { warn!("a second signal: ending at once"); false }
        _ = interrupt.recv() => { warn!("a second signal: ending at once"); false }
    };
    parts.events.flushed(FLUSH).await;
    if let Some(served) = served {
        served.close().await;
    }
    parts.candidate.resign(clean).await.map_err(RunError::LeaseLost)
}

/// Opens the secure port, if one is asked for.
async fn open_port(run: &mut Run) -> Result<Option<Served>, ServeError> {
    let Some(serving) = run.serve.take() else { return Ok(None) };
    let (metrics, kinds) = (run.metrics.clone(), kinds_needed(&run.profiles));
    let once = AtomicBool::new(false);
    // As upstream's check: once everything has been listed it stays passed.
    let synced = move || {
        let all = || kinds.iter().all(|kind| metrics.is_synced(&kinds::resource(*kind)));
        once.load(Ordering::Relaxed) || (all() && !once.swap(true, Ordering::Relaxed))
    };
    let served = serving.start(run.election.as_ref(), &run.metrics, Arc::new(synced)).await?;
    Ok(Some(served))
}

/// Connections of their own, so that none waits behind another's burst.
struct Clients {
    main: Api,
    events: Api,
    lease: Api,
}

/// Connects as kube-scheduler does: events and the Lease have clients of their own.
async fn connect(target: &Target, metrics: &Metrics) -> Result<Clients, ConnectError> {
    let api = Api::new(target).await?.measured(metrics);
    let events = Api::new(target).await?.measured(metrics);
    let lease = Api::new(target).await?.measured(metrics);
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
    Ok(Clients { main: api, events, lease })
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
    /// Hears when the engine has ended, and whether nothing was left open; or that it died.
    ended: oneshot::Receiver<bool>,
    candidate: Candidate,
}

/// Starts the engine's thread and all tasks.
fn start(mut run: Run, clients: Clients) -> Result<Parts, std::io::Error> {
    let timeout = write_timeout(run.setup.limits.write_timeout, &run.election);
    run.setup.limits.write_timeout = timeout;
    let (sink, inputs) = mpsc::channel();
    let (led, hears_led) = channel::channel(run.election.is_none());
    let outbox = Arc::new(Outbox::default());
    let events = Arc::new(EventQueue::default());
    sample_queues(&run.metrics, &outbox, &events);
    let kinds = kinds_needed(&run.profiles);
    let queues = (Arc::clone(&outbox), Arc::clone(&events));
    let rate = start_senders(&run, &clients, queues, &sink, hears_led.clone());
    let source = Source {
        api: clients.main,
        rate,
        tables: Arc::new(Mutex::new(Tables::new(run.comparison_tolerations))),
        sink: sink.clone(),
        pace: Pace::default(),
        led: hears_led,
    };
    let delayed = run.election.as_ref().is_some_and(|election| election.delay_cache);
    tokio::spawn(start_watches(source, kinds.clone(), delayed));
    let candidate = match &run.election {
        Some(election) => {
            Candidate::start(Campaign::new(clients.lease, election, led, sink.clone()))
        }
        None => Candidate::default(),
    };
    let recorder = recorder(&run.metrics, &sink);
    let ended = start_engine(run, kinds, inputs, outbox, Arc::clone(&events), recorder)?;
    Ok(Parts { sink, events, ended, candidate })
}

/// Starts what sends writes and events, and returns the rate limit that others share with writes.
fn start_senders(
    run: &Run,
    clients: &Clients,
    (outbox, events): (Arc<Outbox>, Arc<EventQueue>),
    sink: &Sender<Input>,
    led: channel::Receiver<bool>,
) -> Arc<TokenBucket> {
    let bucket = || Arc::new(TokenBucket::new(run.connection.qps, run.connection.burst));
    let rate = bucket();
    let gate = run.election.as_ref().map(|election| election.leadership.clone());
    let dispatcher = Dispatcher {
        api: clients.main.gated(gate.clone()),
        rate: Arc::clone(&rate),
        outbox: Arc::clone(&outbox),
        sink: sink.clone(),
    };
    let sender = EventSender {
        api: clients.events.gated(gate),
        rate: bucket(),
        queue: events,
        outbox,
        hostname: hostname(),
        timeout: Duration::from_millis(run.setup.limits.write_timeout.as_millis()),
    };
    // A standby has conditions of gated pods to write; they wait instead of being refused.
    tokio::spawn(once_led(led.clone(), dispatcher.run()));
    tokio::spawn(once_led(led, sender.run()));
    rate
}

/// Does it once we may write; never, if that never comes.
async fn once_led(mut led: channel::Receiver<bool>, then: impl Future<Output = ()>) {
    // It fails only when the election has ended, and with it the program.
    if led.wait_for(|led| *led).await.is_ok() {
        then.await;
    }
}

/// Queues are counted when somebody asks.
fn sample_queues(metrics: &Metrics, outbox: &Arc<Outbox>, events: &Arc<EventQueue>) {
    let (outbox, events) = (Arc::clone(outbox), Arc::clone(events));
    metrics.sample(move |sample| {
        let (plans, statuses) = outbox.waiting();
        let (length, dropped) = events.counts();
        sample.outbox(plans, statuses);
        sample.event_queue(length, dropped);
    });
}

/// The engine's thread sleeps until an input comes, so that it looks up at one that means nothing:
/// an answer to a question that was never asked.
fn recorder(metrics: &Metrics, sink: &Sender<Input>) -> Recorder {
    let sink = sink.clone();
    metrics.recorder(move || {
        let (question, answer) = (QuestionId(0), Answer::Allowed(Vec::new()));
        // Nobody listens only while the program ends.
        let _ = sink.send(Input::Answer { question, answer });
    })
}

/// With an election, what is sent while leading must end before another may write.
fn write_timeout(timeout: Span, election: &Option<Election>) -> Span {
    let Some(election) = election else { return timeout };
    let most = election.rules.write_timeout().as_millis();
    timeout.min(Span(u64::try_from(most).unwrap_or(u64::MAX)))
}

/// Starts the watches: at once, or once we lead.
async fn start_watches(source: Source, kinds: Vec<Kind>, delayed: bool) {
    if delayed {
        once_led(source.led.clone(), std::future::ready(())).await;
    }
    for kind in kinds {
        tokio::spawn(Watch::new(source.clone(), kind).run());
    }
    loop {
        tokio::time::sleep(PURGE).await;
        source.tables.lock().unwrap_or_else(PoisonError::into_inner).purge();
    }
}

fn start_engine(
    run: Run,
    kinds: Vec<Kind>,
    inputs: mpsc::Receiver<Input>,
    outbox: Arc<Outbox>,
    events: Arc<EventQueue>,
    recorder: Recorder,
) -> Result<oneshot::Receiver<bool>, std::io::Error> {
    let (ended, hears_end) = oneshot::channel();
    let watches = kinds.iter().map(|kind| Text::from(kinds::resource(*kind)));
    let lease = run.election.as_ref().map(|_| Text::from(KIND));
    let setup = Setup {
        watches: watches.chain(lease).collect(),
        dependence: Arc::new(kinds::ByKind),
        ..run.setup
    };
    let scheduler_names: BTreeSet<Text> =
        run.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
    let profiles = run.profiles;
    std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        let told = Told::new(scheduler_names);
        let engine = Engine::new(profiles, setup);
        let clock = Clock::start();
        let driver = Driver { engine, inputs, outbox, events, clock, told, recorder };
        let clean = driver.run();
        // Dropped without a word if the driver panics: that is heard too.
        let _ = ended.send(clean);
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
