//! Random steps of a cluster with devices, written in the notation of the testkit.

use std::sync::Arc;

use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::testkit::{claims, parse};
use berth_core::types::claim::Allocation;
use berth_core::types::{ClaimKey, PodUid, ResourceClaim};
use proptest::prelude::*;

use crate::model::Objects;

/// Pool, device, and how it is granted.
type Grant = (u8, u8, u8);

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Node {
        name: u8,
        zone: u8,
    },
    NodeGone {
        name: u8,
    },
    Slice {
        name: u8,
        pool: u8,
        generation: u8,
        of: u8,
        placement: u8,
        devices: Vec<(u8, u8)>,
    },
    SliceGone {
        name: u8,
    },
    /// `another`: a claim of the same name, whose predecessor's end nobody told.
    Claim {
        name: u8,
        allocated: Option<Vec<Grant>>,
        another: bool,
    },
    ClaimGone {
        name: u8,
    },
    /// What the plan of a claim wrote, seen by watch.
    Written {
        name: u8,
    },
    Class {
        name: u8,
        variant: u8,
    },
    Rule {
        name: u8,
        device: u8,
        gone: bool,
    },
    WhatIf {
        edits: Vec<Edit>,
        back_to: u8,
        keep: bool,
    },
    Forget {
        pod: u8,
    },
    /// An event of long ago comes again.
    Late {
        which: u8,
    },
    /// Selectors are looked at, as far as so many steps go.
    Declare {
        steps: u8,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Plan {
        claim: u8,
        pod: u8,
        grants: Vec<Grant>,
    },
    /// The claim is to be made, for the pod's extended resources.
    PlanNew {
        claim: u8,
        pod: u8,
        grants: Vec<Grant>,
    },
    /// The pod that has a place is taken off.
    Evict,
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    prop::collection::vec((0..2u8, 0..4u8, 0..4u8), 0..3)
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        5 => (0..4u8, 0..3u8, grants())
            .prop_map(|(claim, pod, grants)| Edit::Plan { claim, pod, grants }),
        2 => (0..4u8, 0..3u8, grants())
            .prop_map(|(claim, pod, grants)| Edit::PlanNew { claim, pod, grants }),
        1 => Just(Edit::Evict),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let devices = prop::collection::vec((0..4u8, 0..32u8), 0..4);
    prop_oneof![
        2 => (0..3u8, 0..2u8).prop_map(|(name, zone)| Step::Node { name, zone }),
        1 => (0..3u8).prop_map(|name| Step::NodeGone { name }),
        8 => (0..5u8, 0..2u8, 1..3u8, 1..3u8, 0..9u8, devices).prop_map(
            |(name, pool, generation, of, placement, devices)| {
                Step::Slice { name, pool, generation, of, placement, devices }
            }
        ),
        2 => (0..5u8).prop_map(|name| Step::SliceGone { name }),
        6 => (0..4u8, prop::option::weighted(0.7, grants()), prop::bool::weighted(0.2))
            .prop_map(|(name, allocated, another)| Step::Claim { name, allocated, another }),
        1 => (0..4u8).prop_map(|name| Step::ClaimGone { name }),
        2 => (0..4u8).prop_map(|name| Step::Written { name }),
        1 => (0..2u8, 0..3u8).prop_map(|(name, variant)| Step::Class { name, variant }),
        1 => (0..2u8, 0..4u8, any::<bool>())
            .prop_map(|(name, device, gone)| Step::Rule { name, device, gone }),
        5 => (prop::collection::vec(edit(), 1..5), 0..5u8, any::<bool>())
            .prop_map(|(edits, back_to, keep)| Step::WhatIf { edits, back_to, keep }),
        2 => (0..3u8).prop_map(|pod| Step::Forget { pod }),
        3 => any::<u8>().prop_map(|which| Step::Late { which }),
        1 => (0..40u8).prop_map(|steps| Step::Declare { steps }),
    ]
}

/// Writes events of the objects' next states.
#[derive(Default)]
pub(crate) struct Writer {
    born: u32,
}

impl Writer {
    /// Returns the event of a step; none if it is about something that isn't there, or about none.
    pub(crate) fn event(&mut self, step: &Step, objects: &Objects) -> Option<ClusterEvent> {
        self.born += 1;
        let rv = self.born;
        let text = match step {
            Step::Node { name, zone } => {
                let known = objects.nodes.get(format!("n{name}").as_str());
                let uid = known.map_or(format!("node-{rv}"), |node| node.uid.to_string());
                format!("node n{name} uid={uid} labels=zone=z{zone}")
            }
            Step::NodeGone { name } => {
                let uid = &objects.nodes.get(format!("n{name}").as_str())?.uid;
                format!("-node n{name} uid={uid}")
            }
            Step::Slice { name, pool, generation, of, placement, devices } => {
                let known = objects.slices.get(format!("s{name}").as_str());
                let uid = known.map_or(format!("slice-{rv}"), |slice| slice.uid.to_string());
                let head = format!("slice s{name} uid={uid} rv={rv} driver=d pool=p{pool}");
                let counts = format!("gen={generation} of={of} {}", placed(*placement));
                let sets = if placement.is_multiple_of(2) { "counters=\"c m=8\"" } else { "" };
                format!("{head} {counts} {sets} devices=\"{}\"", listed(devices))
            }
            Step::SliceGone { name } => {
                let uid = &objects.slices.get(format!("s{name}").as_str())?.uid;
                format!("-slice s{name} uid={uid}")
            }
            Step::Claim { name, allocated, another } => {
                let known = objects.claims.get(&key(*name)).filter(|_| !another);
                let uid = known.map_or(format!("claim-{rv}"), |claim| claim.uid.to_string());
                let allocated = allocated.as_ref().map(|grants| granted(grants));
                let allocated = allocated.map_or(String::new(), |a| format!("allocated=\"{a}\""));
                let owned = known.map_or(!rv.is_multiple_of(2), |claim| claim.extended_resources);
                let owner = if owned { "for-extended owner=x0" } else { "" };
                let state = format!("{allocated} status=\"d/p/x T{rv}=true\"");
                format!("claim c{name} uid={uid} rv={rv} {state} {owner}")
            }
            Step::ClaimGone { name } => {
                let uid = &objects.claims.get(&key(*name))?.uid;
                format!("-claim c{name} uid={uid}")
            }
            Step::Written { name } => return self.written(*name, objects),
            Step::Class { name, variant: 0 } => format!("-deviceclass k{name}"),
            Step::Class { name, variant } => {
                format!("deviceclass k{name} rv={rv} select=\"attr.kind == {variant}\"")
            }
            Step::Rule { name, gone: true, .. } => format!("-taintrule t{name}"),
            Step::Rule { name, device, .. } => {
                format!("taintrule t{name} rv={rv} device=g{device} taint=sick:NoSchedule")
            }
            Step::WhatIf { .. }
            | Step::Forget { .. }
            | Step::Late { .. }
            | Step::Declare { .. } => {
                return None;
            }
        };
        let mut events = parse(&text).unwrap_or_else(|error| panic!("{error}"));
        events.pop()
    }

    /// The results may differ in what isn't part of the grant.
    fn written(&self, name: u8, objects: &Objects) -> Option<ClusterEvent> {
        let (allocation, _) = objects.plans.get(&key(name))?;
        let mut claim = objects.claims.get(&key(name))?.clone();
        let mut allocation = (**allocation).clone();
        if let Some(first) = allocation.results.first_mut() {
            first.binding_conditions = vec!["Ready".into()];
        }
        claim.allocation = Some(Arc::new(allocation));
        claim.resource_version = u64::from(self.born);
        Some(ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim))))
    }
}

pub(crate) fn key(name: u8) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: format!("c{name}").into() }
}

/// A claim that a plan will make.
pub(crate) fn unborn(name: u8, pod: u8) -> Arc<ResourceClaim> {
    Arc::new(ResourceClaim {
        key: key(name),
        uid: format!("unborn-{name}").into(),
        owner_pod: Some(self::pod(pod)),
        extended_resources: true,
        ..ResourceClaim::default()
    })
}

pub(crate) fn pod(name: u8) -> PodUid {
    PodUid(format!("x{name}").into())
}

pub(crate) fn allocation(grants: &[Grant]) -> Arc<Allocation> {
    let text = granted(grants);
    let results = text.split("; ").filter(|part| !part.is_empty()).map(claims::result);
    let results = results.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Allocation { results, ..Allocation::default() })
}

fn placed(placement: u8) -> &'static str {
    ["node=n0", "node=n1", "node=n0", "node=n2", "nodes=zone=z0", "all", "all", "per-device", ""]
        [usize::from(placement)]
}

fn listed(devices: &[(u8, u8)]) -> String {
    let device = |(name, variant): &(u8, u8)| {
        let kind = ["a", "b"][usize::from(variant % 2)];
        let shared = if variant & 2 > 0 { "shared" } else { "" };
        let uses = match variant >> 2 & 3 {
            0 => String::new(),
            3 => "uses=lost(m=1)".to_owned(),
            amount => format!("uses=c(m={amount})"),
        };
        let own = if variant & 16 > 0 { "node=n1" } else { "nodes=zone=z1" };
        format!("g{name} kind={kind} mem:80Gi {shared} {uses} {own}")
    };
    devices.iter().map(device).collect::<Vec<_>>().join("; ")
}

fn granted(grants: &[Grant]) -> String {
    let grant = |(at, (pool, device, how)): (usize, &Grant)| {
        let how = match how {
            0 => "admin".to_owned(),
            1 => format!("share=s{at} takes=mem={}Gi", device + 1),
            _ => String::new(),
        };
        format!("r{at} d/p{pool}/g{device} {how}")
    };
    grants.iter().enumerate().map(grant).collect::<Vec<_>>().join("; ")
}
