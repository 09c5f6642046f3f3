//! The controllers of jobs: they make the pods that a job wants, and make those anew that are lost.

use std::sync::Arc;

use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Owner, Phase, Pod, PodUid, Span, Text, Timestamp};

use crate::world::{Kind, World};

/// What a job's pods look like, one a place.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: Text,
    /// Their names are prefixes.
    pub pods: Vec<Pod>,
    /// So many of them are wanted.
    pub replicas: usize,
    /// A lost pod is made anew when it has been asked to leave, not only when it is gone.
    pub eager: bool,
}

#[derive(Debug)]
struct Running {
    job: Job,
    /// The pod of each place, and whether its work is done.
    places: Vec<Place>,
}

#[derive(Clone, Debug, Default)]
struct Place {
    uid: Option<PodUid>,
    done: bool,
}

/// All jobs. Their controllers look at everything some time after something has changed.
#[derive(Debug, Default)]
pub struct Jobs {
    running: Vec<Running>,
    delay: Span,
    due: Option<Timestamp>,
    /// Version up to which the log was read.
    seen: u64,
    made: u64,
}

impl Jobs {
    pub fn new(delay: Span) -> Jobs {
        Jobs { delay, ..Jobs::default() }
    }

    /// Begins a job; its pods come with the next look.
    pub fn start(&mut self, job: Job, now: Timestamp) {
        let places = vec![Place::default(); job.pods.len()];
        self.running.push(Running { job, places });
        self.look_at(now);
    }

    pub fn scale(&mut self, name: &Text, replicas: usize, now: Timestamp) {
        for running in self.running.iter_mut().filter(|running| running.job.name == *name) {
            running.job.replicas = replicas.min(running.places.len());
        }
        self.look_at(now);
    }

    /// Ends a job with all its pods.
    pub fn end(&mut self, name: &Text, world: &mut World, now: Timestamp) {
        let ended = self.running.extract_if(.., |running| running.job.name == *name);
        for uid in ended.flat_map(|running| running.places).filter_map(|place| place.uid) {
            world.delete_pod(&uid, now);
        }
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.due
    }

    fn look_at(&mut self, now: Timestamp) {
        let at = now + self.delay;
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Does what is due by `now`.
    pub fn step(&mut self, world: &mut World, now: Timestamp) {
        if self.running.is_empty() {
            self.due = None;
            return;
        }
        if world.since(self.seen).iter().any(|logged| logged.kind == Kind::Pods) {
            self.look_at(now);
        }
        self.seen = world.version();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            for running in &mut self.running {
                running.look(world, &mut self.made, now);
            }
        }
    }
}

impl Running {
    fn look(&mut self, world: &mut World, made: &mut u64, now: Timestamp) {
        for (at, place) in self.places.iter_mut().enumerate() {
            let pod = place.uid.as_ref().and_then(|uid| world.pod_by_uid(uid));
            place.done |= pod.is_some_and(|pod| pod.phase == Phase::Succeeded);
            if at >= self.job.replicas {
                if let Some(uid) = place.uid.take() {
                    world.delete_pod(&uid, now);
                }
                continue;
            }
            let lost = pod.is_none_or(|pod| {
                pod.phase == Phase::Failed || (self.job.eager && pod.terminating)
            });
            if lost && !place.done {
                *made += 1;
                place.uid = create(&self.job, at, *made, world, now);
            }
        }
    }
}

fn create(job: &Job, at: usize, number: u64, world: &mut World, now: Timestamp) -> Option<PodUid> {
    let mut pod = job.pods.get(at)?.clone();
    pod.name = format!("{}{number:04}", pod.name).into();
    pod.owner = Some(Owner { kind: "Job".into(), name: job.name.clone(), uid: job.name.clone() });
    pod.spec = Arc::clone(&job.pods[at].spec);
    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
    world.apply(ClusterEvent::PodApplied(Box::new(pod)), now);
    world.pod(&namespace, &name).map(|pod| pod.uid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1000);

    fn job() -> Job {
        let pod = |name: &str| Pod { name: name.into(), ..Pod::default() };
        let pods = vec![pod("j-0-"), pod("j-1-")];
        Job { name: "j".into(), pods, replicas: 2, eager: false }
    }

    #[test]
    fn a_lost_pod_is_made_anew_and_one_that_is_done_is_not() {
        let (mut world, mut jobs) = (World::default(), Jobs::new(Span(10)));
        jobs.start(job(), NOW);
        jobs.step(&mut world, NOW + Span(10));
        let uids: Vec<PodUid> = world.pods().map(|pod| pod.uid.clone()).collect();
        assert_eq!(uids.len(), 2);

        world.change_pod(&uids[0], NOW, |pod| pod.phase = Phase::Succeeded);
        world.change_pod(&uids[1], NOW, |pod| pod.phase = Phase::Failed);
        jobs.step(&mut world, NOW + Span(20));
        jobs.step(&mut world, NOW + Span(30));
        let waiting = world.pods().filter(|pod| pod.phase == Phase::Pending);
        assert_eq!(waiting.map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["j-1-0003"]);

        jobs.end(&"j".into(), &mut world, NOW + Span(40));
        jobs.step(&mut world, NOW + Span(60));
        assert!(world.pods().all(|pod| pod.phase != Phase::Pending));
    }
}
