//! Plays the claim controller: claims are made from templates, and a pod that is gone holds none
//! any more.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::Consumer;
use berth_core::types::{ClaimKey, Pod, PodUid, ResourceClaim, Text, Timestamp};
use berth_sim::World;

/// Longest part of a claim's name before what the server would choose. Source: `maxBaseLen` of
/// Kubernetes' pkg/controller/resourceclaim/controller.go.
const BASE_MAX: usize = 57;
/// What a server chooses from. Source: `alphanums` of apimachinery's pkg/util/rand/rand.go.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const CHOSEN: u32 = 5;

/// Claims as the templates describe them, by `namespace/name` of the template.
pub(super) type Templates = BTreeMap<String, ResourceClaim>;

/// Makes the claims that pods want from templates and don't have yet.
pub(super) fn generate(world: &mut World, templates: &Templates, now: Timestamp) {
    let lacking = |pod: &&Pod| !pod.finished() && wanted(pod).next().is_some();
    let pods: Vec<Pod> = world.pods().filter(lacking).cloned().collect();
    for pod in pods {
        let mut made = Vec::new();
        for (entry, template) in wanted(&pod) {
            let Some(template) = templates.get(&format!("{}/{template}", pod.namespace)) else {
                continue;
            };
            let claim = claim_for(&pod, entry, template);
            made.push((entry.clone(), Some(claim.key.name.clone())));
            if world.claim(&claim.key).is_none() {
                apply(world, claim, now);
            }
        }
        if !made.is_empty() {
            world.change_pod(&pod.uid, now, |pod| pod.claim_statuses.extend(made));
        }
    }
}

/// Returns the entries of a pod that wait for a claim, each with its template's name.
fn wanted(pod: &Pod) -> impl Iterator<Item = (&Text, &Text)> {
    let there = |entry: &Text| pod.claim_statuses.iter().any(|(name, _)| name == entry);
    let entries = pod.spec.claims.iter();
    let open = entries.filter(move |claim| claim.from_template && !there(&claim.name));
    open.map(|claim| (&claim.name, &claim.source))
}

fn claim_for(pod: &Pod, entry: &Text, template: &ResourceClaim) -> ResourceClaim {
    let name = Text::from(name(pod, entry));
    let key = ClaimKey { namespace: pod.namespace.clone(), name };
    let uid = own_uid(&key);
    ResourceClaim { key, uid, owner_pod: Some(pod.uid.clone()), ..template.clone() }
}

/// Returns the UID of a claim that no server has seen.
pub(super) fn own_uid(key: &ClaimKey) -> Text {
    Text::from(format!("claim/{key}"))
}

/// Begins as the controller's names do, and ends in what is always the same for this pod.
fn name(pod: &Pod, entry: &Text) -> String {
    let base: String = format!("{}-{entry}", pod.name).chars().take(BASE_MAX).collect();
    let mut hash = fnv(format!("{}/{entry}", pod.uid).as_bytes());
    let mut chosen = String::new();
    for _ in 0..CHOSEN {
        let n = LETTERS.len() as u64;
        chosen.push(char::from(LETTERS[usize::try_from(hash % n).unwrap_or(0)]));
        hash /= n;
    }
    format!("{base}-{chosen}")
}

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Drops pods that are gone from `reservedFor`; where nobody is left, clears the allocation, and
/// a claim that was made for such a pod goes with it. Returns whether anything changed.
///
/// A claim that was allocated without any reservation is left alone.
pub(super) fn release(world: &mut World, gone: &BTreeSet<PodUid>, now: Timestamp) -> bool {
    let known: Vec<ResourceClaim> = world.claims().cloned().collect();
    let mut changed = false;
    for claim in known {
        if claim.owner_pod.as_ref().is_some_and(|pod| gone.contains(pod)) {
            let event = DeviceEvent::ClaimDeleted { key: claim.key, uid: claim.uid };
            world.apply(ClusterEvent::Devices(event), now);
            changed = true;
            continue;
        }
        let stays = |user: &Consumer| !matches!(user, Consumer::Pod(uid) if gone.contains(uid));
        let left: Vec<Consumer> = claim.reserved_for.iter().filter(|u| stays(u)).cloned().collect();
        if left.len() < claim.reserved_for.len() {
            let mut claim = ResourceClaim { reserved_for: left, ..claim };
            if claim.reserved_for.is_empty() {
                claim.allocation = None;
                claim.devices.clear();
            }
            apply(world, claim, now);
            changed = true;
        }
    }
    changed
}

fn apply(world: &mut World, claim: ResourceClaim, now: Timestamp) {
    let event = DeviceEvent::ClaimApplied(Box::new(claim));
    world.apply(ClusterEvent::Devices(event), now);
}

/// Keeps what the cluster says of a claim that a file describes anew: a file without a status says
/// nothing of it.
pub(super) fn keep_status(world: &World, claim: &mut ResourceClaim) {
    if let Some(known) = world.claim(&claim.key)
        && known.uid == claim.uid
        && claim.allocation.is_none()
    {
        claim.allocation = known.allocation.clone();
        claim.reserved_for = known.reserved_for.clone();
        claim.finalizers = known.finalizers.clone();
        claim.devices = known.devices.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::{PodClaim, PodSpec};
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp(1_000);

    fn claim(name: &str, pods: &[&str]) -> ResourceClaim {
        let key = ClaimKey { namespace: "default".into(), name: name.into() };
        ResourceClaim {
            uid: own_uid(&key),
            key,
            allocation: Some(Arc::default()),
            reserved_for: pods.iter().map(|uid| Consumer::Pod(PodUid((*uid).into()))).collect(),
            ..ResourceClaim::default()
        }
    }

    #[test]
    fn an_allocation_goes_with_the_last_pod_that_held_it() {
        let mut world = World::default();
        let own = PodUid("a".into());
        let made = ResourceClaim { owner_pod: Some(own.clone()), ..claim("made", &["a"]) };
        let others =
            [claim("alone", &["a"]), claim("shared", &["a", "b"]), claim("unreserved", &[])];
        others.into_iter().chain([made]).for_each(|claim| apply(&mut world, claim, NOW));
        assert!(release(&mut world, &BTreeSet::from([own.clone()]), NOW));
        let allocated = |name: &str| {
            let key = ClaimKey { namespace: "default".into(), name: name.into() };
            world.claim(&key).map(|claim| claim.allocation.is_some())
        };
        let all = ["alone", "shared", "unreserved", "made"].map(allocated);
        assert_eq!(all, [Some(false), Some(true), Some(true), None]);
        assert!(!release(&mut world, &BTreeSet::from([own]), NOW));
    }

    #[test]
    fn each_pod_gets_claims_of_its_own_once() {
        let mut world = World::default();
        let entry = |name: &str| PodClaim {
            name: name.into(),
            source: "template".into(),
            from_template: true,
        };
        let spec = PodSpec { claims: vec![entry("gpu"), entry("nic")], ..PodSpec::default() };
        let spec = Arc::new(spec);
        for name in ["a", "b"] {
            let (uid, namespace) = (PodUid(name.into()), "default".into());
            let pod = Pod { uid, namespace, name: name.into(), ..Pod::default() };
            let pod = Pod { spec: Arc::clone(&spec), ..pod };
            world.apply(ClusterEvent::PodApplied(Box::new(pod)), NOW);
        }
        let templates =
            Templates::from([("default/template".to_owned(), ResourceClaim::default())]);
        generate(&mut world, &Templates::default(), NOW);
        assert_eq!(world.claims().count(), 0);
        generate(&mut world, &templates, NOW);
        let version = world.version();
        generate(&mut world, &templates, NOW);
        assert_eq!((world.claims().count(), world.version()), (4, version));
        let a = world.pod(&"default".into(), &"a".into()).unwrap();
        let [(gpu, Some(name)), (nic, Some(_))] = &a.claim_statuses[..] else { panic!() };
        assert_eq!((&**gpu, &**nic, name.len()), ("gpu", "nic", "a-gpu-".len() + 5));
        let key = ClaimKey { namespace: "default".into(), name: name.clone() };
        let claim = world.claim(&key).unwrap();
        assert_eq!(claim.owner_pod, Some(PodUid("a".into())));
    }
}
