//! Groups when nothing happens any more: one that waits fits nowhere, and its members are told what
//! is so.

use std::collections::BTreeMap;

use berth_core::types::{GroupKey, Node, Pod, Text};

use crate::world::World;

use super::claims::Book;
use super::roster::{Missing, Roster, bound, leaf};
use super::{model, solve};

/// Placements that are tried for one group before it is given up.
const TRIES_MAX: u32 = 20_000;

/// A member that could be placed.
fn waits(pod: &Pod) -> bool {
    pod.node_name.is_none() && !pod.terminating && !pod.finished()
}

fn ready(pod: &Pod, book: &Book) -> bool {
    waits(pod) && pod.gates.is_empty() && solve::unready(book, pod).is_none()
}

/// I5: no group waits whose members fit, together with those that are on nodes.
///
/// Of members with claims, or that are spread, no placement is tried.
pub(super) fn misplaced(world: &World, book: &Book, roster: &Roster) -> Option<String> {
    roster.outermost().iter().find_map(|key| {
        let members = roster.members(key);
        let open: Vec<&Pod> = members.into_iter().filter(|pod| ready(pod, book)).collect();
        let counts = |pod: &Pod| bound(pod) || ready(pod, book);
        if open.is_empty() || refused(roster, key) || roster.missing(key, &counts).is_some() {
            return None;
        }
        let mut search = Search::new(world, roster, key, &open)?;
        let found = search.place(0);
        (found && search.tries < TRIES_MAX).then(|| {
            let places = open.iter().zip(&search.answer);
            let names: Vec<String> = places
                .map(|(pod, node)| {
                    let on = node.as_ref().map_or("nowhere", |node| node.name.as_str());
                    format!("{}@{on}", pod.name)
                })
                .collect();
            let said = open[0].unscheduled.as_ref().map(|c| c.message.as_str());
            format!("group {key} waits but fits: {} ({said:?})", names.join(" "))
        })
    })
}

/// Members that can't start together.
fn refused(roster: &Roster, key: &GroupKey) -> bool {
    let members = roster.members(key);
    let live = || members.iter().filter(|pod| !pod.finished() && !pod.terminating);
    let uneven = roster.object(key).is_some_and(|object| object.uneven_priorities);
    !uneven && live().any(|pod| live().next().is_some_and(|first| first.priority != pod.priority))
}

/// Tries every placement of the members that wait: each goes to a node, or is left out.
struct Search<'a> {
    world: &'a World,
    roster: &'a Roster,
    key: &'a GroupKey,
    open: &'a [&'a Pod],
    /// Nodes that each may be on, others apart.
    nodes: Vec<Vec<&'a Node>>,
    placed: Vec<Option<&'a Node>>,
    /// The placement that was found.
    answer: Vec<Option<&'a Node>>,
    tries: u32,
}

impl<'a> Search<'a> {
    fn new(
        world: &'a World,
        roster: &'a Roster,
        key: &'a GroupKey,
        open: &'a [&'a Pod],
    ) -> Option<Search<'a>> {
        let hard = |pod: &&&Pod| !pod.spec.claims.is_empty() || !pod.spec.spread.is_empty();
        if open.iter().any(|pod| hard(&pod)) {
            return None;
        }
        let fits = |pod: &Pod| {
            let free = |node: &&Node| {
                model::reasons(world, pod, node).is_empty() && !world.denies(&pod.name, &node.name)
            };
            world.nodes().filter(free).collect()
        };
        let nodes = open.iter().map(|pod| fits(pod)).collect();
        Some(Search {
            world,
            roster,
            key,
            open,
            nodes,
            placed: Vec::new(),
            answer: Vec::new(),
            tries: 0,
        })
    }

    /// Places the members from `at` on. True if the group then has what it needs and at least one
    /// more member than it has.
    fn place(&mut self, at: usize) -> bool {
        self.tries += 1;
        if self.tries >= TRIES_MAX {
            return false;
        }
        if at == self.open.len() {
            let on = |pod: &Pod| {
                let place = self.open.iter().position(|open| open.uid == pod.uid);
                place.is_some_and(|place| self.placed[place].is_some())
            };
            // A group in the group begins with what it needs, too.
            let counts = |pod: &Pod| bound(pod) || on(pod);
            let mut new = self.open.iter().filter(|pod| on(pod)).peekable();
            let some = new.peek().is_some();
            let parts = new.filter_map(|pod| leaf(pod));
            let mut keys: Vec<GroupKey> = parts.chain([self.key.clone()]).collect();
            keys.dedup();
            let found = some && keys.iter().all(|key| self.roster.missing(key, &counts).is_none());
            if found {
                self.answer = self.placed.clone();
            }
            return found;
        }
        for node in self.nodes[at].clone() {
            if self.has_room(at, node) {
                self.placed.push(Some(node));
                let found = self.place(at + 1);
                self.placed.pop();
                if found {
                    return true;
                }
            }
        }
        self.placed.push(None);
        let found = self.place(at + 1);
        self.placed.pop();
        found
    }

    /// Tells whether the node has room for one more beside those that the search has put there.
    fn has_room(&self, at: usize, node: &Node) -> bool {
        let pod = self.open[at];
        let beside = self.placed.iter().enumerate().filter_map(|(other, on)| {
            on.filter(|on| on.name == node.name).map(|_| self.open[other])
        });
        let beside: Vec<&Pod> = beside.collect();
        let on = |other: &&Pod| other.node_name.as_ref() == Some(&node.name) && !other.finished();
        let placed: Vec<&Pod> = self.world.pods().filter(on).chain(beside).collect();
        let room = (placed.len() as i64) < node.pods_max;
        room && pod.spec.requests.real.iter().all(|(name, amount)| {
            let taken: i64 = placed.iter().map(|other| other.usage.real.amount(name)).sum();
            taken + amount <= node.allocatable.amount(name)
        })
    }
}

/// I5, I15: every member that waits is told why, and it is so.
pub(super) fn untrue(world: &World, book: &Book, roster: &Roster) -> Option<String> {
    let waiting = world.pods().filter(|pod| waits(pod) && leaf(pod).is_some());
    waiting.into_iter().find_map(|pod| {
        let key = roster.outer_of(pod)?;
        let Some(said) = &pod.unscheduled else {
            return Some(format!("{} of group {key} waits and is not told why", pod.name));
        };
        if !pod.gates.is_empty() {
            return None;
        }
        let told = format!("{}: {}", said.reason, said.message);
        let wrong = |what: &str| {
            Some(format!("{} of group {key} is told {told:?}, true is: {what}", pod.name))
        };
        match expected(book, roster, &key, pod) {
            Told::Waits(text) if told == format!("NotReadyForScheduling: {text}") => None,
            Told::Members(want, of) => match gathered(&said.message, want, &of) {
                true if said.reason == "NotReadyForScheduling" => None,
                // A part of a group that is complete without it was looked at with that.
                _ if roster.missing(&key, &known).is_none()
                    && (said.reason == "Unschedulable"
                        || said.reason == "SchedulerError" && denied(world, roster, &key)) =>
                {
                    None
                }
                _ => wrong(&format!("waiting for … of {want} … of {of}")),
            },
            Told::Held if said.reason == "NotReadyForScheduling" => None,
            // Whoever waits for a claim that goes has been looked at, to let go of it.
            Told::Held if said.reason == "Unschedulable" => None,
            Told::Unfit => {
                let start = format!("0/{} nodes are available: ", world.nodes().count());
                let unfit = said.reason == "Unschedulable" && said.message.starts_with(&start);
                let denied = said.reason == "SchedulerError" && denied(world, roster, &key);
                if unfit || denied { None } else { wrong(&start) }
            }
            Told::Waits(text) => wrong(&text),
            Told::Held => wrong("it is held"),
        }
    })
}

enum Told {
    Waits(String),
    Members(u32, Text),
    /// A member is held for itself, or the members don't go together.
    Held,
    Unfit,
}

/// Tells whether the pod counts among those that a group waits for.
fn known(pod: &Pod) -> bool {
    !pod.finished() && !pod.terminating
}

fn expected(book: &Book, roster: &Roster, key: &GroupKey, pod: &Pod) -> Told {
    let open = |pod: &Pod| bound(pod) || ready(pod, book);
    let own = || leaf(pod).and_then(|key| roster.missing(&key, &known));
    match roster.missing(key, &known).or_else(own) {
        Some(Missing::Object(name)) => Told::Waits(format!("waiting for pod group {name}")),
        Some(Missing::Members { want, of } | Missing::Groups { want, of }) => {
            Told::Members(want, of)
        }
        None if refused(roster, key) => Told::Held,
        None if roster.missing(key, &open).is_some() => Told::Held,
        None if leaf(pod).is_some_and(|key| roster.missing(&key, &open).is_some()) => Told::Held,
        None if solve::unready(book, pod).is_some() => Told::Held,
        None => Told::Unfit,
    }
}

/// Tells whether the text is `waiting for <fewer> of <want> … of <name>`.
fn gathered(text: &str, want: u32, of: &str) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let [_, _, have, _, wanted, what, _, name] = words.as_slice() else { return false };
    let fewer = have.parse::<u32>().is_ok_and(|have| have < want);
    let known = ["members", "groups"].contains(what) && text.starts_with("waiting for ");
    fewer && known && wanted.parse() == Ok(want) && *name == of
}

fn denied(world: &World, roster: &Roster, key: &GroupKey) -> bool {
    let members: BTreeMap<&Text, &Pod> =
        roster.members(key).into_iter().map(|pod| (&pod.name, pod)).collect();
    members.keys().any(|name| world.nodes().any(|node| world.denies(name, &node.name)))
}
