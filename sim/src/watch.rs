//! The watches of one process: what it sees of the [`World`], and when.
//!
//! Events of one kind come in the order of their versions, as the API server promises; kinds
//! overtake each other freely. A watch that loses its place lists again, and tells what its list
//! lacks as deleted.

use std::collections::{BTreeMap, VecDeque};

use berth_core::engine::Input;
use berth_core::framework::rng::Rng;
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Span, Text, Timestamp};

use crate::fault::{Fault, FaultPlan};
use crate::world::{Key, Kind, Logged, World, deletes, deletion_of};

/// The watches of one process, one a kind.
#[derive(Debug)]
pub(crate) struct Watches {
    feeds: Vec<Feed>,
    /// Version up to which the log was read.
    scanned: u64,
    /// The newest version that was handed in, of any kind.
    newest: u64,
}

#[derive(Debug)]
struct Feed {
    kind: Kind,
    queue: VecDeque<Coming>,
    /// Nothing comes before this.
    held_until: Timestamp,
    /// The fault that holds it, until an event is really late by it.
    held_by: Option<Fault>,
    /// When the last of the queue comes, so that none overtakes it.
    last_at: Timestamp,
    /// What the process knows, with the event that would say it is gone.
    known: BTreeMap<Key, ClusterEvent>,
    /// The last events, for repeating them.
    recent: VecDeque<Logged>,
    unsynced_at: Option<Timestamp>,
    list_at: Option<Timestamp>,
    /// The second page of a list, and when it comes.
    page: Option<(Timestamp, Vec<Input>)>,
    synced_at: Option<Timestamp>,
    /// A deletion was missed; it is found by a list.
    missed: bool,
}

#[derive(Debug)]
struct Coming {
    at: Timestamp,
    logged: Logged,
    /// It has come before.
    again: bool,
}

const RECENT: usize = 3;

impl Watches {
    /// Every kind is to be listed.
    pub(crate) fn new(now: Timestamp, rng: &mut Rng) -> Watches {
        let feed = |kind| Feed {
            kind,
            queue: VecDeque::new(),
            held_until: now,
            held_by: None,
            last_at: now,
            known: BTreeMap::new(),
            recent: VecDeque::new(),
            unsynced_at: None,
            list_at: Some(now + Span(20 + rng.below(300))),
            page: None,
            synced_at: None,
            missed: false,
        };
        Watches { feeds: Kind::played().map(feed).collect(), scanned: 0, newest: 0 }
    }

    /// Takes over what was logged since the last call.
    pub(crate) fn pull(&mut self, world: &World, latency: &mut Rng, plan: &mut FaultPlan) {
        for logged in world.since(self.scanned) {
            let delay = Span(1 + latency.below(5));
            let feed = &mut self.feeds[logged.kind as usize];
            if feed.list_at.is_some() {
                // The list will have it.
                continue;
            }
            let at = (logged.at + delay).max(feed.held_until).max(feed.last_at);
            if at > logged.at + delay
                && let Some(fault) = feed.held_by.take()
            {
                plan.took_effect(fault);
            }
            feed.last_at = at;
            feed.queue.push_back(Coming { at, logged: logged.clone(), again: false });
        }
        self.scanned = world.version();
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.feeds.iter().filter_map(Feed::next).min()
    }

    /// Returns what comes at `now`, in order.
    pub(crate) fn deliver(
        &mut self,
        world: &World,
        now: Timestamp,
        plan: &mut FaultPlan,
    ) -> Vec<Input> {
        let mut inputs = Vec::new();
        for feed in &mut self.feeds {
            if feed.next().is_some_and(|at| at <= now) {
                feed.deliver(world, now, plan, &mut self.newest, &mut inputs);
            }
        }
        inputs
    }

    /// Nothing of `kind` comes before `until`, by `fault`.
    pub(crate) fn hold(&mut self, kind: Kind, until: Timestamp, fault: Fault) {
        let feed = &mut self.feeds[kind as usize];
        feed.held_by = Some(fault);
        feed.held_until = feed.held_until.max(until);
        feed.last_at = feed.last_at.max(until);
        for coming in &mut feed.queue {
            coming.at = coming.at.max(until);
        }
    }

    /// The watch of `kind` finds at `known_at` that it must list again; the list comes at `list_at`.
    pub(crate) fn lose_place(&mut self, kind: Kind, known_at: Timestamp, list_at: Timestamp) {
        let feed = &mut self.feeds[kind as usize];
        feed.queue.clear();
        feed.unsynced_at = Some(known_at);
        feed.list_at = Some(list_at);
        feed.synced_at = None;
        // Deletions that were found and not told yet are to be found again.
        for input in feed.page.take().into_iter().flat_map(|(_, page)| page) {
            if let Input::Cluster(event) = input
                && deletes(&event)
            {
                feed.known.insert(Key::of(&event), event);
            }
        }
    }

    /// Returns the kinds of which a deletion was missed.
    pub(crate) fn missed(&self) -> Vec<Kind> {
        self.feeds.iter().filter(|feed| feed.missed).map(|feed| feed.kind).collect()
    }
}

impl Feed {
    fn next(&self) -> Option<Timestamp> {
        let event = self.queue.front().map(|coming| coming.at);
        let page = self.page.as_ref().map(|(at, _)| *at);
        [event, self.unsynced_at, self.list_at, page, self.synced_at].into_iter().flatten().min()
    }

    fn deliver(
        &mut self,
        world: &World,
        now: Timestamp,
        plan: &mut FaultPlan,
        newest: &mut u64,
        inputs: &mut Vec<Input>,
    ) {
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        if due(self.unsynced_at) {
            self.unsynced_at = None;
            inputs.push(self.watch(false));
        }
        if due(self.list_at) {
            *newest = (*newest).max(world.version());
            self.list_at = None;
            let second = now + Span(1 + plan.draw(Fault::PlaceLost, 200));
            self.last_at = self.last_at.max(second + Span(5));
            self.synced_at = Some(second + Span(5));
            let mut pages = self.list(world);
            self.page = Some((second, pages.split_off(pages.len() / 2)));
            inputs.append(&mut pages);
        }
        if let Some((_, page)) = self.page.take_if(|(at, _)| *at <= now) {
            inputs.extend(page);
        }
        if due(self.synced_at) {
            self.synced_at = None;
            inputs.push(self.watch(true));
        }
        while self.queue.front().is_some_and(|coming| coming.at <= now) {
            let Some(coming) = self.queue.pop_front() else { break };
            self.event(coming, plan, newest, inputs);
        }
    }

    fn watch(&self, synced: bool) -> Input {
        Input::Watch { kind: Text::from(self.kind.as_str()), synced }
    }

    /// What the list lacks was deleted meanwhile.
    fn list(&mut self, world: &World) -> Vec<Input> {
        self.queue.clear();
        self.recent.clear();
        self.missed = false;
        let listed = world.list(self.kind);
        let mut gone = std::mem::take(&mut self.known);
        for event in &listed {
            let key = Key::of(event);
            gone.remove(&key);
            self.known.insert(key, deletion_of(event));
        }
        listed.into_iter().chain(gone.into_values()).map(Input::Cluster).collect()
    }

    fn event(
        &mut self,
        Coming { at, logged, again }: Coming,
        plan: &mut FaultPlan,
        newest: &mut u64,
        inputs: &mut Vec<Input>,
    ) {
        if again {
            inputs.push(Input::Cluster((*logged.event).clone()));
            return;
        }
        if deletes(&logged.event) && plan.strikes(Fault::DeleteMissed) {
            plan.took_effect(Fault::DeleteMissed);
            self.missed = true;
            return;
        }
        if logged.resource_version < *newest {
            plan.took_effect(Fault::Reordered);
        }
        *newest = (*newest).max(logged.resource_version);
        self.remember(&logged);
        inputs.push(Input::Cluster((*logged.event).clone()));
        self.recent.push_back(logged);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if plan.strikes(Fault::Repeated) {
            plan.took_effect(Fault::Repeated);
            self.repeat(at, plan);
        }
    }

    /// The watch goes on from an older place: the last events come once more, one by one.
    fn repeat(&mut self, now: Timestamp, plan: &mut FaultPlan) {
        let skip = plan.draw(Fault::Repeated, self.recent.len() as u64) as usize;
        for (place, logged) in self.recent.iter().skip(skip).enumerate().rev() {
            let at = now + Span(5 * (1 + place as u64));
            self.queue.push_front(Coming { at, logged: logged.clone(), again: true });
        }
    }

    fn remember(&mut self, logged: &Logged) {
        let key = Key::of(&logged.event);
        if deletes(&logged.event) {
            self.known.remove(&key);
        } else {
            self.known.insert(key, deletion_of(&logged.event));
        }
    }
}
