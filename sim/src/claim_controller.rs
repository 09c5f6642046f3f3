//! The controller of resource claims: makes them from templates, frees those that nobody uses,
//! deletes those whose pods are done.
//!
//! Source of the rules: Kubernetes' pkg/controller/resourceclaim.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::types::claim::{CLAIM_FINALIZER, ClaimKey, ClaimSpec, Consumer};
use berth_core::types::{Pod, PodClaim, PodUid, ResourceClaim, Span, Text, Timestamp};

use crate::world::{Kind, World};

/// It looks at everything some time after something has changed.
#[derive(Debug, Default)]
pub struct ClaimController {
    /// By name; the namespace doesn't matter.
    templates: BTreeMap<Text, Arc<ClaimSpec>>,
    /// From a change to the look at it.
    delay: Span,
    due: Option<Timestamp>,
    /// Version up to which the log was read.
    seen: u64,
}

impl ClaimController {
    pub fn new(templates: BTreeMap<Text, Arc<ClaimSpec>>, delay: Span) -> ClaimController {
        ClaimController { templates, delay, ..ClaimController::default() }
    }

    /// Returns when something is due next.
    pub fn next(&self) -> Option<Timestamp> {
        self.due
    }

    /// Does what is due by `now`.
    pub fn step(&mut self, world: &mut World, now: Timestamp) {
        let concerns = |kind| matches!(kind, Kind::Pods | Kind::ResourceClaims);
        if self.due.is_none() && world.since(self.seen).iter().any(|l| concerns(l.kind)) {
            self.due = Some(now + self.delay);
        }
        self.seen = world.version();
        if self.due.is_some_and(|at| at <= now) {
            self.due = None;
            self.make(world, now);
            self.free(world, now);
        }
    }

    /// Makes the claims that pods lack. One that was deleted under its pod is made again.
    fn make(&self, world: &mut World, now: Timestamp) {
        let mut missing: Vec<(PodUid, PodClaim)> = Vec::new();
        for pod in world.pods().filter(|pod| !pod.spec.claims.is_empty() && !done(pod)) {
            let templates = pod.spec.claims.iter().filter(|entry| entry.from_template);
            let lacks = templates.filter(|entry| !has_claim(world, pod, entry));
            missing.extend(lacks.map(|entry| (pod.uid.clone(), entry.clone())));
        }
        for (uid, entry) in missing {
            let Some(spec) = self.templates.get(&entry.source) else { continue };
            let Some(pod) = world.pod_by_uid(&uid) else { continue };
            let prefix = format!("{}-{}-", pod.name, entry.name).into();
            let claim = ResourceClaim {
                key: ClaimKey { namespace: pod.namespace.clone(), name: prefix },
                spec: Arc::clone(spec),
                owner_pod: Some(uid.clone()),
                ..ResourceClaim::default()
            };
            let name = world.add_claim(claim, true, now);
            world.change_pod(&uid, now, |pod| {
                pod.claim_statuses.retain(|(known, _)| *known != entry.name);
                pod.claim_statuses.push((entry.name, name));
            });
        }
    }

    /// Takes back reservations of pods that are done; what nobody has any more is free.
    fn free(&self, world: &mut World, now: Timestamp) {
        let keys: Vec<ClaimKey> = world.claims().map(|claim| claim.key.clone()).collect();
        for key in keys {
            let Some(claim) = world.claim(&key) else { continue };
            let living = |consumer: &Consumer| match consumer {
                Consumer::Pod(uid) => world.pod_by_uid(uid).is_some_and(|pod| !done(pod)),
                Consumer::PodGroup { .. } | Consumer::Other { .. } => true,
            };
            let kept: Vec<Consumer> =
                claim.reserved_for.iter().filter(|c| living(c)).cloned().collect();
            let unused = kept.is_empty();
            let dropped = kept.len() < claim.reserved_for.len();
            let orphan = claim
                .owner_pod
                .as_ref()
                .is_some_and(|owner| world.pod_by_uid(owner).is_none_or(done) && unused);
            let leaves = (orphan || claim.terminating) && unused;
            if orphan {
                world.end_claim(&key, now);
            }
            if dropped || leaves {
                world.change_claim(&key, now, |claim| {
                    claim.reserved_for = kept;
                    if unused {
                        deallocate(claim);
                    }
                });
            }
        }
    }
}

fn has_claim(world: &World, pod: &Pod, entry: &PodClaim) -> bool {
    let status = pod.claim_statuses.iter().find(|(name, _)| *name == entry.name);
    let Some((_, Some(name))) = status else { return false };
    world.claim(&ClaimKey { namespace: pod.namespace.clone(), name: name.clone() }).is_some()
}

/// Tells whether the pod will never use a claim any more.
fn done(pod: &Pod) -> bool {
    pod.finished() || (pod.terminating && pod.node_name.is_none())
}

fn deallocate(claim: &mut ResourceClaim) {
    claim.allocation = None;
    claim.devices.clear();
    claim.finalizers.retain(|finalizer| *finalizer != CLAIM_FINALIZER);
}

#[cfg(test)]
mod tests {
    use berth_core::snapshot::ClusterEvent;
    use berth_core::types::claim::Allocation;
    use berth_core::types::{Phase, PodSpec};

    use super::*;

    const NOW: Timestamp = Timestamp(1000);

    fn world_with_pod() -> (World, ClaimController) {
        let entry = PodClaim { name: "dev".into(), source: "t".into(), from_template: true };
        let spec = PodSpec { claims: vec![entry], ..PodSpec::default() };
        let pod = Pod { name: "p".into(), spec: Arc::new(spec), ..Pod::default() };
        let mut world = World::default();
        world.apply(ClusterEvent::PodApplied(Box::new(pod)), NOW);
        let templates = BTreeMap::from([("t".into(), Arc::default())]);
        let mut controller = ClaimController::new(templates, Span(10));
        controller.step(&mut world, NOW);
        controller.step(&mut world, NOW + Span(10));
        (world, controller)
    }

    fn use_claim(world: &mut World) -> ClaimKey {
        let claim = world.claims().next().expect("the controller has made it").clone();
        let uid = claim.owner_pod.clone().expect("it belongs to the pod");
        world.change_claim(&claim.key, NOW, |claim| {
            claim.allocation = Some(Arc::new(Allocation::default()));
            claim.reserved_for = vec![Consumer::Pod(uid)];
            claim.finalizers = vec![CLAIM_FINALIZER.into()];
        });
        claim.key
    }

    #[test]
    fn a_pod_gets_a_claim_from_its_template_and_a_finished_pod_leaves_none() {
        let (mut world, mut controller) = world_with_pod();
        let pod = world.pods().next().expect("the pod is there").clone();
        let key = use_claim(&mut world);
        assert_eq!(pod.claim_statuses, [("dev".into(), Some(key.name.clone()))]);

        controller.step(&mut world, NOW + Span(20));
        assert!(world.claim(&key).is_some_and(|claim| claim.allocation.is_some()));

        world.change_pod(&pod.uid, NOW, |pod| pod.phase = Phase::Succeeded);
        controller.step(&mut world, NOW + Span(30));
        controller.step(&mut world, NOW + Span(40));
        assert_eq!(world.claim(&key), None);
    }

    #[test]
    fn a_claim_that_a_living_pod_uses_outlives_its_deletion() {
        let (mut world, mut controller) = world_with_pod();
        let key = use_claim(&mut world);
        world.end_claim(&key, NOW);
        controller.step(&mut world, NOW + Span(20));
        controller.step(&mut world, NOW + Span(30));
        assert!(world.claim(&key).is_some_and(|claim| claim.terminating));
    }
}
