//! What an engine is made of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::framework::{Interest, PreEnqueue, Profile};
use crate::queue::{BackoffPolicy, SchedulingQueue};
use crate::snapshot::{Cluster, SelectorCompiler};
use crate::types::{Pod, Span, Text, Timestamp};

use super::Engine;
use super::budget::{STEPS_A_POLL, STEPS_BACK};
use super::classes::{Classes, TABLE_BYTES_MAX};
use super::group_tells::GroupTells;
use super::groups::Memories;
use super::input::Consultant;
use super::measures::Measures;
use super::plans::Plans;
use super::readings::Readings;
use super::repair::Watched;
use super::report::ReportLevel;
use super::settle::Settlements;
use super::tell::Tells;
use super::timing::{NoStopwatch, Sampling, Stopwatch};

/// A gate that holds pods of every profile.
#[derive(Clone)]
pub struct AlwaysGate {
    pub name: &'static str,
    pub gate: Arc<dyn PreEnqueue>,
    pub interest: Arc<dyn Interest + Send + Sync>,
}

/// Tells whose decisions depend on which watch.
pub trait Dependence: Send + Sync {
    /// While a watch of this kind has lost its place, decisions about `pod` would stand on what may
    /// be outdated. `None`: it concerns every pod, and nothing is begun.
    fn needs(&self, kind: &str, pod: &Pod) -> Option<bool>;
}

/// Every decision depends on every watch.
pub struct OnEverything;

impl Dependence for OnEverything {
    fn needs(&self, _kind: &str, _pod: &Pod) -> Option<bool> {
        None
    }
}

/// Bounds of what the engine does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub steps_a_poll: u64,
    /// Steps that going back may take in a group's first attempt. Each attempt that runs out of them
    /// gives the next twice as many, up to 64 times.
    pub steps_back: u64,
    /// Plans under way; nothing new is begun beyond.
    pub plans_max: usize,
    pub table_bytes_max: usize,
    /// Sent as `?timeout` with every write.
    pub write_timeout: Span,
    /// A condition whose reasons are the same is rewritten at most so often.
    pub retell: Span,
    /// How long an unschedulable entry waits for a helpful change before it is tried anyway.
    pub leftover: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps_a_poll: STEPS_A_POLL,
            steps_back: STEPS_BACK,
            plans_max: 4096,
            table_bytes_max: TABLE_BYTES_MAX,
            write_timeout: Span::from_secs(5),
            retell: Span::from_secs(60),
            leftover: Span::from_secs(300),
        }
    }
}

#[derive(Clone)]
pub struct Setup {
    pub seed: u64,
    pub backoff: BackoffPolicy,
    pub limits: Limits,
    pub report: ReportLevel,
    pub gates: Vec<AlwaysGate>,
    pub consultants: Vec<Arc<dyn Consultant>>,
    /// Percentage of nodes scored where a profile says nothing; 0 scores all.
    pub percentage_of_nodes_to_score: i32,
    /// Watches that must have synced before anything is decided.
    pub watches: Vec<Text>,
    /// What waits when one of them loses its place later on.
    pub dependence: Arc<dyn Dependence>,
    /// Understands device selectors; none where nothing is set.
    pub selectors: Option<Arc<dyn SelectorCompiler>>,
    /// Hears how long extension points take; nothing is decided by it.
    pub stopwatch: Arc<dyn Stopwatch>,
    /// The planted bug that is switched on; without the feature it has no effect.
    pub bug: Option<Text>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            seed: 0,
            backoff: BackoffPolicy::UPSTREAM,
            limits: Limits::default(),
            report: ReportLevel::default(),
            gates: Vec::new(),
            consultants: Vec::new(),
            percentage_of_nodes_to_score: 0,
            watches: Vec::new(),
            dependence: Arc::new(OnEverything),
            selectors: None,
            stopwatch: Arc::new(NoStopwatch),
            bug: None,
        }
    }
}

impl Setup {
    /// Tells whether the planted bug `name` is on.
    pub(super) fn bug(&self, name: &str) -> bool {
        cfg!(feature = "planted-bugs") && self.bug.as_ref().is_some_and(|bug| bug == name)
    }
}

impl Engine {
    /// Makes an engine with an empty ledger. All profiles share the first one's queue order.
    pub fn new(profiles: Vec<Profile>, setup: Setup) -> Engine {
        let ordering = profiles
            .first()
            .and_then(|profile| profile.queue_sort.first())
            .map_or_else(fifo, |entry| entry.plugin.ordering());
        let names = profiles.iter().enumerate();
        let mut queue = SchedulingQueue::new(ordering, setup.backoff);
        queue.set_leftover(setup.limits.leftover);
        let mut cluster = Cluster::default();
        honour_dialects(&mut cluster, &profiles);
        if let Some(rules) = profiles.iter().find_map(|profile| profile.packing.clone()) {
            cluster.set_packing(rules);
        }
        if let Some(rules) = profiles.iter().find_map(|profile| profile.fabric.clone()) {
            cluster.set_fabric(rules);
        }
        if profiles.iter().any(|profile| profile.gpu_shares) {
            cluster.keep_gpu_shares();
        }
        if let Some(selectors) = &setup.selectors {
            cluster.set_selector_compiler(Arc::clone(selectors));
        }
        Engine {
            cluster,
            queue,
            classes: Classes::new(setup.limits.table_bytes_max),
            by_name: names
                .flat_map(|(at, profile)| profile.names().map(move |name| (name.clone(), at)))
                .collect(),
            profiles,
            now: Timestamp::default(),
            unsynced: setup.watches.iter().cloned().collect::<BTreeSet<Text>>(),
            synced_once: setup.watches.is_empty(),
            draining: false,
            paused: VecDeque::new(),
            hard: VecDeque::new(),
            turn: 0,
            owed: 0,
            asking: BTreeMap::new(),
            answered: VecDeque::new(),
            plans: Plans::default(),
            settlements: Settlements::default(),
            readings: Readings::default(),
            tells: Tells::default(),
            memories: Memories::default(),
            group_tells: GroupTells::default(),
            watched: Watched::default(),
            seen_running: BTreeMap::new(),
            leaving: BTreeSet::new(),
            stirs: 0,
            purposes: BTreeMap::new(),
            next_id: 0,
            out: VecDeque::new(),
            measures: Measures::default(),
            attempts_timed: Sampling::default(),
            gatings_timed: Sampling::default(),
            changes_timed: Sampling::default(),
            setup,
        }
    }
}

/// The ledger joins what pods say of groups, by the dialects that each profile honours.
fn honour_dialects(cluster: &mut Cluster, profiles: &[Profile]) {
    for profile in profiles {
        let Some(rules) = &profile.groups else { continue };
        for name in profile.names() {
            cluster.groups_mut().honour(name.clone(), rules.dialects.clone());
        }
    }
}

/// First in, first out: the order of an engine without a queue sort plugin.
fn fifo() -> Box<dyn crate::framework::QueueOrdering> {
    Box::new(Fifo(VecDeque::new()))
}

struct Fifo(VecDeque<u64>);

impl crate::framework::QueueOrdering for Fifo {
    fn push(&mut self, ranked: crate::framework::Ranked) {
        self.0.push_back(ranked.entry);
    }

    fn remove(&mut self, entry: u64) -> bool {
        let at = self.0.iter().position(|other| *other == entry);
        at.and_then(|at| self.0.remove(at)).is_some()
    }

    fn pop(&mut self, _cluster: &Cluster) -> Option<u64> {
        self.0.pop_front()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
