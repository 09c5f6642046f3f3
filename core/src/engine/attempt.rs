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
    /// Steps that it may still take to have devices looked at by selectors.
    selecting: u64,
    /// The class that was looked at last; 0: none.
    class: u32,
    /// It has taken more than its nodes explain.
    hard: bool,
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
    fn of(entry: EntryId, selecting: u64) -> Search {
        Search {
            entry,
            pauses: 0,
            laid_out: 0,
            selecting,
            class: 0,
            hard: false,
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
/// Hard searches that are carried on side by side; the others wait until one of these has ended, and
/// keep nothing meanwhile.
const HARD_MAX: usize = 16;

/// Of so many polls one is for hard searches, while others wait too.
pub(super) const HARD_EVERY: u32 = 4;

/// An attempt costs this besides its plugin calls on nodes: gates, PreFilter, Reserve, reports.
const STEPS_AN_ATTEMPT: u64 = 20;

impl Engine {
    /// Looks at a paused search, at one that has its answer, or at the next entry. Returns false if
    /// there is none.
    pub(super) fn attempt_next(&mut self, budget: &mut Budget) -> bool {
        let Some(search) = self.next_search() else { return false };
        self.attempt(search, budget);
        budget.spend(STEPS_AN_ATTEMPT);
        true
    }

    /// Hard searches, which have taken more than their nodes explain, get one poll in
    /// [`HARD_EVERY`], so that nobody waits long behind a hard problem; what they take beyond a
    /// poll's steps the others have first.
    fn next_search(&mut self) -> Option<Search> {
        let hard_turn = self.turn == 0 && self.owed == 0;
        let hard = if hard_turn { self.hard.pop_front() } else { None };
        let begun = hard.or_else(|| self.paused.pop_front());
        if let Some(search) = begun.or_else(|| self.answered.pop_front()) {
            return Some(search);
        }
        match self.queue.pop(&self.cluster, self.now) {
            Some(id) => Some(Search::of(id, self.selecting_steps(id))),
            None => self.hard.pop_front(),
        }
    }

    /// The others had their turn of so many steps, if nothing was lent since `owed_before`.
    pub(super) fn pay_back(&mut self, owed_before: u64, steps: u64) {
        let waits =
            self.queue.counts().active > 0 || !self.answered.is_empty() || !self.paused.is_empty();
        if !waits || self.hard.is_empty() {
            self.owed = 0;
        } else if self.owed <= owed_before {
            self.owed = self.owed.saturating_sub(steps.max(1));
        }
    }

    /// Has a search go on with a later poll.
    fn pause(&mut self, mut search: Search) {
        if search.hard {
            self.hard.insert(self.hard.len().min(HARD_MAX - 1), search);
        } else if self.is_hard(&search) {
            search.hard = true;
            let mut carried_on = self.hard.iter().take(HARD_MAX);
            if carried_on.len() == HARD_MAX && carried_on.all(|it| it.class != search.class) {
                self.classes.forget_table(search.class);
            }
            self.hard.push_back(search);
        } else {
            self.paused.push_back(search);
        }
    }

    /// Tells whether a search has taken more than its nodes explain: a poll for what is done once,
    /// and then every plugin asked twice about each.
    fn is_hard(&self, search: &Search) -> bool {
        let Some(entry) = self.queue.entry(search.entry) else { return false };
        let profile = &self.profiles[entry.profile];
        let plugins = match search.class {
            0 => 0,
            _ => profile.filter.len() + profile.score.len(),
        };
        let calls = 2 * plugins * self.cluster.nodes().capacity();
        search.spent > calls as u64 + self.setup.limits.steps_a_poll
    }

    /// Returns the steps that an entry's search may take to have devices looked at by selectors.
    fn selecting_steps(&self, id: EntryId) -> u64 {
        let profile = self.queue.entry(id).map(|entry| &self.profiles[entry.profile]);
        let classify = profile.into_iter().flat_map(|profile| &profile.classify);
        classify.map(|entry| entry.plugin.selecting_steps_max()).min().unwrap_or(u64::MAX)
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
        if self.is_hard(&search) {
            let lent = spent.saturating_sub(self.setup.limits.steps_a_poll);
            let turns = u64::from(HARD_EVERY) - 1;
            self.owed = self.owed.saturating_add(lent.saturating_mul(turns));
        }
        match result {
            Ok(found) => self.found(search, found),
            Err(Stopped::At(_, Unplaced::Paused)) => {
                search.pauses += 1;
                budget.exhaust();
                self.pause(search);
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
            selecting: search.selecting,
            allowed: allowed.collect(),
            within: Vec::new(),
            open: None,
            last_class: (0, false),
            counts_pods: false,
            unproven: false,
        };
        let mut overlay = Overlay::new(&mut self.cluster);
        let placed = match &mut search.gang {
            Some(gang) => place_gang(gang, &mut placer, &mut overlay, budget),
            None => place_single(&entry, &mut placer, &mut overlay, budget),
        };
        search.laid_out += placer.laid_out;
        search.selecting = placer.selecting;
        search.class = placer.last_class().0;
        let placed = placed?;
        let mut found = drafted(placer.profile, &overlay, placed, self.now, timing)?;
        overlay.commit();
        self.stirs += 1;
        found.commit = self.commit_note(&entry, found.placements.len());
        Ok(found)
    }
}
