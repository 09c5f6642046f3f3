//! What pods claim: templates of claims, and claims that pods share.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::claim::{
    AllocationMode, ClaimKey, ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint,
    DeviceDemand, DeviceRequest,
};
use berth_core::types::{Pod, PodClaim, ResourceClaim, Text};

use super::devices::{GPUS, MEMORY, ROOT, quantity, selector};
use super::shape::{GPU, one_in, pick};

/// The pod's name for its only claim.
const ENTRY: &str = "dev";
/// So many pods share a claim.
const SHARERS: u64 = 3;

/// Returns the templates. One of the names that pods use is missing: nobody makes their claims.
pub(super) fn templates() -> BTreeMap<Text, Arc<ClaimSpec>> {
    let near = DeviceConstraint {
        requests: Vec::new(),
        kind: ConstraintKind::Match,
        attribute: ROOT.into(),
    };
    let together = vec![exactly("gpus", "gpu", 2)];
    let mut part = DeviceRequest::exact("part", "shared", 1);
    part.capacity = vec![(MEMORY.into(), quantity(10))];
    let mut all = DeviceRequest::exact("all", "gpu", 1);
    all.mode = AllocationMode::All;
    let specs = [
        ("one-gpu", spec(vec![exactly("gpu", "gpu", 1)], Vec::new())),
        ("two-gpus", spec(together, vec![near])),
        ("mig", spec(vec![exactly("mig", "mig", 1)], Vec::new())),
        ("either", spec(vec![either()], Vec::new())),
        ("gpu-and-nic", spec(vec![exactly("gpu", "gpu", 1), exactly("nic", "nic", 1)], Vec::new())),
        ("nic", spec(vec![exactly("nic", "nic", 1)], Vec::new())),
        ("part", spec(vec![ClaimRequest::only(part)], Vec::new())),
        ("all", spec(vec![ClaimRequest::only(all)], Vec::new())),
        ("slow", spec(vec![exactly("slow", "slow", 1)], Vec::new())),
        ("too-many", spec(vec![exactly("gpu", "gpu", 9)], Vec::new())),
        ("no-class", spec(vec![exactly("what", "unheard-of", 1)], Vec::new())),
    ];
    specs.into_iter().map(|(name, spec)| (name.into(), Arc::new(spec))).collect()
}

fn spec(requests: Vec<ClaimRequest>, constraints: Vec<DeviceConstraint>) -> ClaimSpec {
    ClaimSpec { demand: Arc::new(DeviceDemand { requests, constraints }), config: Vec::new() }
}

fn exactly(name: &str, class: &str, count: i64) -> ClaimRequest {
    ClaimRequest::only(DeviceRequest::exact(name, class, count))
}

/// A whole device of the better model, or half of one.
fn either() -> ClaimRequest {
    let mut best = DeviceRequest::exact("any/best", "gpu", 1);
    best.selectors.push(selector(GPUS, "model", "h100"));
    let mut half = DeviceRequest::exact("any/half", "mig", 1);
    half.selectors.push(selector(GPUS, "model", "half"));
    ClaimRequest { name: "any".into(), alternatives: vec![best, half], first_available: true }
}

/// What the pods of one job claim.
#[derive(Clone, Debug)]
pub(super) enum Claiming {
    Nothing,
    Template(&'static str),
    Shared(&'static str),
}

pub(super) fn claiming(rng: &mut Rng) -> Claiming {
    const OFTEN: [&str; 12] = [
        "one-gpu",
        "one-gpu",
        "one-gpu",
        "two-gpus",
        "mig",
        "mig",
        "either",
        "gpu-and-nic",
        "nic",
        "part",
        "all",
        "slow",
    ];
    const RARELY: [&str; 3] = ["too-many", "no-class", "no-template"];
    match rng.below(20) {
        0..8 => Claiming::Nothing,
        8..16 => Claiming::Template(pick(rng, &OFTEN)),
        16 => Claiming::Template(pick(rng, &RARELY)),
        _ => Claiming::Shared(pick(rng, &["one-gpu", "mig", "nic", "two-gpus", "part"])),
    }
}

/// Gives the pod its claim. Returns the claim that somebody has to create for it.
pub(super) fn give(
    rng: &mut Rng,
    pod: &mut Pod,
    number: u64,
    claiming: &Claiming,
    templates: &BTreeMap<Text, Arc<ClaimSpec>>,
) -> Option<ResourceClaim> {
    let (source, from_template) = match claiming {
        Claiming::Nothing => return None,
        Claiming::Template(name) => (Text::from(*name), true),
        Claiming::Shared(of) => (format!("shared-{of}-{}", number / (4 * SHARERS)).into(), false),
    };
    let spec = Arc::make_mut(&mut pod.spec);
    // Devices are claimed instead.
    spec.requests.real.set(&GPU.into(), 0);
    if one_in(rng, 2) {
        spec.node_selector.clear();
    }
    spec.claims.push(PodClaim { name: ENTRY.into(), source: source.clone(), from_template });
    pod.usage = Arc::new(pod.spec.requests.clone());
    let Claiming::Shared(of) = claiming else { return None };
    let spec = templates.get(*of).cloned()?;
    let key = ClaimKey { namespace: pod.namespace.clone(), name: source };
    Some(ResourceClaim { key, spec, ..ResourceClaim::default() })
}
