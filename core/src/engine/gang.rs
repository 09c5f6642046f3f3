//! Placing a group: a search over its members, their nodes and the ways to place each there.
//!
//! Members are placed one after the other, most constrained first ([`order`]). When one finds no
//! place, the search goes back to the last earlier member whose moving could help ([`conflicts`]),
//! and tries its next way or node. A search that ends without a placement has shown that there is
//! none, as far as filters look at a node and what is on it; one that takes more steps than it may
//! is told apart. Once the group has what it needs, the members above its minimum are placed as they
//! fit ([`elastic`]).
//!
//! Where it decides who comes first, other orders are tried too ([`kinds`]).
//!
//! Where members must stay together, which part of the cluster they go to is a decision of its own,
//! made before the first of them is placed ([`domains`]).
//!
//! The search keeps its decisions between polls and takes them up again on the next overlay; nothing
//! is held for it meanwhile.

mod conflicts;
mod domains;
mod elastic;
mod frames;
mod kinds;
mod limits;
mod numbers;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::framework::NodeSet;
use crate::snapshot::{GroupView, NodeIdx, Overlay, Version};
use crate::types::{Pod, PodSpec, PodUid, Text};

use super::budget::Budget;
use super::placing::{Placed, Placer};
use super::report::PlacementCounts;
use super::unfit::Unplaced;

use domains::Survey;
pub(in crate::engine) use frames::Refused;
use frames::{Frame, Made, Resort, Trial, Turn};
use limits::Limit;

/// A group that is being looked at.
#[derive(Debug)]
pub(super) struct Gang {
    view: GroupView,
    /// Indices into the view's members: those to be placed.
    open: Vec<usize>,
    /// What is decided, in the order of the search; empty until that is known.
    order: Vec<Turn>,
    /// Members that scheduling can't tell apart, before any of them is placed.
    kinds: Vec<Vec<usize>>,
    /// Those of them that are in the same parts too, by member.
    kind_of: BTreeMap<usize, usize>,
    /// A member may fit only after others, or only before.
    order_decides: bool,
    ordered: bool,
    /// How many attempts ran out of steps: another order may do better.
    doublings: u32,
    /// Number of members by what they ask for.
    asks: BTreeMap<Arc<PodSpec>, usize>,
    frames: Vec<Frame>,
    /// Members that have a place, for each unit.
    in_place: Vec<u32>,
    /// What is to be decided next, if the search has gone back or was paused in the middle.
    trial: Option<Trial>,
    /// Steps that going back may still take.
    steps_back: u64,
    /// It has gone back at least once.
    gone_back: bool,
    /// Some ways were not found out about.
    unproven: bool,
    refused: BTreeMap<PodUid, Refused>,
    /// Nothing else is left.
    lenient: bool,
    /// Versions of the nodes it has placed members on, before it did.
    before: BTreeMap<NodeIdx, Version>,
    /// How many members may be in one domain, and are.
    limits: Vec<Limit>,
    /// The plugin that knows the domains of limits.
    limiter: Option<&'static str>,
    /// How many events the ledger had folded when the search was last at work.
    folded: u64,
    /// The dead end that was met with most members placed: what is told if there is no placement.
    furthest: Option<Furthest>,
    /// Units whose placement is decided, with the decision.
    chosen: BTreeMap<usize, usize>,
    /// What was found when a placement was looked for, the outermost unit first.
    surveyed: Option<Survey>,
    /// Nodes of the placements that were proposed last.
    proposed: NodeSet,
    /// Placements that were proposed, and those that don't hold what they were proposed for.
    judged: PlacementCounts,
    /// The topology's version when placements were last looked for.
    topology: Option<Version>,
    /// Nodes of pods of other groups that constraints are about too, likewise.
    peers: BTreeSet<NodeIdx>,
    /// Plugins that turned a member away at any dead end: what helps there may help the group.
    rejectors: BTreeSet<&'static str>,
}

/// A dead end.
struct Furthest {
    placed: usize,
    uid: PodUid,
    pod: Pod,
    /// Members that ask for the same and have a place.
    alike: usize,
    unplaced: Unplaced,
}

impl std::fmt::Debug for Furthest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} after {}", self.uid, self.placed)
    }
}

/// How a search ended that placed nobody.
pub(super) enum Stopped {
    /// It goes on with the next poll, or something went wrong with this member.
    At(PodUid, Unplaced),
    /// There is no placement: this member fits nowhere, whatever the others do.
    Infeasible(PodUid, Unplaced),
    /// The steps are used up. The last dead end goes with it.
    OutOfSteps(PodUid, Unplaced),
}

impl Gang {
    /// `doublings`: how many attempts before this one ran out of steps; `steps_back`: how many this one
    /// may take in going back.
    pub(super) fn new(
        view: GroupView,
        open: Vec<usize>,
        refused: BTreeMap<PodUid, Refused>,
        (doublings, steps_back): (u32, u64),
    ) -> Gang {
        let in_place = view.count(|member| member.placed);
        Gang {
            view,
            open,
            order: Vec::new(),
            kinds: Vec::new(),
            kind_of: BTreeMap::new(),
            order_decides: false,
            ordered: false,
            doublings,
            asks: BTreeMap::new(),
            frames: Vec::new(),
            in_place,
            trial: None,
            steps_back,
            gone_back: false,
            unproven: false,
            refused,
            lenient: false,
            before: BTreeMap::new(),
            limits: Vec::new(),
            limiter: None,
            folded: 0,
            furthest: None,
            chosen: BTreeMap::new(),
            surveyed: None,
            proposed: NodeSet::default(),
            judged: PlacementCounts::default(),
            topology: None,
            peers: BTreeSet::new(),
            rejectors: BTreeSet::new(),
        }
    }

    /// Returns which stream breaks ties in this attempt: the same until the search ran out of steps, as
    /// it leaves no placement out, whatever it begins with, and what is told of one that fits nowhere
    /// stays the same. Whoever was refused somewhere is to get everywhere in time.
    pub(super) fn ties(&self, attempt: u32) -> u32 {
        if self.refused.is_empty() { 1 + self.doublings } else { attempt }
    }

    /// Tells whether the group is as it was when the search began, but for what the search decides.
    pub(super) fn is_about(&self, view: &GroupView) -> bool {
        self.view == *view
    }

    /// Returns the members that have a place, with what was found for them, in order of the search.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&PodUid, &Placed)> {
        let spots = self.frames.iter().filter_map(|frame| Some((frame.member()?, frame.spot()?)));
        spots.map(|(member, spot)| (self.uid(member), spot))
    }

    /// Returns what became of the placements; those that were chosen hold their parts if the group has
    /// been `placed`.
    pub(super) fn judged(&self, placed: bool) -> PlacementCounts {
        let within = |at: &&usize| self.frames.get(**at).is_some_and(|it| it.placement().is_some());
        let chosen = self.chosen.values().filter(within).count() as u32;
        PlacementCounts { feasible: if placed { chosen } else { 0 }, ..self.judged }
    }

    fn uid(&self, member: usize) -> &PodUid {
        &self.view.members[member].uid
    }

    /// Works until the group has what it needs, and then places who else fits. Whoever was refused
    /// wherever there is room is done without, if the others are enough.
    pub(super) fn search(
        &mut self,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        let found = self.search_on(placer, overlay, budget);
        if !matches!(found, Err(Stopped::Infeasible(..))) || self.lenient || self.refused.is_empty()
        {
            return found;
        }
        self.cut(0, overlay);
        (self.lenient, self.gone_back) = (true, false);
        self.search_on(placer, overlay, budget)
    }

    fn search_on(
        &mut self,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        if !self.ordered {
            self.put_in_order(placer, overlay, budget)?;
        }
        self.read_limits(placer, overlay)?;
        self.take_up(placer, overlay, budget);
        while !self.suffices() {
            let Some(turn) = self.order.get(self.frames.len()).copied() else {
                if placer.setup.bug("half-gang-binds") {
                    break;
                }
                return Err(self.exhausted(overlay));
            };
            let spent = budget.spent();
            let decided = match turn {
                Turn::Domain(unit) => self.choose_domain(unit, placer, overlay, budget),
                Turn::Member(member) => self.decide(member, placer, overlay, budget),
            };
            if self.gone_back {
                self.steps_back = self.steps_back.saturating_sub(budget.spent() - spent);
            }
            self.unproven |= placer.unproven;
            decided?;
        }
        self.place_others(placer, overlay, budget);
        let nobody = self.placed().next().is_none();
        if nobody { Err(self.nobody_fits()) } else { Ok(()) }
    }

    /// Tells whether the members that have a place are enough.
    fn suffices(&self) -> bool {
        self.view.suffices(&self.in_place)
    }

    /// Counts, for each unit, members that have a place and undecided ones that `also` names.
    fn numbers_with(&self, also: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut numbers = self.in_place.clone();
        let others = self.order.iter().enumerate().filter(|(at, _)| also(*at));
        for member in others.filter_map(|(_, turn)| turn.member()) {
            let units = &self.view.members[member].units;
            units.iter().for_each(|unit| numbers[*unit] += 1);
        }
        numbers
    }

    /// The group has what it needs, and none of the others fits.
    fn nobody_fits(&mut self) -> Stopped {
        match self.furthest.take() {
            Some(Furthest { uid, unplaced, .. }) => {
                Stopped::Infeasible(uid, self.with_rejectors(unplaced))
            }
            None => {
                let uid = self.open.first().map(|member| self.uid(*member).clone());
                // Not looked at within this poll's budget.
                Stopped::At(uid.unwrap_or_default(), Unplaced::Paused)
            }
        }
    }

    /// Decides about one member: places it, does without it, or goes back.
    fn decide(
        &mut self,
        member: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        if let Some(at) = self.closed(member) {
            return self.leave_out(member, BTreeSet::from([at]), overlay);
        }
        let mut trial = self.trial.take().unwrap_or_default();
        let uid = self.uid(member).clone();
        let Some(pod) = overlay.cluster().pod(&uid).map(|record| record.pod.clone()) else {
            return Err(Stopped::At(uid, Unplaced::Error(Text::from("the pod is gone"))));
        };
        match self.place(member, &pod, &mut trial, placer, overlay, budget) {
            Ok(placed) => {
                self.push(member, trial, placed);
                Ok(())
            }
            Err(Unplaced::Unfit(unfit)) => {
                self.dead_end(&pod, member, trial, Unplaced::Unfit(unfit), placer, overlay)
            }
            Err(unplaced) => {
                self.trial = Some(trial);
                Err(Stopped::At(uid, unplaced))
            }
        }
    }

    /// Places the pod where it was not tried; on nodes that have refused it, if at all, when no other
    /// does: first on those of which that is only taken for granted.
    fn place(
        &self,
        member: usize,
        pod: &Pod,
        trial: &mut Trial,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<Placed, Unplaced> {
        placer.stay_within(overlay, self.placements_of(member));
        placer.open = self.open_to(member);
        let Some(refused) = self.refused.get(&pod.uid) else {
            return placer.place_next(overlay, pod, trial.after, &mut trial.tried, budget);
        };
        loop {
            let next = match trial.resort {
                Resort::None if refused.everywhere => {
                    let all = overlay.cluster().nodes();
                    all.iter().for_each(|(node, _)| trial.tried.insert(node));
                    Resort::Untried
                }
                Resort::None | Resort::Untried => {
                    refused.on.iter().for_each(|node| trial.tried.insert(node));
                    Resort::Anywhere
                }
                Resort::Anywhere => {
                    return placer.place_next(overlay, pod, trial.after, &mut trial.tried, budget);
                }
            };
            let placed = placer.place_next(overlay, pod, trial.after, &mut trial.tried, budget);
            if !self.lenient || !matches!(placed, Err(Unplaced::Unfit(_))) {
                return placed;
            }
            (trial.resort, trial.after) = (next, None);
            match next {
                Resort::Untried => trial.tried = NodeSet::default(),
                _ => refused.on.iter().for_each(|node| trial.tried.remove(node)),
            }
        }
    }

    fn push(&mut self, member: usize, trial: Trial, placed: Placed) {
        self.before.entry(placed.node).or_insert(placed.before);
        let Trial { tried, resort, conflicts, kinds, .. } = trial;
        let made = Made::Placed(placed);
        let turn = Turn::Member(member);
        self.push_frame(Frame { turn, made, tried, resort, conflicts, kinds });
    }

    /// No node is left for a member.
    fn dead_end(
        &mut self,
        pod: &Pod,
        member: usize,
        mut trial: Trial,
        unplaced: Unplaced,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
    ) -> Result<(), Stopped> {
        self.note_furthest(pod, unplaced, placer.last_class().0);
        trial.conflicts.extend(self.culprits(pod, placer, overlay));
        trial.conflicts.extend(self.choices_for(member));
        if self.other_kind_next(member, &mut trial) {
            return Ok(());
        }
        let conflicts = trial.conflicts;
        if placer.setup.bug("no-way-back") {
            return Err(self.infeasible(overlay.cluster()));
        }
        if placer.setup.bug("half-gang-binds") {
            self.push_frame(Frame::without(Turn::Member(member), conflicts));
            return Ok(());
        }
        self.leave_out(member, conflicts, overlay)
    }

    /// Does without a member, or goes back if the group can't.
    fn leave_out(
        &mut self,
        member: usize,
        conflicts: BTreeSet<usize>,
        overlay: &mut Overlay<'_>,
    ) -> Result<(), Stopped> {
        let next = self.frames.len();
        debug_assert_eq!(self.order.get(next), Some(&Turn::Member(member)));
        if self.view.suffices(&self.numbers_with(|at| at > next)) {
            self.push_frame(Frame::without(Turn::Member(member), conflicts));
            return Ok(());
        }
        self.go_back(conflicts, overlay)
    }

    /// Every member is decided, and they are not enough.
    fn exhausted(&mut self, overlay: &mut Overlay<'_>) -> Stopped {
        match self.go_back(BTreeSet::new(), overlay) {
            Err(stopped) => stopped,
            Ok(()) => self.infeasible(overlay.cluster()),
        }
    }

    /// Goes back to the last decision that could open something.
    fn go_back(
        &mut self,
        mut conflicts: BTreeSet<usize>,
        overlay: &mut Overlay<'_>,
    ) -> Result<(), Stopped> {
        // Those that the group does without have used up what it could do without.
        for frame in self.frames.iter().filter(|frame| matches!(frame.made, Made::Nothing)) {
            conflicts.extend(&frame.conflicts);
        }
        self.gone_back = true;
        loop {
            if self.steps_back == 0 {
                return Err(self.out_of_steps(overlay.cluster()));
            }
            if let Some(at) = self.overdrawn() {
                self.unproven = true;
                conflicts = BTreeSet::from([at]);
            }
            let Some(last) = conflicts.pop_last() else {
                return Err(self.infeasible(overlay.cluster()));
            };
            let Some(frame) = self.cut(last, overlay) else {
                return Err(self.infeasible(overlay.cluster()));
            };
            let Frame { turn, made, tried, resort, conflicts: earlier, kinds } = frame;
            conflicts.extend(earlier);
            match made {
                Made::Placed(spot) => {
                    let after = Some((spot.node, spot.nth));
                    self.trial = Some(Trial { tried, resort, after, conflicts, kinds });
                    return Ok(());
                }
                Made::Within(choice) => {
                    let Turn::Domain(unit) = turn else { continue };
                    if self.choose_next(unit, choice, &mut conflicts) {
                        return Ok(());
                    }
                }
                Made::Nothing => {}
            }
        }
    }

    /// Takes back the decisions from `from` on, and returns that one.
    fn cut(&mut self, from: usize, overlay: &mut Overlay<'_>) -> Option<Frame> {
        let cut = self.take_frames(from);
        if let Some(first) = cut.iter().find_map(Frame::spot) {
            overlay.rollback(first.mark);
        }
        cut.into_iter().next()
    }
}
