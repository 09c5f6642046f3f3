//! The price solve: what one more pod of each class is worth, so that filling what is idle by those
//! worths takes of each class what is expected. A subgradient search in integers, in rounds that can
//! be spread over polls; it works on a picture of the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classes::Class;
use super::demand::{Admits, Demand};
use super::gpu::{GpuFree, WHOLE_MILLI, Want};
use super::grid::{Lanes, PAIRS, add, worths};
use super::prices::{Kind, Place, Prices, copies};
use super::states::NodeState;
use super::tables::{FINE, Offer, Offers, Table, n_cells};

/// Worths of one more pod are in thousandths of a GPU, divided by this.
pub(super) const SIGMA: i64 = 1 << 16;
/// Numbers of pods, in parts of one.
const POD: i64 = 1 << 12;
/// Most that a place can be worth, in times of what the pod takes.
const PLACE_WORTH_MAX: i64 = 5;
/// Where no fraction of a GPU is expected, places are for what comes before so much of all GPUs has
/// been given anew. Unit: percent. Source: the first value that was tried; larger ones keep fewer
/// whole nodes free.
const HORIZON: i64 = 30;
/// With room for pods that name models: so much more is expected than fits. Unit: percent.
const NAMED_MORE: i64 = 110;

/// A row of all pairs goes through the machine in so many steps.
const STEPS_A_ROW: u64 = 4;

/// How long and how boldly to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    pub(super) rounds: u32,
    pub(super) step: i64,
}

/// A group of nodes that admit the same classes, and what the solve needs of it.
#[derive(Debug, Default)]
struct Group {
    /// Classes of each size, and of each kind of partition, in the order of the offers.
    shares: Vec<Vec<u16>>,
    parts: Vec<Vec<u16>>,
    offers: Offers,
    /// By class.
    admitted: Vec<bool>,
    /// What a pod takes there, by class. Unit: thousandths of a GPU.
    sizes: Vec<i64>,
    table: Table,
    /// By pair: number of GPUs by cell.
    gpus: Vec<Vec<i64>>,
}

/// Nodes in one state.
#[derive(Debug)]
struct Nodes {
    group: u32,
    count: i64,
    /// What CPU and memory are worth, by pair. Unit: as the tables.
    worth: Lanes,
    /// Number of GPUs by cell.
    cells: Vec<(usize, i64)>,
    /// Number of GPUs of which nothing is left: they are worth nothing.
    n_spent: u64,
    cpu_milli: i64,
    memory_mib: i64,
    n_whole: i64,
}

/// What the solve is about.
#[derive(Debug)]
struct Wanted {
    id: u32,
    demand: Arc<Demand>,
    /// Place of what it says of nodes among all that is said.
    admits: Option<usize>,
    weight: i64,
    /// What a pod takes where it takes most. Unit: thousandths of a GPU.
    size: i64,
    /// Takes part in the tables.
    priced: bool,
    /// What its CPU and memory cost, by pair. Unit: as the tables.
    costs: Lanes,
}

#[derive(Debug)]
pub(super) struct Solver {
    classes: Vec<Wanted>,
    groups: Vec<Group>,
    kinds: BTreeMap<Kind, u32>,
    admits: Arc<[Arc<Admits>]>,
    nodes: Vec<Nodes>,
    n_cells: usize,
    idle_milli: i64,
    capacity_milli: i64,
    gpus_max: usize,
    /// Sum of weight × size. Never 0.
    weighed: i64,
    percent_expected: i64,
    sigma: Vec<i64>,
    sums: Vec<i64>,
    effort: Effort,
    round: u32,
}

/// A picture of what is free and wanted.
pub(super) struct Picture {
    pub(super) classes: Vec<Class>,
    /// Ascending.
    pub(super) admits: Arc<[Arc<Admits>]>,
    /// Numbered in their order.
    pub(super) kinds: BTreeMap<Kind, u32>,
    /// With their groups of `kinds` and how many nodes are in each.
    pub(super) states: Vec<(NodeState, i64)>,
    /// More is expected than fits if a class names models.
    pub(super) room_for_named: bool,
}

impl Solver {
    /// Returns `None` if there is nothing to price: no GPUs, none idle, or nobody who wants one.
    pub(super) fn new(picture: Picture, effort: Effort) -> Option<Solver> {
        let Picture { classes, admits, kinds, states, room_for_named } = picture;
        let gpus_max = states.iter().map(|(state, _)| state.n_gpus()).max().unwrap_or(0);
        let of_all = |of: fn(&NodeState) -> i64| -> i64 {
            states.iter().map(|(state, count)| of(state) * count).sum()
        };
        let idle_milli = of_all(NodeState::idle_milli);
        let capacity_milli = of_all(|state| state.n_gpus() as i64 * WHOLE_MILLI);
        let named = |class: &Class| {
            let Admits { node_selector, required, .. } = &*class.demand.admits;
            !node_selector.is_empty() || required.is_some()
        };
        let more = room_for_named && classes.iter().any(named);
        let partitioned = states.iter().any(|(state, _)| state.partitioned());
        let sigma: Vec<i64> = classes.iter().map(|class| class.sigma).collect();
        let mut wanted: Vec<Wanted> =
            classes.iter().map(|class| Wanted::new(class, &admits, gpus_max as i64)).collect();
        let groups: Vec<Group> = kinds.keys().map(|kind| Group::new(kind, &wanted)).collect();
        for (at, class) in wanted.iter_mut().enumerate() {
            let sizes =
                groups.iter().filter(|group| group.admitted[at]).map(|group| group.sizes[at]);
            class.size = sizes.max().unwrap_or(class.size);
        }
        let weighed = wanted.iter().map(|class| class.weight.saturating_mul(class.size));
        let weighed = weighed.fold(0, i64::saturating_add);
        if idle_milli == 0 || weighed == 0 {
            return None;
        }
        let mut solver = Solver {
            sums: vec![0; sigma.len()],
            sigma,
            groups,
            classes: wanted,
            kinds,
            admits,
            nodes: states.iter().filter_map(|(state, count)| Nodes::new(state, *count)).collect(),
            n_cells: n_cells(partitioned),
            idle_milli,
            capacity_milli,
            gpus_max,
            weighed,
            percent_expected: if more { NAMED_MORE } else { 100 },
            effort,
            round: 0,
        };
        for group in &mut solver.groups {
            group.gpus = vec![vec![0; solver.n_cells]; PAIRS];
        }
        Some(solver)
    }

    pub(super) fn done(&self) -> bool {
        self.round >= self.effort.rounds
    }

    /// Goes one round further. Returns the number of steps it took, at a nanosecond or so each.
    pub(super) fn advance(&mut self) -> u64 {
        let mut steps = self.fill_tables();
        steps += self.spread_nodes();
        let mut used = vec![0; self.classes.len()];
        for group in &mut self.groups {
            steps += group.count_uses(&self.classes, &self.sigma, &mut used);
        }
        self.move_prices(&used);
        self.round += 1;
        steps
    }

    fn fill_tables(&mut self) -> u64 {
        let partitioned = self.n_cells == n_cells(true);
        let mut steps = 0;
        for group in &mut self.groups {
            let of_shares = group.shares.iter().zip(&mut group.offers.shares);
            for (of, (_, gains)) in of_shares {
                *gains = best_gains(of, &self.classes, &self.sigma, &group.sizes);
            }
            let of_parts = group.parts.iter().zip(&mut group.offers.parts);
            for (of, (_, gains)) in of_parts {
                *gains = best_gains(of, &self.classes, &self.sigma, &group.sizes);
            }
            steps += group.table.fill(&group.offers, partitioned) * STEPS_A_ROW;
            steps += self.classes.len() as u64 * STEPS_A_ROW;
        }
        steps
    }

    /// Counts each node's GPUs at the pair of prices at which the node is worth least.
    fn spread_nodes(&mut self) -> u64 {
        let mut steps = 0;
        for nodes in &self.nodes {
            let group = &mut self.groups[nodes.group as usize];
            let mut worth = nodes.worth;
            for (cell, count) in &nodes.cells {
                for _ in 0..*count {
                    add(&mut worth, &group.table.values[*cell]);
                }
                steps += *count as u64 * STEPS_A_ROW;
            }
            steps += nodes.n_spent * STEPS_A_ROW;
            let least = worth.iter().take(PAIRS).enumerate().min_by_key(|(_, worth)| **worth);
            let pair = least.map_or(0, |(pair, _)| pair);
            for (cell, count) in &nodes.cells {
                group.gpus[pair][*cell] += count * nodes.count;
            }
            steps += 2 * STEPS_A_ROW;
        }
        steps
    }

    /// Returns how many pods of the class are expected to fit. Unit: parts of a pod.
    fn expected(&self, class: &Wanted, idle_milli: i64) -> i64 {
        let all = i128::from(idle_milli) * i128::from(self.percent_expected) / 100;
        let pods = i128::from(class.weight) * all * i128::from(POD) / i128::from(self.weighed);
        pods.min(i128::from(i64::MAX)) as i64
    }

    /// What is used more than expected gets dearer, what less cheaper, in shrinking steps.
    fn move_prices(&mut self, used: &[i64]) {
        const ROOT: i128 = 1_000;
        // 1/√(1 + 0.02·k)
        let shrunk = (1_000_000 + 20_000 * u64::from(self.round)).isqrt();
        let half = self.effort.rounds / 2;
        for (at, class) in self.classes.iter().enumerate().filter(|(_, class)| class.priced) {
            let size = class.size;
            let of_one = class.demand.want.count().max(1);
            let excess = used[at] * POD / of_one - self.expected(class, self.idle_milli);
            let change = i128::from(self.effort.step)
                * ROOT
                * i128::from(SIGMA / POD)
                * i128::from(excess)
                * i128::from(size)
                / (i128::from(self.idle_milli) * i128::from(shrunk));
            let moved = i128::from(self.sigma[at]) + change;
            self.sigma[at] = moved.clamp(0, i128::from(size * SIGMA)) as i64;
            if self.round >= half {
                self.sums[at] += self.sigma[at] / i64::from((self.effort.rounds - half).max(1));
            }
        }
    }

    /// Returns what was found: the worth of one more of each class, rounded to thousandths of a GPU,
    /// and the tables that follow.
    pub(super) fn finish(mut self) -> (Vec<(u32, i64)>, Prices) {
        for (sigma, mean) in self.sigma.iter_mut().zip(&self.sums) {
            *sigma = (mean + SIGMA / 2) / SIGMA * SIGMA;
        }
        self.fill_tables();
        let places = self.places();
        let values = self.groups.iter().flat_map(|group| group.table.rounded()).collect();
        let found = self.classes.iter().zip(&self.sigma);
        let found = found.map(|(class, sigma)| (class.id, *sigma)).collect();
        let prices = Prices {
            admits: self.admits,
            kinds: self.kinds.keys().cloned().collect(),
            groups: self.kinds,
            values,
            n_cells: self.n_cells,
            places,
            gpus_max: self.gpus_max,
        };
        (found, prices)
    }

    /// Weighs the places for pods of several GPUs: those that are rarer than what is expected count
    /// most.
    fn places(&self) -> Vec<Place> {
        let fractions = self.classes.iter().any(|c| c.weight > 0 && c.demand.want.is_fraction());
        let idle = match fractions {
            true => self.idle_milli,
            false => self.idle_milli.max(self.capacity_milli * HORIZON / 100),
        };
        let several = |class: &Wanted| class.demand.want.count() >= 2 && class.weight > 0;
        let place = |(at, class): (usize, &Wanted)| {
            let groups: Vec<bool> = self.groups.iter().map(|group| group.admitted[at]).collect();
            let there = self.nodes.iter().filter(|nodes| groups[nodes.group as usize]);
            let there = there.map(|nodes| nodes.count * nodes.copies(&class.demand)).sum::<i64>();
            let (count, most) = (class.demand.want.count(), self.gpus_max as i64);
            let expected = 100 * self.expected(class, idle) / (there + 1);
            let weight = expected.min(100 * PLACE_WORTH_MAX * POD) * count;
            let weight = (weight + most * POD / 2) / (most * POD);
            Place { demand: Arc::clone(&class.demand), weight, groups }
        };
        let places = self.classes.iter().enumerate().filter(|(_, class)| several(class)).map(place);
        places.filter(|place| place.weight > 0).collect()
    }
}

impl Wanted {
    fn new(class: &Class, admits: &[Arc<Admits>], gpus_max: i64) -> Wanted {
        let demand = Arc::clone(&class.demand);
        let count = demand.want.count();
        let costs = worths::<{ FINE as u64 }>(demand.cpu_milli, demand.memory_mib);
        Wanted {
            id: class.id,
            admits: admits.binary_search(&demand.admits).ok(),
            weight: class.weight,
            size: demand.want.total_milli(),
            // What wants every GPU of a node is no filling for single ones.
            priced: count > 0 && (count < gpus_max || gpus_max == 1) && class.weight > 0,
            demand,
            costs,
        }
    }

    /// Returns what putting one there gains, where that takes `size`, for each GPU that it takes.
    fn gains(&self, sigma: i64, size: i64) -> Lanes {
        let size = (size * FINE - sigma / (SIGMA / FINE)) as i32;
        match self.demand.want.count().max(1) as i32 {
            1 => self.costs.map(|cost| size - cost),
            count => self.costs.map(|cost| (size - cost) / count),
        }
    }

    /// As [`Wanted::gains`], at one pair of prices.
    fn gain(&self, sigma: i64, size: i64, pair: usize) -> i32 {
        let size = (size * FINE - sigma / (SIGMA / FINE)) as i32;
        (size - self.costs[pair]) / self.demand.want.count().max(1) as i32
    }
}

/// Returns what the best of some classes gains, at each pair of prices.
fn best_gains(of: &[u16], classes: &[Wanted], sigma: &[i64], sizes: &[i64]) -> Lanes {
    let mut best = [i32::MIN / 8; PAIRS + 1];
    for class in of.iter().map(|class| usize::from(*class)) {
        let gains = classes[class].gains(sigma[class], sizes[class]);
        for (best, gain) in best.iter_mut().zip(gains) {
            *best = gain.max(*best);
        }
    }
    best
}

impl Group {
    fn new(kind: &Kind, classes: &[Wanted]) -> Group {
        let admitted = |class: &Wanted| class.admits.is_some_and(|at| kind.admits(at));
        let wants = classes.iter().map(|class| class.demand.want.of_replicas(kind.replicas));
        let wants: Vec<_> = wants.collect();
        let mut group = Group {
            admitted: classes.iter().map(admitted).collect(),
            sizes: wants.iter().map(|want| want.total_milli()).collect(),
            ..Group::default()
        };
        let mut shares: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        let mut parts: BTreeMap<Arc<[u8]>, Vec<u16>> = BTreeMap::new();
        for (at, class) in classes.iter().enumerate() {
            if !class.priced || !group.admitted[at] {
                continue;
            }
            match (&*wants[at], wants[at].share_cells(kind.replicas)) {
                (Want::Part(places), _) => {
                    parts.entry(Arc::clone(places)).or_default().push(at as u16);
                }
                (_, Some(size)) => shares.entry(size).or_default().push(at as u16),
                (Want::Nothing | Want::Gpus { .. } | Want::Selected(_), None) => {}
            }
        }
        let none = [0; PAIRS + 1];
        group.offers.shares = shares.keys().map(|size| (*size, none)).collect();
        group.offers.parts = parts.keys().map(|places| (Arc::clone(places), none)).collect();
        group.shares = shares.into_values().collect();
        group.parts = parts.into_values().collect();
        group
    }

    /// Counts what is put on the group's GPUs, by class. Returns the number of steps it took.
    fn count_uses(&mut self, classes: &[Wanted], sigma: &[i64], used: &mut [i64]) -> u64 {
        let Group { shares, parts, offers, table, gpus, sizes, .. } = self;
        for (pair, gpus) in gpus.iter_mut().enumerate() {
            table.place(offers, pair, gpus, |offer, count| {
                let (of, gains) = match offer {
                    Offer::Share(at) => (&shares[at], &offers.shares[at].1),
                    Offer::Part(at) => (&parts[at], &offers.parts[at].1),
                };
                let mut of = of.iter().map(|class| usize::from(*class));
                let gain = |class: usize| classes[class].gain(sigma[class], sizes[class], pair);
                if let Some(class) = of.find(|class| gain(*class) == gains[pair]) {
                    used[class] += count;
                }
            });
        }
        gpus.iter().map(|gpus| gpus.len() as u64).sum()
    }
}

impl Nodes {
    fn new(state: &NodeState, count: i64) -> Option<Nodes> {
        let mut cells: Vec<(usize, i64)> = Vec::new();
        let left = state.gpus.iter().filter(|gpu| gpu.idle_milli() > 0);
        for cell in left.map(|gpu: &GpuFree| gpu.cell()) {
            match cells.iter_mut().find(|(known, _)| *known == cell) {
                Some((_, count)) => *count += 1,
                None => cells.push((cell, 1)),
            }
        }
        let (cpu_milli, memory_mib) = (state.cpu_milli, state.memory_mib);
        Some(Nodes {
            group: state.group?,
            count,
            worth: worths::<{ FINE as u64 }>(cpu_milli, memory_mib),
            n_spent: state.gpus.iter().filter(|gpu| gpu.idle_milli() == 0).count() as u64,
            cells,
            cpu_milli,
            memory_mib,
            n_whole: state.n_whole(),
        })
    }

    fn copies(&self, demand: &Demand) -> i64 {
        copies(demand, self.cpu_milli, self.memory_mib, self.n_whole)
    }
}
