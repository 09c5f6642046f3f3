//! The decisions of a search, in the order in which they were made.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::budget::Budget;
use crate::engine::placing::{Placed, Placer};
use crate::framework::{NodeSet, Placement};
use crate::snapshot::{IndexRef, NodeIdx, Overlay};

use super::Gang;

/// What is to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Where the members of a unit may go; before its first member.
    Domain(usize),
    /// Where a member goes.
    Member(usize),
}

impl Turn {
    pub(super) fn member(&self) -> Option<usize> {
        match self {
            Turn::Member(member) => Some(*member),
            Turn::Domain(_) => None,
        }
    }
}

/// What was decided.
#[derive(Debug)]
pub(super) enum Made {
    Placed(Placed),
    Within(Choice),
    /// The group does without it.
    Nothing,
}

/// A placement among those that there are for a unit, best first.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) candidates: Vec<Arc<Placement>>,
    pub(super) at: usize,
    /// When so many steps are left for going back, the next candidate has its turn.
    pub(super) until: u64,
}

/// Nodes that a member doesn't go to, as a bind there was refused, unless nothing else is left.
#[derive(Debug)]
pub(in crate::engine) struct Refused {
    /// Where it was, the last time round.
    pub(in crate::engine) on: NodeSet,
    /// It was refused on so many that it is taken to be refused on all.
    pub(in crate::engine) everywhere: bool,
}

/// How far it has come to that a member goes where it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resort {
    /// Nowhere where it is taken to be.
    #[default]
    None,
    /// Where it has not been, though it is taken to be refused there too.
    Untried,
    Anywhere,
}

/// A decision.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) turn: Turn,
    pub(super) made: Made,
    /// Nodes on which every way led nowhere.
    pub(super) tried: NodeSet,
    pub(super) resort: Resort,
    /// Earlier decisions that, changed, may open what was tried here.
    pub(super) conflicts: BTreeSet<usize>,
    /// Kinds of members that had their turn here in vain.
    pub(super) kinds: BTreeSet<usize>,
}

impl Frame {
    pub(super) fn new(turn: Turn, made: Made, conflicts: BTreeSet<usize>) -> Frame {
        let (tried, kinds) = (NodeSet::default(), BTreeSet::new());
        Frame { turn, made, tried, resort: Resort::None, conflicts, kinds }
    }

    pub(super) fn without(turn: Turn, conflicts: BTreeSet<usize>) -> Frame {
        Frame::new(turn, Made::Nothing, conflicts)
    }

    pub(super) fn member(&self) -> Option<usize> {
        self.turn.member()
    }

    /// Returns where its member is placed.
    pub(super) fn spot(&self) -> Option<&Placed> {
        match &self.made {
            Made::Placed(spot) => Some(spot),
            Made::Within(_) | Made::Nothing => None,
        }
    }

    /// Returns the placement that its unit goes to.
    pub(super) fn placement(&self) -> Option<&Arc<Placement>> {
        match &self.made {
            Made::Within(choice) => choice.candidates.get(choice.at),
            Made::Placed(_) | Made::Nothing => None,
        }
    }
}

/// A member that is to be decided.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) tried: NodeSet,
    pub(super) resort: Resort,
    /// Go on after this way on this node.
    pub(super) after: Option<(NodeIdx, u32)>,
    pub(super) conflicts: BTreeSet<usize>,
    /// Kinds of members that had their turn in vain.
    pub(super) kinds: BTreeSet<usize>,
}

impl Gang {
    /// Returns the members that have been placed.
    pub(super) fn placed_members(&self) -> BTreeSet<usize> {
        let placed = self.frames.iter().filter(|frame| frame.spot().is_some());
        placed.filter_map(Frame::member).collect()
    }

    pub(super) fn push_frame(&mut self, frame: Frame) {
        if let Turn::Domain(unit) = frame.turn {
            self.chosen.insert(unit, self.frames.len());
        }
        self.count(&frame, 1);
        self.frames.push(frame);
    }

    /// Takes out the decisions from `from` on; what they have on the overlay stays there.
    pub(super) fn take_frames(&mut self, from: usize) -> Vec<Frame> {
        let taken = self.frames.split_off(from.min(self.frames.len()));
        taken.iter().for_each(|frame| self.count(frame, -1));
        self.chosen.retain(|_, at| *at < from);
        taken
    }

    fn count(&mut self, frame: &Frame, sign: i32) {
        if let (Some(member), Some(spot)) = (frame.member(), frame.spot()) {
            self.count_for_limits(member, spot.node, sign);
            for unit in &self.view.members[member].units {
                self.in_place[*unit] = self.in_place[*unit].saturating_add_signed(sign);
            }
        }
    }

    /// Takes the decisions of earlier polls up on a new overlay. Where something has changed since,
    /// the filters are asked again; from the first that no longer fits on, all is decided anew.
    pub(super) fn take_up(
        &mut self,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) {
        let moved = self.moved(overlay);
        let any_chosen = !self.chosen.is_empty();
        let frames = self.take_frames(0);
        let topology = overlay.cluster().index_version(&IndexRef::Topology);
        let peers = self.peers(overlay);
        let moved_on = self.topology.replace(topology) != Some(topology) || self.peers != peers;
        self.peers = peers;
        if moved_on && (any_chosen || !self.limits.is_empty()) {
            // Placements may hold other nodes now, or another group has gone first.
            self.trial = None;
            return;
        }
        for mut frame in frames {
            budget.spend(1);
            if let (Made::Placed(spot), Some(member)) = (&mut frame.made, frame.turn.member()) {
                let check = moved
                    .as_ref()
                    .is_some_and(|nodes| !spot.independent || nodes.contains(&spot.node));
                placer.stay_within(overlay, self.placements_of(member));
                if !placer.place_as_before(overlay, self.uid(member), spot, check, budget) {
                    // What was tried after it was tried beside it.
                    self.trial = None;
                    return;
                }
            }
            self.push_frame(frame);
        }
    }

    /// Returns the nodes used that have changed since the search was last at work; `None` if nothing
    /// has happened at all.
    fn moved(&mut self, overlay: &Overlay<'_>) -> Option<BTreeSet<NodeIdx>> {
        let cluster = overlay.cluster();
        if std::mem::replace(&mut self.folded, cluster.folded()) == cluster.folded() {
            return None;
        }
        let mut moved = BTreeSet::new();
        for (node, before) in &mut self.before {
            let now = cluster.nodes().slot(*node).version;
            if std::mem::replace(before, now) != now {
                moved.insert(*node);
            }
        }
        Some(moved)
    }
}
