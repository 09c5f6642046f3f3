//! I12: nothing is kept for what is gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::{Invariant, Limits, Report};
use crate::moment::Moment;
use crate::objects::{Claim, Object, Pod};
use crate::world::{Step, World};

pub(crate) struct Leaks<'a> {
    limits: &'a Limits,
    /// UIDs of pods that were deleted, and when.
    pods: BTreeMap<String, Moment>,
    nodes: BTreeMap<String, Moment>,
    /// What was told already.
    told: BTreeSet<(String, String)>,
}

impl<'a> Leaks<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self { limits, pods: BTreeMap::new(), nodes: BTreeMap::new(), told: BTreeSet::new() }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, report: &mut Report) {
        let revision = Some(step.change.revision);
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
            (Some(Object::Claim(claim)), _) => self.look(claim, step.now(), revision, report),
            (Some(Object::Pod(pod)), Some(_)) => {
                self.look_at_nomination(pod, step.now(), revision, report);
            }
            _ => {}
        }
    }

    pub(crate) fn end(&mut self, world: &World, end: Moment, report: &mut Report) {
        for claim in world.claims() {
            self.look(claim, end, None, report);
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
}
