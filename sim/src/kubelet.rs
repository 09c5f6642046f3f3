//! The kubelets of all nodes: bound pods start, pods that were asked to leave are gone after their
//! grace time.

use std::collections::BTreeSet;

use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Phase, Pod, PodUid, Span, Timestamp};

use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Start,
    /// The last container has stopped.
    Leave,
    /// The work is done: the pod keeps its object and frees what it took.
    Finish,
}

/// Label of a pod that ends by itself: how long it runs, in ms.
pub const RUNS_MS: &str = "sim.berth/runs-ms";

/// Steps that are due, over all nodes.
#[derive(Debug)]
pub struct Kubelet {
    due: BTreeSet<(Timestamp, PodUid, Step)>,
    /// Version up to which the log was read.
    seen: u64,
    /// Pods that are refused when they are to start.
    rejects: BTreeSet<PodUid>,
    /// From bound to Running.
    pub start: Span,
    /// From the delete to gone; the pod holds its place meanwhile.
    pub grace: Span,
}

impl Default for Kubelet {
    fn default() -> Kubelet {
        Kubelet {
            due: BTreeSet::new(),
            seen: 0,
            rejects: BTreeSet::new(),
            start: Span::from_secs(1),
            grace: Span::from_secs(2),
        }
    }
}

impl Kubelet {
    pub fn with_grace(grace: Span) -> Kubelet {
        Kubelet { grace, ..Kubelet::default() }
    }

    /// Does what is due by `now`. A pod that was terminating when it came stays: nobody asked it
    /// to leave.
    pub fn step(&mut self, world: &mut World, now: Timestamp) {
        self.look(world, now);
        while let Some((at, uid, step)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.due.pop_first();
            if step == Step::Start && self.rejects.remove(&uid) {
                reject(world, &uid, now);
            } else if let Some(runs) = take(world, &uid, step, now) {
                self.due.insert((now + runs, uid, Step::Finish));
            }
            self.look(world, now);
        }
    }

    /// The pod won't be let in on its node (OutOfcpu, UnexpectedAdmissionError).
    pub fn reject_at_start(&mut self, uid: PodUid) {
        self.rejects.insert(uid);
    }

    /// Returns when something is due next.
    pub fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _, _)| *at)
    }

    fn look(&mut self, world: &mut World, now: Timestamp) {
        for logged in world.since(self.seen) {
            if let ClusterEvent::PodApplied(pod) = &*logged.event
                && starts(pod)
            {
                self.due.insert((logged.at + self.start, pod.uid.clone(), Step::Start));
            }
        }
        self.seen = world.version();
        for uid in world.take_leaving() {
            self.due.insert((now + self.grace, uid, Step::Leave));
        }
    }
}

/// Starts the containers of a pod that runs anew in place. Of when they ran first the object tells no
/// more than when the pod was ready for them; where its sandbox is a new one, too, that is now.
pub fn restart(world: &mut World, uid: &PodUid, sandbox: bool, now: Timestamp) {
    world.change_pod(uid, now, |pod| {
        if let Some(gang) = &mut pod.gang {
            gang.running = if sandbox { Some(now) } else { gang.scheduled.or(gang.running) };
        }
    });
}

fn starts(pod: &Pod) -> bool {
    pod.node_name.is_some() && pod.phase == Phase::Pending && !pod.terminating
}

fn reject(world: &mut World, uid: &PodUid, now: Timestamp) {
    if world.pod_by_uid(uid).is_some_and(starts) {
        world.change_pod(uid, now, |pod| pod.phase = Phase::Failed);
    }
}

/// Takes a step. Returns how long the pod runs if it has started and ends by itself.
fn take(world: &mut World, uid: &PodUid, step: Step, now: Timestamp) -> Option<Span> {
    let pod = world.pod_by_uid(uid)?;
    match step {
        Step::Start if starts(pod) => {
            let runs = pod.labels.value(RUNS_MS).and_then(|text| text.parse().ok());
            world.change_pod(uid, now, |pod| {
                pod.phase = Phase::Running;
                pod.started = Some(now);
                if let Some(gang) = &mut pod.gang {
                    gang.running = Some(now);
                }
            });
            return runs.map(Span);
        }
        Step::Finish if pod.phase == Phase::Running && !pod.terminating => {
            world.change_pod(uid, now, |pod| pod.phase = Phase::Succeeded);
        }
        Step::Leave => world.remove_pod(uid, now),
        Step::Start | Step::Finish => {}
    }
    None
}
