//! In which cells what is gone may have been: every way in which a report can be understood.
//!
//! A report tells only sums. Where each thing that is aligned is in one cell, what of them is in which is
//! a question of what fits together: of two pods that fill a cell each, whichever has gone, one cell is
//! free.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::{NumaReport, Resources, Text};

/// Ways that are told apart, and steps to find them.
const WAYS_MAX: usize = 32;
const STEPS_MAX: usize = 4096;

/// Something that is in one cell, and whether it is still there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) here: bool,
    pub(super) amounts: Resources,
}

/// Returns what each cell has back, in each of the ways in which what is gone can have been in cells;
/// `None` if that can't be told. Shape: by way, by cell.
pub(super) fn ways(report: &NumaReport, items: &[Item]) -> Option<Vec<Vec<Resources>>> {
    let mut kinds: BTreeMap<&Item, i64> = BTreeMap::new();
    items.iter().for_each(|item| *kinds.entry(item).or_default() += 1);
    let names = items.iter().flat_map(|item| item.amounts.iter().map(|(name, _)| name));
    let names: BTreeSet<&str> = names.filter(|name| report.has(name)).collect();
    let used = |name: &str| -> Vec<i64> {
        let of = report.cells.iter();
        of.map(|cell| cell.allocatable.amount(name) - cell.available.amount(name)).collect()
    };
    let mut search = Distributing {
        kinds: kinds.into_iter().collect(),
        used: names.iter().map(|name| used(name)).collect(),
        names: names.into_iter().collect(),
        back: vec![Resources::default(); report.cells.len()],
        found: BTreeSet::new(),
        steps: 0,
    };
    let complete = search.go_on(0, 0, search.kinds.first().map_or(0, |(_, n)| *n));
    (complete && !search.found.is_empty()).then(|| search.found.into_iter().collect())
}

struct Distributing<'a> {
    kinds: Vec<(&'a Item, i64)>,
    names: Vec<&'a str>,
    /// By resource, by cell: what isn't explained yet.
    used: Vec<Vec<i64>>,
    back: Vec<Resources>,
    found: BTreeSet<Vec<Resources>>,
    steps: usize,
}

impl Distributing<'_> {
    /// Puts `rest` of a kind into `cell` and those after it, then the kinds after it. Returns false if
    /// there is too much to look at.
    fn go_on(&mut self, kind: usize, cell: usize, rest: i64) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.found.len() > WAYS_MAX {
            return false;
        }
        if kind == self.kinds.len() {
            self.found.insert(self.back.clone());
            return true;
        }
        if rest == 0 {
            let next = self.kinds.get(kind + 1).map_or(0, |(_, n)| *n);
            return self.go_on(kind + 1, 0, next);
        }
        if cell == self.back.len() {
            return true;
        }
        (0..=self.fitting(kind, cell, rest)).all(|n| {
            self.put(kind, cell, n);
            let complete = self.go_on(kind, cell + 1, rest - n);
            self.put(kind, cell, -n);
            complete
        })
    }

    /// Returns how many of a kind a cell can have had, at most `rest`.
    fn fitting(&self, kind: usize, cell: usize, rest: i64) -> i64 {
        let amounts = &self.kinds[kind].0.amounts;
        let of = |(name, used): (&&str, &Vec<i64>)| used[cell].checked_div(amounts.amount(name));
        let most = self.names.iter().zip(&self.used).filter_map(of).min();
        most.unwrap_or(rest).clamp(0, rest)
    }

    fn put(&mut self, kind: usize, cell: usize, n: i64) {
        let item = self.kinds[kind].0;
        for (name, used) in self.names.iter().zip(&mut self.used) {
            let amount = n * item.amounts.amount(name);
            used[cell] -= amount;
            if !item.here {
                let had = self.back[cell].amount(name);
                self.back[cell].set(&Text::from(*name), had + amount);
            }
        }
    }
}
