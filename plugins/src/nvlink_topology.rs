//! NvlinkTopology: pods that want several GPUs go where those that are free talk fastest, and are
//! given the set of them that does.
//!
//! How GPUs are linked, and which are free, is the ledger's to say
//! ([`fabric`](berth_core::snapshot::fabric)). Here is how that becomes a score, and what is told to
//! whoever allocates devices.
//!
//! What else a pod's claims ask for, such as network cards, is taken near the GPUs. With `alignRails`
//! the members of a group have GPUs of the same numbers, as far as that makes none of them slower. That
//! decides among the devices of a node, not among nodes: what the others have changes with every member
//! that is placed, and a class of pods would be scored anew on all nodes each time.
//!
//! A node's score is the share that the GPUs which are free, or the worst that may be, have of the
//! best that as many GPUs of that node can have. So nodes on which all GPUs are linked alike are
//! equal, and so is a node of which nothing is known. Where nothing counts room
//! ([`packing`](berth_core::snapshot::packing)) a tenth of the score is for leaving nodes and islands
//! whole; where something does, that decides among what is equal here.

use std::sync::Arc;

use berth_core::framework::{
    Args, ClassPart, Classify, Cycle, CycleState, DeviceOrder, DeviceSets, Filter, Hint,
    HintContext, Interest, PluginDef, Points, PreFilter, PreFilterAnswer, Reads, Reason, Score,
    SetRating, Verdict,
};
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::fabric::beside::Neighbours;
use berth_core::snapshot::fabric::rails::Rails;
use berth_core::snapshot::fabric::reading::Free;
use berth_core::snapshot::fabric::subsets::Subsets;
use berth_core::snapshot::{Change, Cluster, FabricRules, IndexRef, NodeIdx};
use berth_core::types::topology::pcie;
use berth_core::types::{GpuSet, NodeTopology, Pod, Text};

const NAME: &str = "NvlinkTopology";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "puts pods where their GPUs talk fastest, and gives them the GPUs that do",
    missing: None,
    build,
};

const SCORE_MAX: i64 = 100;
/// Of the score, for leaving nodes and islands whole.
const WHOLE_MAX: i64 = 10;

struct NvlinkTopology {
    align_rails: bool,
}

fn build(args: &Args, points: &mut Points) {
    points.fabric(rules(args));
    let align_rails = args.bool("alignRails", false);
    let plugin = Arc::new(NvlinkTopology { align_rails });
    points.classify(plugin.clone());
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.interest(plugin.clone());
    points.score(plugin);
}

/// NvlinkTopologyArgs (berth.dev/v1alpha1): what counts as a GPU.
fn rules(args: &Args) -> FabricRules {
    let default = FabricRules::default();
    let names = |key: &str, default: std::collections::BTreeSet<Text>| match args.has(key) {
        true => args.texts(key).into_iter().collect(),
        false => default,
    };
    FabricRules {
        resources: names("resources", default.resources),
        drivers: names("drivers", default.drivers),
        device_classes: names("deviceClasses", default.device_classes),
    }
}

/// How many GPUs pods of one class want, as their requests may be met; the first counts.
#[derive(Clone, Debug)]
struct Wanted {
    sizes: Vec<u16>,
    align_rails: bool,
}

impl Classify for NvlinkTopology {
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        let gpus = cluster.fabric().map(|fabric| fabric.wanted(pod, cluster));
        ClassPart { gpus: gpus.unwrap_or_default(), ..ClassPart::default() }
    }
}

impl PreFilter for NvlinkTopology {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        let fabric = cycle.cluster.fabric();
        let sizes = fabric.map(|fabric| fabric.wanted(cycle.pod, cycle.cluster));
        if let Some(sizes) = sizes.filter(|sizes| !sizes.is_empty()) {
            let wanted = Wanted { sizes, align_rails: self.align_rails };
            state.order_devices(Arc::new(wanted.clone()));
            state.put(NAME, wanted);
        }
        PreFilterAnswer::Continue
    }
}

impl Filter for NvlinkTopology {
    /// Whether parts can be aligned to one NUMA cell only the kubelet knows; what it has refused isn't
    /// put there again for a while.
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        match cycle.cluster.refusal(&cycle.pod.spec, node) {
            None => Verdict::Fit,
            Some(reason) => {
                let text = format!("node(s) have refused such a pod a short while ago ({reason})");
                Verdict::Unresolvable(Reason::from(Text::from(text)))
            }
        }
    }
}

impl Interest for NvlinkTopology {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let helps = match change {
            Change::NodeAdded { .. } => true,
            Change::NodeUpdated { aspects, .. } => aspects.admission,
            Change::PodUpdated { uid, old, .. } => *uid == cx.pod.uid && old.spec != cx.pod.spec,
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

impl Score for NvlinkTopology {
    fn score(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        let wanted = state.kept::<Wanted>(NAME).and_then(|wanted| wanted.sizes.first());
        let (Some(fabric), Some(size)) = (cycle.cluster.fabric(), wanted) else { return 0 };
        let standing = fabric.standing(cycle.cluster, usize::from(*size), node);
        // Of a node that doesn't seem to have them nothing is known: others have let it pass.
        let (share, left_over) =
            standing.map_or((SCORE_MAX, WHOLE_MAX), |it| (it.share, it.left_over));
        match cycle.cluster.packing() {
            Some(_) => share,
            None => {
                share * (SCORE_MAX - WHOLE_MAX) / SCORE_MAX + WHOLE_MAX - left_over.min(WHOLE_MAX)
            }
        }
    }

    fn reads(&self, _: Cycle<'_>) -> Reads {
        Reads { indexes: vec![IndexRef::WideDevices, IndexRef::DeviceClasses] }
    }
}

impl DeviceOrder for Wanted {
    /// Which single device it is makes no difference.
    fn ranks(&self, _: &Pod, _: &Cluster, _: NodeIdx, _: &[NodeDevice<'_>]) -> Vec<i64> {
        Vec::new()
    }

    fn sets(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        devices: &[NodeDevice<'_>],
    ) -> Option<Arc<dyn DeviceSets>> {
        let fabric = cluster.fabric()?;
        let gpus = fabric.gpus(cluster, node)?;
        let Free::Set(free) = gpus.free else { return None };
        let rails = match self.takes_some(gpus.n_devices()) {
            true => fabric.rails(pod, cluster),
            false => Rails::NONE,
        };
        let topology = match &gpus.topology {
            Some(topology) => Arc::clone(topology),
            None if rails.is_empty() => return None,
            None => unknown(gpus.n_devices()),
        };
        let sizes = self.sizes.iter().map(|size| usize::from(*size));
        let sizes = sizes.filter(|n| *n <= topology.len());
        let lists = match &gpus.topology {
            Some(topology) => sizes.map(|size| fabric.subsets(topology, size)).collect(),
            None => sizes.map(|size| Arc::new(Subsets::rough(&topology, size))).collect(),
        };
        let neighbours = Neighbours::of(&gpus, devices);
        Some(Arc::new(Judge { topology, free, neighbours, lists, rails }))
    }
}

impl Wanted {
    /// Tells whether it makes a difference which GPUs others have, on a node with so many.
    fn takes_some(&self, n_gpus: usize) -> bool {
        self.align_rails && self.sizes.iter().any(|size| usize::from(*size) < n_gpus)
    }
}

/// GPUs of which nothing is known but their numbers.
fn unknown(n_gpus: usize) -> Arc<NodeTopology> {
    Arc::new(NodeTopology::new(n_gpus, |_, _| pcie::SYSTEM, Vec::new(), Vec::new()))
}

/// Judges sets of the GPUs of one node.
#[derive(Debug)]
struct Judge {
    topology: Arc<NodeTopology>,
    free: GpuSet,
    neighbours: Neighbours,
    lists: Vec<Arc<Subsets>>,
    /// What the rest of the pod's group has.
    rails: Rails,
}

impl Judge {
    fn set(&self, devices: &[u32]) -> GpuSet {
        devices.iter().filter_map(|device| self.neighbours.gpu(*device)).collect()
    }
}

impl DeviceSets for Judge {
    fn counts(&self, device: u32) -> bool {
        self.neighbours.gpu(device).is_some()
    }

    fn rate(&self, picked: &[u32], candidates: &[u32], open: usize) -> Option<SetRating> {
        let (picked, from) = (self.set(picked), self.set(candidates));
        let size = picked.len() + open;
        let known = self.lists.iter().find(|list| list.size() == size);
        let own;
        let subsets = match known {
            Some(subsets) => subsets,
            None => {
                own = Arc::new(Subsets::rough(&self.topology, size));
                &own
            }
        };
        let best = subsets.best_on(&self.rails, picked, from, self.free)?;
        let least = u64::from(u16::MAX - best.goodness.least);
        let apart = least << 32 | u64::from(u32::MAX - best.goodness.sum);
        let off_rail = u64::from(u32::MAX - best.on_rail);
        Some(SetRating { apart, off_rail, broken: best.left_over.into() })
    }

    fn distance(
        &self,
        device: u32,
        picked: &[u32],
        candidates: &mut dyn Iterator<Item = u32>,
    ) -> u64 {
        self.neighbours.distance(device, picked, candidates)
    }
}
