//! The extension points, in the order of the cycle, and how a plugin registers for them.
//!
//! Names and meaning are kube-scheduler's. Each point returns only the answers that are legal
//! there. A plugin keeps no state between calls; what it needs counted is an index of the ledger.

use std::sync::Arc;

use crate::snapshot::packing::demand::Demand;
use crate::snapshot::{
    Cluster, CountQuery, FabricRules, IndexRef, NodeIdx, NodeSet, Overlay, PackingRules,
};
use crate::types::claim::DeviceDemand;
use crate::types::{Pod, PodUid, Text, Timestamp};

use super::args::Args;
use super::cycle::{Cycle, CycleState};
use super::groups::GroupRules;
use super::hints::Interest;
use super::placement::{PlacementGenerate, PlacementScore, Room};
use super::plan::{StageDraft, WriteDraft};
use super::verdict::{
    Gate, PermitAnswer, PostFilterAnswer, PreFilterAnswer, PreScoreAnswer, Reason, Verdict,
};
use super::work::Work;

/// Decides whether a pod may enter the queue.
pub trait PreEnqueue: Send + Sync {
    fn gate(&self, pod: &Pod, cluster: &Cluster) -> Gate;
}

/// Decides who is next.
pub trait QueueSort: Send + Sync {
    fn ordering(&self) -> Box<dyn QueueOrdering>;
}

/// What an ordering knows of a queue entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    pub entry: u64,
    pub priority: i32,
    /// When the entry was last put into the queue.
    pub enqueued: Timestamp,
    /// The first member, for orderings that ask the ledger.
    pub leader: PodUid,
}

/// The active queue's order. Ranks may move while entries wait (fair share asks the ledger at
/// each [`QueueOrdering::pop`]), so nobody else may assume an entry's place.
pub trait QueueOrdering: Send {
    fn push(&mut self, ranked: Ranked);
    /// Takes an entry out of its turn; false if it is not there.
    fn remove(&mut self, entry: u64) -> bool;
    fn pop(&mut self, cluster: &Cluster) -> Option<u64>;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a plugin reads of a pod beyond its spec: it splits pods of one spec into classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassPart {
    /// Counts that the plugin will ask for; they are declared before the cycle.
    pub queries: Vec<CountQuery>,
    pub texts: Vec<Text>,
    pub numbers: Vec<i64>,
    /// Device selectors that the plugin will ask about; they are declared before the cycle.
    pub selectors: Vec<Text>,
    /// Demands for devices, by content.
    pub demands: Vec<Arc<DeviceDemand>>,
    /// What packing will be asked about; it is declared before the cycle, and the pod counts as one
    /// that asks for it.
    pub packing: Option<Arc<Demand>>,
    /// Numbers of GPUs that the index of fabrics will be asked about; they are declared before the
    /// cycle.
    pub gpus: Vec<u16>,
}

/// Tells what of a pod a plugin's answers depend on besides [`Pod::spec`] without the names of claims
/// in it (labels through selectors, namespace, claims by what they ask for or by identity).
pub trait Classify: Send + Sync {
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart;

    /// Returns how many steps one decision may take to have devices looked at by selectors. After
    /// that it goes on without the answers that are missing.
    fn selecting_steps_max(&self) -> u64 {
        u64::MAX
    }
}

/// What an answer about a node depends on besides that node and the pod's class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub indexes: Vec<IndexRef>,
}

impl Reads {
    /// The node and the class only.
    pub const NODE: Reads = Reads { indexes: Vec::new() };
}

/// Looks at the pod before any node, and prepares Filter.
pub trait PreFilter: Send + Sync {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer;

    /// What the answer depends on besides the class.
    fn reads(&self, _cycle: Cycle<'_>) -> Reads {
        Reads::NODE
    }
}

/// Says whether the pod fits on a node.
pub trait Filter: Send + Sync {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict;

    /// As [`Filter::filter`], for answers that may take long: `None` if `work` has no steps left,
    /// with what is needed to go on kept there. Called again on the same node, it may find the
    /// ledger changed.
    fn search(
        &self,
        cycle: Cycle<'_>,
        state: &CycleState,
        node: NodeIdx,
        _work: &mut Work,
    ) -> Option<Verdict> {
        Some(self.filter(cycle, state, node))
    }

    fn reads(&self, _cycle: Cycle<'_>) -> Reads {
        Reads::NODE
    }
}

/// Looks for a way to make room when no node fits.
pub trait PostFilter: Send + Sync {
    /// `verdicts` has the verdict of every node. `overlay` may be changed; it is rolled back
    /// afterwards.
    fn post_filter(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        verdicts: &dyn Fn(NodeIdx) -> Verdict,
        fits: &dyn Fn(&Cluster, &Pod, NodeIdx) -> bool,
    ) -> PostFilterAnswer;
}

/// Looks at the nodes that fit, and prepares Score.
pub trait PreScore: Send + Sync {
    fn pre_score(
        &self,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        feasible: &NodeSet,
    ) -> PreScoreAnswer;
}

/// How raw scores become 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalize {
    /// They are 0 to 100 already.
    No,
    /// 100·score/max over the nodes that fit; all 0 stays 0.
    ToMax,
    /// 100 − 100·score/max; all 0 becomes 100.
    ToMaxReversed,
    /// By [`Score::normalize`].
    Own,
}

/// Rates a node that fits.
pub trait Score: Send + Sync {
    fn score(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64;

    fn normalizes(&self) -> Normalize {
        Normalize::No
    }

    /// Turns raw scores into 0 to 100. Shape: one entry a node that fits, in index order.
    fn normalize(&self, _cycle: Cycle<'_>, _state: &CycleState, _scores: &mut [(NodeIdx, i64)]) {}

    /// What a raw score depends on besides the node and the class.
    fn reads(&self, _cycle: Cycle<'_>) -> Reads {
        Reads::NODE
    }
}

/// Takes what the pod needs on the chosen node. What it does to the overlay is rolled back with
/// the placement.
pub trait Reserve: Send + Sync {
    /// `work` is told what it takes. It can't pause: a search in here has few steps, whatever is left.
    fn reserve(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        state: &CycleState,
        node: NodeIdx,
        work: &mut Work,
    ) -> Result<(), Reason>;

    /// As [`Reserve::reserve`], but takes the `nth` way to place the pod on the node, where 0 is the
    /// one that `reserve` takes; ways that differ in nothing that matters are one. False, with the
    /// overlay as it was, if there are not so many. `None` if `work` has too few steps to find that
    /// out: it is asked again with more.
    fn reserve_other(
        &self,
        _pod: &Pod,
        _overlay: &mut Overlay<'_>,
        _state: &CycleState,
        _node: NodeIdx,
        _nth: u32,
        _work: &mut Work,
    ) -> Option<Result<bool, Reason>> {
        Some(Ok(false))
    }
}

/// The last word before the plan is made.
pub trait Permit: Send + Sync {
    fn permit(&self, pod: &Pod, cluster: &Cluster, node: NodeIdx, now: Timestamp) -> PermitAnswer;
}

/// Says what must be written, or waited for, before the pod is bound.
pub trait PreBind: Send + Sync {
    fn pre_bind(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        now: Timestamp,
    ) -> Vec<StageDraft>;
}

/// Says how the pod is bound; the first plugin that answers does.
pub trait Bind: Send + Sync {
    fn bind(&self, pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Option<WriteDraft>;
}

/// Is told that the pod is bound, and may ask for more to be written.
pub trait PostBind: Send + Sync {
    fn post_bind(&self, pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Vec<WriteDraft>;
}

/// Says, after each member, whether a group can still be placed.
pub trait PlacementFeasible: Send + Sync {
    /// `placed`, `untried` and `failed` count members.
    fn feasible(&self, members: &[&Pod], placed: usize, untried: usize, failed: usize) -> Verdict;
}

/// Looks for a way to make room for a group.
pub trait PodGroupPostFilter: Send + Sync {
    fn post_filter(&self, members: &[&Pod], overlay: &mut Overlay<'_>) -> PostFilterAnswer;
}

/// Adds Berth's own numbers after kube-scheduler's message when the pod fits nowhere.
pub trait Explain: Send + Sync {
    /// Returns a short sentence without full stop, such as `needs 8 nvidia.com/gpu, at most 6 are
    /// free on one node (gpu-3)`; `None` if this plugin turned away no node for lack of something
    /// countable. Cost: it may look at every node, since it runs once a message, not once a cycle.
    fn explain(&self, cycle: Cycle<'_>, state: &CycleState) -> Option<Text>;
}

macro_rules! points {
    ($($(#[$doc:meta])* $field:ident: $trait:ident),* $(,)?) => {
        /// The extension points that one plugin serves.
        #[derive(Clone, Default)]
        pub struct Points {
            $(pub(crate) $field: Option<Arc<dyn $trait>>,)*
            pub(crate) interest: Option<Arc<dyn Interest + Send + Sync>>,
            pub(crate) classify: Option<Arc<dyn Classify>>,
            pub(crate) explain: Option<Arc<dyn Explain>>,
            pub(crate) room: Option<Arc<dyn Room>>,
            pub(crate) groups: Option<GroupRules>,
            pub(crate) packing: Option<PackingRules>,
            pub(crate) fabric: Option<FabricRules>,
            pub(crate) gpu_shares: bool,
        }

        impl Points {
            $($(#[$doc])* pub fn $field(&mut self, plugin: Arc<dyn $trait>) {
                self.$field = Some(plugin);
            })*
        }
    };
}

points! {
    pre_enqueue: PreEnqueue,
    queue_sort: QueueSort,
    pre_filter: PreFilter,
    filter: Filter,
    post_filter: PostFilter,
    pre_score: PreScore,
    score: Score,
    reserve: Reserve,
    permit: Permit,
    pre_bind: PreBind,
    bind: Bind,
    post_bind: PostBind,
    placement_generate: PlacementGenerate,
    placement_feasible: PlacementFeasible,
    placement_score: PlacementScore,
    pod_group_post_filter: PodGroupPostFilter,
}

impl Points {
    /// Registers for changes that may help a pod which this plugin turned away.
    pub fn interest(&mut self, plugin: Arc<dyn Interest + Send + Sync>) {
        self.interest = Some(plugin);
    }

    /// Registers what beyond the spec this plugin reads of a pod.
    pub fn classify(&mut self, plugin: Arc<dyn Classify>) {
        self.classify = Some(plugin);
    }

    /// Gives the rules for groups. They hold where the plugin is enabled at PreEnqueue.
    pub fn groups(&mut self, rules: GroupRules) {
        self.groups = Some(rules);
    }

    /// Gives the rules for packing, so that the ledger keeps an index of it. They hold where the
    /// plugin is enabled at Score.
    pub fn packing(&mut self, rules: PackingRules) {
        self.packing = Some(rules);
    }

    /// Registers for counting how many pods of a kind a node takes. It counts where the plugin is
    /// enabled at Filter.
    pub fn room(&mut self, plugin: Arc<dyn Room>) {
        self.room = Some(plugin);
    }

    /// Says what counts as a GPU, so that the ledger keeps an index of how they are linked. It holds
    /// where the plugin is enabled at Score.
    pub fn fabric(&mut self, rules: FabricRules) {
        self.fabric = Some(rules);
    }

    /// Has the ledger keep an index of GPUs that are given out in parts by annotations. It does where
    /// the plugin is enabled at Filter.
    pub fn gpu_shares(&mut self) {
        self.gpu_shares = true;
    }

    /// Registers for adding numbers to the message of a pod that fits nowhere.
    pub fn explain(&mut self, plugin: Arc<dyn Explain>) {
        self.explain = Some(plugin);
    }
}

/// A compiled-in plugin.
#[derive(Clone, Copy)]
pub struct PluginDef {
    pub name: &'static str,
    /// One line for the reference page.
    pub summary: &'static str,
    /// What of it isn't built yet; such a plugin is refused where a profile enables it by name.
    pub missing: Option<&'static str>,
    /// Decodes the arguments (noting errors in them) and registers for extension points.
    pub build: fn(&Args, &mut Points),
}
