//! What the ledger must say, worked out from the objects alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::snapshot::devices::gather::{NodeDevice, NodePool};
use berth_core::snapshot::{Cluster, ClusterEvent, DeviceEvent, Overlay};
use berth_core::testkit::expressions;
use berth_core::types::claim::{Allocation, DeviceResult, ResourceClaim};
use berth_core::types::device::{Consumption, DeviceClass, DeviceTaintRule, Placement};
use berth_core::types::{ClaimKey, DeviceId, Node, Pod, PodUid, ResourceSlice, Text};

/// The objects as they are on the server, and the plans under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) nodes: BTreeMap<Text, Node>,
    pub(crate) pods: BTreeMap<PodUid, Pod>,
    pub(crate) slices: BTreeMap<Text, ResourceSlice>,
    pub(crate) claims: BTreeMap<ClaimKey, ResourceClaim>,
    pub(crate) classes: BTreeMap<Text, DeviceClass>,
    pub(crate) rules: BTreeMap<Text, DeviceTaintRule>,
    pub(crate) plans: BTreeMap<ClaimKey, (Arc<Allocation>, BTreeSet<PodUid>)>,
    /// Claims that plans will make.
    unborn: BTreeMap<ClaimKey, Arc<ResourceClaim>>,
    /// What devices take of counters by the last slice that showed them, while somebody holds them.
    charges: BTreeMap<DeviceId, Vec<Consumption>>,
}

pub(crate) const EXPRESSIONS: [&str; 3] = ["attr.kind == a", "shared", "driver == other"];

impl Objects {
    /// Takes over what an event says. Deletions name the object that is there.
    pub(crate) fn apply(&mut self, event: &ClusterEvent) {
        match event {
            ClusterEvent::NodeApplied(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
            }
            ClusterEvent::NodeDeleted { name, .. } => {
                self.nodes.remove(name);
            }
            ClusterEvent::PodApplied(pod) => {
                self.pods.insert(pod.uid.clone(), (**pod).clone());
            }
            ClusterEvent::Devices(event) => self.apply_devices(event),
            other => panic!("not part of these histories: {other:?}"),
        }
        self.note_charges();
    }

    fn apply_devices(&mut self, event: &DeviceEvent) {
        match event.clone() {
            DeviceEvent::SliceApplied(slice) => {
                self.slices.insert(slice.name.clone(), *slice);
            }
            DeviceEvent::SliceDeleted { name, .. } => {
                self.slices.remove(&name);
            }
            DeviceEvent::ClassApplied(class) => {
                self.classes.insert(class.name.clone(), *class);
            }
            DeviceEvent::ClassDeleted { name } => {
                self.classes.remove(&name);
            }
            DeviceEvent::TaintRuleApplied(rule) => {
                self.rules.insert(rule.name.clone(), *rule);
            }
            DeviceEvent::TaintRuleDeleted { name } => {
                self.rules.remove(&name);
            }
            DeviceEvent::ClaimApplied(claim) => self.apply_claim(*claim),
            DeviceEvent::ClaimDeleted { key, .. } => {
                self.claims.remove(&key);
                self.plans.remove(&key);
            }
        }
    }

    fn apply_claim(&mut self, claim: ResourceClaim) {
        let key = claim.key.clone();
        let made = self.unborn.remove(&key);
        let another = self.claims.get(&key).is_some_and(|known| known.uid != claim.uid)
            || made.is_some_and(|made| made.owner_pod != claim.owner_pod);
        let written = self.plans.get(&key).zip(claim.allocation.as_ref());
        if another || written.is_some_and(|((planned, _), real)| real.grants_as(planned)) {
            self.plans.remove(&key);
        }
        self.claims.insert(key, claim);
    }

    /// As [`Overlay::plan_claim`]. Returns whether it was noted.
    pub(crate) fn plan(
        &mut self,
        key: &ClaimKey,
        allocation: &Arc<Allocation>,
        pod: &PodUid,
    ) -> bool {
        let known = self.claims.get(key).or(self.unborn.get(key).map(|unborn| &**unborn));
        if known.is_none_or(|claim| claim.allocation.is_some()) {
            return false;
        }
        let (planned, pods) =
            self.plans.entry(key.clone()).or_insert_with(|| (allocation.clone(), BTreeSet::new()));
        let joins = planned.grants_as(allocation);
        if joins {
            pods.insert(pod.clone());
        }
        joins
    }

    /// As [`Overlay::plan_new_claim`]. Returns whether it was noted.
    pub(crate) fn plan_new(
        &mut self,
        claim: &Arc<ResourceClaim>,
        allocation: &Arc<Allocation>,
        pod: &PodUid,
    ) -> bool {
        let key = claim.key.clone();
        if self.claims.contains_key(&key) || self.unborn.contains_key(&key) {
            return false;
        }
        self.unborn.insert(key.clone(), claim.clone());
        self.plans.insert(key, (allocation.clone(), BTreeSet::from([pod.clone()])));
        true
    }

    pub(crate) fn forget(&mut self, pod: &PodUid) {
        self.plans.retain(|_, (_, pods)| {
            pods.remove(pod);
            !pods.is_empty()
        });
        self.unborn.retain(|key, _| self.plans.contains_key(key));
        self.note_charges();
    }

    /// What claims hold, by device: claim, share, and how much of it; real allocations first.
    fn held(&self) -> BTreeMap<DeviceId, BTreeMap<(Text, Option<Text>), DeviceResult>> {
        let mut held: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        let unborn = self.unborn.iter().map(|(key, claim)| (key, &**claim));
        for (key, claim) in self.claims.iter().chain(unborn) {
            let planned = self.plans.get(key).map(|(allocation, _)| allocation);
            for result in claim.allocation.iter().chain(planned).flat_map(|a| &a.results) {
                if !result.admin {
                    let of_device: &mut BTreeMap<_, _> = held.entry(result.id.clone()).or_default();
                    let by = (claim.uid.clone(), result.share_id.clone());
                    of_device.entry(by).or_insert_with(|| result.clone());
                }
            }
        }
        held
    }

    pub(crate) fn note_charges(&mut self) {
        let held = self.held();
        self.charges.retain(|device, _| held.contains_key(device));
        for id in held.into_keys() {
            match self.consumes(&id) {
                Some(consumes) => drop(self.charges.insert(id, consumes)),
                None => drop(self.charges.entry(id).or_default()),
            }
        }
    }

    fn in_pool(&self, driver: &str, pool: &str) -> impl Iterator<Item = &ResourceSlice> {
        self.slices.values().filter(move |s| *s.driver == *driver && *s.pool == *pool)
    }

    /// The newest generation's word; of two in it that of the later name.
    fn consumes(&self, id: &DeviceId) -> Option<Vec<Consumption>> {
        let slices = self.in_pool(&id.driver, &id.pool);
        let shows = |slice: &ResourceSlice| {
            let device = slice.devices.iter().find(|device| device.name == id.device)?;
            Some((slice.generation, device.consumes.to_vec()))
        };
        slices.filter_map(shows).max_by_key(|(generation, _)| *generation).map(|(_, c)| c)
    }

    /// Whether any node may see the pool.
    pub(crate) fn wide(&self, driver: &str, pool: &str) -> bool {
        self.in_pool(driver, pool).any(|slice| !matches!(slice.placement, Placement::Node(_)))
    }

    /// The pools that an event is about, if the objects are as they are: those of its slice, or of
    /// what its claim holds.
    pub(crate) fn pools_of(&self, event: &DeviceEvent) -> BTreeSet<Text> {
        let of_slice = |name: &Text| self.slices.get(name).map(|slice| slice.pool.clone());
        let of_claim = |key: &ClaimKey| {
            let real = self.claims.get(key).and_then(|claim| claim.allocation.as_ref());
            let planned = self.plans.get(key).map(|(allocation, _)| allocation);
            let results = real.into_iter().chain(planned).flat_map(|a| &a.results);
            results.map(|result| result.id.pool.clone()).collect()
        };
        match event {
            DeviceEvent::SliceApplied(slice) => of_slice(&slice.name).into_iter().collect(),
            DeviceEvent::SliceDeleted { name, .. } => of_slice(name).into_iter().collect(),
            DeviceEvent::ClaimApplied(claim) => of_claim(&claim.key),
            DeviceEvent::ClaimDeleted { key, .. } => of_claim(key),
            DeviceEvent::ClassApplied(_)
            | DeviceEvent::ClassDeleted { .. }
            | DeviceEvent::TaintRuleApplied(_)
            | DeviceEvent::TaintRuleDeleted { .. } => BTreeSet::new(),
        }
    }

    /// The nodes that have a slice of their own in one of the pools.
    pub(crate) fn nodes_of(&self, pools: &BTreeSet<Text>) -> BTreeSet<Text> {
        let slices = self.slices.values().filter(|slice| pools.contains(&slice.pool));
        let node = |slice: &ResourceSlice| match &slice.placement {
            Placement::Node(node) => Some(node.clone()),
            _ => None,
        };
        slices.filter_map(node).collect()
    }

    /// What is left of the counter `m` of the set `c`, for a pool of this generation.
    fn counter_left(&self, driver: &str, pool: &str, generation: i64) -> Option<i128> {
        let mut current = self.in_pool(driver, pool).filter(|s| s.generation == generation);
        let set = current.find_map(|slice| slice.counter_sets.first())?;
        let charged = |id: &DeviceId| *id.driver == *driver && *id.pool == *pool;
        let charges = self.charges.iter().filter(|(id, _)| charged(id)).flat_map(|(_, c)| c);
        let of_set = charges.filter(|consumption| consumption.set == set.name);
        let taken: i128 = of_set.flat_map(|c| c.counters.iter()).map(|(_, q)| q.nanos).sum();
        Some(set.counters[0].1.nanos - taken)
    }

    /// A ledger that has seen nothing but the objects as they are, and the plans.
    pub(crate) fn rebuilt(&self) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.set_selector_compiler(expressions::tiny());
        let mut fold = |event: DeviceEvent| drop(cluster.fold(ClusterEvent::Devices(event)));
        self.rules.values().for_each(|r| fold(DeviceEvent::TaintRuleApplied(Box::new(r.clone()))));
        self.classes.values().for_each(|c| fold(DeviceEvent::ClassApplied(Box::new(c.clone()))));
        self.slices.values().for_each(|s| fold(DeviceEvent::SliceApplied(Box::new(s.clone()))));
        for claim in self.claims.values() {
            let bare = ResourceClaim { allocation: None, resource_version: 0, ..claim.clone() };
            fold(DeviceEvent::ClaimApplied(Box::new(bare)));
        }
        let mut overlay = Overlay::new(&mut cluster);
        for (key, (allocation, pods)) in &self.plans {
            if let (Some(claim), Some(pod)) = (self.unborn.get(key), pods.first()) {
                assert!(overlay.plan_new_claim(claim, allocation, pod));
            }
            pods.iter().for_each(|pod| assert!(overlay.plan_claim(key, allocation, pod)));
        }
        overlay.commit();
        for claim in self.claims.values() {
            let event = DeviceEvent::ClaimApplied(Box::new(claim.clone()));
            cluster.fold(ClusterEvent::Devices(event));
        }
        for node in self.nodes.values() {
            cluster.fold(ClusterEvent::NodeApplied(node.clone()));
        }
        cluster
    }

    /// Compares what is left of counters, which slices that are gone have a say in.
    pub(crate) fn check_counters(&self, cluster: &Cluster) {
        for node in self.nodes.values() {
            for pool in cluster.devices().pools_on(node) {
                let Some(first) = pool.devices.first() else { continue };
                let left = pool.counter_left(cluster.devices(), &"c".into(), &"m".into());
                let wanted = self.counter_left(pool.driver, pool.name, first.slice.generation);
                assert_eq!(left, wanted, "counters of pool {} on {}", pool.name, node.name);
            }
        }
    }

    /// Compares whose extended resources claims are for.
    pub(crate) fn check_special(&self, cluster: &Cluster) {
        for pod in ["x0", "x1", "x2"].map(|name| PodUid(name.into())) {
            let unborn = self.unborn.iter().map(|(key, claim)| (key, &**claim));
            let own = |claim: &ResourceClaim| {
                claim.extended_resources && claim.owner_pod.as_ref() == Some(&pod)
            };
            let claims = self.claims.iter().chain(unborn).filter(|(_, claim)| own(claim));
            let told = cluster.devices().special_claim(&pod).map(|record| &record.claim.key);
            assert_eq!(told, claims.map(|(key, _)| key).min());
        }
    }

    /// Compares who holds what.
    pub(crate) fn check_holders(&self, cluster: &Cluster) {
        let held = self.held();
        for node in self.nodes.values() {
            for pool in cluster.devices().pools_on(node) {
                for device in &pool.devices {
                    let (driver, device_name) = (pool.driver.clone(), device.device.name.clone());
                    let id = DeviceId { driver, pool: pool.name.clone(), device: device_name };
                    assert_eq!(taken(device), wanted(held.get(&id)), "{id}");
                }
            }
        }
    }
}

/// Holders, whether it is shared, and what shares take of `mem`.
type Taken = (Vec<Text>, bool, i128);

fn taken(device: &NodeDevice<'_>) -> Option<Taken> {
    device.taken.map(|taken| (taken.holders.clone(), taken.shared(), taken.consumed("mem")))
}

fn wanted(by: Option<&BTreeMap<(Text, Option<Text>), DeviceResult>>) -> Option<Taken> {
    let by = by?;
    let alone = by.keys().filter(|(_, share)| share.is_none()).map(|(claim, _)| claim.clone());
    let shares = by.iter().filter(|((_, share), _)| share.is_some());
    let of_mem = shares.clone().flat_map(|(_, result)| &result.consumed).map(|(_, q)| q.nanos);
    Some((alone.collect(), shares.count() > 0, of_mem.sum()))
}

/// What a node sees of one pool, counters left out.
pub(crate) fn pool_seen(cluster: &Cluster, pool: &NodePool<'_>) -> String {
    let devices = pool.devices.iter().map(|device| {
        let selected = EXPRESSIONS.map(|expression| {
            cluster.devices().selections().selected(expression, device.slice_idx, device.at)
        });
        let taints: Vec<_> = cluster.devices().taints(device.slice, device.device).collect();
        let (slice, at) = (&device.slice.name, device.at);
        let (taken, placement) = (taken(device), device.placement);
        format!(
            "{slice}[{at}] {} {placement:?} {taken:?} {selected:?} {taints:?}",
            device.device.name
        )
    });
    format!("{:?} {:?}", pool.state, devices.collect::<Vec<_>>())
}

/// Everything that the ledger says of devices, counters left out. Selectors are declared on it.
pub(crate) fn seen(cluster: &mut Cluster) -> BTreeMap<String, String> {
    for expression in EXPRESSIONS {
        assert!(cluster.declare_selector(&expression.into(), &mut |_| true));
    }
    let devices = cluster.devices();
    let mut seen = BTreeMap::new();
    for (_, node) in cluster.nodes().iter() {
        for pool in devices.pools_on(node) {
            seen.insert(
                format!("{} {} on {}", pool.driver, pool.name, node.name),
                pool_seen(cluster, &pool),
            );
        }
    }
    for record in devices.claims() {
        let planned = record.planned.as_ref().map(|p| (&p.allocation, &p.pods));
        seen.insert(
            format!("claim {}", record.claim.key),
            format!("{:?} {planned:?}", record.claim),
        );
    }
    for pod in ["x0", "x1", "x2"] {
        let keys: Vec<&ClaimKey> =
            devices.planned_by(&PodUid(pod.into())).map(|record| &record.claim.key).collect();
        let special = devices.special_claim(&PodUid(pod.into())).map(|record| &record.claim.key);
        seen.insert(format!("planned by {pod}"), format!("{keys:?} special {special:?}"));
    }
    let (classes, rules): (Vec<_>, Vec<_>) =
        (devices.classes().collect(), devices.rules().collect());
    seen.insert(
        "classes, rules, sizes".into(),
        format!("{classes:?} {rules:?} {:?}", devices.sizes()),
    );
    seen
}
