//! Nodes by dense index, their amounts as columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::resources::{AMOUNT_MAX, CPU, EPHEMERAL_STORAGE, MEMORY};
use crate::types::{HostPort, Node, Pod, PodRequests, PodUid, Text};

use super::changes::{ChangeLog, Version};

/// Dense index of a node; reused after the node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdx(pub u32);

impl NodeIdx {
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Dense id of a resource name; never reused. 0, 1, 2 are cpu, memory and ephemeral-storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

impl ResourceId {
    pub const CPU: ResourceId = ResourceId(0);
    pub const MEMORY: ResourceId = ResourceId(1);
    pub const EPHEMERAL: ResourceId = ResourceId(2);
}

/// What is known of one node name: its object, if there is one, and the pods placed there.
#[derive(Debug, Default)]
pub struct NodeSlot {
    pub name: Text,
    /// None while pods name a node that has no object; such a slot is never placed on.
    pub node: Option<Arc<Node>>,
    /// Placed and assumed pods that hold resources, sorted.
    pub pods: Vec<PodUid>,
    /// Host ports in use, one entry a pod's port, sorted.
    pub ports: Vec<HostPort>,
    /// Moves only when a field that scheduling reads has changed.
    pub version: Version,
}

/// All nodes. Columns are indexed by [`NodeIdx`], amounts in the resource's unit.
#[derive(Debug, Default)]
pub struct Nodes {
    slots: Vec<NodeSlot>,
    by_name: BTreeMap<Text, NodeIdx>,
    free: Vec<NodeIdx>,
    pub(super) resources: BTreeMap<Text, ResourceId>,
    allocatable: Vec<Vec<i64>>,
    requested: Vec<Vec<i64>>,
    nonzero_cpu_milli: Vec<i64>,
    nonzero_memory_bytes: Vec<i64>,
    alive: usize,
    next_version: u64,
    log: ChangeLog,
}

impl Nodes {
    pub(crate) fn new() -> Nodes {
        let mut nodes = Nodes::default();
        for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
            nodes.resource_id(&Text::from(name));
        }
        nodes
    }

    /// Number of indices in use or free: every [`NodeIdx`] is below it.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of nodes that have an object.
    pub fn len(&self) -> usize {
        self.alive
    }

    pub fn is_empty(&self) -> bool {
        self.alive == 0
    }

    pub fn slot(&self, node: NodeIdx) -> &NodeSlot {
        &self.slots[node.at()]
    }

    pub(super) fn slots(&self) -> &[NodeSlot] {
        &self.slots
    }

    pub fn index(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.get(name).copied()
    }

    /// Returns the object of `node`, `None` for a free or ghost index.
    pub fn node(&self, node: NodeIdx) -> Option<&Arc<Node>> {
        self.slots.get(node.at())?.node.as_ref()
    }

    /// Returns the nodes that have an object, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIdx, &Arc<Node>)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| slot.node.as_ref().map(|node| (NodeIdx(at as u32), node)))
    }

    /// Returns the id of a resource that some node or pod has had, `None` for an unknown name.
    pub fn known_resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.get(name).copied()
    }

    pub fn allocatable(&self, resource: ResourceId, node: NodeIdx) -> i64 {
        self.allocatable[usize::from(resource.0)][node.at()]
    }

    /// Returns the sum of what the pods on `node` take.
    pub fn requested(&self, resource: ResourceId, node: NodeIdx) -> i64 {
        self.requested[usize::from(resource.0)][node.at()]
    }

    /// Returns (milli-CPU, bytes) with the score defaults for containers that request none.
    pub fn nonzero(&self, node: NodeIdx) -> (i64, i64) {
        (self.nonzero_cpu_milli[node.at()], self.nonzero_memory_bytes[node.at()])
    }

    /// Position in the log of node changes; see [`Nodes::changed_since`].
    pub fn log_end(&self) -> u64 {
        self.log.end()
    }

    /// Returns the nodes touched from log position `from` on (repeats possible), or `None` if the
    /// log no longer reaches back so far and every node must be looked at.
    pub fn changed_since(&self, from: u64) -> Option<impl Iterator<Item = NodeIdx> + '_> {
        self.log.since(from)
    }

    pub(crate) fn resource_id(&mut self, name: &Text) -> ResourceId {
        if let Some(id) = self.resources.get(name) {
            return *id;
        }
        let id = ResourceId(self.resources.len() as u16);
        self.resources.insert(name.clone(), id);
        self.allocatable.push(vec![0; self.slots.len()]);
        self.requested.push(vec![0; self.slots.len()]);
        id
    }

    /// Returns the slot of `name`, made if there is none.
    pub(crate) fn enter(&mut self, name: &Text) -> NodeIdx {
        if let Some(idx) = self.by_name.get(name) {
            return *idx;
        }
        let idx = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[idx.at()].name = name.clone();
        self.by_name.insert(name.clone(), idx);
        idx
    }

    fn grow(&mut self) -> NodeIdx {
        self.slots.push(NodeSlot::default());
        for column in self.allocatable.iter_mut().chain(self.requested.iter_mut()) {
            column.push(0);
        }
        self.nonzero_cpu_milli.push(0);
        self.nonzero_memory_bytes.push(0);
        NodeIdx((self.slots.len() - 1) as u32)
    }

    /// Frees the slot if it has neither an object nor pods.
    pub(crate) fn leave(&mut self, idx: NodeIdx) {
        let slot = &mut self.slots[idx.at()];
        let free = self.by_name.get(&slot.name) != Some(&idx);
        if free || slot.node.is_some() || !slot.pods.is_empty() {
            return;
        }
        self.by_name.remove(&slot.name);
        let version = slot.version;
        *slot = NodeSlot { version, ..NodeSlot::default() };
        self.free.push(idx);
        self.touch(idx);
    }

    pub(crate) fn set_object(&mut self, idx: NodeIdx, node: Option<Arc<Node>>) {
        let was = self.slots[idx.at()].node.is_some();
        for column in &mut self.allocatable {
            column[idx.at()] = 0;
        }
        if let Some(node) = &node {
            for (name, amount) in node.allocatable.iter() {
                let id = self.resource_id(&Text::from(name));
                self.allocatable[usize::from(id.0)][idx.at()] = amount;
            }
        }
        self.alive = self.alive - usize::from(was) + usize::from(node.is_some());
        self.slots[idx.at()].node = node;
        self.touch(idx);
    }

    /// Takes over a newer object that scheduling reads the same.
    pub(crate) fn refresh_object(&mut self, idx: NodeIdx, node: Arc<Node>) {
        self.slots[idx.at()].node = Some(node);
    }

    pub(crate) fn add_pod(&mut self, idx: NodeIdx, pod: &Pod) {
        self.count(idx, &pod.usage, 1);
        let slot = &mut self.slots[idx.at()];
        insert_sorted(&mut slot.pods, &pod.uid);
        for port in &pod.spec.host_ports {
            insert_sorted(&mut slot.ports, port);
        }
        self.touch(idx);
    }

    pub(crate) fn remove_pod(&mut self, idx: NodeIdx, pod: &Pod) {
        self.count(idx, &pod.usage, -1);
        let slot = &mut self.slots[idx.at()];
        remove_sorted(&mut slot.pods, &pod.uid);
        for port in &pod.spec.host_ports {
            remove_sorted(&mut slot.ports, port);
        }
        self.touch(idx);
    }

    fn count(&mut self, idx: NodeIdx, usage: &PodRequests, sign: i64) {
        // Single amounts are at most 2^53; 1,023 pods at that bound still fit into an i64.
        let add = |column: &mut Vec<i64>, amount: i64| {
            let amount = amount.min(AMOUNT_MAX);
            column[idx.at()] = column[idx.at()].saturating_add(sign * amount);
        };
        add(&mut self.nonzero_cpu_milli, usage.nonzero_cpu_milli);
        add(&mut self.nonzero_memory_bytes, usage.nonzero_memory_bytes);
        for (name, amount) in usage.real.iter() {
            let id = match self.resources.get(name) {
                Some(id) => *id,
                None => self.resource_id_of(name),
            };
            let column = &mut self.requested[usize::from(id.0)];
            column[idx.at()] = column[idx.at()].saturating_add(sign * amount);
        }
    }

    fn resource_id_of(&mut self, name: &str) -> ResourceId {
        self.resource_id(&Text::from(name))
    }

    /// Gives the node a version that no state had before.
    pub(crate) fn touch(&mut self, idx: NodeIdx) {
        self.next_version += 1;
        self.slots[idx.at()].version = Version(self.next_version);
        self.log.push(idx);
    }

    /// Gives the node back a version whose state has been restored to the letter.
    pub(crate) fn restore_version(&mut self, idx: NodeIdx, version: Version) {
        self.slots[idx.at()].version = version;
        self.log.push(idx);
    }

    pub(crate) fn fresh_version(&mut self) -> Version {
        self.next_version += 1;
        Version(self.next_version)
    }
}

/// Sorted, so that a state is the same whatever way led to it.
fn insert_sorted<T: Ord + Clone>(items: &mut Vec<T>, item: &T) {
    let at = items.partition_point(|other| other < item);
    items.insert(at, item.clone());
}

fn remove_sorted<T: Ord>(items: &mut Vec<T>, item: &T) {
    if let Ok(at) = items.binary_search(item) {
        items.remove(at);
    }
}
