//! The auditor: gathers on a thread of its own, judges when asked.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::etcd::{Etcd, EtcdError};
use crate::history::{Changes, History, Sent};
use crate::judge::{self, Limits};
use crate::log::Log;
use crate::moment::{Clock, Moment};
use crate::report::Report;
use crate::wire::{Target, WireWrite, is_dry_run};

/// Between two tries to reach an etcd that is down.
const PAUSE: Duration = Duration::from_millis(50);

/// Where the evidence comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Plain HTTP, without credentials.
    pub etcd_url: String,
    /// Level Metadata, one JSON event a line. Without it I9 and most of I3 rest on the proxy alone.
    pub audit_log: Option<PathBuf>,
    /// Who is judged. Binds by others are load, and judged only if nobody can be named.
    pub replicas: Vec<Replica>,
}

/// One process that schedules.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// As the audit log names it. Each replica needs one of its own.
    pub user: String,
    /// The pods that it must not lose.
    pub scheduler_names: Vec<String>,
    /// Nothing if it runs without leader election.
    pub lease: Option<LeaseRule>,
}

/// What leader election is bound to. Who holds the Lease under which identity is learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRule {
    pub namespace: String,
    pub name: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("{0} is no address of an etcd over plain HTTP, such as http://127.0.0.1:2379")]
    Address(String),
    #[error("the auditor's thread does not start")]
    Thread(#[source] std::io::Error),
    #[error(
        "etcd's history was read to revision {read_to} within {seconds} s, not to its end: {why}"
    )]
    Behind { read_to: i64, seconds: f32, why: String },
}

type Question = Sender<Result<i64, EtcdError>>;

/// Follows etcd until it is dropped.
pub struct Auditor {
    shared: Arc<Shared>,
    /// Dropped first: the thread ends when nobody can ask any more.
    questions: Option<UnboundedSender<Question>>,
    thread: Option<JoinHandle<()>>,
    log: Option<Mutex<Log>>,
    replicas: Vec<Replica>,
}

/// Takes observations of a proxy, from any thread.
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    changes: Mutex<Changes>,
    grown: Condvar,
    sent: Mutex<Vec<Sent>>,
    faults_ended: Mutex<Option<Moment>>,
}

impl Auditor {
    /// Begins at revision 1. etcd need not be there yet.
    ///
    /// # Errors
    /// [`AuditError::Address`], [`AuditError::Thread`].
    pub fn start(sources: Sources) -> Result<Self, AuditError> {
        let address = |_| AuditError::Address(sources.etcd_url.clone());
        let etcd = Etcd::new(&sources.etcd_url).map_err(address)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AuditError::Thread)?;
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            changes: Mutex::default(),
            grown: Condvar::new(),
            sent: Mutex::default(),
            faults_ended: Mutex::default(),
        });
        let (questions, asked) = unbounded_channel();
        let its_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("auditor".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = follow(&etcd, &its_shared) => {}
                    () = answer(&etcd, asked) => {}
                }
            });
        });
        Ok(Self {
            shared,
            questions: Some(questions),
            thread: Some(thread.map_err(AuditError::Thread)?),
            log: sources.audit_log.as_deref().map(Log::new).map(Mutex::new),
            replicas: sources.replicas,
        })
    }

    /// Waits until everything was read that etcd holds at this moment, and returns its revision.
    /// Verdicts on what does *not* happen reach to the last call of this.
    ///
    /// # Errors
    /// [`AuditError::Behind`] after `deadline`.
    pub fn caught_up(&self, deadline: Duration) -> Result<i64, AuditError> {
        let end = Instant::now() + deadline;
        let behind = |read_to, why| {
            Err(AuditError::Behind { read_to, seconds: deadline.as_secs_f32(), why })
        };
        let (asked_at, newest) = loop {
            let asked_at = self.shared.clock.now();
            match self.newest(end) {
                Ok(newest) => break (asked_at, newest),
                Err(why) if Instant::now() >= end => return behind(self.read_to(), why),
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        let left = end.saturating_duration_since(Instant::now());
        let changes = self.shared.changes();
        let waited =
            self.shared.grown.wait_timeout_while(changes, left, |known| known.read_to < newest);
        let (mut changes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // An etcd without any key has a revision, but no event of it.
        if changes.read_to < newest && newest > 1 {
            let why = format!("it is at {newest}");
            return behind(changes.read_to, why);
        }
        changes.followed_to = changes.followed_to.max(asked_at);
        Ok(newest)
    }

    /// Returns the newest revision that was read: etcd may be compacted to it.
    pub fn read_to(&self) -> i64 {
        self.shared.changes().read_to
    }

    /// Takes what a proxy has seen; see [`Auditor::observer`] for other threads.
    pub fn observe(&self, write: WireWrite) {
        self.observer().observe(write);
    }

    /// Returns a handle for proxies.
    pub fn observer(&self) -> Observer {
        Observer { shared: Arc::clone(&self.shared) }
    }

    /// Marks the moment from which on nothing hinders the scheduler any more: from here I4 and I5
    /// count. The last call wins.
    pub fn faults_ended(&self, now: Instant) {
        *lock(&self.shared.faults_ended) = Some(self.shared.clock.at(now));
    }

    /// Judges all that was read, with the default limits. It may be asked again later.
    pub fn judge(&self) -> Report {
        self.judge_by(&Limits::default())
    }

    /// [`Auditor::judge`] with limits of the caller's.
    pub fn judge_by(&self, limits: &Limits) -> Report {
        judge::judge(&self.history(), limits)
    }

    fn history(&self) -> History {
        let mut history = History {
            changes: self.shared.changes().clone(),
            sent: lock(&self.shared.sent).clone(),
            faults_ended: *lock(&self.shared.faults_ended),
            replicas: self.replicas.clone(),
            ..History::default()
        };
        history.sent.sort_by_key(|sent| sent.at);
        if let Some(log) = &self.log {
            let mut log = lock(log);
            if let Err(error) = log.read_on() {
                history.changes.problem(format!("the audit log was not read to its end: {error}"));
            }
            history.requests = log.requests();
            history.has_audit_log = true;
            history.skipped_log_lines = log.skipped;
        }
        history
    }

    /// Asks etcd for its newest revision.
    fn newest(&self, end: Instant) -> Result<i64, String> {
        let (question, answer) = channel();
        let asked = self.questions.as_ref().is_some_and(|asking| asking.send(question).is_ok());
        if !asked {
            return Err("the auditor's thread has ended".to_owned());
        }
        let left = end.saturating_duration_since(Instant::now());
        match answer.recv_timeout(left) {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("etcd does not answer".to_owned()),
        }
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            // It can have panicked only if this program has a bug; then that was told already.
            let _ = thread.join();
        }
    }
}

impl Observer {
    /// Takes one request, best when it is over: answered, or never to be.
    pub fn observe(&self, write: WireWrite) {
        if is_dry_run(&write.path) {
            return;
        }
        let clock = &self.shared.clock;
        let sent = Sent {
            target: Target::of_path(&write.path),
            at: clock.at(write.sent),
            answer: write.answer.map(|answer| (clock.at(answer.at), answer.status)),
            user: write.user,
            method: write.method,
            body: write.body,
        };
        lock(&self.shared.sent).push(sent);
    }
}

impl Shared {
    fn changes(&self) -> MutexGuard<'_, Changes> {
        lock(&self.changes)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads revision after revision, for as long as it is polled.
async fn follow(etcd: &Etcd, shared: &Shared) {
    loop {
        let next = shared.changes().read_to + 1;
        let watched = etcd.watch(next, |events| {
            let received = shared.clock.now();
            let mut changes = shared.changes();
            for event in events {
                changes.push(event.revision, received, &event.key, event.value.as_deref());
            }
            drop(changes);
            shared.grown.notify_all();
        });
        match watched.await {
            Ok(()) => {}
            Err(EtcdError::Compacted(kept)) => {
                let mut changes = shared.changes();
                let last = kept - 1;
                changes.problem(format!("revisions {next} to {last} were compacted unread"));
                changes.read_to = changes.read_to.max(last);
            }
            Err(EtcdError::Odd(what)) => {
                shared.changes().problem(format!("etcd's answer after revision {next}: {what}"));
                tokio::time::sleep(PAUSE).await;
            }
            Err(EtcdError::NoAnswer(_) | EtcdError::Address(_)) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Answers until nobody can ask any more.
async fn answer(etcd: &Etcd, mut asked: UnboundedReceiver<Question>) {
    while let Some(question) = asked.recv().await {
        // Nobody listens if the deadline has passed.
        let _ = question.send(etcd.revision().await);
    }
}
