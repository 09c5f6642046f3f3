//! Lets the engine work on the objects, phase by phase, and looks at what became of them.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::engine::{Engine, Notice, Setup};
use berth_core::framework::Profile;
use berth_core::snapshot::{ClusterEvent, Contradiction, DeviceEvent, GroupEvent};
use berth_core::types::{Node, Pod, PodUid, ResourceClaim, Text, Timestamp};
use berth_sim::{Kind, Patience, Quiet, Simulation, World};

use crate::wire::Object;

use super::claims::{self, Templates};
use super::groups::{Group, groups};
use super::islands::{Islands, islands};
use super::objects::Phase;
use super::result::{ClaimState, GroupState, PodState, PvcState, State};

/// When a simulation begins that no pod's age dates: 2026-01-01.
const START: Timestamp = Timestamp(1_767_225_600_000);

/// What a simulation came to.
#[derive(Debug)]
pub(super) struct Run {
    /// The state after each phase.
    pub(super) states: Vec<State>,
    /// The nodes, pods, claims and groups at the end, by name.
    pub(super) nodes: Vec<Node>,
    pub(super) pods: Vec<Pod>,
    pub(super) claims: Vec<ResourceClaim>,
    pub(super) groups: Vec<Group>,
    pub(super) islands: Islands,
    /// The pods that had no node in the files and have one now.
    pub(super) placed: BTreeSet<PodUid>,
    /// False if objects still changed after a simulated day.
    pub(super) settled: bool,
    /// Inputs that the engine could not use.
    pub(super) odd: Vec<String>,
}

/// Plays the phases one after the other.
pub(super) fn run(phases: Vec<Phase>, profiles: Vec<Profile>, setup: Setup) -> Run {
    let start = begin(&phases);
    let simulation = Simulation::new(Engine::new(profiles, setup), World::default(), start);
    let mut play = Play::of(simulation);
    let mut settled = true;
    let mut states = Vec::with_capacity(phases.len());
    for phase in phases {
        play.apply(phase);
        settled &= play.settle();
        states.push(play.state());
    }
    play.finish(states, settled)
}

/// Nothing in the files may be younger than the beginning.
fn begin(phases: &[Phase]) -> Timestamp {
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let created = objects.filter_map(|object| match object {
        Object::Pod(pod) => Some(pod.created),
        _ => None,
    });
    created.max().map_or(START, |youngest| youngest.max(START))
}

struct Play {
    simulation: Simulation,
    /// Every pod of the files by `namespace/name`.
    known: BTreeMap<String, Known>,
    templates: Templates,
    /// Version of the world up to which its log was read.
    seen: u64,
    odd: Vec<String>,
}

struct Known {
    /// As it was seen last, or when it was there last.
    pod: Pod,
    waited: bool,
    evicted: bool,
    touched: bool,
}

impl Play {
    fn of(simulation: Simulation) -> Play {
        let (known, templates) = (BTreeMap::new(), Templates::new());
        Play { simulation, known, templates, seen: 0, odd: Vec::new() }
    }

    fn apply(&mut self, phase: Phase) {
        let now = self.simulation.now();
        for object in phase.objects {
            let event = match object {
                Object::Pod(mut pod) => {
                    self.keep_place(&mut pod);
                    ClusterEvent::PodApplied(pod)
                }
                Object::ResourceClaim(mut claim) => {
                    claims::keep_status(self.simulation.world(), &mut claim);
                    event(Object::ResourceClaim(claim))
                }
                // As live, where only the objects of these dialects are watched.
                Object::Topology(object) if !self.honours(object.key.dialect) => continue,
                other => event(other),
            };
            self.simulation.world_mut().apply(event, now);
        }
        self.templates.extend(phase.templates);
        claims::generate(self.simulation.world_mut(), &self.templates, now);
        for pod in self.simulation.world().pods() {
            let fresh = || Known {
                pod: pod.clone(),
                waited: pod.node_name.is_none(),
                evicted: false,
                touched: false,
            };
            self.known.entry(key(&pod.namespace, &pod.name)).or_insert_with(fresh).pod =
                pod.clone();
        }
        self.seen = self.simulation.world().version();
    }

    fn honours(&self, dialect: &str) -> bool {
        let profiles = self.simulation.engine().profiles().iter();
        let mut rules = profiles.filter_map(|profile| profile.groups.as_ref());
        rules.any(|rules| rules.dialects.contains(dialect))
    }

    /// A bound pod stays where it is, also if the file that replaces it names no node.
    fn keep_place(&self, pod: &mut Pod) {
        let world = self.simulation.world();
        if let Some(known) = world.pod(&pod.namespace, &pod.name)
            && pod.node_name.is_none()
            && known.uid == pod.uid
            && known.node_name.is_some()
        {
            pod.node_name = known.node_name.clone();
            pod.gpu_numbers = known.gpu_numbers.clone();
            pod.phase = known.phase;
        }
    }

    /// Runs until nothing more would happen. Returns false if that never comes.
    fn settle(&mut self) -> bool {
        loop {
            let quiet = self.simulation.run_until_quiet(&Patience::default());
            self.watch();
            if !matches!(quiet, Quiet::Since(_)) {
                return false;
            }
            let gone = self.known.values().filter(|known| known.evicted);
            let gone: BTreeSet<PodUid> = gone.map(|known| known.pod.uid.clone()).collect();
            let now = self.simulation.now();
            if !claims::release(self.simulation.world_mut(), &gone, now) {
                return true;
            }
        }
    }

    /// Notes what the scheduler wrote since the last look.
    fn watch(&mut self) {
        let gone = |known: &&mut Known, uid: &PodUid| known.pod.uid == *uid;
        for logged in self.simulation.world().since(self.seen) {
            match &*logged.event {
                ClusterEvent::PodApplied(pod) => {
                    if let Some(known) = self.known.get_mut(&key(&pod.namespace, &pod.name)) {
                        known.see(pod);
                    }
                }
                ClusterEvent::PodDeleted { uid } => {
                    for known in self.known.values_mut().filter(|known| gone(known, uid)) {
                        (known.evicted, known.touched) = (true, true);
                    }
                }
                _ => {}
            }
        }
        self.seen = self.simulation.world().version();
        for notice in self.simulation.take_notices() {
            let pod = match notice {
                Notice::Scheduled { pod, .. }
                | Notice::FailedScheduling { pod, .. }
                | Notice::Waits { pod, .. } => pod,
                Notice::BelowMinimum { message, .. } => {
                    self.odd.push(message.to_string());
                    continue;
                }
                Notice::InvalidTopology(Contradiction { key, what, .. }) => {
                    self.odd.push(format!("topology {key}: {what}"));
                    continue;
                }
                Notice::Odd { subject, message } => {
                    self.odd.push(format!("{subject}: {message}"));
                    continue;
                }
            };
            if let Some(known) = self.known.get_mut(&key(&pod.namespace, &pod.name)) {
                known.touched = true;
            }
        }
        self.simulation.take_reports();
    }

    fn state(&self) -> State {
        let pods = self.known.iter().map(|(name, known)| (name.clone(), known.state()));
        let claims = self.simulation.world().claims();
        let claims = claims.map(|claim| (claim.key.to_string(), ClaimState::of(claim)));
        State {
            pods: pods.collect(),
            claims: claims.collect(),
            pvcs: self.pvcs(),
            groups: self.groups(),
        }
    }

    fn groups(&self) -> Vec<GroupState> {
        let engine = self.simulation.engine();
        let name = |uid: &PodUid| {
            let pod = &engine.cluster().pod(uid)?.pod;
            Some(key(&pod.namespace, &pod.name))
        };
        groups(engine).iter().map(|group| GroupState::of(group, name)).collect()
    }

    fn pvcs(&self) -> BTreeMap<String, PvcState> {
        let world = self.simulation.world();
        let volumes = world.list(Kind::Volumes);
        let pointing = |namespace: &Text, name: &Text| {
            volumes.iter().find_map(|event| match event {
                ClusterEvent::VolumeApplied(volume) => {
                    let (ns, claim) = volume.claim.as_ref()?;
                    (ns == namespace && claim == name).then(|| volume.name.to_string())
                }
                _ => None,
            })
        };
        let claims = world.list(Kind::Claims).into_iter().filter_map(|event| match event {
            ClusterEvent::ClaimApplied(claim) => Some(claim),
            _ => None,
        });
        let state = |claim: berth_core::types::volume::PersistentVolumeClaim| {
            let own = Some(claim.volume_name.to_string()).filter(|name| !name.is_empty());
            let volume_name = own.or_else(|| pointing(&claim.namespace, &claim.name));
            let selected_node = claim.selected_node.as_ref().map(Text::to_string);
            (key(&claim.namespace, &claim.name), PvcState { selected_node, volume_name })
        };
        claims.map(state).collect()
    }

    fn finish(self, states: Vec<State>, settled: bool) -> Run {
        let bound = |known: &&Known| known.pod.node_name.is_some() && !known.evicted;
        let placed = self.known.values().filter(|known| known.waited).filter(bound);
        let placed = placed.map(|known| known.pod.uid.clone()).collect();
        let world = self.simulation.world();
        Run {
            states,
            nodes: world.nodes().cloned().collect(),
            pods: world.pods().cloned().collect(),
            claims: world.claims().cloned().collect(),
            groups: groups(self.simulation.engine()),
            islands: islands(self.simulation.engine().cluster()),
            placed,
            settled,
            odd: self.odd,
        }
    }
}

impl Known {
    /// Compares with what was seen last: kubelets change other fields than the scheduler.
    fn see(&mut self, pod: &Pod) {
        let written = self.pod.node_name != pod.node_name
            || self.pod.unscheduled != pod.unscheduled
            || self.pod.nominated_node != pod.nominated_node;
        let deleted = pod.terminating && !self.pod.terminating;
        self.touched |= written || deleted;
        self.evicted |= deleted;
        self.pod = pod.clone();
    }

    fn state(&self) -> PodState {
        let condition = self.pod.unscheduled.as_ref();
        PodState {
            node: self.pod.node_name.as_ref().map(Text::to_string),
            gpus: self.pod.gpu_numbers.as_ref().map(ToString::to_string),
            reason: condition.map(|condition| condition.reason.to_string()),
            message: condition.map(|condition| condition.message.to_string()),
            evicted: self.evicted,
            touched: self.touched,
        }
    }
}

fn key(namespace: &Text, name: &Text) -> String {
    format!("{namespace}/{name}")
}

fn event(object: Object) -> ClusterEvent {
    match object {
        Object::Node(node) => ClusterEvent::NodeApplied(*node),
        Object::Pod(pod) => ClusterEvent::PodApplied(pod),
        Object::Namespace(namespace) => ClusterEvent::NamespaceApplied(namespace),
        Object::SelectorOwner(owner) => ClusterEvent::SelectorOwnerApplied(owner),
        Object::PersistentVolumeClaim(claim) => ClusterEvent::ClaimApplied(*claim),
        Object::PersistentVolume(volume) => ClusterEvent::VolumeApplied(*volume),
        Object::StorageClass(class) => ClusterEvent::StorageClassApplied(class),
        Object::CsiNode(node) => ClusterEvent::CsiNodeApplied(node),
        Object::VolumeAttachment(attachment) => ClusterEvent::AttachmentApplied(attachment),
        Object::ResourceSlice(slice) => ClusterEvent::Devices(DeviceEvent::SliceApplied(slice)),
        Object::DeviceClass(class) => ClusterEvent::Devices(DeviceEvent::ClassApplied(class)),
        Object::ResourceClaim(claim) => ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim)),
        Object::DeviceTaintRule(rule) => ClusterEvent::Devices(DeviceEvent::TaintRuleApplied(rule)),
        Object::NumaReport(report) => ClusterEvent::NumaReportApplied(report),
        Object::PodGroup(group) => ClusterEvent::Groups(GroupEvent::Applied(group)),
        Object::Topology(object) => ClusterEvent::Groups(GroupEvent::TopologyApplied(object)),
    }
}
