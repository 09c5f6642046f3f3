//! Groups on their way to a place: which pods make an entry, what holds it, and what is remembered
//! of a group between its attempts.

use std::collections::{BTreeMap, BTreeSet};

use crate::framework::profile::Entry as PluginEntry;
use crate::framework::{GroupRules, PlacementGenerate, Shared};
use crate::queue::{Entry, EntryId, Station};
use crate::snapshot::groups::view::Member;
use crate::snapshot::{GroupChange, GroupView, Lack, Membership};
use crate::types::group::Spread;
use crate::types::{GroupKey, PlanNote, Pod, PodUid, Text};

use super::Engine;
use super::attempt::Search;
use super::folding::ClosedGate;
use super::gang::{Gang, Refused};
use super::gathering::Gathering;
use super::guard::guarded;
use super::placing::may_be_placed;
use super::timing::Timing;

/// A search's steps are doubled at most so often.
const DOUBLINGS_MAX: u32 = 6;

/// What is remembered of groups, by key.
#[derive(Debug, Default)]
pub(super) struct Memories {
    of: BTreeMap<GroupKey, Memory>,
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What members were told of what is missing.
    pub(super) gathering: Option<Gathering>,
    /// Attempts since the last plan that ran out of steps.
    doublings: u32,
    refused: BTreeMap<PodUid, RefusedOn>,
    /// A bind of a member was refused at some time: the next ones are tried first.
    pub(super) was_refused: bool,
}

/// Where a member's bind was refused.
#[derive(Debug, Default)]
struct RefusedOn {
    /// Names of nodes; when they come round again they are counted anew.
    nodes: BTreeSet<Text>,
    everywhere: bool,
}

impl RefusedOn {
    fn note(&mut self, node: &Text) {
        if self.nodes.contains(node) {
            self.nodes.clear();
        }
        self.nodes.insert(node.clone());
        self.everywhere |= self.nodes.len() >= EVERYWHERE;
    }
}

impl Memories {
    pub(super) fn get(&self, key: &GroupKey) -> Option<&Memory> {
        self.of.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &GroupKey) -> Option<&mut Memory> {
        self.of.get_mut(key)
    }

    pub(super) fn entry(&mut self, key: &GroupKey) -> &mut Memory {
        self.of.entry(key.clone()).or_default()
    }

    fn forget(&mut self, key: &GroupKey) {
        self.of.remove(key);
    }
}

/// A member that was refused on so many nodes is taken to be refused on all.
const EVERYWHERE: usize = 3;

/// Which of an entry's members are to be placed, and the group as it is.
pub(super) struct Ready {
    pub(super) view: GroupView,
    /// Indices into the view's members.
    pub(super) open: Vec<usize>,
}

impl Engine {
    /// Returns what the profile of an entry says of groups.
    pub(super) fn rules_of(&self, entry: &Entry) -> Option<&GroupRules> {
        self.profiles.get(entry.profile)?.groups.as_ref()
    }

    /// Puts a pod that waits for a place into the entry of its group, or one of its own. Returns the
    /// entry, and whether it is new.
    pub(super) fn enter_queue(&mut self, pod: &Pod, profile: usize) -> (EntryId, bool) {
        let Membership::In(key) = self.cluster.groups().membership(pod) else {
            return (self.queue.create(pod.uid.clone(), profile, pod.priority), true);
        };
        if self.setup.bug("late-member-starts-alone") && self.cluster.groups().n_members(&key) > 1 {
            return (self.queue.create(pod.uid.clone(), profile, pod.priority), true);
        }
        if let Some(id) = self.queue.group(&key) {
            self.queue.join(id, pod.uid.clone());
            self.rank_group(id, &key, pod.priority);
            return (id, false);
        }
        let id = self.queue.create(pod.uid.clone(), profile, pod.priority);
        self.queue.name_group(id, &key);
        self.rank_group(id, &key, pod.priority);
        (id, true)
    }

    /// A group is ranked by its object's priority, else by its most important member's.
    pub(super) fn rank_group(&mut self, id: EntryId, key: &GroupKey, of_member: i32) {
        let of_object = self.cluster.groups().object(key).and_then(|object| object.priority);
        let known = self.queue.entry(id).map_or(of_member, |entry| entry.priority);
        self.queue.set_priority(id, of_object.unwrap_or(known.max(of_member)));
    }

    /// Returns who of an entry that is a group may be placed now; nothing of a pod alone.
    ///
    /// # Errors
    /// What holds the group, or the pod for what it says of groups.
    pub(super) fn group_ready(
        &self,
        entry: &Entry,
        timing: Timing<'_>,
    ) -> Result<Option<Ready>, ClosedGate> {
        let Some(plugin) = self.rules_of(entry).map(|rules| rules.plugin) else { return Ok(None) };
        if let Some(key) = &entry.group {
            return match self.ready(key, entry, timing) {
                Ok(ready) => Ok(Some(ready)),
                Err(Held::Gate(gate)) => Err(gate),
                Err(Held::Lack(lack)) => {
                    let gate = ClosedGate::new(plugin, lack.to_string().into());
                    Err(ClosedGate { lack: Some(lack), ..gate })
                }
            };
        }
        let leader = entry.members.first().and_then(|uid| self.cluster.pod(uid));
        match leader.map(|record| self.cluster.groups().membership(&record.pod)) {
            Some(Membership::Refused(message)) => Err(ClosedGate::new(plugin, message)),
            Some(Membership::Alone | Membership::In(_)) | None => Ok(None),
        }
    }

    /// Returns the members of an entry that may be placed now, if with those that have a place they
    /// are enough.
    fn ready(&self, key: &GroupKey, entry: &Entry, timing: Timing<'_>) -> Result<Ready, Held> {
        let mut view = self.cluster.group_view(key).map_err(Held::Lack)?;
        for member in view.members.iter_mut().filter(|member| member.placed) {
            member.placed = !self.leaving.contains(&member.uid);
        }
        if let Some(lack) = self.follow_topology(&mut view, entry.profile) {
            return Err(Held::Lack(lack));
        }
        let waits = |member: &Member| {
            !member.placed && self.queue.entry_of(&member.uid).is_some_and(|e| e.id == entry.id)
        };
        let counted = |member: &Member| member.placed || waits(member);
        if let Some(lack) = view.lacks(&view.count(counted)) {
            return Err(Held::Lack(lack));
        }
        // Members that are held for themselves are left out; the rest may do.
        let mut closed: Option<ClosedGate> = None;
        let mut numbers = view.count(|member| member.placed);
        let mut open = Vec::new();
        for (at, member) in view.members.iter().enumerate() {
            if !waits(member) || !may_be_placed(&self.cluster, &member.uid) {
                continue;
            }
            match self.own_gate(&member.uid, entry.profile, timing) {
                Some(gate) if !self.setup.bug("counts-gated-members") => {
                    let plugin = gate.plugin;
                    let closed = closed.get_or_insert(ClosedGate { about: Vec::new(), ..gate });
                    if closed.plugin == plugin {
                        closed.about.push(member.uid.clone());
                    }
                }
                _ => {
                    open.push(at);
                    member.units.iter().for_each(|unit| numbers[*unit] += 1);
                }
            }
        }
        if let Some(closed) = &mut closed {
            let others = view.count(|m| counted(m) && closed.about.first() != Some(&m.uid));
            if !view.suffices(&others) {
                // Nothing helps before that one is let in.
                closed.about.truncate(1);
            }
        }
        // A part that can't have what it needs is left out, where the group does without it.
        let enough = view.enough(&numbers);
        let short = |at: &usize| view.members[*at].units.iter().find(|unit| !enough[**unit]);
        let lacking = open.iter().find_map(short).map(|unit| view.lack_of(*unit, &numbers));
        if view.suffices(&numbers) {
            open.retain(|at| short(at).is_none());
            if let Some(lack) = lacking.filter(|_| open.is_empty() && closed.is_none()) {
                return Err(Held::Lack(lack));
            }
        }
        match (view.suffices(&numbers), closed) {
            (true, _) if !open.is_empty() => Ok(Ready { view, open }),
            // What one member is told of itself is nothing that the others wait for.
            (_, Some(gate)) if !gate.told => match view.lacks(&numbers) {
                Some(lack) => Err(Held::Lack(lack)),
                None => Err(Held::Gate(gate)),
            },
            (_, Some(gate)) => Err(Held::Gate(gate)),
            (true, None) => Ok(Ready { view, open }),
            (false, None) => match view.lacks(&numbers) {
                Some(lack) => Err(Held::Lack(lack)),
                None => Ok(Ready { view, open }),
            },
        }
    }

    /// Where the profile knows no topologies, wishes are left out and what is required can't be had.
    fn follow_topology(&self, view: &mut GroupView, profile: usize) -> Option<Lack> {
        let profile = self.profiles.get(profile)?;
        if let Some(knows) = profile.placement_generate.first() {
            return self.follow_shares(view, knows).err();
        }
        let required = view.units.iter().find_map(|unit| {
            let required = unit.topology.iter().find(|it| it.required)?;
            Some((&unit.name, &required.level))
        });
        if let Some((name, level)) = required {
            let text = format!(
                "pod group {name} requires one {level:?}, and the profile has no plugin that knows \
                 topologies; enable TopologyPlacementGenerator",
                level = level.to_string()
            );
            return Some(Lack::Refused(text.into()));
        }
        let limited = view.units.iter().find_map(|unit| Some((&unit.name, unit.spread.first()?)));
        if let Some((name, Spread { level, .. })) = limited {
            let text = format!(
                "pod group {name} is to be spread over \"{level}\", and the profile has no plugin that \
                 knows topologies; enable TopologyPlacementGenerator"
            );
            return Some(Lack::Refused(text.into()));
        }
        view.units.iter_mut().for_each(|unit| unit.topology.clear());
        None
    }

    /// Members that have something in common which binds them to one place become a part.
    fn follow_shares(
        &self,
        view: &mut GroupView,
        knows: &PluginEntry<dyn PlacementGenerate>,
    ) -> Result<(), Lack> {
        let pod = |at: usize| Some(&self.cluster.pod(&view.members[at].uid)?.pod);
        let claiming = (0..view.members.len()).filter_map(|at| Some((at, pod(at)?)));
        let claiming = claiming.filter(|(_, pod)| !pod.spec.claims.is_empty());
        let (at, pods): (Vec<usize>, Vec<&Pod>) = claiming.unzip();
        if pods.len() < 2 {
            return Ok(());
        }
        let shares = guarded(knows.name, || knows.plugin.shared(&pods, &self.cluster));
        for Shared { name, members, constraint } in shares.map_err(Lack::Refused)? {
            let members = members.into_iter().filter_map(|member| at.get(member).copied());
            view.keep_together(&name, &members.collect::<Vec<_>>(), constraint);
        }
        Ok(())
    }

    /// Begins the search of a group, or takes up the one under way if the group is as it was.
    pub(super) fn begin_gang(&self, search: &mut Search, ready: Ready) {
        if search.gang.as_ref().is_some_and(|gang| gang.is_about(&ready.view)) {
            return;
        }
        let memory = self.memories.get(&ready.view.key);
        let doublings = memory.map_or(0, |memory| memory.doublings);
        let steps_back =
            self.setup.limits.steps_back.saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
        let nodes = self.cluster.nodes();
        let known = |refused: &RefusedOn| Refused {
            on: refused.nodes.iter().filter_map(|name| nodes.index(name)).collect(),
            everywhere: refused.everywhere,
        };
        let refused = memory.map(|memory| &memory.refused).into_iter().flatten();
        let refused = refused.map(|(uid, refused)| (uid.clone(), known(refused))).collect();
        let Ready { view, open } = ready;
        search.gang = Some(Box::new(Gang::new(view, open, refused, (doublings, steps_back))));
    }

    /// Gives the next attempt twice the steps. False if this one had as many as any may have.
    pub(super) fn more_steps(&mut self, id: EntryId) -> bool {
        let Some(key) = self.queue.entry(id).and_then(|entry| entry.group.clone()) else {
            return false;
        };
        let memory = self.memories.entry(&key);
        memory.doublings = memory.doublings.saturating_add(1);
        memory.doublings <= DOUBLINGS_MAX
    }

    /// The group was planned: the next search has its usual steps.
    pub(super) fn usual_steps(&mut self, id: EntryId) {
        let key = self.queue.entry(id).and_then(|entry| entry.group.as_ref());
        if let Some(memory) = key.and_then(|key| self.memories.get_mut(key)) {
            memory.doublings = 0;
        }
    }

    /// The server refused to bind a member to a node.
    pub(super) fn note_refused(&mut self, uid: &PodUid, node: &Text) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let Membership::In(key) = self.cluster.groups().membership(&record.pod) else { return };
        let memory = self.memories.entry(&key);
        memory.was_refused = true;
        memory.refused.retain(|uid, _| {
            self.cluster.pod(uid).is_some_and(|record| record.pod.node_name.is_none())
        });
        memory.refused.entry(uid.clone()).or_default().note(node);
    }

    /// The server would bind a member: what refused it before may be over.
    pub(super) fn note_allowed(&mut self, uid: &PodUid) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let Membership::In(key) = self.cluster.groups().membership(&record.pod) else { return };
        if let Some(memory) = self.memories.get_mut(&key) {
            memory.refused.remove(uid);
        }
    }

    /// Returns the note that goes with each bind of a commit of so many members.
    pub(super) fn commit_note(&self, entry: &Entry, members: usize) -> Option<PlanNote> {
        let key = entry.group.as_ref()?;
        let object = self.cluster.groups().object(key).map(|object| object.uid.clone());
        let unnamed = || format!("{}/{}/{}", key.dialect.name, key.namespace, key.name).into();
        let group = object.filter(|uid| !uid.is_empty()).unwrap_or_else(unnamed);
        Some(PlanNote { group, attempt: entry.attempts, members: members as u32 })
    }

    /// What is known of groups has changed.
    pub(super) fn follow_groups(&mut self, change: &GroupChange) {
        let keys: BTreeSet<GroupKey> = match change {
            GroupChange::Group { key } => BTreeSet::from([key.clone()]),
            GroupChange::Dialect { .. } => return self.rehome_all(),
            // Nobody is a member of another group for it.
            GroupChange::Topology { .. } => return,
        };
        for key in keys {
            self.rehome_members(&key);
        }
    }

    /// Members of a group, or of the groups in it, may belong to another entry now, and the entry's
    /// gates may be open.
    fn rehome_members(&mut self, key: &GroupKey) {
        let uids = self.members_below(key);
        let mut touched = BTreeSet::new();
        for uid in &uids {
            self.rehome(uid);
            touched.extend(self.queue.entry_of(uid).map(|entry| entry.id));
        }
        for id in touched {
            self.look_again(id);
        }
        let groups = self.cluster.groups();
        let pods = uids.iter().filter_map(|uid| self.cluster.pod(uid)).map(|record| &record.pod);
        let mut roots: BTreeSet<GroupKey> =
            pods.filter_map(|pod| groups.membership(pod).key()).collect();
        // A group in another is looked at with that one.
        if groups.object(key).is_none_or(|object| object.parent.is_none()) {
            roots.insert(key.clone());
        }
        for root in roots {
            self.watch_group(&root);
        }
    }

    /// Returns the members of a group and of all groups in it, which may be in a circle.
    fn members_below(&self, key: &GroupKey) -> Vec<PodUid> {
        let groups = self.cluster.groups();
        let mut uids = Vec::new();
        let (mut seen, mut level) = (BTreeSet::from([key]), vec![key]);
        while !level.is_empty() {
            uids.extend(level.iter().flat_map(|key| groups.members(key)).cloned());
            let below = level.iter().flat_map(|key| groups.children(key));
            level = below.filter(|key| seen.insert(key)).collect();
        }
        uids
    }

    /// A pod that another scheduler is to place has come or gone: the groups that it names are not
    /// what they were.
    pub(super) fn stranger_moved(&mut self, pod: &Pod) {
        if self.by_name.contains_key(&pod.spec.scheduler_name) {
            return;
        }
        let groups = self.cluster.groups();
        let keys = pod.group_hints().iter().map(|hint| hint.key(&pod.namespace));
        let roots = keys.filter_map(|key| groups.root(key).ok());
        let waiting: Vec<EntryId> = roots.filter_map(|root| self.queue.group(&root)).collect();
        for id in waiting {
            self.look_again(id);
        }
    }

    fn rehome_all(&mut self) {
        let said = |uid: &&PodUid| {
            self.cluster.pod(uid).is_some_and(|record| !record.pod.group_hints().is_empty())
        };
        let members = self.queue.entries().flat_map(|entry| &entry.members);
        let uids: Vec<PodUid> = members.filter(said).cloned().collect();
        for uid in &uids {
            self.rehome(uid);
        }
        let ids: BTreeSet<EntryId> =
            uids.iter().filter_map(|uid| self.queue.entry_of(uid)).map(|e| e.id).collect();
        for id in ids {
            self.look_again(id);
        }
    }

    /// Moves a waiting pod to the entry that it belongs to now.
    pub(super) fn rehome(&mut self, uid: &PodUid) {
        let Some(entry) = self.queue.entry_of(uid) else { return };
        let Some(record) = self.cluster.pod(uid) else { return };
        let key = self.cluster.groups().membership(&record.pod).key();
        if entry.group == key || self.planned(uid) {
            return;
        }
        let (id, profile, pod) = (entry.id, entry.profile, record.pod.clone());
        if !self.queue.remove_pod(uid) {
            self.classify(id);
            self.look_again(id);
        }
        self.drop_searches();
        let (id, new) = self.enter_queue(&pod, profile);
        self.classify(id);
        if new {
            // What its members were told when it last had some is not what these are told.
            self.forget_gathering(id);
        }
        self.joined(id, uid, new);
    }

    /// Asks the gates of an entry again whose group has changed: also one that was found
    /// unschedulable may fit now.
    pub(super) fn look_again(&mut self, id: EntryId) {
        let Some(entry) = self.queue.entry(id) else { return };
        match entry.station {
            Station::Gated { .. } | Station::Unschedulable => self.admit(id, None),
            Station::InFlight => self.advance_plans(),
            Station::Active | Station::Backoff | Station::ErrorBackoff => {}
        }
    }

    /// Nobody names the group any more: nothing of it is remembered.
    pub(super) fn forget_group(&mut self, pod: &Pod) {
        for hint in pod.group_hints() {
            let key = hint.key(&pod.namespace);
            if self.cluster.groups().n_members(&key) == 0 {
                self.memories.forget(&key);
            }
        }
    }
}

/// Why an entry is held.
enum Held {
    Lack(Lack),
    Gate(ClosedGate),
}
