//! Metrics: counted where things happen, rendered when somebody asks.
//!
//! [`Metrics`] is a handle that everybody clones. Counting is a few atomic adds (and a short lock
//! for a label that is new), so it holds nobody up; rendering reads what is counted and never asks
//! the engine. What only the engine knows is published once a second by its own thread
//! ([`recording`]); times inside an attempt come from the engine's stopwatch (`stopwatch`).
//! `/metrics/resources` is the exception: its pods are fetched from the engine's
//! thread in parts, with a deadline ([`resources`]).
//!
//! Reading order: [`families`], [`own`], `handles`, [`recording`], `stopwatch`, `publishing`,
//! [`render`], [`resources`], [`process`].

pub mod families;
mod handles;
pub mod own;
pub mod process;
mod publishing;
pub mod recording;
pub mod render;
pub mod resources;
mod stopwatch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_core::engine::WriteResult;
use berth_core::framework::{ClaimWrite, Op};
use prometheus::Registry;

use handles::Families;
pub use recording::Recorder;
use render::Rendering;
pub use render::Sample;
use resources::Desk;

/// Everything that is counted. Clones share it; each `default()` is a set of its own.
#[derive(Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    families: Families,
    rendering: Mutex<Rendering>,
    samplers: Mutex<Vec<Sampler>>,
    /// When each watch last heard of the server.
    heard: Mutex<BTreeMap<String, Instant>>,
    desk: Mutex<Option<Desk>>,
}

/// Looks something up whenever metrics are rendered.
type Sampler = Box<dyn Fn(&Sample<'_>) + Send>;

impl Default for Metrics {
    fn default() -> Metrics {
        let registry = Registry::new();
        let families = Families::new(&registry);
        families.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        let shared = Shared {
            registry,
            families,
            rendering: Mutex::default(),
            samplers: Mutex::default(),
            heard: Mutex::default(),
            desk: Mutex::default(),
        };
        Metrics { shared: Arc::new(shared) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request to the API server that has its answer.
#[derive(Clone, Copy, Debug)]
pub struct Requested<'a> {
    /// With its port.
    pub host: &'a str,
    pub method: &'a str,
    pub took: Duration,
    pub sent_bytes: usize,
    /// `None`: there was no answer.
    pub received_bytes: Option<usize>,
}

impl Metrics {
    fn families(&self) -> &Families {
        &self.shared.families
    }

    /// Notes which feature gates are on. Shape: (name, stage as upstream's metric has it: `ALPHA`,
    /// `BETA`, `DEPRECATED`, empty for GA; on).
    pub fn set_features<'a>(&self, features: impl IntoIterator<Item = (&'a str, &'a str, bool)>) {
        for (name, stage, on) in features {
            let gauge = self.families().features.with_label_values(&[name, stage]);
            gauge.set(f64::from(u8::from(on)));
        }
    }

    /// Leaves families out of what is rendered, by their full names.
    pub fn disable(&self, names: impl IntoIterator<Item = String>) {
        lock(&self.shared.rendering).disabled.extend(names);
    }

    /// Notes whether this process holds the lease `name`.
    pub fn set_leader(&self, name: &str, leads: bool) {
        self.families().leader.with_label_values(&[name]).set(f64::from(u8::from(leads)));
    }

    /// Has `sampler` called at each rendering. It must be quick, and wait for nobody.
    pub fn sample(&self, sampler: impl Fn(&Sample<'_>) + Send + 'static) {
        lock(&self.shared.samplers).push(Box::new(sampler));
    }

    /// Notes a whole request and its answer.
    pub fn requested(&self, request: Requested<'_>) {
        let (families, labels) = (self.families(), [request.host, request.method]);
        families.request_duration.with_label_values(&labels).observe(request.took.as_secs_f64());
        families.request_size.with_label_values(&labels).observe(request.sent_bytes as f64);
        if let Some(bytes) = request.received_bytes {
            families.response_size.with_label_values(&labels).observe(bytes as f64);
        }
    }

    /// Notes the answer to a request, also where its body goes on for long; `None` if there was
    /// none.
    pub fn answered(&self, host: &str, method: &str, status: Option<http::StatusCode>) {
        let code = status.as_ref().map_or("<error>", http::StatusCode::as_str);
        self.families().requests.with_label_values(&[code, host, method]).inc();
    }

    /// Notes how long a request waited for the client's own rate limit.
    pub fn rate_limited(&self, host: &str, method: &str, waited: Duration) {
        let histogram = self.families().rate_limiter.with_label_values(&[host, method]);
        histogram.observe(waited.as_secs_f64());
    }

    /// Notes what became of a write.
    pub fn written(&self, op: &Op, result: &WriteResult) {
        let op = match op {
            Op::Bind { .. } => "bind",
            Op::TryBind { .. } => "try_bind",
            Op::SetDisruption { .. } => "disruption",
            Op::TellGroup { .. } => "group",
            Op::ReadPod { .. } => "read",
            Op::Fence { .. } => "fence",
            Op::SetCondition { .. } => "condition",
            Op::Nominate { .. } => "nominate",
            Op::DeletePod { .. } => "evict",
            Op::Claim { write, .. } => match write {
                ClaimWrite::Read => "claim_read",
                ClaimWrite::Protect { .. } => "claim_protect",
                ClaimWrite::Allocate { .. } => "claim_allocate",
                ClaimWrite::Release { .. } => "claim_release",
            },
            Op::Create { .. } => "create",
            Op::Patch { .. } => "patch",
            Op::Delete { .. } => "delete",
        };
        let result = match result {
            WriteResult::Done(_) => "done",
            WriteResult::Stale { .. } => "stale",
            WriteResult::Refused { .. } => "refused",
            WriteResult::NotSent { .. } => "not_sent",
            WriteResult::Unknown { .. } => "unknown",
        };
        self.families().writes.with_label_values(&[op, result]).inc();
    }

    /// Notes that a watch said something: what is known of the resource is of this moment.
    pub fn heard(&self, resource: &str) {
        let mut heard = lock(&self.shared.heard);
        match heard.get_mut(resource) {
            Some(at) => *at = Instant::now(),
            None => drop(heard.insert(resource.to_owned(), Instant::now())),
        }
    }

    /// Notes that a list was read to its end.
    pub fn listed(&self, resource: &str) {
        self.heard(resource);
        self.families().watch_lists.with_label_values(&[resource]).inc();
    }

    /// Notes that a watch is up to date, or has lost its place.
    pub fn synced(&self, resource: &str, synced: bool) {
        let gauge = self.families().watch_synced.with_label_values(&[resource]);
        gauge.set(f64::from(u8::from(synced)));
    }

    /// Notes that nothing was heard of a resource for too long, or that it was heard of again.
    pub fn overdue(&self, resource: &str, overdue: bool) {
        let gauge = self.families().watch_overdue.with_label_values(&[resource]);
        gauge.set(f64::from(u8::from(overdue)));
    }

    /// Tells whether nothing was heard of a resource for too long.
    pub fn is_overdue(&self, resource: &str) -> bool {
        self.families().watch_overdue.with_label_values(&[resource]).get() == 1.0
    }

    /// Returns how many pods and nodes the ledger had when it was published last.
    pub fn ledger_size(&self) -> f64 {
        let of = |kind| self.families().ledger.with_label_values(&[kind]).get();
        of("pods") + of("nodes")
    }

    /// Notes in how many objects ledger and API server differ.
    pub fn compared(&self, differences: usize) {
        let gauge = self.families().ledger_differences.with_label_values(handles::NO_LABELS);
        gauge.set(differences as f64);
    }

    /// Counts a bind by somebody else, of pods of `ours` or of `others`.
    pub fn bound_by_another(&self, pods: &str) {
        self.families().foreign_binds.with_label_values(&[pods]).inc();
    }

    /// Notes that a resource is not watched any more.
    pub fn unwatched(&self, resource: &str) {
        lock(&self.shared.heard).remove(resource);
        // It fails for labels that nobody has set.
        let _ = self.families().watch_synced.remove_label_values(&[resource]);
        let _ = self.families().watch_overdue.remove_label_values(&[resource]);
        let _ = self.families().watch_lag.remove_label_values(&[resource]);
    }

    /// Tells whether the watch of a resource is up to date.
    pub fn is_synced(&self, resource: &str) -> bool {
        self.families().watch_synced.with_label_values(&[resource]).get() == 1.0
    }
}
