//! What a change of the ledger means to queue, plans and conditions.

use crate::framework::{Gate, Hint, HintContext, Point};
use crate::queue::{Entry, EntryId, Station};
use crate::snapshot::devices::claims::Conflict;
use crate::snapshot::{Change, Cluster, ClusterEvent, DeviceChange, Lack};
use crate::types::{Condition, Pod, PodUid, Text, Timestamp};

use super::classes::ClassKey;
use super::decision::{Decision, Notice, WriteId};
use super::groups::Ready;
use super::guard::guarded;
use super::input::WriteResult;
use super::placing::may_be_placed;
use super::timing::{Code, Hinted, Stopwatch, Timing};
use super::{AlwaysGate, Engine, Purpose};
use crate::framework::Profile;

/// Reason of PodScheduled=False of a pod that is held before the queue (KEP-5501). Autoscalers
/// key on Unschedulable, which is written only after an attempt against nodes.
pub(super) const NOT_READY: &str = "NotReadyForScheduling";

/// Name of the gate that holds pods whose watches have lost their place.
const WATCH_GATE: &str = "Watch";

/// Name of the gate that holds pods which can't be understood.
const DECODE_GATE: &str = "Decode";

impl Engine {
    pub(super) fn fold(&mut self, event: ClusterEvent) {
        let event = self.with_bugs(event);
        let applied = match &event {
            ClusterEvent::PodApplied(pod) => Some(pod.uid.clone()),
            _ => None,
        };
        let refused = self.refused_by(&event);
        let changes = self.cluster.fold(event);
        if let Some(uid) = refused {
            self.cluster.note_refusal(&uid, self.now);
        }
        self.after_changes(changes);
        if let Some(uid) = applied {
            self.note_running(&uid);
            self.tell_seen(&uid);
        }
    }

    /// Returns the pod that its kubelet has refused, by this event. One that is old news says nothing.
    fn refused_by(&self, event: &ClusterEvent) -> Option<PodUid> {
        let ClusterEvent::PodApplied(pod) = event else { return None };
        let known = self.cluster.pod(&pod.uid)?;
        (pod.refused.is_some() && !known.pod.finished()).then(|| pod.uid.clone())
    }

    fn with_bugs(&self, event: ClusterEvent) -> ClusterEvent {
        match event {
            ClusterEvent::PodApplied(pod)
                if pod.terminating && self.setup.bug("terminating-frees") =>
            {
                ClusterEvent::PodDeleted { uid: pod.uid }
            }
            event => event,
        }
    }

    pub(super) fn after_changes(&mut self, changes: Vec<Change>) {
        self.stirs += u64::from(!changes.is_empty());
        for change in &changes {
            self.follow(change);
        }
        for change in &changes {
            self.wake(change);
        }
    }

    /// Keeps entries and plans in step with the pods.
    fn follow(&mut self, change: &Change) {
        self.queue.set_cause(change.label());
        match change {
            Change::PodAdded { uid } => self.pod_appeared(&uid.clone()),
            Change::PodUpdated { uid, .. } => {
                self.pod_updated(&uid.clone());
                self.member_moved(uid);
            }
            Change::PodBound { uid, node } => {
                let node = self.cluster.nodes().slot(*node).name.clone();
                self.settle_seen(uid, Some(&node));
                self.tells.forget(uid);
                if self.planned(uid) {
                    self.plans_see(uid);
                } else {
                    self.queue.remove_pod(uid);
                    self.drop_searches();
                }
                self.member_came(uid);
                self.member_moved(uid);
            }
            Change::PodDeleted { old } | Change::PodFreed { old, .. } => {
                let known = self.cluster.pod(&old.uid).is_some_and(|r| !r.pod.finished());
                if !known {
                    self.pod_gone(&old.uid.clone());
                }
                self.member_lost(change);
                self.stranger_moved(old);
            }
            Change::NodeDeleted { .. } => self.advance_plans(),
            Change::NodeAdded { .. }
            | Change::NodeUpdated { .. }
            | Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged => {}
            Change::Devices(change) => self.follow_devices(change),
            Change::Groups(change) => self.follow_groups(change),
        }
    }

    fn follow_devices(&mut self, change: &DeviceChange) {
        match change {
            DeviceChange::Claim { .. } | DeviceChange::ClaimGone { .. } => self.advance_plans(),
            DeviceChange::Conflict(conflict) => self.tell_conflict(conflict),
            DeviceChange::Slice
            | DeviceChange::SliceGone
            | DeviceChange::Class
            | DeviceChange::ClassGone
            | DeviceChange::TaintRule => {}
        }
    }

    /// Somebody else grants devices too: that is told, and plans are checked before they go on.
    fn tell_conflict(&mut self, conflict: &Conflict) {
        if self.setup.bug("conflict-untold") {
            return;
        }
        let devices = self.cluster.devices();
        let name = |uid: &Text| {
            let mut claims = devices.claims().map(|record| &record.claim);
            let found = claims.find(|claim| claim.uid == *uid);
            found.map_or_else(|| uid.to_string(), |claim| claim.key.to_string())
        };
        let [first, second] = &conflict.claims;
        let (first, second) = (name(first), name(second));
        let message = format!("allocated to resource claims {first} and {second} at once").into();
        let subject = format!("device {}", conflict.id).into();
        self.out.push_back(Decision::Notice(Notice::Odd { subject, message }));
    }

    /// What objects say of topologies is put together before anybody asks where to go.
    pub(super) fn settle_topologies(&mut self) {
        for contradiction in self.cluster.settle_topologies() {
            self.out.push_back(Decision::Notice(Notice::InvalidTopology(contradiction)));
        }
    }

    fn pod_appeared(&mut self, uid: &PodUid) {
        if !may_be_placed(&self.cluster, uid) {
            return;
        }
        let Some(record) = self.cluster.pod(uid) else { return };
        let pod = &record.pod;
        let pod = pod.clone();
        let Some(profile) = self.by_name.get(&pod.spec.scheduler_name).copied() else {
            return self.stranger_moved(&pod);
        };
        let (id, new) = self.enter_queue(&pod, profile);
        if new {
            self.classify(id);
        }
        self.joined(id, uid, new);
    }

    /// A pod is in the queue, of an entry that is `new` with it or was there before.
    pub(super) fn joined(&mut self, id: EntryId, uid: &PodUid, new: bool) {
        match new || self.queue.entry(id).is_some_and(awaits_members) {
            true => self.admit(id, Some(uid)),
            false => self.tell_later(id, uid),
        }
    }

    pub(super) fn classify(&mut self, id: EntryId) {
        let Some(entry) = self.queue.entry(id) else { return };
        let Some(record) = entry.members.first().and_then(|uid| self.cluster.pod(uid)) else {
            return;
        };
        let profile = entry.profile;
        // A plugin that fails here fails the attempt too; until then the pod is like no other.
        let key = ClassKey::of(&record.pod, profile, &self.profiles[profile], &self.cluster);
        let class = match key {
            Ok(key) => self.classes.id(key),
            Err(_) => self.classes.own_id(),
        };
        self.queue.set_class(id, class);
    }

    /// Asks the gates of an entry that comes: this is PreEnqueue.
    fn timed_gate(&mut self, id: EntryId) -> Option<ClosedGate> {
        let sampled = self.gatings_timed.next();
        let profile = self.queue.entry(id).map_or(0, |entry| entry.profile);
        let timing = Timing::new(self.setup.stopwatch.as_ref(), profile, sampled);
        timing.point(Point::PreEnqueue, || {
            let gate = self.let_in(id, timing).err();
            let code = match gate {
                None => Code::Success,
                Some(_) => Code::UnschedulableAndUnresolvable,
            };
            (gate, code)
        })
    }

    /// Puts an entry into the queue, or behind the first gate that is closed.
    ///
    /// `newcomer`: the member that came just now.
    pub(super) fn admit(&mut self, id: EntryId, newcomer: Option<&PodUid>) {
        let gate = self.timed_gate(id);
        if let Some(gate) = gate.as_ref().filter(|gate| !gate.about.is_empty()) {
            let class = self.classes.own_id();
            self.queue.set_speakers(id, gate.about.clone(), class);
        }
        let since = self.ranked_since(id);
        self.queue.admit(id, gate.as_ref().map(|gate| gate.plugin), since, self.now);
        match gate {
            Some(gate) => self.tell_gated(id, gate, newcomer),
            None => self.gathered(id),
        }
    }

    /// What waited before Berth began is ranked by its age, whatever order the lists have.
    fn ranked_since(&self, id: EntryId) -> Timestamp {
        let leader = self.queue.entry(id).and_then(|entry| entry.members.first());
        match leader.and_then(|uid| self.cluster.pod(uid)) {
            Some(record) if !self.synced_once => record.pod.created.min(self.now),
            Some(_) | None => self.now,
        }
    }

    pub(super) fn tell_gated(&mut self, id: EntryId, gate: ClosedGate, newcomer: Option<&PodUid>) {
        if gate.lack.is_none() {
            self.forget_gathering(id);
        }
        if let Some(key) = self.queue.entry(id).and_then(|entry| entry.group.clone()) {
            self.watch_held(&key);
        }
        if !gate.told {
            return;
        }
        if let Some(lack) = &gate.lack {
            return self.tell_lack(id, &gate, lack, newcomer);
        }
        let members = self.queue.entry(id).map(|entry| entry.members.clone()).unwrap_or_default();
        for uid in members {
            let reason = Text::from(NOT_READY);
            let condition = Condition { reason, message: gate.message.clone() };
            self.tell(&uid, condition, vec![gate.message.clone()]);
        }
    }

    /// While a watch has lost its place every member of a group waits for it, not one alone.
    fn watch_gate(&self, entry: &Entry) -> Option<ClosedGate> {
        if self.unsynced.is_empty() {
            return None;
        }
        let mut pods = entry.members.iter().filter_map(|uid| self.cluster.pod(uid));
        let kind = pods.find_map(|record| self.outdated_for(&record.pod))?;
        let message = format!("waiting for a new list of {kind}").into();
        Some(ClosedGate { told: false, ..ClosedGate::new(WATCH_GATE, message) })
    }

    /// Asks the gates of every member: the profile's, then those that are always on. Returns who of a
    /// group may be placed.
    ///
    /// # Errors
    /// The first that is closed.
    pub(super) fn let_in(
        &self,
        id: EntryId,
        timing: Timing<'_>,
    ) -> Result<Option<Ready>, ClosedGate> {
        let Some(entry) = self.queue.entry(id) else { return Ok(None) };
        if let Some(gate) = self.watch_gate(entry) {
            return Err(gate);
        }
        let ready = self.group_ready(entry, timing)?;
        if entry.group.is_some() {
            return Ok(ready);
        }
        let profile = entry.profile;
        let mut gates = entry.members.iter().filter_map(|uid| self.own_gate(uid, profile, timing));
        gates.next().map_or(Ok(None), Err)
    }

    /// Asks the gates of one pod: the profile's, then those that are always on.
    pub(super) fn own_gate(
        &self,
        uid: &PodUid,
        profile: usize,
        timing: Timing<'_>,
    ) -> Option<ClosedGate> {
        let pod = &self.cluster.pod(uid)?.pod;
        closed(pod, &self.cluster, &self.profiles[profile], &self.setup.gates, timing)
    }

    /// Returns a kind whose watch has lost its place and on which decisions about the pod depend.
    fn outdated_for(&self, pod: &Pod) -> Option<&Text> {
        let dependence = &self.setup.dependence;
        // Before the first lists nobody is begun with, so nobody needs to be held.
        let lost = self.synced_once.then_some(&self.unsynced);
        lost?.iter().find(|kind| dependence.needs(kind, pod).unwrap_or(false))
    }

    /// Lets those in again who waited for a watch.
    pub(super) fn readmit_held(&mut self) {
        let held = |entry: &&Entry| entry.station == Station::Gated { plugin: WATCH_GATE };
        let ids: Vec<EntryId> = self.queue.entries().filter(held).map(|entry| entry.id).collect();
        for id in ids {
            self.admit(id, None);
        }
    }

    fn pod_updated(&mut self, uid: &PodUid) {
        let Some(entry) = self.queue.entry_of(uid) else { return };
        let (id, station) = (entry.id, entry.station.clone());
        if !may_be_placed(&self.cluster, uid) && !self.planned(uid) {
            self.pod_gone(uid);
            return;
        }
        self.rehome(uid);
        let priority = self.cluster.pod(uid).map_or(0, |record| record.pod.priority);
        let entry = self.queue.entry(id);
        let (group, leads) = entry.map_or((None, false), |entry| {
            (entry.group.clone(), entry.members.first() == Some(uid))
        });
        match group {
            Some(key) => self.rank_group(id, &key, priority),
            None if leads => self.queue.set_priority(id, priority),
            None => {}
        }
        if leads {
            self.classify(id);
        }
        match station {
            Station::Gated { .. } => self.admit(id, Some(uid)),
            Station::Active | Station::Backoff | Station::ErrorBackoff | Station::Unschedulable => {
            }
            Station::InFlight => self.plans_see(uid),
        }
    }

    fn pod_gone(&mut self, uid: &PodUid) {
        self.leaving.remove(uid);
        self.settle_seen(uid, None);
        self.tells.forget(uid);
        self.plans_see(uid);
        let entry = self.queue.entry_of(uid).map(|entry| entry.id);
        if !self.queue.remove_pod(uid)
            && let Some(id) = entry
        {
            // The others may have waited for this one.
            self.classify(id);
            self.look_again(id);
        }
        self.drop_searches();
    }

    /// Asks the hints of those who wait.
    pub(super) fn wake(&mut self, change: &Change) {
        if matches!(change, Change::PodFreed { .. }) && self.setup.bug("lost-wakeup") {
            return;
        }
        let stopwatch = self.changes_timed.next().then_some(self.setup.stopwatch.as_ref());
        let (cluster, profiles, gates) = (&self.cluster, &self.profiles, &self.setup.gates);
        let mut ask = |entry: &Entry, plugin: &'static str, change: &Change| {
            hint(entry, plugin, change, cluster, &profiles[entry.profile], gates, stopwatch)
        };
        for id in self.queue.on_change(change, self.now, &mut ask) {
            self.admit(id, None);
        }
    }

    pub(super) fn outcome(&mut self, write: WriteId, result: WriteResult) {
        let result = match self.bind_outcome(write, result) {
            Ok(()) => {
                self.purposes.remove(&write);
                return;
            }
            Err(result) => result,
        };
        match self.purposes.remove(&write) {
            Some(Purpose::Stage { plan, label, deletes }) => {
                self.stage_outcome(plan, &label, deletes, result);
            }
            Some(Purpose::Nominate { plan, label }) => self.nominated(plan, &label, result),
            Some(Purpose::ReadBack { plan, label }) => self.read_back(plan, &label, result),
            Some(Purpose::Settle { bind }) => self.settle_outcome(bind, result),
            Some(Purpose::Tell { uid }) => self.tell_outcome(&uid, result),
            Some(Purpose::TellGroup { key }) => self.group_told(&key, result),
            Some(Purpose::TakeBack { key, pod }) => self.told_why(&key, pod, result),
            Some(Purpose::Try { plan, label, pod, node }) => {
                self.tried(plan, &label, &pod, &node, result);
            }
            Some(Purpose::Aside { op, tries }) => self.aside_outcome(op, tries, result),
            None => {}
        }
    }
}

/// Tells whether one more member is worth another look. A plan or search under way takes it up
/// when it ends, and a backoff is sat out.
fn awaits_members(entry: &Entry) -> bool {
    match entry.station {
        Station::Gated { .. } | Station::Unschedulable => true,
        Station::Active | Station::Backoff | Station::ErrorBackoff | Station::InFlight => false,
    }
}

/// A gate that holds an entry.
pub(super) struct ClosedGate {
    pub(super) plugin: &'static str,
    pub(super) message: Text,
    pub(super) told: bool,
    /// What the group lacks, if that is why.
    pub(super) lack: Option<Lack>,
    /// Members of a group that are held for themselves: what opens the gate of one may let the group in.
    pub(super) about: Vec<PodUid>,
}

impl ClosedGate {
    /// One that is told.
    pub(super) fn new(plugin: &'static str, message: Text) -> ClosedGate {
        ClosedGate { plugin, message, told: true, lack: None, about: Vec::new() }
    }
}

fn closed(
    pod: &Pod,
    cluster: &Cluster,
    profile: &Profile,
    always: &[AlwaysGate],
    timing: Timing<'_>,
) -> Option<ClosedGate> {
    if let Some(problem) = &pod.problem {
        let message = Text::from(format!("the pod can't be understood: {problem}"));
        return Some(ClosedGate::new(DECODE_GATE, message));
    }
    let closed = |plugin, answer| match answer {
        Ok(Gate::Open) => None,
        Ok(Gate::Closed { message, told }) => {
            Some(ClosedGate { told, ..ClosedGate::new(plugin, message) })
        }
        Err(message) => Some(ClosedGate::new(plugin, message)),
    };
    let own = profile.pre_enqueue.iter().enumerate().find_map(|(at, entry)| {
        let ask = || guarded(entry.name, || entry.plugin.gate(pod, cluster));
        closed(entry.name, timing.call(Point::PreEnqueue, at, ask))
    });
    own.or_else(|| {
        always.iter().find_map(|always| {
            closed(always.name, guarded(always.name, || always.gate.gate(pod, cluster)))
        })
    })
}

/// Asks a plugin's hint; `None` if it registered for nothing.
pub(super) fn hint(
    entry: &Entry,
    plugin: &'static str,
    change: &Change,
    cluster: &Cluster,
    profile: &Profile,
    always: &[AlwaysGate],
    stopwatch: Option<&dyn Stopwatch>,
) -> Option<Hint> {
    let speak = entry.speakers.iter().filter(|uid| entry.members.contains(uid));
    let first = entry.members.first().filter(|_| entry.speakers.is_empty());
    let pods = speak.chain(first).filter_map(|uid| cluster.pod(uid)).map(|record| &record.pod);
    let always = always.iter().find(|gate| gate.name == plugin).map(|gate| gate.interest.as_ref());
    let interest = always.or_else(|| profile.interest(plugin))?;
    let mut hint = None;
    for pod in pods {
        let ask = || guarded(plugin, || interest.hint(HintContext { pod, cluster }, change));
        if let Some(stopwatch) = stopwatch {
            stopwatch.call();
        }
        let asked = ask();
        let (event, failed) = (change.label(), asked.is_err());
        // Nobody is to wait because a hint failed.
        let answer = asked.unwrap_or(Hint::Queue);
        if let Some(stopwatch) = stopwatch {
            stopwatch.hinted(Hinted { plugin, event, queues: answer == Hint::Queue, failed });
        }
        hint = Some(answer);
        if answer == Hint::Queue {
            break;
        }
    }
    hint
}
