//! What a pod needs of a node, resolved once, and what a node lacks of it.

use std::collections::BTreeSet;

use berth_core::framework::Verdict;
use berth_core::snapshot::nodes::Nodes;
use berth_core::snapshot::{Cluster, NodeIdx, ResourceId};
use berth_core::types::resources::{is_extended, may_be_devices};
use berth_core::types::{Node, Resources, Text};

const TOO_MANY_PODS: &str = "Too many pods";

/// Extended resources that somebody else answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ignored {
    pub(super) resources: BTreeSet<Text>,
    /// What stands before the slash.
    pub(super) groups: BTreeSet<Text>,
}

impl Ignored {
    fn has(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or_default();
        is_extended(name) && (self.resources.contains(name) || self.groups.contains(group))
    }
}

/// A pod's requests above 0, in the order in which upstream reports them; of extended resources,
/// which it reports in no order, by name.
#[derive(Debug)]
pub(super) struct Needs {
    too_many_pods: Text,
    pub(super) entries: Vec<Need>,
}

#[derive(Debug)]
pub(super) struct Need {
    pub(super) name: Text,
    /// None: no node or pod had it when this was made; it is looked up again each time, since a
    /// new name moves no index.
    id: Option<ResourceId>,
    /// Unit: the resource's own, milli-CPU for cpu.
    pub(super) amount: i64,
    /// A device class backs it: a node without any of it is for DynamicResources to judge.
    pub(super) by_devices: bool,
    reason: Text,
}

impl Needs {
    pub(super) fn of(requests: &Resources, ignored: &Ignored, cluster: &Cluster) -> Needs {
        let nodes = cluster.nodes();
        let entries = requests
            .iter()
            .filter(|(name, amount)| *amount > 0 && !ignored.has(name))
            .map(|(name, amount)| Need {
                name: name.into(),
                id: nodes.known_resource(name),
                amount,
                by_devices: backed(name, cluster),
                reason: format!("Insufficient {name}").into(),
            })
            .collect();
        Needs { too_many_pods: TOO_MANY_PODS.into(), entries }
    }

    /// Returns Filter's answer. It is unresolvable as soon as the node's total is too small in one
    /// resource.
    pub(super) fn verdict(&self, nodes: &Nodes, node: NodeIdx) -> Verdict {
        let mut texts = Vec::new();
        let mut unresolvable = false;
        if free_slots(nodes, node) < 1 {
            texts.push(self.too_many_pods.clone());
        }
        for need in &self.entries {
            let stock = need.stock(nodes, node);
            if need.by_devices && stock.total == 0 {
                continue;
            }
            if need.amount > stock.free() {
                texts.push(need.reason.clone());
                unresolvable |= need.amount > stock.total;
            }
        }
        match (texts.is_empty(), unresolvable) {
            (true, _) => Verdict::Fit,
            (false, true) => Verdict::Unresolvable(texts.into()),
            (false, false) => Verdict::Unschedulable(texts.into()),
        }
    }

    /// Returns how many such pods the free amounts are enough for; `i64::MAX` if it needs nothing.
    pub(super) fn room(&self, nodes: &Nodes, node: NodeIdx) -> i64 {
        let of = |need: &Need| {
            let stock = need.stock(nodes, node);
            let unlimited = need.by_devices && stock.total == 0;
            if unlimited { i64::MAX } else { stock.free() / need.amount }
        };
        self.entries.iter().map(of).min().unwrap_or(i64::MAX)
    }

    /// Tells whether the pod fits on the node with nobody else there.
    pub(super) fn fits_empty(&self, node: &Node) -> bool {
        node.pods_max >= 1
            && self.entries.iter().all(|need| {
                let total = node.allocatable.amount(&need.name);
                need.amount <= total || need.by_devices && total == 0
            })
    }
}

/// Tells whether a device class backs the resource.
pub(super) fn backed(resource: &str, cluster: &Cluster) -> bool {
    may_be_devices(resource) && cluster.devices().class_for(resource).is_some()
}

/// What a node has of one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stock {
    pub(super) total: i64,
    taken: i64,
}

impl Stock {
    /// Below 0 where a node has lost what its pods still use.
    pub(super) fn free(self) -> i64 {
        self.total.saturating_sub(self.taken)
    }
}

impl Need {
    pub(super) fn stock(&self, nodes: &Nodes, node: NodeIdx) -> Stock {
        match self.id.or_else(|| nodes.known_resource(&self.name)) {
            Some(id) => {
                Stock { total: nodes.allocatable(id, node), taken: nodes.requested(id, node) }
            }
            None => Stock { total: 0, taken: 0 },
        }
    }
}

/// Returns how many more pods the node may run; below 0 where it runs too many.
pub(super) fn free_slots(nodes: &Nodes, node: NodeIdx) -> i64 {
    let slots = nodes.node(node).map_or(0, |node| node.pods_max);
    let used = i64::try_from(nodes.slot(node).pods.len()).unwrap_or(i64::MAX);
    slots.saturating_sub(used)
}
