//! Counters that the candidates of a search draw on, by dense index.

use std::collections::BTreeMap;
use std::ops::Range;

use berth_core::snapshot::Devices;
use berth_core::snapshot::devices::gather::NodePool;
use berth_core::types::Text;
use berth_core::types::device::{Consumption, Quantity};

/// What one device draws of one set, the set and the shape of the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) set: u32,
    shape: u32,
}

/// A counter's place in its set, and how much is drawn of it. Unit: billionths.
type Shape = Box<[(u32, i128)]>;

#[derive(Debug, Default)]
pub(super) struct Counters {
    /// What is left of each counter before the search, sets one after the other.
    pub(super) left: Vec<i128>,
    /// Counters of one driver and name have one kind, over all sets.
    pub(super) kinds: Vec<u32>,
    pub(super) n_kinds: usize,
    sets: Vec<Range<usize>>,
    shapes: Vec<Shape>,
    /// How much of its set each shape is, averaged over the counters. Unit: thousandths.
    shares: Vec<u32>,
}

impl Counters {
    pub(super) fn n_sets(&self) -> usize {
        self.sets.len()
    }

    /// Returns the places of a set's counters.
    pub(super) fn set(&self, set: u32) -> Range<usize> {
        self.sets[set as usize].clone()
    }

    /// Returns the counters that a draw takes from, and how much.
    pub(super) fn of(&self, draw: Draw) -> impl Iterator<Item = (usize, i128)> {
        let base = self.sets[draw.set as usize].start;
        let shape = &self.shapes[draw.shape as usize];
        shape.iter().map(move |(at, amount)| (base + *at as usize, *amount))
    }

    /// Returns a number that is equal for draws of equal amounts, whatever the set.
    pub(super) fn shape(draw: Draw) -> u32 {
        draw.shape
    }

    pub(super) fn fit(&self, left: &[i128], draws: &[Draw]) -> bool {
        draws.iter().all(|draw| self.of(*draw).all(|(at, amount)| amount <= left[at]))
    }

    pub(super) fn charge(&self, left: &mut [i128], draws: &[Draw]) {
        draws.iter().for_each(|d| self.of(*d).for_each(|(at, amount)| left[at] -= amount));
    }

    pub(super) fn refund(&self, left: &mut [i128], draws: &[Draw]) {
        draws.iter().for_each(|d| self.of(*d).for_each(|(at, amount)| left[at] += amount));
    }

    /// Returns how much of its sets a device draws, averaged over them. Unit: thousandths.
    pub(super) fn share(&self, draws: &[Draw]) -> u32 {
        let shares = draws.iter().map(|draw| self.shares[draw.shape as usize]);
        shares.sum::<u32>() / (draws.len() as u32).max(1)
    }
}

/// Counters while they are read from the ledger.
#[derive(Default)]
pub(super) struct Reader<'a> {
    counters: Counters,
    known_sets: Vec<KnownSet<'a>>,
    kinds: BTreeMap<(&'a Text, &'a Text), u32>,
    /// By layout and content.
    shapes: BTreeMap<(u32, Shape), u32>,
    /// Shapes by the amounts they were made of, which devices of one kind share, and by layout.
    shared: Vec<(*const (Text, Quantity), u32, u32)>,
    /// Where the last set and shape were found: the next are mostly there, or just behind.
    last: (usize, usize),
}

struct KnownSet<'a> {
    pool: usize,
    name: &'a Text,
    counters: &'a [(Text, Quantity)],
    /// Sets with the same counters, of the same totals, have one layout.
    layout: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn done(self) -> Counters {
        self.counters
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the index of the pool of each set.
    pub(super) fn pools(&self) -> impl Iterator<Item = usize> {
        self.known_sets.iter().map(|set| set.pool)
    }

    /// Adds what a device of the pool with this index draws to `draws`. Returns false, adding
    /// nothing, if the pool doesn't have such counters, or if one set is named twice.
    pub(super) fn read(
        &mut self,
        devices: &'a Devices,
        pool: (usize, &NodePool<'a>),
        consumes: &'a [Consumption],
        draws: &mut Vec<Draw>,
    ) -> bool {
        let start = draws.len();
        for consumption in consumes {
            let set = self.enter(devices, pool, &consumption.set);
            let shape = set.and_then(|set| self.shape(set, &consumption.counters));
            match (set, shape) {
                (Some(set), Some(shape)) if draws[start..].iter().all(|d| d.set != set) => {
                    draws.push(Draw { set, shape });
                }
                _ => {
                    draws.truncate(start);
                    return false;
                }
            }
        }
        true
    }

    fn enter(
        &mut self,
        devices: &'a Devices,
        (at, pool): (usize, &NodePool<'a>),
        name: &'a Text,
    ) -> Option<u32> {
        let same = |set: &KnownSet<'a>| set.pool == at && set.name == name;
        if self.known_sets.get(self.last.0).is_some_and(same) {
            return Some(self.last.0 as u32);
        }
        if let Some(known) = self.known_sets.iter().position(same) {
            self.last.0 = known;
            return Some(known as u32);
        }
        let set = pool.counter_set(devices, name)?;
        let same = |known: &&KnownSet<'a>| {
            std::ptr::eq(known.counters, &*set.counters) || *known.counters == *set.counters
        };
        let alike = self.known_sets.iter().find(same).map(|known| (known.layout, known.pool == at));
        let layout = alike.map_or(self.known_sets.len() as u32, |(layout, _)| layout);
        let start = self.counters.left.len();
        self.counters.left.extend(set.counters.iter().map(|(_, total)| total.nanos));
        match alike {
            Some((layout, true)) => {
                let kinds = self.counters.sets[layout as usize].clone();
                self.counters.kinds.extend_from_within(kinds);
            }
            Some((_, false)) | None => {
                for (counter, _) in set.counters.iter() {
                    let fresh = self.kinds.len() as u32;
                    let kind = *self.kinds.entry((pool.driver, counter)).or_insert(fresh);
                    self.counters.kinds.push(kind);
                }
            }
        }
        self.counters.n_kinds = self.kinds.len();
        for (counter, held) in pool.counters_held(name) {
            if let Ok(at) = set.counters.binary_search_by(|(known, _)| known.cmp(counter)) {
                self.counters.left[start + at] -= held;
            }
        }
        self.counters.sets.push(start..self.counters.left.len());
        self.known_sets.push(KnownSet { pool: at, name, counters: &set.counters, layout });
        Some(self.known_sets.len() as u32 - 1)
    }

    /// Returns the shape of what `amounts` draws of a set; `None` if a counter is missing.
    fn shape(&mut self, set: u32, amounts: &'a [(Text, Quantity)]) -> Option<u32> {
        let KnownSet { counters, layout, .. } = self.known_sets[set as usize];
        let key = amounts.as_ptr();
        let same = |known: &(*const _, u32, u32)| known.0 == key && known.1 == layout;
        if let Some(known) = self.shared.get(self.last.1 + 1).filter(|known| same(known)) {
            self.last.1 += 1;
            return Some(known.2);
        }
        if let Some(known) = self.shared.iter().position(same) {
            self.last.1 = known;
            return Some(self.shared[known].2);
        }
        // Both are in order of name.
        let mut from = 0;
        let place = |(name, amount): &(Text, Quantity)| {
            from += counters[from..].iter().position(|(known, _)| known == name)?;
            Some((from as u32, amount.nanos))
        };
        let shape: Shape = amounts.iter().map(place).collect::<Option<_>>()?;
        let index = match self.shapes.get(&(layout, shape.clone())) {
            Some(known) => *known,
            None => self.add_shape(layout, shape, counters),
        };
        if !amounts.is_empty() {
            self.shared.push((key, layout, index));
        }
        Some(index)
    }

    fn add_shape(&mut self, layout: u32, shape: Shape, counters: &[(Text, Quantity)]) -> u32 {
        let index = self.shapes.len() as u32;
        let thousandths = |(at, amount): &(u32, i128)| match counters[*at as usize].1.nanos {
            total if total > 0 => (amount.saturating_mul(1000) / total).clamp(0, 1000),
            _ => 0,
        };
        let drawn = shape.iter().map(thousandths).sum::<i128>();
        self.counters.shares.push((drawn / (counters.len() as i128).max(1)) as u32);
        self.counters.shapes.push(shape.clone());
        self.shapes.insert((layout, shape), index);
        index
    }
}
