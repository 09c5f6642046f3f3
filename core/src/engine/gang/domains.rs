//! Where the members of a unit may go that are to stay together: placements are proposed by a plugin,
//! rated by what fits in each, and tried from the best on.
//!
//! What fits is counted from above, so a placement that is left out can't hold what the unit needs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::budget::Budget;
use crate::engine::guard::guarded;
use crate::engine::placing::{NODES_A_STEP, Placer};
use crate::engine::unfit::{Unplaced, refused};
use crate::framework::profile::Entry;
use crate::framework::{
    NodeSet, Placement, PlacementAsk, PlacementGenerate, PlacementScore, Proposal,
};
use crate::snapshot::{Cluster, CountColumn, CountQuery, GroupView, NodeIdx, Overlay};
use crate::types::group::TopologyConstraint;
use crate::types::{Pod, Text};

use super::frames::Choice;
use super::{Frame, Gang, Made, Stopped, Turn};

/// What was found when placements were looked for.
#[derive(Debug)]
pub(super) struct Survey {
    unit: usize,
    /// What the unit asks for, and how many of its members it needs to place.
    level: Text,
    wanted: u32,
    /// The plugin that proposed the placements, and how many.
    pub(super) plugin: &'static str,
    pub(super) placements: usize,
    /// The one with most room, and for how many of the members.
    roomiest: Option<(Text, u32)>,
}

impl Survey {
    /// Says in numbers how far the placements are from being enough.
    pub(super) fn sentence(&self) -> Text {
        let Survey { level, wanted, placements, roomiest, .. } = self;
        let text = match roomiest {
            None => format!("the group needs one {level}; no node that is left is in any"),
            Some((_, room)) if room >= wanted => format!(
                "the group needs room for {wanted} pods in one {level}; none of {placements} has it"
            ),
            Some((name, room)) => format!(
                "the group needs room for {wanted} pods in one {level}; {name}, the roomiest of \
                 {placements}, has room for {room}"
            ),
        };
        text.into()
    }
}

/// Members of one kind that are to be placed, and for how many each node has room.
pub(super) struct Kind {
    pod: Pod,
    pub(super) members: u32,
    pub(super) room: Vec<u32>,
}

impl Gang {
    /// Returns the units of a member that must stay together, outermost first.
    pub(super) fn constrained(&self, member: usize) -> impl Iterator<Item = usize> + '_ {
        let units = self.view.members[member].units.iter().copied();
        units.filter(|unit| !self.view.units[*unit].topology.is_empty())
    }

    /// Returns the decisions on where a member may go.
    pub(super) fn choices_for(&self, member: usize) -> impl Iterator<Item = usize> + '_ {
        let units = self.view.members[member].units.iter();
        units.filter_map(|unit| self.chosen.get(unit).copied())
    }

    /// Returns the placements that a member has to be in all of.
    pub(super) fn placements_of(&self, member: usize) -> Vec<Arc<Placement>> {
        self.choices_for(member).filter_map(|at| self.frames[at].placement().cloned()).collect()
    }

    /// Returns the decision by which the group does without a unit of the member.
    pub(super) fn closed(&self, member: usize) -> Option<usize> {
        self.choices_for(member).find(|at| matches!(self.frames[*at].made, Made::Nothing))
    }

    /// Decides where a unit goes: to the best placement, or nowhere.
    pub(super) fn choose_domain(
        &mut self,
        unit: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        let candidates = self.survey(unit, placer, overlay, budget)?;
        if !candidates.is_empty() {
            self.choose(unit, candidates);
            return Ok(());
        }
        self.note_no_room(unit, placer, overlay, budget)?;
        // Whoever has a place already may take it away from the unit.
        let conflicts: BTreeSet<usize> = (0..self.frames.len()).collect();
        if self.can_do_without(unit) {
            self.push_frame(Frame::without(Turn::Domain(unit), conflicts));
            return Ok(());
        }
        self.go_back(conflicts, overlay)
    }

    /// Goes to the first of some placements.
    pub(super) fn choose(&mut self, unit: usize, candidates: Vec<Arc<Placement>>) {
        let mut choice = Choice { candidates, at: 0, until: 0 };
        self.share_steps(&mut choice);
        self.push_frame(Frame::new(Turn::Domain(unit), Made::Within(choice), BTreeSet::new()));
    }

    /// Goes on to the next placement of a unit whose last one led nowhere; false if there is none,
    /// with what may have taken the room noted in `conflicts`.
    pub(super) fn choose_next(
        &mut self,
        unit: usize,
        mut choice: Choice,
        conflicts: &mut BTreeSet<usize>,
    ) -> bool {
        self.trial = None;
        self.judged.infeasible += 1;
        choice.at += 1;
        let turn = Turn::Domain(unit);
        if choice.at < choice.candidates.len() {
            self.share_steps(&mut choice);
            self.push_frame(Frame::new(turn, Made::Within(choice), std::mem::take(conflicts)));
            return true;
        }
        conflicts.extend(0..self.frames.len());
        let without = self.can_do_without(unit);
        if without {
            self.push_frame(Frame::without(turn, std::mem::take(conflicts)));
        }
        without
    }

    /// A placement that others come after gets half of the steps that are left.
    fn share_steps(&self, choice: &mut Choice) {
        let last = choice.at + 1 >= choice.candidates.len();
        choice.until = if last { 0 } else { self.steps_back / 2 };
    }

    /// Returns the outermost decision whose placement has had its share of the steps.
    pub(super) fn overdrawn(&self) -> Option<usize> {
        let drawn = |at: &usize| match &self.frames[*at].made {
            Made::Within(choice) => {
                choice.at + 1 < choice.candidates.len() && self.steps_back <= choice.until
            }
            Made::Placed(_) | Made::Nothing => false,
        };
        self.chosen.values().copied().filter(drawn).min()
    }

    /// Tells whether the group may still get what it needs though the next unit has no place.
    fn can_do_without(&self, unit: usize) -> bool {
        let next = self.frames.len();
        let counts = |at: usize| {
            let member = self.order.get(at).and_then(Turn::member);
            let inside = |member: usize| self.view.members[member].units.contains(&unit);
            at > next && member.is_some_and(|member| !inside(member))
        };
        self.view.suffices(&self.numbers_with(counts))
    }

    /// Returns the placements that may hold what the unit needs, best first.
    pub(super) fn survey(
        &mut self,
        unit: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<Arc<Placement>>, Stopped> {
        let leader = self.open.first().map(|member| self.uid(*member).clone()).unwrap_or_default();
        let stopped = |unplaced| Stopped::At(leader.clone(), unplaced);
        let Some(entry) = placer.profile.placement_generate.first() else {
            let text = Text::from("no plugin of the profile knows topologies");
            return Err(stopped(Unplaced::Error(text)));
        };
        let running = self.running(unit, overlay.cluster());
        let mut placements = self.proposed(unit, entry, &running, overlay).map_err(stopped)?;
        let kinds = self.kinds(unit, placer, overlay, budget)?;
        let needed = match self.view.units[unit].loose {
            // The group may need but one of them.
            true => 1,
            false => least(&self.view, unit).saturating_sub(running.len() as u32).max(1),
        };
        let limited = |it: &Placement| self.limited_room(unit, &kinds, &it.nodes);
        let fits = placements.iter().map(|it| fit(&kinds, &it.nodes).min(limited(it)));
        let fits: Vec<u32> = fits.collect();
        budget.spend((overlay.cluster().nodes().len() * kinds.len() / NODES_A_STEP) as u64);
        self.note_survey(unit, entry.name, needed, &placements, &fits);
        self.proposed = NodeSet::default();
        placements.iter().for_each(|placement| self.proposed.extend(&placement.nodes));
        let proposed = placements.len();
        let mut keep = fits.iter().map(|fit| *fit >= needed);
        placements.retain(|_| keep.next().unwrap_or(false));
        self.judged.generated += proposed as u32;
        self.judged.infeasible += (proposed - placements.len()) as u32;
        let limited = |it: &Placement| self.limited_room(unit, &kinds, &it.nodes);
        let fits = placements.iter().map(|it| share(&kinds, &it.nodes).min(limited(it)));
        let fits: Vec<u32> = fits.collect();
        let members: Vec<(&Pod, u32)> = kinds.iter().map(|it| (&it.pod, it.members)).collect();
        let rated = rated(placer, overlay.cluster(), &placements, &fits, &members, running.len());
        let rated = rated.map_err(Unplaced::Error).map_err(stopped)?;
        let mut order: Vec<usize> = (0..placements.len()).collect();
        order.sort_by_cached_key(|at| {
            let Placement { tier, nodes, name } = &placements[*at];
            (*tier, Reverse((rated[*at], fits[*at])), room(&kinds, nodes), name.clone())
        });
        let placements: Vec<Arc<Placement>> = placements.into_iter().map(Arc::new).collect();
        Ok(order.into_iter().map(|at| placements[at].clone()).collect())
    }

    /// Returns the nodes of the unit's members that have a place, one entry a member.
    pub(super) fn running(&self, unit: usize, cluster: &Cluster) -> Vec<NodeIdx> {
        let placed = self.view.members.iter().filter(|it| it.placed && it.units.contains(&unit));
        placed.filter_map(|it| cluster.pod(&it.uid)?.place.node()).collect()
    }

    /// Asks the plugin.
    fn proposed(
        &self,
        unit: usize,
        entry: &Entry<dyn PlacementGenerate>,
        running: &[NodeIdx],
        overlay: &mut Overlay<'_>,
    ) -> Result<Vec<Placement>, Unplaced> {
        entry.calls.count();
        let constraints = &self.view.units[unit].topology;
        let labels = guarded(entry.name, || entry.plugin.labels(constraints, overlay.cluster()));
        let labels = labels.map_err(Unplaced::Error)?;
        overlay.declare_all(|cluster| {
            labels.iter().for_each(|label| cluster.declare_domains(label));
        });
        let within = self.within(unit);
        let cluster = overlay.cluster();
        let meant = self.view.members.iter().filter(|member| member.units.contains(&unit));
        let meant = meant.filter_map(|member| cluster.pod(&member.uid));
        let members: Vec<&Pod> = meant.map(|record| &record.pod).collect();
        let peers: Vec<NodeIdx> = self.peers_of(constraints, cluster).into_iter().collect();
        let ask = PlacementAsk {
            constraints,
            within: within.as_ref(),
            running,
            peers: &peers,
            members: &members,
        };
        let answer = guarded(entry.name, || entry.plugin.placements(ask, cluster));
        answer.map_err(Unplaced::Error)?.map_err(|reason| refused(entry.name, &reason))
    }

    /// Returns the nodes of pods that constraints with a span are about, of this group or another.
    fn peers_of(&self, constraints: &[TopologyConstraint], cluster: &Cluster) -> BTreeSet<NodeIdx> {
        let columns = constraints.iter().filter_map(|it| cluster.count(&self.query(it)?));
        let on = |column: &CountColumn, node: NodeIdx| (column.on(node) > 0).then_some(node);
        let nodes = || cluster.nodes().iter().map(|(node, _)| node);
        columns.flat_map(|column| nodes().filter_map(|node| on(column, node))).collect()
    }

    fn query(&self, constraint: &TopologyConstraint) -> Option<CountQuery> {
        let (namespace, selector) = (self.view.key.namespace.clone(), constraint.span.clone()?);
        Some(CountQuery { namespace, selector })
    }

    /// Has the pods counted that constraints with a span are about, and returns the nodes of those
    /// that have a place before any of this group is given one.
    pub(super) fn peers(&self, overlay: &mut Overlay<'_>) -> BTreeSet<NodeIdx> {
        let units = self.view.units.iter().flat_map(|unit| &unit.topology);
        let spanning: Vec<TopologyConstraint> =
            units.filter(|constraint| constraint.span.is_some()).cloned().collect();
        if spanning.is_empty() {
            return BTreeSet::new();
        }
        overlay.declare_all(|cluster| {
            spanning.iter().filter_map(|it| self.query(it)).for_each(|it| cluster.declare(&it));
        });
        self.peers_of(&spanning, overlay.cluster())
    }

    /// Returns the nodes that the units around this one leave it.
    fn within(&self, unit: usize) -> Option<NodeSet> {
        let mut within: Option<NodeSet> = None;
        let mut at = self.view.units[unit].parent;
        while let Some(parent) = at {
            let frame = self.chosen.get(&parent).map(|frame| &self.frames[*frame]);
            if let Some(placement) = frame.and_then(Frame::placement) {
                within = Some(match within {
                    None => placement.nodes.clone(),
                    Some(nodes) => placement.nodes.intersection(&nodes),
                });
            }
            at = self.view.units[parent].parent;
        }
        within
    }

    fn kinds(
        &self,
        unit: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<Kind>, Stopped> {
        let mut kinds = Vec::new();
        for members in self.undecided(unit) {
            // One that has devices by now is of another kind.
            let Some(uid) = members.first().map(|member| self.uid(*member).clone()) else {
                continue;
            };
            let Some(pod) = overlay.cluster().pod(&uid).map(|record| record.pod.clone()) else {
                continue;
            };
            let room = match placer.room(overlay, &pod, budget) {
                Ok(room) => room,
                Err(Unplaced::Unfit(_)) => Vec::new(),
                Err(unplaced) => return Err(Stopped::At(uid, unplaced)),
            };
            kinds.push(Kind { pod, members: members.len() as u32, room });
        }
        Ok(kinds)
    }

    /// Returns the unit's members that are not placed yet, those alike together.
    fn undecided(&self, unit: usize) -> Vec<Vec<usize>> {
        let placed = self.placed_members();
        let open = |member: &usize| {
            self.view.members[*member].units.contains(&unit) && !placed.contains(member)
        };
        let kinds = self.kinds.iter();
        kinds.map(|kind| kind.iter().copied().filter(open).collect()).collect()
    }

    fn note_survey(
        &mut self,
        unit: usize,
        plugin: &'static str,
        wanted: u32,
        placements: &[Placement],
        fits: &[u32],
    ) {
        if self.surveyed.as_ref().is_some_and(|known| known.unit < unit) {
            return;
        }
        let first = self.view.units[unit].topology.first();
        let level = first.map_or_else(Text::default, |it| it.level.to_string().into());
        let best = (0..placements.len()).max_by_key(|at| (fits[*at], Reverse(*at)));
        let roomiest = best.map(|at| (placements[at].name.clone(), fits[at]));
        let placements = placements.len();
        self.surveyed = Some(Survey { unit, level, wanted, plugin, placements, roomiest });
    }

    /// Notes what a member of the unit is told: what turned nodes away, as if it were alone.
    pub(super) fn note_no_room(
        &mut self,
        unit: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        let Some(member) = self.undecided(unit).into_iter().flatten().next() else { return Ok(()) };
        let uid = self.uid(member).clone();
        let Some(pod) = overlay.cluster().pod(&uid).map(|record| record.pod.clone()) else {
            return Ok(());
        };
        let mut all = overlay.cluster().nodes().iter().map(|(node, _)| node).collect();
        placer.stay_within(overlay, Vec::new());
        placer.open = None;
        match placer.place_next(overlay, &pod, None, &mut all, budget) {
            Err(Unplaced::Unfit(mut unfit)) => {
                let open = self.open_to(member);
                unfit.keep_to(|node| {
                    let is_open = open.as_ref().is_none_or(|open| open.contains(node));
                    is_open && self.proposed.contains(node)
                });
                self.note_furthest(&pod, Unplaced::Unfit(unfit), placer.last_class().0);
                Ok(())
            }
            Err(unplaced) => Err(Stopped::At(uid, unplaced)),
            Ok(_) => Err(Stopped::At(uid, Unplaced::Error("it was placed by mistake".into()))),
        }
    }
}

/// How many members a unit needs at least, those of its parts included.
fn least(view: &GroupView, unit: usize) -> u32 {
    let part = |part: &usize| view.units[*part].parent == Some(unit) && !view.units[*part].loose;
    let parts = (0..view.units.len()).filter(part);
    let mut parts: Vec<u32> = parts.map(|part| least(view, part)).collect();
    parts.sort_unstable();
    let of = &view.units[unit];
    let needed = of.min_parts.map_or(parts.len(), |n| n as usize);
    of.min_member.max(parts.into_iter().take(needed).sum())
}

/// How many of the members find room on some nodes, at most.
fn fit(kinds: &[Kind], nodes: &NodeSet) -> u32 {
    let of = |kind: &Kind| room_of(kind, nodes).min(u64::from(kind.members)) as u32;
    kinds.iter().map(of).sum()
}

/// How many of the members find room on some nodes together, about: each takes its share of what
/// there is for its kind.
fn share(kinds: &[Kind], nodes: &NodeSet) -> u32 {
    const WHOLE: u64 = 1_000_000;
    let taken = |kind: &Kind| u64::from(kind.members) * WHOLE / room_of(kind, nodes).max(1);
    let taken: u64 = kinds.iter().map(taken).sum();
    let all: u64 = kinds.iter().map(|kind| u64::from(kind.members)).sum();
    fit(kinds, nodes).min((all * WHOLE / taken.max(WHOLE)) as u32)
}

/// How many such members would find room.
fn room(kinds: &[Kind], nodes: &NodeSet) -> u64 {
    kinds.iter().map(|kind| room_of(kind, nodes)).sum()
}

fn room_of(kind: &Kind, nodes: &NodeSet) -> u64 {
    nodes.iter().map(|node| kind.room.get(node.at()).copied().unwrap_or(0)).map(u64::from).sum()
}

/// Returns the weighted sum of what plugins say of each placement.
fn rated(
    placer: &Placer<'_>,
    cluster: &Cluster,
    placements: &[Placement],
    fits: &[u32],
    members: &[(&Pod, u32)],
    running: usize,
) -> Result<Vec<i64>, Text> {
    let mut rated = vec![0i64; placements.len()];
    for entry in &placer.profile.placement_score {
        entry.calls.count();
        let scores = guarded(entry.name, || {
            score_all(entry, cluster, placements, fits, members, running as u32)
        })?;
        for (sum, score) in rated.iter_mut().zip(scores) {
            *sum = sum.saturating_add(entry.weight.saturating_mul(score.clamp(0, 100)));
        }
    }
    Ok(rated)
}

fn score_all(
    entry: &Entry<dyn PlacementScore>,
    cluster: &Cluster,
    placements: &[Placement],
    fits: &[u32],
    members: &[(&Pod, u32)],
    running: u32,
) -> Vec<i64> {
    let of = |(placement, fit): (&Placement, &u32)| {
        let proposal = Proposal { placement, members, running, fit: *fit };
        entry.plugin.score(proposal, cluster)
    };
    let mut scores: Vec<i64> = placements.iter().zip(fits).map(of).collect();
    entry.plugin.normalize(&mut scores);
    scores
}
