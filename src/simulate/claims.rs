//! Plays the claim controller: claims are made from templates, and a pod that is gone holds none
//! any more.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::Consumer;
use berth_core::types::group::{GroupClaim, GroupKey, NATIVE, PodGroup};
use berth_core::types::{ClaimKey, Pod, PodClaim, PodUid, ResourceClaim, Text, Timestamp};
use berth_sim::World;

/// Longest part of a claim's name before what the server would choose. Source: `maxBaseLen` of
/// Kubernetes' pkg/controller/resourceclaim/controller.go.
const BASE_MAX: usize = 57;
/// What a server chooses from. Source: `alphanums` of apimachinery's pkg/util/rand/rand.go.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const CHOSEN: u32 = 5;

/// Claims as the templates describe them, by `namespace/name` of the template.
pub(super) type Templates = BTreeMap<String, ResourceClaim>;

/// Makes the claims that pods and pod groups want from templates and don't have yet.
pub(super) fn generate(world: &mut World, templates: &Templates, now: Timestamp) {
    generate_for_groups(world, templates, now);
    let lacking = |pod: &&Pod| !pod.finished() && wanted(pod).next().is_some();
    let pods: Vec<Pod> = world.pods().filter(lacking).cloned().collect();
    for pod in pods {
        let mut made = Vec::new();
        for wanted in wanted(&pod) {
            if let Some(of_group) = made_for_group(world, &pod, wanted) {
                made.extend(of_group.map(|claim| (wanted.name.clone(), claim)));
                continue;
            }
            let Some(template) = template_of(templates, &pod.namespace, &wanted.source) else {
                continue;
            };
            let claim = ResourceClaim {
                owner_pod: Some(pod.uid.clone()),
                ..claim_of(template, &pod.namespace, name(&pod.name, &pod.uid.0, &wanted.name))
            };
            made.push((wanted.name.clone(), Some(claim.key.name.clone())));
            add(world, claim, now);
        }
        if !made.is_empty() {
            world.change_pod(&pod.uid, now, |pod| pod.claim_statuses.extend(made));
        }
    }
}

fn generate_for_groups(world: &mut World, templates: &Templates, now: Timestamp) {
    let lacking = |group: &&PodGroup| group.claims.iter().any(|claim| claim.from_template);
    let groups: Vec<PodGroup> = world.groups().filter(lacking).cloned().collect();
    for group in groups {
        let GroupKey { namespace, name: of, .. } = &group.key;
        let there = |entry: &Text| group.claim_statuses.iter().any(|(name, _)| name == entry);
        let mut made = Vec::new();
        for wanted in group.claims.iter().filter(|c| c.from_template && !there(&c.name)) {
            let Some(template) = template_of(templates, namespace, &wanted.source) else {
                continue;
            };
            let claim = ResourceClaim {
                owner_group: Some(group.uid.clone()),
                ..claim_of(template, namespace, name(of, &group.uid, &wanted.name))
            };
            made.push((wanted.name.clone(), Some(claim.key.name.clone())));
            add(world, claim, now);
        }
        if !made.is_empty() {
            world.change_group(&group.key, now, |group| group.claim_statuses.extend(made));
        }
    }
}

/// Returns what the pod's group says of an entry that is a claim of the group: nothing as yet, or
/// which claim was made, none if none is needed.
fn made_for_group(world: &World, pod: &Pod, wanted: &PodClaim) -> Option<Option<Option<Text>>> {
    let hint = pod.group_hints().iter().find(|hint| hint.dialect == NATIVE)?;
    let group = world.group(&hint.key(&pod.namespace))?;
    let same = |claim: &GroupClaim| {
        claim.from_template && claim.name == wanted.name && claim.source == wanted.source
    };
    let statuses = || group.claim_statuses.iter().find(|(name, _)| *name == wanted.name);
    group.claims.iter().any(same).then(|| statuses().map(|(_, claim)| claim.clone()))
}

/// Returns the entries of a pod that wait for a claim.
fn wanted(pod: &Pod) -> impl Iterator<Item = &PodClaim> {
    let there = |entry: &Text| pod.claim_statuses.iter().any(|(name, _)| name == entry);
    pod.spec.claims.iter().filter(move |claim| claim.from_template && !there(&claim.name))
}

fn template_of<'a>(
    templates: &'a Templates,
    namespace: &Text,
    name: &Text,
) -> Option<&'a ResourceClaim> {
    templates.get(&format!("{namespace}/{name}"))
}

fn claim_of(template: &ResourceClaim, namespace: &Text, name: String) -> ResourceClaim {
    let key = ClaimKey { namespace: namespace.clone(), name: name.into() };
    ResourceClaim { uid: own_uid(&key), key, ..template.clone() }
}

fn add(world: &mut World, claim: ResourceClaim, now: Timestamp) {
    if world.claim(&claim.key).is_none() {
        apply(world, claim, now);
    }
}

/// Returns the UID of a claim that no server has seen.
pub(super) fn own_uid(key: &ClaimKey) -> Text {
    Text::from(format!("claim/{key}"))
}

/// Begins as the controller's names do, and ends in what is always the same for this owner.
fn name(owner: &Text, uid: &Text, entry: &Text) -> String {
    let base: String = format!("{owner}-{entry}").chars().take(BASE_MAX).collect();
    let mut hash = fnv(format!("{uid}/{entry}").as_bytes());
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
    use berth_core::snapshot::GroupEvent;
    use berth_core::types::PodSpec;
    use berth_core::types::group::{GroupHint, GroupKind};
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

    #[test]
    fn a_group_gets_a_claim_of_its_own_and_its_pods_none() {
        let mut world = World::default();
        let key = GroupKey {
            dialect: NATIVE,
            kind: GroupKind::Pods,
            namespace: "default".into(),
            name: "g".into(),
        };
        let (name, source): (Text, Text) = ("gpu".into(), "template".into());
        let of_group = GroupClaim { name, source, from_template: true };
        let group =
            PodGroup { claims: vec![of_group], ..PodGroup::gang(key.clone(), "group-uid", 2) };
        world.apply(ClusterEvent::Groups(GroupEvent::Applied(Box::new(group))), NOW);
        let entry = |name: &str| PodClaim {
            name: name.into(),
            source: "template".into(),
            from_template: true,
        };
        let spec =
            Arc::new(PodSpec { claims: vec![entry("gpu"), entry("nic")], ..PodSpec::default() });
        for name in ["a", "b"] {
            let (uid, namespace) = (PodUid(name.into()), "default".into());
            let mut pod = Pod { uid, namespace, name: name.into(), ..Pod::default() };
            pod.spec = Arc::clone(&spec);
            pod.add_group_hint(GroupHint::of_object(NATIVE, "g".into()));
            world.apply(ClusterEvent::PodApplied(Box::new(pod)), NOW);
        }
        let templates =
            Templates::from([("default/template".to_owned(), ResourceClaim::default())]);
        generate(&mut world, &templates, NOW);
        let version = world.version();
        generate(&mut world, &templates, NOW);
        assert_eq!((world.claims().count(), world.version()), (3, version));
        let [(_, Some(made))] = &world.group(&key).unwrap().claim_statuses[..] else { panic!() };
        let claim = |name: &Text| {
            let key = ClaimKey { namespace: "default".into(), name: name.clone() };
            world.claim(&key).cloned().unwrap()
        };
        assert_eq!(claim(made).owner_group, Some("group-uid".into()));
        for name in ["a", "b"] {
            let pod = world.pod(&"default".into(), &name.into()).unwrap();
            let [(_, Some(gpu)), (_, Some(nic))] = &pod.claim_statuses[..] else { panic!() };
            assert_eq!((gpu, claim(nic).owner_pod), (made, Some(PodUid(name.into()))));
        }
    }
}
