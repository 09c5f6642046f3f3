//! The decisions of a search, in the order in which they were made.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::placing::Placed;
use crate::framework::{NodeSet, Placement};
use crate::snapshot::NodeIdx;

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

/// A decision.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) turn: Turn,
    pub(super) made: Made,
    /// Nodes on which every way led nowhere.
    pub(super) tried: NodeSet,
    pub(super) last_resort: bool,
    /// Earlier decisions that, changed, may open what was tried here.
    pub(super) conflicts: BTreeSet<usize>,
}

impl Frame {
    pub(super) fn new(turn: Turn, made: Made, conflicts: BTreeSet<usize>) -> Frame {
        Frame { turn, made, tried: NodeSet::default(), last_resort: false, conflicts }
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
}

/// A member that is to be decided.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) tried: NodeSet,
    /// It has come to the nodes that have refused the member.
    pub(super) last_resort: bool,
    /// Go on after this way on this node.
    pub(super) after: Option<(NodeIdx, u32)>,
    pub(super) conflicts: BTreeSet<usize>,
}

impl Gang {
    pub(super) fn push_frame(&mut self, frame: Frame) {
        if let Turn::Domain(unit) = frame.turn {
            self.chosen.insert(unit, self.frames.len());
        }
        self.frames.push(frame);
    }
}
