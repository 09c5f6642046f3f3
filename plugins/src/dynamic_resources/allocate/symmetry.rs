//! Which devices are interchangeable, and states by what tells them apart.
//!
//! Two devices are twins if nothing that the search looks at differs. Devices are linked where they
//! draw on the same counters, or have a value in common of an attribute that a constraint names.
//! Devices that are linked make a component; components are alike if they differ in names alone.
//! So eight GPUs with their partitions are one component eight times, and what is written down of a
//! state is how many components of each kind there are in each condition.

use std::collections::BTreeMap;

use super::counters::Counters;
use super::problem::{Problem, Rule};
use super::state::{Pick, State};

/// Where a search stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Place of the need in the order in which they are met.
    pub(super) rank: usize,
    /// The alternative that was chosen for it.
    pub(super) ask: Option<u32>,
    /// How many devices it has.
    pub(super) picked: usize,
}

#[derive(Debug)]
pub(super) struct Symmetry {
    /// By device.
    component: Vec<u32>,
    /// By device: its class of twins, by its place in the component.
    twin: Vec<u32>,
    /// By component: those with equal numbers are alike.
    kind: Vec<u32>,
    /// By column and value: component, and place in it.
    links: Vec<Vec<(u32, u32)>>,
    /// By claim: the rank from which on nothing of it is open.
    closed_at: Vec<usize>,
    /// Numbers of what shared devices have left.
    rooms: BTreeMap<Box<[i128]>, u32>,
    admin: bool,
}

/// What devices have in common: a counter set, or a value of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Set(u32),
    Value(u32, u32),
}

/// A link, with the shape of the draw where it is a counter set.
type Linked = (Link, u32);

impl Symmetry {
    pub(super) fn new(problem: &Problem, order: &[u32]) -> Symmetry {
        let mut closed_at = vec![0; problem.n_claims];
        for (rank, need) in order.iter().enumerate() {
            closed_at[problem.needs[*need as usize].claim as usize] = rank + 1;
        }
        let links: Vec<Vec<Linked>> =
            (0..problem.devices.len() as u32).map(|device| links(problem, device)).collect();
        let mut symmetry = Symmetry {
            component: components(&links),
            twin: vec![0; links.len()],
            kind: Vec::new(),
            links: problem.columns.iter().map(|c| vec![(0, 0); c.n_values]).collect(),
            closed_at,
            rooms: BTreeMap::new(),
            admin: problem.profiles.iter().any(|profile| profile.admin),
        };
        let signatures = signatures(problem);
        let n = symmetry.component.iter().max().map_or(0, |last| *last as usize + 1);
        let mut members = vec![Vec::new(); n];
        for (device, component) in symmetry.component.iter().enumerate() {
            members[*component as usize].push(device as u32);
        }
        let mut kinds = BTreeMap::new();
        for (component, mut devices) in members.into_iter().enumerate() {
            devices.sort_by_key(|device| (signatures[*device as usize], *device));
            let form = symmetry.describe(problem, component, &devices, &signatures, &links);
            let fresh = kinds.len() as u32;
            symmetry.kind.push(*kinds.entry(form).or_insert(fresh));
        }
        symmetry
    }

    /// Returns what a component is but for names, and notes the places of its twins and values.
    fn describe(
        &mut self,
        problem: &Problem,
        component: usize,
        devices: &[u32],
        signatures: &[u32],
        links: &[Vec<Linked>],
    ) -> Vec<i128> {
        let mut twins: BTreeMap<(u32, &[Linked]), u32> = BTreeMap::new();
        let mut places: BTreeMap<Link, u32> = BTreeMap::new();
        let mut form = Vec::new();
        for device in devices {
            let at = *device as usize;
            let fresh = twins.len() as u32;
            let twin = *twins.entry((signatures[at], &links[at])).or_insert(fresh);
            self.twin[at] = twin;
            form.extend([i128::from(twin), i128::from(signatures[at])]);
            if twin != fresh {
                continue;
            }
            form.push(links[at].len() as i128);
            for (link, shape) in &links[at] {
                let fresh = places.len() as u32;
                let place = *places.entry(*link).or_insert(fresh);
                let column = match link {
                    Link::Set(_) => -1,
                    Link::Value(column, _) => i128::from(*column),
                };
                form.extend([column, i128::from(place), i128::from(*shape)]);
                if place != fresh {
                    continue;
                }
                match link {
                    Link::Set(set) => {
                        form.extend(&problem.counters.left[problem.counters.set(*set)])
                    }
                    Link::Value(column, value) => {
                        let known = &mut self.links[*column as usize][*value as usize];
                        *known = (component as u32, place);
                    }
                }
            }
        }
        form
    }

    /// Returns what tells a state from those that are not the same but for names. What doesn't
    /// matter for what is still open is left out.
    pub(super) fn key(&mut self, problem: &Problem, state: &State, place: Place) -> Box<[u32]> {
        let mut marks: Vec<(u32, [u32; 4])> = Vec::with_capacity(state.picks.len() + 4);
        for (nth, pick) in state.picks.iter().enumerate() {
            let claim = problem.asks[pick.ask as usize].claim;
            let device = problem.candidate(pick.ask, pick.at).device;
            let at = device as usize;
            let mut mark = |what: u32, of: u32| {
                marks.push((self.component[at], [self.twin[at], what, of, 0]));
            };
            if problem.devices[at].reach > 0 {
                // It says on which nodes the claim can be used.
                mark(5, claim);
            }
            let open = self.closed_at[claim as usize] > place.rank;
            if problem.devices[at].shared {
                if Some(pick.ask) == place.ask {
                    mark(0, 0);
                }
                let same = |p: &Pick| problem.candidate(p.ask, p.at).device == device;
                if state.uses[at] > 0 && !state.picks[..nth].iter().any(same) {
                    let room = state.rooms[problem.room_of(device)].into();
                    let fresh = self.rooms.len() as u32;
                    mark(1, *self.rooms.entry(room).or_insert(fresh));
                }
            } else if self.admin && open {
                mark(if problem.profile(pick.ask).admin { 2 } else { 3 }, claim);
            } else if !problem.profile(pick.ask).admin {
                mark(4, 0);
            }
        }
        self.mark_rules(problem, state, place, &mut marks);
        let mut key =
            vec![place.rank as u32, place.ask.map_or(0, |ask| ask + 1), place.picked as u32];
        for (claim, devices) in state.in_claim.iter().enumerate() {
            if self.closed_at[claim] > place.rank && !devices.is_empty() {
                key.extend([claim as u32, devices.len() as u32]);
            }
        }
        self.add_components(marks, &mut key);
        key.into()
    }

    fn mark_rules(
        &self,
        problem: &Problem,
        state: &State,
        place: Place,
        marks: &mut Vec<(u32, [u32; 4])>,
    ) {
        for (at, (Rule { claim, column, distinct }, rule)) in
            problem.rules.iter().zip(&state.rules).enumerate()
        {
            if self.closed_at[*claim as usize] <= place.rank {
                continue;
            }
            let known = match distinct {
                true => &rule.values[..],
                false => rule.values.last().map_or(&[][..], std::slice::from_ref),
            };
            for value in known.iter().flatten() {
                let (component, place) = self.links[*column as usize][*value as usize];
                marks.push((component, [u32::MAX, at as u32, *column, place]));
            }
        }
    }

    /// Adds the components that have marks, without their names.
    fn add_components(&self, mut marks: Vec<(u32, [u32; 4])>, key: &mut Vec<u32>) {
        marks.sort_unstable();
        let mut conditions: Vec<(u32, Vec<[u32; 4]>)> = Vec::new();
        for of_component in marks.chunk_by(|a, b| a.0 == b.0) {
            let kind = self.kind[of_component[0].0 as usize];
            conditions.push((kind, of_component.iter().map(|(_, mark)| *mark).collect()));
        }
        conditions.sort_unstable();
        for (kind, marks) in conditions {
            key.extend([u32::MAX, kind, marks.len() as u32]);
            key.extend(marks.iter().flatten());
        }
    }
}

fn links(problem: &Problem, device: u32) -> Vec<Linked> {
    let sets = problem.draws_of(device).iter().map(|d| (Link::Set(d.set), Counters::shape(*d)));
    let columns = problem.columns.iter().enumerate();
    let values = columns.flat_map(|(at, column)| {
        column.of(device).iter().map(move |value| (Link::Value(at as u32, *value), 0))
    });
    sets.chain(values).collect()
}

/// Returns the component of each device.
fn components(links: &[Vec<Linked>]) -> Vec<u32> {
    let mut parent: Vec<usize> = (0..links.len()).collect();
    let root = |parent: &mut Vec<usize>, mut at: usize| {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    };
    let mut first: BTreeMap<Link, usize> = BTreeMap::new();
    for (device, links) in links.iter().enumerate() {
        for (link, _) in links {
            let known = *first.entry(*link).or_insert(device);
            let (a, b) = (root(&mut parent, known), root(&mut parent, device));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut numbers = BTreeMap::new();
    let number = |at: usize| {
        let root = root(&mut parent, at);
        let fresh = numbers.len() as u32;
        *numbers.entry(root).or_insert(fresh)
    };
    (0..links.len()).map(number).collect()
}

/// Returns a number for each device, equal for those that differ in links at most.
fn signatures(problem: &Problem) -> Vec<u32> {
    let mut features: Vec<Vec<i128>> = problem
        .devices
        .iter()
        .enumerate()
        .map(|(at, device)| {
            let flags = [device.shared, device.taken, device.charged].map(i128::from);
            let own = if device.odd { at as i128 } else { -1 };
            let flags = flags.into_iter().chain([device.reach.into(), own]);
            let rooms = &problem.rooms[problem.room_of(at as u32)];
            flags.chain(rooms.iter().copied()).collect()
        })
        .collect();
    for (at, profile) in problem.profiles.iter().enumerate() {
        for candidate in &profile.candidates {
            let amounts = candidate.amounts.map(|amounts| &problem.amounts[amounts as usize]);
            let features = &mut features[candidate.device as usize];
            features.extend([-1, at as i128]);
            features.extend(amounts.into_iter().flatten());
        }
    }
    let mut known = BTreeMap::new();
    let number = |features| {
        let fresh = known.len() as u32;
        *known.entry(features).or_insert(fresh)
    };
    features.into_iter().map(number).collect()
}
