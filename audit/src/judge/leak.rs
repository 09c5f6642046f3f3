//! I12: nothing is kept for what is gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::devices::Devices;
use crate::judge::{Invariant, Limits, Report};
use crate::moment::Moment;
use crate::objects::{Claim, Object, Pod};
use crate::world::{Step, World};

pub(crate) struct Leaks<'a> {
    limits: &'a Limits,
    /// UIDs of pods that were deleted, and when.
    pods: BTreeMap<String, Moment>,
    nodes: BTreeMap<String, Moment>,
    /// By the UID of a claim: the pods that had it or were to use it, and since when it is as it is.
    claims: BTreeMap<String, Use>,
    /// What was told already.
    told: BTreeSet<(String, String)>,
}

#[derive(Default)]
struct Use {
    pods: BTreeSet<String>,
    since: Moment,
}

impl<'a> Leaks<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, devices: &Devices<'_>, report: &mut Report) {
        let revision = Some(step.change.revision);
        if let Some(Object::Claim(new)) = &step.change.object {
            let users = step.world.pods().map(|(_, pod)| pod).filter(|pod| uses(pod, new));
            let used = self.claims.entry(new.uid.clone()).or_default();
            used.pods.extend(users.map(|pod| pod.uid.clone()));
            used.pods.extend(new.reserved_for.iter().map(|(_, uid)| uid.clone()));
        }
        match (&step.old, &step.change.object) {
            (Some(Object::Pod(pod)), None) => {
                self.pods.insert(pod.uid.clone(), step.now());
            }
            (Some(Object::Node(node)), None) => {
                self.nodes.insert(node.name.clone(), step.now());
            }
            (_, Some(Object::Node(node))) => {
                self.nodes.remove(&node.name);
            }
            // What was kept until now may have been kept too long.
            (Some(Object::Claim(claim)), _) => {
                self.look(claim, step.now(), revision, report);
                if !devices.is_foreign(&step.change.key) {
                    self.look_at_rest(step.world, claim, step.now(), revision, report);
                }
                self.note_kept(claim, step);
            }
            (None, Some(Object::Claim(claim))) => self.note_kept(claim, step),
            (Some(Object::Pod(pod)), Some(_)) => {
                self.look_at_nomination(pod, step.now(), revision, report);
            }
            _ => {}
        }
        if let Some(pod) = step.new_pod().filter(|pod| !pod.claims.is_empty()) {
            for (_, claim) in step.world.claims().filter(|(_, claim)| uses(pod, claim)) {
                let used = self.claims.entry(claim.uid.clone()).or_default();
                used.pods.insert(pod.uid.clone());
            }
        }
    }

    /// Notes since when the claim keeps what it keeps.
    fn note_kept(&mut self, old: &Claim, step: &Step<'_>) {
        let Some(Object::Claim(new)) = &step.change.object else { return };
        if kept(new) != kept(old) || step.old.is_none() {
            self.claims.entry(new.uid.clone()).or_default().since = step.now();
        }
    }

    pub(crate) fn end(
        &mut self,
        world: &World,
        devices: &Devices<'_>,
        end: Moment,
        report: &mut Report,
    ) {
        for (key, claim) in world.claims() {
            self.look(claim, end, None, report);
            if !devices.is_foreign(key) {
                self.look_at_rest(world, claim, end, None, report);
            }
        }
        for (_, pod) in world.pods() {
            self.look_at_nomination(pod, end, None, report);
        }
    }

    fn look(&mut self, claim: &Claim, now: Moment, revision: Option<i64>, report: &mut Report) {
        for (pod, uid) in &claim.reserved_for {
            let gone = self.pods.get(uid).copied();
            let what = format!("claim {} is reserved for {pod}, which is gone", claim.name);
            self.tell(gone, now, uid, &what, revision, report);
        }
    }

    /// A claim that nobody has any more, and that had somebody, keeps nothing.
    fn look_at_rest(
        &mut self,
        world: &World,
        claim: &Claim,
        now: Moment,
        revision: Option<i64>,
        report: &mut Report,
    ) {
        let Some(kept) = kept(claim) else { return };
        let Some(used) = self.claims.get(&claim.uid) else { return };
        let gone: Option<Vec<Moment>> =
            used.pods.iter().map(|p| self.pods.get(p).copied()).collect();
        let last_gone = gone.and_then(|gone| gone.into_iter().max());
        let is_used = world.pods().any(|(_, pod)| uses(pod, claim));
        let since = last_gone.filter(|_| !is_used).map(|gone| gone.max(used.since));
        let what = format!("claim {} keeps its {kept}, and its pods are gone", claim.name);
        self.tell(since, now, &claim.uid, &what, revision, report);
    }

    fn look_at_nomination(
        &mut self,
        pod: &Pod,
        now: Moment,
        revision: Option<i64>,
        report: &mut Report,
    ) {
        let Some(node) = pod.nominated.as_ref().filter(|_| pod.node.is_none()) else { return };
        let gone = self.nodes.get(node).copied();
        let what = format!("{} is nominated for {node}, which is gone", pod.name);
        self.tell(gone, now, &pod.uid, &what, revision, report);
    }

    fn tell(
        &mut self,
        gone: Option<Moment>,
        now: Moment,
        whom: &str,
        what: &str,
        revision: Option<i64>,
        report: &mut Report,
    ) {
        let Some(time) = gone.map(|gone| now.since(gone)) else { return };
        if time > self.limits.leak && self.told.insert((whom.to_owned(), what.to_owned())) {
            let text = format!("{what} for {:.1} s", time.as_secs_f32());
            report.convict(Invariant::I12, revision, text);
        }
    }
}

fn uses(pod: &Pod, claim: &Claim) -> bool {
    pod.name.namespace == claim.name.namespace && pod.claims.contains(&claim.name.name)
}

/// Returns what a claim keeps that is reserved for nobody. The finalizer is in the way of those only
/// that are to go.
fn kept(claim: &Claim) -> Option<&'static str> {
    match claim {
        Claim { is_reserved: true, .. } => None,
        Claim { allocation: Some(_), .. } => Some("allocation"),
        Claim { is_deleting: true, is_protected: true, .. } => Some("finalizer"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builder::Builder;
    use crate::report::Invariant::I12;

    #[test]
    fn a_claim_kept_for_a_pod_that_is_gone_is_a_leak_after_a_minute() {
        let mut history = Builder::new();
        history.pod("a").stored();
        let uid = history.uid("a");
        history.claim("c", &[uid]).wait(100.0).pod("a").gone();
        history.wait(59.0).acquit();
        history.wait(2.0);
        assert!(history.convict(I12).contains("claim default/c is reserved for p, which is gone"));
        // Freed, but too late.
        history.claim("c", &[]);
        history.convict(I12);
    }

    #[test]
    fn a_claim_freed_in_time_or_kept_for_a_pod_that_lives_is_none() {
        let mut history = Builder::new();
        history.pod("a").stored();
        history.pod("b").stored();
        let [a, b] = ["a", "b"].map(|name| history.uid(name));
        history.claim("c", &[a, b.clone()]).pod("a").gone();
        history.wait(30.0).claim("c", &[b]).wait(100.0).acquit();
    }

    #[test]
    fn a_nomination_for_a_node_that_is_gone_is_a_leak_unless_the_node_came_back() {
        let mut history = Builder::new();
        let nominated = json!({"status": {"nominatedNodeName": "n-1"}});
        history.node("n-1", 8).pod("a").with(nominated).stored();
        history.node_gone("n-1").wait(30.0).node("n-1", 8).wait(100.0).acquit();
        history.node_gone("n-1").wait(61.0);
        assert!(history.convict(I12).contains("nominated for n-1"));
    }

    /// A pod that uses claim `c`, which it had been given `p/x`.
    fn with_device() -> Builder {
        let mut history = Builder::new();
        history.node("n-1", 8).pool("p", &["x"]);
        let claims = json!({"spec": {"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]}});
        history.pod("a").with(claims).stored();
        let a = history.uid("a");
        history.claim_as("c", &[a], &["p/x"]);
        history
    }

    #[test]
    fn an_allocation_that_is_left_when_all_pods_are_gone_is_a_leak_after_a_minute() {
        let mut history = with_device();
        history.claim_as("c", &[], &["p/x"]).wait(100.0).acquit();
        history.pod("a").gone();
        history.wait(59.0).acquit();
        history.wait(2.0);
        assert!(history.convict(I12).contains("claim default/c keeps its allocation"));
    }

    #[test]
    fn an_allocation_that_another_pod_will_use_is_none() {
        let mut history = with_device();
        let claims = json!({"spec": {"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]}});
        history.pod("b").with(claims).stored();
        history.claim_as("c", &[], &["p/x"]).pod("a").gone();
        history.wait(100.0).acquit();
    }

    #[test]
    fn a_finalizer_that_keeps_a_claim_from_going_is_a_leak_and_one_that_keeps_nothing_is_not() {
        let finalizer = json!({"metadata":
            {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
        let mut history = with_device();
        history.claim("c", &[]).claim_with("c", finalizer.clone()).pod("a").gone();
        history.wait(100.0).acquit();
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-11-29T23:00:00Z"}});
        history.claim_with("c", deleted).wait(61.0);
        assert!(history.convict(I12).contains("claim default/c keeps its finalizer"));
    }

    #[test]
    fn what_somebody_else_has_allocated_is_his_to_take_back() {
        let mut history = with_device();
        history.claim("c", &[]).wait(10.0);
        history.claim_by("somebody", "c", &[], &["p/x"]).pod("a").gone();
        history.wait(100.0).acquit();
    }
}
