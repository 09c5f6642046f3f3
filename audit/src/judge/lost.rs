//! I5: no pod is lost: bound, or told why not, and not left waiting while there is room.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::history::History;
use crate::judge::room::Room;
use crate::judge::{Invariant, Limits, Report, quiet_time};
use crate::moment::Moment;
use crate::objects::Pod;
use crate::world::{Step, World};

pub(crate) struct Lost<'a> {
    history: &'a History,
    limits: &'a Limits,
    waiting: BTreeMap<Arc<str>, Waiting>,
    room: Room,
    /// Until when the history was followed, less the time that a pod may wait for its place.
    window: Moment,
}

#[derive(Clone, Copy)]
struct Waiting {
    since: Moment,
    /// Since when it has no reason, and the revision at which that began.
    mute: Option<(Moment, i64)>,
}

impl<'a> Lost<'a> {
    pub(crate) fn new(history: &'a History, limits: &'a Limits) -> Self {
        let window = history.changes.followed_to - limits.lost_pod;
        Self { history, limits, waiting: BTreeMap::new(), room: Room::default(), window }
    }

    /// Looks at the room when the window of the last seconds begins.
    pub(crate) fn before(&mut self, world: &World, received: Moment) {
        if received > self.window {
            self.room.begin(world);
        }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, report: &mut Report) {
        if step.now() > self.window {
            self.room.narrow(step);
        }
        let key = &step.change.key;
        let is_same = match (step.old_pod(), step.new_pod()) {
            (Some(old), Some(new)) => old.uid == new.uid,
            _ => false,
        };
        let before = self.waiting.remove(key).filter(|_| is_same);
        let now = step.new_pod().filter(|pod| self.is_ours_to_place(pod));
        let after = now.map(|pod| Waiting {
            since: before.map_or(step.now(), |before| before.since),
            mute: match pod.has_reason {
                true => None,
                false => before
                    .and_then(|before| before.mute)
                    .or(Some((step.now(), step.change.revision))),
            },
        });
        if let (Some(old), Some(Waiting { mute: Some(mute), .. })) = (step.old_pod(), before)
            && after.is_none_or(|after| after.mute.is_none())
        {
            self.convict_mute(old, mute, step.now(), report);
        }
        if let Some(after) = after {
            self.waiting.insert(Arc::clone(key), after);
        }
    }

    fn is_ours_to_place(&self, pod: &Pod) -> bool {
        let is_free = pod.node.is_none() && !pod.is_deleting && !pod.is_gated && !pod.is_terminal;
        let mut names = self.history.replicas.iter().flat_map(|replica| &replica.scheduler_names);
        is_free && names.any(|name| *name == pod.scheduler)
    }

    fn convict_mute(
        &self,
        pod: &Pod,
        (since, revision): (Moment, i64),
        until: Moment,
        report: &mut Report,
    ) {
        let time = quiet_time(self.history, since, until);
        if time > self.limits.lost_pod {
            let (name, seconds) = (&pod.name, time.as_secs_f32());
            let text = format!("{name} was neither bound nor told why for {seconds:.1} s");
            report.convict(Invariant::I5, revision, text);
        }
    }

    pub(crate) fn end(&mut self, world: &World, end: Moment, report: &mut Report) {
        let Some(faults_ended) = self.history.faults_ended else { return };
        if faults_ended > self.window {
            report.notes.push(format!(
                "I5 was not judged: the faults ended {:.1} s before the end of what was read",
                end.since(faults_ended).as_secs_f32()
            ));
            return;
        }
        self.room.begin(world);
        let forbids = world.pods().any(|(_, pod)| pod.has_anti_affinity && !pod.is_terminal);
        let mut left_out = 0;
        for (key, pod) in world.pods() {
            let Some(waiting) = self.waiting.get(key) else { continue };
            if let Some(mute) = waiting.mute {
                self.convict_mute(pod, mute, end, report);
            }
            match waiting.since > self.window {
                true => {}
                false if !pod.is_plain || forbids => left_out += 1,
                false => self.convict_if_it_fits(pod, report),
            }
        }
        if left_out > 0 {
            let text = format!("I5's oracle leaves out {left_out} waiting pods that are not plain");
            report.notes.push(text);
        }
    }

    fn convict_if_it_fits(&self, pod: &Pod, report: &mut Report) {
        if let Some(node) = self.room.for_pod(pod) {
            let (name, seconds) = (&pod.name, self.limits.lost_pod.as_secs_f32());
            let text = format!("{name} waits, though {node} had room for it for {seconds:.1} s");
            report.convict(Invariant::I5, None, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builder::Builder;
    use crate::report::Invariant::I5;

    fn quiet() -> Builder {
        let mut history = Builder::new();
        history.faults_ended().node("n-1", 8);
        history
    }

    #[test]
    fn a_pod_without_node_and_reason_is_lost() {
        let mut history = quiet();
        history.pod("a").asks(9).stored();
        history.wait(29.0).acquit();
        history.wait(2.0);
        assert!(history.convict(I5).contains("default/a was neither bound nor told why"));
    }

    #[test]
    fn a_reason_that_came_late_does_not_undo_it() {
        let mut history = quiet();
        history.pod("a").asks(9).stored();
        history.wait(40.0).pod("a").told_why();
        history.convict(I5);
    }

    #[test]
    fn pods_that_wait_for_a_reason_are_not_lost() {
        let mut history = quiet();
        history.pod("told").asks(9).told_why();
        history.pod("bound").asks(1).bound("n-1");
        let gates = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
        history.pod("gated").asks(9).with(gates).stored();
        history.pod("leaving").asks(9).terminating();
        history.pod("foreign").with(json!({"spec": {"schedulerName": "other"}})).stored();
        history.pod("deleted").asks(9).stored().gone();
        history.wait(100.0).acquit();
    }

    #[test]
    fn a_gate_that_is_lifted_starts_the_time() {
        let mut history = quiet();
        let gates = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
        history.pod("a").asks(9).with(gates).stored();
        history.wait(100.0).pod("a").with(json!({"spec": {"schedulingGates": []}})).stored();
        history.wait(20.0).acquit();
        history.wait(20.0).convict(I5);
    }

    #[test]
    fn only_time_after_the_faults_counts() {
        let mut history = quiet();
        history.pod("a").asks(9).stored();
        history.wait(100.0).faults_ended().wait(29.0);
        let report = history.acquit();
        assert!(report.notes[0].contains("I5 was not judged"), "{report}");
    }

    #[test]
    fn a_pod_that_waits_beside_its_room_is_convicted() {
        let mut history = quiet();
        history.pod("a").asks(4).bound("n-1");
        history.pod("b").asks(4).told_why();
        history.wait(31.0);
        assert!(history.convict(I5).contains("default/b waits, though n-1 had room"));
    }

    #[test]
    fn room_must_have_been_there_all_the_time() {
        let mut history = quiet();
        history.pod("a").asks(5).bound("n-1");
        history.pod("b").asks(4).told_why();
        history.wait(60.0).pod("a").gone();
        history.wait(20.0).acquit();
        history.wait(11.0).convict(I5);

        // Full for a moment in the middle.
        let mut history = quiet();
        history.pod("b").asks(4).told_why();
        history.wait(20.0).pod("a").asks(5).bound("n-1").gone();
        history.wait(20.0).acquit();
    }

    #[test]
    fn nodes_that_are_closed_have_no_room() {
        let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
        let not_ready = json!([{"type": "Ready", "status": "Unknown"}]);
        for closed in [
            json!({"spec": {"unschedulable": true}}),
            json!({"spec": {"taints": taint}}),
            json!({"status": {"conditions": not_ready}}),
        ] {
            let mut history = Builder::new();
            history.faults_ended().node_as("n-1", closed);
            history.pod("a").told_why();
            history.wait(100.0).acquit();
        }
    }

    #[test]
    fn a_node_selector_is_followed() {
        let mut history = quiet();
        history.node_as("n-2", json!({"metadata": {"labels": {"disk": "ssd"}}}));
        let chosen = |disk: &str| json!({"spec": {"nodeSelector": {"disk": disk}}});
        history.pod("a").with(chosen("tape")).told_why();
        history.wait(40.0).acquit();
        history.pod("b").with(chosen("ssd")).told_why();
        history.wait(40.0);
        assert!(history.convict(I5).contains("default/b waits, though n-2"));
    }

    #[test]
    fn a_place_that_is_promised_is_taken() {
        let mut history = quiet();
        let nominated = json!({"status": {"nominatedNodeName": "n-1"}});
        history.pod("a").asks(8).with(json!({"spec": {"affinity": {}}})).with(nominated).told_why();
        history.pod("b").asks(4).told_why();
        history.wait(100.0).acquit();
    }

    #[test]
    fn pods_with_more_than_requests_are_left_out_and_counted() {
        let mut history = quiet();
        let volumes = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}});
        history.pod("a").with(volumes).told_why();
        let report = history.wait(100.0).acquit();
        assert!(report.notes[0].contains("leaves out 1 waiting"), "{report}");
    }
}
