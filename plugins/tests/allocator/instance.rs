//! A question for the allocator: a node, what drivers publish, what is held, what claims want.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::snapshot::{Cluster, ClusterEvent, DeviceEvent, NodeIdx};
use berth_core::types::claim::{Allocation, ClaimSpec, DeviceRequest, DeviceResult};
use berth_core::types::device::{NANOS, Quantity};
use berth_core::types::{
    ClaimKey, DeviceClass, DeviceTaintRule, Node, ResourceClaim, ResourceSlice, Text,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Instance {
    pub(crate) node: Node,
    pub(crate) classes: Vec<DeviceClass>,
    /// Slices that drivers have replaced: by those of the same name, or by nothing.
    pub(crate) before: Vec<ResourceSlice>,
    pub(crate) slices: Vec<ResourceSlice>,
    pub(crate) rules: Vec<DeviceTaintRule>,
    /// What is held, each by a claim of its own.
    pub(crate) held: Vec<DeviceResult>,
    pub(crate) claims: Vec<ClaimSpec>,
    /// Attributes may be lists: for the reference's experimental variant.
    pub(crate) lists: bool,
    /// Claims become known before slices.
    pub(crate) claims_first: bool,
}

impl Instance {
    /// Returns every request and alternative, with the claim's place.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (usize, &DeviceRequest)> {
        self.claims.iter().enumerate().flat_map(|(at, claim)| {
            let requests = claim.demand.requests.iter();
            requests.flat_map(move |r| r.alternatives.iter().map(move |one| (at, one)))
        })
    }

    pub(crate) fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// Returns the ledger that knows all this, with every selector declared.
    pub(crate) fn ledger(&self) -> (Cluster, NodeIdx) {
        let mut cluster = Cluster::default();
        cluster.set_selector_compiler(berth_plugins::selectors());
        cluster.fold(ClusterEvent::NodeApplied(self.node.clone()));
        for event in self.events() {
            cluster.fold(ClusterEvent::Devices(event));
        }
        for expression in self.expressions() {
            assert!(cluster.declare_selector(&expression, &mut |_| true), "steps without end");
        }
        let node = cluster.nodes().index(&self.node.name).expect("the node is known");
        (cluster, node)
    }

    fn events(&self) -> Vec<DeviceEvent> {
        let applied = |slice: &ResourceSlice| DeviceEvent::SliceApplied(Box::new(slice.clone()));
        let slices: Vec<DeviceEvent> = self.slices.iter().map(applied).collect();
        let kept = |name: &Text| self.slices.iter().any(|slice| slice.name == *name);
        let gone = self.before.iter().filter(|slice| !kept(&slice.name));
        let gone = gone.map(|slice| DeviceEvent::SliceDeleted {
            name: slice.name.clone(),
            uid: slice.uid.clone(),
        });
        let claims = self.held.iter().enumerate().map(|(at, result)| holder(at, result));
        let class = |class: &DeviceClass| DeviceEvent::ClassApplied(Box::new(class.clone()));
        let rule = |rule: &DeviceTaintRule| DeviceEvent::TaintRuleApplied(Box::new(rule.clone()));
        let mut events: Vec<DeviceEvent> = self.classes.iter().map(class).collect();
        events.extend(self.before.iter().map(applied));
        if self.claims_first || !self.before.is_empty() {
            events.extend(claims.chain(gone).chain(slices));
        } else {
            events.extend(slices.into_iter().chain(claims));
        }
        events.extend(self.rules.iter().map(rule));
        events
    }

    fn expressions(&self) -> BTreeSet<Text> {
        let of_classes = self.classes.iter().flat_map(|class| &class.selectors);
        let of_requests = self.requests().flat_map(|(_, request)| &request.selectors);
        of_classes.chain(of_requests).cloned().collect()
    }
}

/// The claim that holds one device.
fn holder(at: usize, result: &DeviceResult) -> DeviceEvent {
    let allocation = Allocation { results: vec![result.clone()], ..Allocation::default() };
    let name = Text::from(format!("holder-{at}"));
    DeviceEvent::ClaimApplied(Box::new(ResourceClaim {
        key: ClaimKey { namespace: "others".into(), name: name.clone() },
        uid: name,
        resource_version: 1,
        allocation: Some(Arc::new(allocation)),
        ..ResourceClaim::default()
    }))
}

/// Returns the quantity that a text stands for.
pub(crate) fn quantity(text: &str) -> Quantity {
    Quantity { nanos: nanos(text), text: text.into() }
}

/// Unit: billionths.
fn nanos(text: &str) -> i128 {
    const SUFFIXES: [(&str, i128); 12] = [
        ("Ki", NANOS << 10),
        ("Mi", NANOS << 20),
        ("Gi", NANOS << 30),
        ("Ti", NANOS << 40),
        ("n", 1),
        ("u", 1_000),
        ("m", 1_000_000),
        ("k", NANOS * 1_000),
        ("M", NANOS * 1_000_000),
        ("G", NANOS * 1_000_000_000),
        ("T", NANOS * 1_000_000_000_000),
        ("", NANOS),
    ];
    let (suffix, unit) =
        SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix)).expect("the empty suffix");
    let number = text.strip_suffix(suffix).expect("the suffix");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().expect("a decimal number");
    let scaled = digits * unit;
    let places = 10_i128.pow(u32::try_from(fraction.len()).expect("few places"));
    assert_eq!(scaled % places, 0, "{text} is finer than billionths");
    scaled / places
}

#[test]
fn quantities_are_read_exactly() {
    assert_eq!(nanos("1.5Gi"), nanos("1536Mi"));
    assert_eq!(nanos("1500m"), nanos("1.5"));
    assert_eq!(nanos("3k"), 3_000 * NANOS);
    assert_eq!(nanos("0"), 0);
}
