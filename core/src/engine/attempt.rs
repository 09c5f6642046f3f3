//! One attempt to place an entry: every member on one overlay, all or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::queue::EntryId;
use crate::snapshot::Overlay;
use crate::types::{PodUid, Text};

use super::Engine;
use super::asking::Asked;
use super::budget::Budget;
use super::folding::ClosedGate;
use super::found::{Found, drafted, place_gang, place_single};
use super::gang::{Gang, Stopped};
use super::guard::guarded;
use super::placing::Placer;
use super::timing::Timing;
use super::unfit::Unplaced;

/// An entry that is being looked at, over several polls if need be.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) entry: EntryId,
    pub(super) pauses: u32,
    /// How often a class's table was begun anew on its behalf.
    laid_out: u32,
    pub(super) spent: u64,
    /// The question that it waits for.
    pub(super) asked: Option<Asked>,
    /// Nodes that consultants allowed, by member and index of the consultant. Names, since an
    /// index may be another node's by the time it is read.
    pub(super) allowed: BTreeMap<(PodUid, usize), BTreeSet<Text>>,
    /// How far the search of a group is.
    pub(super) gang: Option<Box<Gang>>,
    /// What had happened ([`Engine::stirs`]) when its gates were asked last.
    let_in: Option<u64>,
}

impl Search {
    fn of(entry: EntryId) -> Search {
        Search {
            entry,
            pauses: 0,
            laid_out: 0,
            spent: 0,
            asked: None,
            allowed: BTreeMap::new(),
            gang: None,
            let_in: None,
        }
    }
}

/// A search of one pod gets overtime when its table was begun anew more often than this.
const LAID_OUT_PATIENTLY: u32 = 2;
/// Searches that are paused at a time; with more, nobody new is begun with.
const PAUSED_MAX: usize = 16;

/// An attempt costs this besides its plugin calls on nodes: gates, PreFilter, Reserve, reports.
const STEPS_AN_ATTEMPT: u64 = 20;

impl Engine {
    /// Looks at a paused search, at one that has its answer, or at the next entry. Returns false if
    /// there is none.
    pub(super) fn attempt_next(&mut self, budget: &mut Budget) -> bool {
        let begun = match self.gives_way() {
            true => None,
            false => self.paused.pop_front().or_else(|| self.answered.pop_front()),
        };
        let search = match begun {
            Some(search) => search,
            None => match self.queue.pop(&self.cluster, self.now) {
                Some(id) => Search::of(id),
                None => return false,
            },
        };
        self.attempt(search, budget);
        budget.spend(STEPS_AN_ATTEMPT);
        true
    }

    /// Tells whether the paused search waits while others have their turn: one that has taken more
    /// polls than its nodes explain gets every other poll only, so that nobody waits behind a hard
    /// problem.
    fn gives_way(&self) -> bool {
        let hard = |search: &Search| u64::from(search.pauses) > self.patience(search);
        let waits = self.queue.counts().active > 0 || !self.answered.is_empty();
        !self.paused_first
            && waits
            && self.paused.len() < PAUSED_MAX
            && self.paused.front().is_some_and(hard)
    }

    fn attempt(&mut self, search: Search, budget: &mut Budget) {
        let sampled = self.attempts_timed.next();
        let profile = self.queue.entry(search.entry).map_or(0, |entry| entry.profile);
        let stopwatch = Arc::clone(&self.setup.stopwatch);
        let timing = Timing::new(stopwatch.as_ref(), profile, sampled);
        let paused = self.search(search, budget, timing);
        timing.rest();
        // What a search has taken that goes on with a later poll counts when it ends.
        if !paused {
            timing.end();
        }
    }

    /// Returns whether the search goes on with a later poll.
    fn search(&mut self, mut search: Search, budget: &mut Budget, timing: Timing<'_>) -> bool {
        let id = search.entry;
        if let Err(gate) = self.let_in_again(&mut search, timing.unsampled()) {
            self.queue.admit(id, Some(gate.plugin), self.now, self.now);
            self.tell_gated(id, gate, None);
            return false;
        }
        let mut own = *budget;
        own.extend(self.overtime(&search));
        // Points without a guard of their own (reads, explanations of a class) are caught here; the
        // overlay is taken back on the way.
        let place = || self.place_members(&mut search, &mut own, timing);
        let result = guarded("in its cycle", place);
        let result = result.unwrap_or_else(|fault| {
            let leader = self.queue.entry(id).and_then(|entry| entry.members.first().cloned());
            Err(Stopped::At(leader.unwrap_or_default(), Unplaced::Error(fault)))
        });
        let spent = own.spent() - budget.spent();
        search.spent += spent;
        budget.spend(spent);
        match result {
            Ok(found) => self.found(search, found),
            Err(Stopped::At(_, Unplaced::Paused)) => {
                search.pauses += 1;
                budget.exhaust();
                self.paused.push_back(search);
                return true;
            }
            Err(Stopped::At(uid, Unplaced::Ask { consultant, nodes })) => {
                self.ask(search, &uid, consultant, &nodes);
            }
            Err(Stopped::OutOfSteps(uid, Unplaced::Unfit(unfit))) => {
                self.out_of_steps(&search, &uid, *unfit);
            }
            Err(
                Stopped::At(uid, Unplaced::Unfit(unfit))
                | Stopped::Infeasible(uid, Unplaced::Unfit(unfit)),
            ) => self.unfit(search, &uid, *unfit, timing),
            Err(
                Stopped::At(uid, unplaced)
                | Stopped::Infeasible(uid, unplaced)
                | Stopped::OutOfSteps(uid, unplaced),
            ) => {
                self.errored(&search, &uid, unplaced.fault());
            }
        }
        false
    }

    /// Asks the gates, and begins with a group or goes on with it. What was let in is asked again when
    /// something has happened since.
    fn let_in_again(&self, search: &mut Search, timing: Timing<'_>) -> Result<(), ClosedGate> {
        if search.let_in.replace(self.stirs) == Some(self.stirs) {
            return Ok(());
        }
        if let Some(ready) = self.let_in(search.entry, timing)? {
            self.begin_gang(search, ready);
        }
        Ok(())
    }

    /// Returns the steps that a search may take beyond its poll's budget, so that it ends.
    ///
    /// A single pod's search keeps what it has worked out, so it gets none until that was begun anew
    /// time and again (an index that moves at each poll does that). A group starts over with its
    /// first member: it gets more each time.
    fn overtime(&self, search: &Search) -> u64 {
        let steps = self.setup.limits.steps_a_poll.max(1);
        let group = self.queue.entry(search.entry).is_some_and(|entry| entry.members.len() > 1);
        let begun_anew = match group {
            true => search.pauses,
            false => search.laid_out.saturating_sub(LAID_OUT_PATIENTLY),
        };
        u64::from(begun_anew).saturating_mul(steps)
    }

    /// Returns how often a search may pause before it has taken more than its nodes explain.
    fn patience(&self, search: &Search) -> u64 {
        let steps = self.setup.limits.steps_a_poll.max(1);
        let Some(entry) = self.queue.entry(search.entry) else { return 0 };
        let profile = &self.profiles[entry.profile];
        let calls = (profile.filter.len() + profile.score.len()) * self.cluster.nodes().capacity();
        2 * (calls as u64 / steps + 1)
    }

    /// Places every member on an overlay; commits it if all that are needed have a place.
    fn place_members(
        &mut self,
        search: &mut Search,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) -> Result<Found, Stopped> {
        let Some(entry) = self.queue.entry(search.entry).cloned() else {
            return Ok(Found::default());
        };
        let nodes = self.cluster.nodes();
        let allowed = search.allowed.iter().map(|(about, names)| {
            (about.clone(), names.iter().filter_map(|name| nodes.index(name)).collect())
        });
        let mut placer = Placer {
            profile: &self.profiles[entry.profile],
            profile_idx: entry.profile,
            classes: &mut self.classes,
            setup: &self.setup,
            timing,
            attempt: entry.attempts,
            ties: search.gang.as_ref().map_or(entry.attempts, |gang| gang.ties(entry.attempts)),
            group: search.gang.is_some(),
            laid_out: 0,
            allowed: allowed.collect(),
            within: Vec::new(),
            last_class: (0, false),
            unproven: false,
        };
        let mut overlay = Overlay::new(&mut self.cluster);
        let placed = match &mut search.gang {
            Some(gang) => place_gang(gang, &mut placer, &mut overlay, budget),
            None => place_single(&entry, &mut placer, &mut overlay, budget),
        };
        search.laid_out += placer.laid_out;
        let placed = placed?;
        let mut found = drafted(placer.profile, &overlay, placed, self.now, timing)?;
        overlay.commit();
        self.stirs += 1;
        found.commit = self.commit_note(&entry, found.placements.len());
        Ok(found)
    }
}
