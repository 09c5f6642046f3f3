//! The ledger itself: what is known and counted, and the assumptions that decisions make. How
//! events are folded into it is in [`super::folding`].

use std::collections::{BTreeMap, BTreeSet};

use crate::types::workload::{Namespace, PodSelectorOwner, SelectorKind};
use crate::types::{Pod, PodUid, Text};

use super::changes::Version;
use super::counts::{CountColumn, CountQuery, Counts};
use super::devices::Devices;
use super::domains::Domains;
use super::event::Change;
use super::fabric::Fabric;
use super::gone::Gone;
use super::gpu_shares::GpuShares;
use super::groups::Groups;
use super::holds::Holds;
use super::images::Images;
use super::nodes::{NodeIdx, Nodes};
use super::numa::Numa;
use super::packing::Packing;
use super::pods::{Place, PodRecord};
use super::refusals::Refusals;
use super::sets::leave;
use super::storage::Storage;
use super::topologies::Topologies;
use super::within::Within;

/// Something cluster-wide that an answer can depend on; each has a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexRef {
    /// Which nodes there are, with their labels and taints, and what objects say of topologies.
    Topology,
    Images,
    /// Claims, volumes, classes, drivers and attachments, not who uses them.
    Storage,
    /// Which placed pods use which claim.
    ClaimUsers,
    /// Services and controllers with selectors.
    SelectorOwners,
    /// Pools of devices that aren't bound to single nodes.
    WideDevices,
    /// Device classes and taint rules.
    DeviceClasses,
    /// What an expression says of devices, as far as a decision was made without it.
    Selections(Text),
    /// What nodes are worth for packing.
    Packing,
    /// Among which nodes a member of a group is being placed.
    Within,
    Counts(CountQuery),
}

#[derive(Debug)]
pub struct Cluster {
    pub(super) nodes: Nodes,
    pub(super) pods: BTreeMap<PodUid, PodRecord>,
    pub(super) counts: Counts,
    pub(super) images: Images,
    pub(super) storage: Storage,
    pub(super) devices: Devices,
    pub(super) namespaces: BTreeMap<Text, Namespace>,
    /// By namespace first, so that a namespace is one range.
    pub(super) owners: BTreeMap<(Text, SelectorKind, Text), PodSelectorOwner>,
    pub(super) owners_version: Version,
    pub(super) topology_version: Version,
    pub(super) domains: Domains,
    pub(super) topologies: Topologies,
    pub(super) within: Within,
    /// Placed pods with a required anti-affinity term.
    pub(super) anti_affine: BTreeSet<PodUid>,
    pub(super) nominations: BTreeMap<NodeIdx, BTreeSet<PodUid>>,
    pub(super) nominated: BTreeMap<PodUid, NodeIdx>,
    /// Number of assumed pods.
    pub(super) assumed: usize,
    pub(super) gone: Gone,
    pub(super) groups: Groups,
    pub(super) holds: Holds,
    pub(super) packing: Option<Box<Packing>>,
    pub(super) fabric: Option<Box<Fabric>>,
    pub(super) gpu_shares: Option<Box<GpuShares>>,
    pub(super) refusals: Refusals,
    pub(super) numa: Numa,
    /// Number of events folded.
    pub(super) folded: u64,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            nodes: Nodes::new(),
            pods: BTreeMap::new(),
            counts: Counts::default(),
            images: Images::default(),
            storage: Storage::default(),
            devices: Devices::default(),
            namespaces: BTreeMap::new(),
            owners: BTreeMap::new(),
            owners_version: Version::default(),
            topology_version: Version::default(),
            domains: Domains::default(),
            topologies: Topologies::default(),
            within: Within::default(),
            anti_affine: BTreeSet::new(),
            nominations: BTreeMap::new(),
            nominated: BTreeMap::new(),
            assumed: 0,
            gone: Gone::default(),
            groups: Groups::default(),
            holds: Holds::default(),
            packing: None,
            fabric: None,
            gpu_shares: None,
            refusals: Refusals::default(),
            numa: Numa::default(),
            folded: 0,
        }
    }
}

impl Cluster {
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub fn images(&self) -> &Images {
        &self.images
    }

    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Nodes by the values of labels that were declared.
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// Declares a label, so that [`Cluster::domains`] knows it. Cost: O(nodes) the first time.
    pub fn declare_domains(&mut self, label: &Text) {
        self.domains.declare(label, &self.nodes);
    }

    /// Number of events that were folded: as long as it stands, nothing has happened.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    pub(crate) fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    pub fn pod(&self, uid: &PodUid) -> Option<&PodRecord> {
        self.pods.get(uid)
    }

    /// Returns all pods in order of UID.
    pub fn pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.values()
    }

    /// Returns the placed and assumed pods of `node`, in order of UID.
    pub fn pods_on(&self, node: NodeIdx) -> impl Iterator<Item = &Pod> {
        let uids = self.nodes.slot(node).pods.iter();
        uids.filter_map(|uid| self.pods.get(uid).map(|record| &record.pod))
    }

    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// Returns the services and controllers of `namespace` that have a selector.
    pub fn selector_owners<'a>(
        &'a self,
        namespace: &'a Text,
    ) -> impl Iterator<Item = &'a PodSelectorOwner> {
        let first = (namespace.clone(), SelectorKind::Service, Text::default());
        let owners = self.owners.range(first..).map(|(_, owner)| owner);
        owners.take_while(move |owner| owner.namespace == *namespace)
    }

    pub fn anti_affine_pods(&self) -> impl Iterator<Item = &Pod> {
        self.anti_affine.iter().filter_map(|uid| self.pods.get(uid).map(|record| &record.pod))
    }

    /// Returns the pods nominated to `node`.
    pub fn nominated_on(&self, node: NodeIdx) -> impl Iterator<Item = &Pod> {
        let uids = self.nominations.get(&node).into_iter().flatten();
        uids.filter_map(|uid| self.pods.get(uid).map(|record| &record.pod))
    }

    /// Returns the nodes that some pod is nominated to.
    pub fn nominated_nodes(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.nominations.keys().copied()
    }

    pub fn nomination(&self, uid: &PodUid) -> Option<NodeIdx> {
        self.nominated.get(uid).copied()
    }

    pub fn count(&self, query: &CountQuery) -> Option<&CountColumn> {
        self.counts.column(query)
    }

    /// Declares a query, so that [`Cluster::count`] answers it. Cost: O(pods) the first time.
    pub fn declare(&mut self, query: &CountQuery) {
        if self.counts.use_again(query) {
            return;
        }
        let version = self.nodes.fresh_version();
        let placed = self
            .pods
            .values()
            .filter_map(|record| record.place.node().map(|node| (&record.pod, node)));
        self.counts.start(query.clone(), placed, version);
    }

    pub fn index_version(&self, index: &IndexRef) -> Version {
        match index {
            IndexRef::Topology => self.topology_version,
            IndexRef::Images => self.images.version(),
            IndexRef::Storage => self.storage.version(),
            IndexRef::ClaimUsers => self.storage.users_version(),
            IndexRef::SelectorOwners => self.owners_version,
            IndexRef::WideDevices => self.devices.wide_version(),
            IndexRef::DeviceClasses => self.devices.classes_version(),
            IndexRef::Selections(expression) => self.devices.selections().version(expression),
            IndexRef::Packing => {
                self.packing.as_ref().map_or(Version::default(), |packing| packing.version())
            }
            IndexRef::Within => self.within.version(),
            IndexRef::Counts(query) => {
                self.counts.column(query).map_or(Version::default(), CountColumn::version)
            }
        }
    }

    pub(super) fn occupy(&mut self, pod: &Pod, node: NodeIdx) {
        self.nodes.add_pod(node, pod);
        self.groups.count_placed(pod, 1);
        let version = self.nodes.slot(node).version;
        self.counts.fold(pod, node, 1, version);
        self.storage.add_user(pod, version);
        self.enter_share(pod, node);
        if !pod.spec.required_anti_affinity.is_empty() {
            self.anti_affine.insert(pod.uid.clone());
        }
    }

    pub(super) fn vacate(&mut self, pod: &Pod, node: NodeIdx) {
        self.nodes.remove_pod(node, pod);
        self.groups.count_placed(pod, -1);
        let version = self.nodes.slot(node).version;
        self.counts.fold(pod, node, -1, version);
        self.storage.remove_user(pod, version);
        self.leave_share(pod, node);
        self.anti_affine.remove(&pod.uid);
    }

    pub(super) fn nodes_mut(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    pub(super) fn set_place(&mut self, uid: &PodUid, place: Place) -> Option<Pod> {
        let record = self.pods.get_mut(uid)?;
        let was = std::mem::replace(&mut record.place, place);
        let pod = record.pod.clone();
        self.count_assumed(was, place);
        Some(pod)
    }

    /// Notes that the server has this version of a pod, by the answer to a write of ours. The write
    /// was guarded by the version known, so nothing else lies between the two.
    pub(crate) fn saw_version(&mut self, uid: &PodUid, version: u64) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.pod.resource_version = record.pod.resource_version.max(version);
        }
    }

    /// Takes back an assumption; the nomination that stands on the object counts again. Returns
    /// what it changed; nothing if the pod isn't assumed.
    pub fn forget(&mut self, uid: &PodUid) -> Vec<Change> {
        let Some(Place::Assumed(node)) = self.pods.get(uid).map(|record| record.place) else {
            return Vec::new();
        };
        let Some(pod) = self.set_place(uid, Place::Nowhere) else { return Vec::new() };
        self.vacate(&pod, node);
        self.forget_gpus(uid);
        self.leave(node);
        let mut changes = vec![Change::PodFreed { old: Box::new(pod), node }];
        changes.extend(self.follow_nomination(uid));
        changes
    }

    /// Notes that `uid` waits for `node` (victims are leaving): pods of its priority or below see
    /// the place as taken. Returns what it changed: the pod may have been nominated elsewhere.
    pub fn nominate(&mut self, uid: &PodUid, node: NodeIdx) -> Vec<Change> {
        if self.nominated.get(uid) == Some(&node) {
            return Vec::new();
        }
        let changes = self.unnominate(uid);
        self.nominated.insert(uid.clone(), node);
        self.nominations.entry(node).or_default().insert(uid.clone());
        changes
    }

    /// Takes back a nomination. Returns what it changed: for pods of its priority or below, the
    /// pod has left the node. Nothing if the pod isn't nominated, or has its place.
    pub fn unnominate(&mut self, uid: &PodUid) -> Vec<Change> {
        let Some(node) = self.nominated.remove(uid) else { return Vec::new() };
        leave(&mut self.nominations, &node, uid);
        self.leave(node);
        match self.pods.get(uid) {
            Some(PodRecord { pod, place: Place::Nowhere }) => {
                vec![Change::PodFreed { old: Box::new(pod.clone()), node }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Frees the node's index if nothing refers to it: no object, no pods, no nominations.
    pub(super) fn leave(&mut self, node: NodeIdx) {
        if !self.nominations.contains_key(&node) && !self.holds.any_on(node) {
            self.nodes.leave(node);
        }
    }
}
