//! What parts of the API an instance uses, so that a run shows what it has covered.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::types::claim::{AllocationMode, ConstraintKind, DeviceRequest};
use berth_core::types::device::{AttributeValue, Placement};
use berth_core::types::{Device, ResourceSlice};

use super::instance::Instance;
use super::oracle::{Allocated, Grant};

/// Instances with each feature, by how they ended.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    pub(crate) granted: BTreeMap<&'static str, usize>,
    pub(crate) refused: BTreeMap<&'static str, usize>,
}

impl Covered {
    pub(crate) fn count(&mut self, instance: &Instance, allocations: &[Allocated]) {
        for feature in granted(instance, allocations) {
            *self.granted.entry(feature).or_default() += 1;
        }
        if allocations.is_empty() {
            for feature in wanted(instance) {
                *self.refused.entry(feature).or_default() += 1;
            }
        }
    }

    /// # Panics
    /// If some feature is in fewer than one of 1,000 instances, granted or refused.
    pub(crate) fn check(&self, instances: usize) {
        let least = instances / 1_000;
        let rare = |seen: &BTreeMap<&'static str, usize>, feature: &str| {
            seen.get(feature).is_none_or(|count| *count < least.max(1))
        };
        let granted: Vec<&str> =
            GRANTED.into_iter().filter(|feature| rare(&self.granted, feature)).collect();
        let refused: Vec<&str> =
            WANTED.into_iter().filter(|feature| rare(&self.refused, feature)).collect();
        assert!(granted.is_empty(), "hardly ever granted: {granted:?} of {self:?}");
        assert!(refused.is_empty(), "hardly ever refused: {refused:?} of {self:?}");
    }
}

/// What a grant may show.
const GRANTED: [&str; 24] = [
    "admin",
    "all",
    "allNodes",
    "binding conditions",
    "binds to node",
    "capacity request",
    "claims",
    "class config",
    "claim config",
    "counters",
    "distinct",
    "empty claim",
    "first alternative",
    "held counters",
    "later alternative",
    "list attribute",
    "match",
    "node selector",
    "per device",
    "shared",
    "shared by two",
    "shared before",
    "tolerated",
    "two pools of a name",
];

const WANTED: [&str; 9] = [
    "admin",
    "all",
    "alternatives",
    "capacity request",
    "distinct",
    "match",
    "selector",
    "too many",
    "unknown class",
];

fn granted(instance: &Instance, allocations: &[Allocated]) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    if allocations.is_empty() {
        return seen;
    }
    if allocations.len() > 1 {
        seen.insert("claims");
    }
    let grants: Vec<&Grant> = allocations.iter().flat_map(|of| &of.grants).collect();
    for grant in &grants {
        of_grant(instance, grant, &mut seen);
        let same = grants.iter().filter(|other| grant.shared && other.id == grant.id);
        if same.count() > 1 {
            seen.insert("shared by two");
        }
        let namesake =
            |other: &&&Grant| other.id.pool == grant.id.pool && other.id.driver != grant.id.driver;
        if grants.iter().any(|other| namesake(&other)) {
            seen.insert("two pools of a name");
        }
    }
    for (allocated, claim) in allocations.iter().zip(&instance.claims) {
        if claim.demand.requests.is_empty() {
            seen.insert("empty claim");
        }
        if allocated.node_selector["nodeSelectorTerms"][0]["matchExpressions"].is_array() {
            seen.insert("node selector");
        }
        for (from_class, ..) in &allocated.config {
            seen.insert(if *from_class { "class config" } else { "claim config" });
        }
        if allocated.grants.len() > 1 {
            seen.extend(claim.demand.constraints.iter().filter_map(|one| kind(one.kind)));
        }
    }
    seen
}

fn of_grant(instance: &Instance, grant: &Grant, seen: &mut BTreeSet<&'static str>) {
    let mut note = |is: bool, feature: &'static str| {
        if is {
            seen.insert(feature);
        }
    };
    note(grant.admin, "admin");
    note(grant.shared, "shared");
    note(!grant.binding_conditions.is_empty(), "binding conditions");
    note(grant.request.ends_with("/s0"), "first alternative");
    note(grant.request.contains("/s") && !grant.request.ends_with("/s0"), "later alternative");
    let held = instance.held.iter().any(|held| held.id == grant.id && held.share_id.is_some());
    note(held, "shared before");
    let request = instance.requests().find(|(_, request)| *request.name == *grant.request);
    if let Some((_, request)) = request {
        note(request.mode == AllocationMode::All, "all");
        note(!request.capacity.is_empty(), "capacity request");
    }
    let Some((slice, device)) = shown(instance, grant) else { return };
    note(!device.model.taints.is_empty() && grant.tolerations > 0, "tolerated");
    note(device.model.binds_to_node, "binds to node");
    note(slice.placement == Placement::AllNodes, "allNodes");
    note(slice.placement == Placement::PerDevice, "per device");
    note(!device.consumes.is_empty(), "counters");
    let mine = |held: &&_| same_pool(grant, held) && held.id.device != grant.id.device;
    let beside = instance.held.iter().any(|held| mine(&held));
    note(!device.consumes.is_empty() && beside, "held counters");
    let mut attributes = device.attributes();
    let list = |value: &AttributeValue| {
        matches!(value, AttributeValue::Strings(_) | AttributeValue::Ints(_))
    };
    note(attributes.any(|(_, value)| list(value)), "list attribute");
}

fn same_pool(grant: &Grant, held: &berth_core::types::claim::DeviceResult) -> bool {
    held.id.driver == grant.id.driver && held.id.pool == grant.id.pool
}

fn shown<'a>(instance: &'a Instance, grant: &Grant) -> Option<(&'a ResourceSlice, &'a Device)> {
    let pool =
        |slice: &&ResourceSlice| slice.driver == grant.id.driver && slice.pool == grant.id.pool;
    let mut devices = instance
        .slices
        .iter()
        .filter(pool)
        .flat_map(|slice| slice.devices.iter().map(move |device| (slice, device)));
    devices.find(|(_, device)| device.name == grant.id.device)
}

fn kind(kind: ConstraintKind) -> Option<&'static str> {
    match kind {
        ConstraintKind::Match => Some("match"),
        ConstraintKind::Distinct => Some("distinct"),
        ConstraintKind::Unknown => None,
    }
}

/// What was asked for.
fn wanted(instance: &Instance) -> BTreeSet<&'static str> {
    let mut seen: BTreeSet<&str> =
        instance.requests().flat_map(|(_, request)| of_request(instance, request)).collect();
    for claim in &instance.claims {
        seen.extend(claim.demand.constraints.iter().filter_map(|one| kind(one.kind)));
    }
    seen
}

fn of_request(instance: &Instance, request: &DeviceRequest) -> Vec<&'static str> {
    let is = [
        (request.admin, "admin"),
        (request.mode == AllocationMode::All, "all"),
        (request.mode == AllocationMode::ExactCount(33), "too many"),
        (request.name.contains('/'), "alternatives"),
        (!request.capacity.is_empty(), "capacity request"),
        (!request.selectors.is_empty(), "selector"),
        (instance.class(&request.class).is_none(), "unknown class"),
    ];
    is.into_iter().filter(|(is, _)| *is).map(|(_, feature)| feature).collect()
}
