//! Everything that runs: the engine's thread, watches, senders and the election.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_core::engine::{Engine, Input, Setup};
use berth_core::types::{Span, Text};
use tokio::sync::{oneshot, watch as channel};

use super::clock::Clock;
use super::compare::Comparison;
use super::compare::camera::{Asked, Camera};
use super::dialects::Dialects;
use super::dispatch::{Dispatcher, Outbox};
use super::driver::{Driver, Told, wake};
use super::events::{EventQueue, EventSender};
use super::forbidden::Forbidden;
use super::kinds;
use super::lease::Election;
use super::lease::candidate::Candidate;
use super::lease::run::{Campaign, KIND};
use super::optional::Optional;
use super::planted::{self, Bug};
use super::rate::TokenBucket;
use super::reach::Clients;
use super::strangers::Strangers;
use super::watch::{Pace, Reporter, Source, Watch};
use super::{Run, hostname};
use crate::assemble::STACK_BYTES;
use crate::observe::metrics::{Metrics, Recorder};
use crate::wire::{Kind, Tables};

/// Texts and specs that no object holds any more are forgotten so often.
const PURGE: Duration = Duration::from_secs(300);

/// What is talked to once everything runs.
pub(super) struct Parts {
    pub(super) sink: Sender<Input>,
    pub(super) events: Arc<EventQueue>,
    /// Hears when the engine has ended, and whether nothing was left open; or that it died.
    pub(super) ended: oneshot::Receiver<bool>,
    pub(super) candidate: Candidate,
    pub(super) comparison: Comparison,
}

/// Starts the engine's thread and all tasks, the watches of `kinds` and of those that come and go among
/// them.
pub(super) fn start(
    mut run: Run,
    clients: Clients,
    kinds: Vec<Kind>,
    come_and_go: (Dialects, Optional),
) -> Result<Parts, std::io::Error> {
    let timeout = write_timeout(run.setup.limits.write_timeout, &run.election);
    run.setup.limits.write_timeout = timeout;
    let (sink, inputs) = mpsc::channel();
    let (led, hears_led) =
        channel::channel(run.election.is_none() || planted::on(Bug::LeadsAtOnce));
    let outbox = Arc::new(Outbox::default());
    let events = Arc::new(EventQueue::default());
    sample_queues(&run.metrics, &outbox, &events);
    let (camera, asked) = Camera::new(sink.clone());
    come_and_go.0.announce(&sink);
    come_and_go.1.announce(&sink);
    let comparison = comparison(&run, &clients, (&kinds, &come_and_go), camera);
    let queues = (Arc::clone(&outbox), Arc::clone(&events));
    let tables = Arc::new(Mutex::new(Tables::new(run.comparison_tolerations)));
    let writer = (sink.clone(), Arc::clone(&tables));
    let hears = (hears_led.clone(), &come_and_go.0);
    let rate = start_senders(&run, &clients, queues, writer, hears);
    let first = run.profiles.first();
    let scheduler_name = first.map_or(Text::default(), |profile| profile.scheduler_name.clone());
    let source = Source {
        api: clients.main,
        rate,
        tables,
        sink: sink.clone(),
        pace: Pace::default(),
        led: hears_led,
        reporter: Reporter { events: Arc::clone(&events), scheduler_name },
    };
    let delayed = run.election.as_ref().is_some_and(|election| election.delay_cache);
    tokio::spawn(start_watches(source, kinds.clone(), come_and_go, delayed));
    let candidate = match &run.election {
        Some(election) => {
            let component = run.profiles.first().map(|profile| profile.scheduler_name.to_string());
            let component = component.unwrap_or_default();
            Candidate::start(Campaign::new(clients.lease, election, component, led, sink.clone()))
        }
        None => Candidate::default(),
    };
    let recorder = recorder(&run.metrics, &sink);
    let ended = start_engine(run, kinds, inputs, outbox, Arc::clone(&events), recorder, asked)?;
    Ok(Parts { sink, events, ended, candidate, comparison })
}

/// Starts what sends writes and events, and returns the rate limit that others share with writes.
fn start_senders(
    run: &Run,
    clients: &Clients,
    (outbox, events): (Arc<Outbox>, Arc<EventQueue>),
    (sink, tables): (Sender<Input>, Arc<Mutex<Tables>>),
    (led, dialects): (channel::Receiver<bool>, &Dialects),
) -> Arc<TokenBucket> {
    let bucket = || Arc::new(TokenBucket::new(run.connection.qps, run.connection.burst));
    let rate = bucket();
    let gated = !planted::on(Bug::WritesUnled) && !planted::on(Bug::LeadsAtOnce);
    let election = run.election.as_ref().filter(|_| gated);
    let gate = election.map(|election| election.leadership.clone());
    let forbidden = Arc::new(Forbidden::default());
    let dispatcher = Dispatcher {
        api: clients.main.gated(gate.clone()),
        rate: Arc::clone(&rate),
        outbox: Arc::clone(&outbox),
        sink,
        forbidden: Arc::clone(&forbidden),
        tables,
        dialects: dialects.clone(),
    };
    let sender = EventSender {
        api: clients.events.gated(gate),
        rate: bucket(),
        queue: events,
        outbox,
        forbidden,
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

fn recorder(metrics: &Metrics, sink: &Sender<Input>) -> Recorder {
    let sink = sink.clone();
    metrics.recorder(move || wake(&sink))
}

/// With an election, what is sent while leading must end before another may write.
fn write_timeout(timeout: Span, election: &Option<Election>) -> Span {
    let Some(election) = election else { return timeout };
    let most = election.rules.write_timeout().as_millis();
    timeout.min(Span(u64::try_from(most).unwrap_or(u64::MAX)))
}

/// Starts the watches: at once, or once we lead.
async fn start_watches(
    source: Source,
    kinds: Vec<Kind>,
    (dialects, optional): (Dialects, Optional),
    delayed: bool,
) {
    if delayed {
        once_led(source.led.clone(), std::future::ready(())).await;
    }
    for kind in kinds {
        tokio::spawn(Watch::new(source.clone(), kind).run());
    }
    tokio::spawn(dialects.run(source.clone()));
    tokio::spawn(optional.run(source.clone()));
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
    asked: Asked,
) -> Result<oneshot::Receiver<bool>, std::io::Error> {
    let (ended, hears_end) = oneshot::channel();
    let watches = kinds.iter().map(|kind| Text::from(kinds::resource(*kind)));
    let waits = !planted::on(Bug::LeadsAtOnce);
    let lease = run.election.as_ref().filter(|_| waits).map(|_| Text::from(KIND));
    let setup = Setup {
        watches: watches.chain(lease).collect(),
        dependence: Arc::new(kinds::ByKind),
        bug: planted::core_bug(),
        stopwatch: run.metrics.stopwatch(&run.profiles),
        ..run.setup
    };
    let scheduler_names: BTreeSet<Text> =
        run.profiles.iter().flat_map(|profile| profile.names().cloned()).collect();
    let (profiles, metrics) = (run.profiles, run.metrics);
    let thread = std::thread::Builder::new().name("engine".to_owned());
    thread.stack_size(STACK_BYTES).spawn(move || {
        let told = Told::new(scheduler_names.clone());
        let strangers = Strangers::new(scheduler_names, metrics, Arc::clone(&events));
        let engine = Engine::new(profiles, setup);
        let clock = Clock::start();
        let driver =
            Driver { engine, inputs, outbox, events, clock, told, strangers, recorder, asked };
        let clean = driver.run();
        // Dropped without a word if the driver panics: that is heard too.
        let _ = ended.send(clean);
    })?;
    Ok(hears_end)
}

/// What SIGUSR2 asks for. It has a rate limit of its own, so that writes don't wait for it.
fn comparison(
    run: &Run,
    clients: &Clients,
    (kinds, (dialects, optional)): (&[Kind], &(Dialects, Optional)),
    camera: Camera,
) -> Comparison {
    Comparison {
        api: clients.comparison.clone(),
        rate: TokenBucket::new(run.connection.qps, run.connection.burst),
        camera,
        kinds: kinds.to_vec(),
        dialects: dialects.clone(),
        optional: optional.clone(),
        comparison_tolerations: run.comparison_tolerations,
    }
}
