//! What a search is about, read from the ledger once: requests, and the devices that they could
//! take, by index.

use std::ops::Range;

use berth_core::snapshot::devices::pools::SliceIdx;
use berth_core::types::Text;

use super::choice::Choice;
use super::counters::{Counters, Draw};
use super::values::Column;

#[derive(Debug, Default)]
pub(super) struct Problem {
    /// Every request, claims one after the other.
    pub(super) needs: Vec<Need>,
    /// Every alternative of every request.
    pub(super) asks: Vec<Ask>,
    /// What equal alternatives have in common.
    pub(super) profiles: Vec<Profile>,
    /// In upstream's order.
    pub(super) devices: Vec<Device>,
    pub(super) draws: Vec<Draw>,
    pub(super) counters: Counters,
    /// What is left of each capacity of the devices that are shared. Unit: billionths.
    pub(super) rooms: Vec<i128>,
    /// What candidates give of their capacities. Unit: billionths.
    pub(super) amounts: Vec<Box<[i128]>>,
    pub(super) rules: Vec<Rule>,
    /// Values of the attributes that rules name.
    pub(super) columns: Vec<Column>,
    pub(super) n_claims: usize,
    pub(super) choice: Choice,
    pub(super) notes: Notes,
}

/// A request of a claim: one of its alternatives is to be met.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) claim: u32,
    pub(super) asks: Range<u32>,
}

/// An alternative of a request.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) claim: u32,
    pub(super) request: u32,
    pub(super) alternative: u32,
    pub(super) profile: u32,
    pub(super) count: usize,
    /// The claim's constraints that cover it.
    pub(super) rules: Vec<u32>,
}

/// The devices that a request could take, looked at one by one.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) candidates: Vec<Candidate>,
    /// All of them or none.
    pub(super) all: bool,
    pub(super) admin: bool,
    /// It wants all, and one can't be had.
    pub(super) blocked: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) device: u32,
    /// Index of what it would give; only of devices that are shared.
    pub(super) amounts: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) slice: SliceIdx,
    /// Place in the slice.
    pub(super) at: u32,
    /// Several may have it at once.
    pub(super) shared: bool,
    /// Somebody has it for himself.
    pub(super) taken: bool,
    /// What it draws is charged already.
    pub(super) charged: bool,
    pub(super) binding: bool,
    /// Devices of one number can be used on the same nodes; 0: on this one only. Told only where
    /// solutions are told apart.
    pub(super) reach: u32,
    /// It is like no other, as far as is known.
    pub(super) odd: bool,
    pub(super) draws: Range<u32>,
    pub(super) room: Range<u32>,
}

/// A constraint of a claim.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) claim: u32,
    pub(super) column: u32,
    pub(super) distinct: bool,
}

/// What was passed over, to be named if there is no solution.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) invalid_pool: bool,
    pub(super) error: Option<NoValue>,
    /// A selector that has not looked at a device that would have mattered.
    pub(super) unknown: Option<Text>,
    /// A device, and what of it isn't supported.
    pub(super) unsupported: Option<(Text, Text)>,
    /// An alternative for all, and a device of it that a constraint refuses.
    pub(super) mismatch: Option<(u32, u32)>,
}

/// A selector that has no value for a device that would have mattered.
#[derive(Debug)]
pub(super) struct NoValue {
    pub(super) slice: SliceIdx,
    pub(super) at: usize,
    pub(super) expression: Text,
}

impl Problem {
    pub(super) fn profile(&self, ask: u32) -> &Profile {
        &self.profiles[self.asks[ask as usize].profile as usize]
    }

    pub(super) fn candidate(&self, ask: u32, at: u32) -> Candidate {
        self.profile(ask).candidates[at as usize]
    }

    pub(super) fn draws_of(&self, device: u32) -> &[Draw] {
        let Range { start, end } = self.devices[device as usize].draws;
        &self.draws[start as usize..end as usize]
    }

    pub(super) fn room_of(&self, device: u32) -> Range<usize> {
        let Range { start, end } = self.devices[device as usize].room;
        start as usize..end as usize
    }

    /// Returns the least number of devices that meets a request.
    pub(super) fn least(&self, need: &Need) -> usize {
        let asks = &self.asks[need.asks.start as usize..need.asks.end as usize];
        asks.iter().map(|ask| ask.count).min().unwrap_or(0)
    }
}
