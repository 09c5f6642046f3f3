//! What has been asked for: demands with their shares of the arrivals, and what is known of the
//! worth of one more of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::PodUid;

use super::demand::Demand;
use super::gpu::{Selection, Want};

/// Most demands that are kept; of those beyond, the rarest go. It bounds what a price solve costs.
pub(super) const CLASSES_MAX: usize = 512;
/// A pod counts as so much before it decays.
pub(super) const POD_WEIGHT: i64 = 1 << 16;
/// Eight times a half-life, all weights are taken times 2^(-1/8).
const DECAY: (i64, i64) = (60_097, 65_536);
const DECAYS_A_HALF_LIFE: u64 = 8;

/// A demand that pods have.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) id: u32,
    /// As pods say it.
    asked: Arc<Demand>,
    /// With what is selected found out.
    pub(super) demand: Arc<Demand>,
    /// Its share of the arrivals, among those of the other classes.
    pub(super) weight: i64,
    /// What one more pod is worth beyond those expected. Unit: thousandths of a GPU, as
    /// [`SIGMA`](super::solve::SIGMA) says.
    pub(super) sigma: i64,
}

/// The demands, and the pods that were counted.
#[derive(Debug, Default)]
pub(super) struct Classes {
    by_demand: BTreeMap<Arc<Demand>, u32>,
    by_id: BTreeMap<u32, Class>,
    next: u32,
    counted: BTreeSet<PodUid>,
    /// Pods counted, ever.
    pub(super) arrivals: u64,
}

impl Classes {
    /// Returns the class of a demand, made if there is none.
    pub(super) fn enter(&mut self, demand: &Arc<Demand>) -> u32 {
        if let Some(id) = self.by_demand.get(demand) {
            return *id;
        }
        if self.by_id.len() >= CLASSES_MAX {
            self.forget_rarest();
        }
        self.next += 1;
        let class = Class {
            id: self.next,
            asked: Arc::clone(demand),
            demand: Arc::clone(demand),
            weight: 0,
            sigma: 0,
        };
        self.by_demand.insert(Arc::clone(demand), self.next);
        self.by_id.insert(self.next, class);
        self.next
    }

    pub(super) fn id(&self, demand: &Demand) -> Option<u32> {
        self.by_demand.get(demand).copied()
    }

    /// Returns what a class wants, with what is selected found out.
    pub(super) fn demand(&self, id: u32) -> Option<&Arc<Demand>> {
        self.by_id.get(&id).map(|class| &class.demand)
    }

    /// Has what is selected found out by `find`. Returns whether that made a difference.
    pub(super) fn resolve(&mut self, id: u32, find: impl FnOnce(&Selection) -> Want) -> bool {
        let Some(class) = self.by_id.get_mut(&id) else { return false };
        let Want::Selected(selection) = &class.asked.want else { return false };
        let demand = Demand { want: find(selection), ..(*class.asked).clone() };
        let differs = *class.demand != demand;
        class.demand = Arc::new(demand);
        differs
    }

    /// Returns the classes that select devices.
    pub(super) fn selecting(&self) -> Vec<u32> {
        let selects = |class: &&Class| matches!(class.asked.want, Want::Selected(_));
        self.by_id.values().filter(selects).map(|class| class.id).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Class> {
        self.by_id.values()
    }

    pub(super) fn set_sigma(&mut self, id: u32, sigma: i64) {
        if let Some(class) = self.by_id.get_mut(&id) {
            class.sigma = sigma;
        }
    }

    pub(super) fn add_weight(&mut self, id: u32, weight: i64) {
        if let Some(class) = self.by_id.get_mut(&id) {
            class.weight = class.weight.saturating_add(weight);
        }
    }

    /// Counts a pod once. Returns whether it was not counted before.
    pub(super) fn count(&mut self, uid: &PodUid, demand: &Arc<Demand>, half_life: u64) -> bool {
        if !self.counted.insert(uid.clone()) {
            return false;
        }
        let id = self.enter(demand);
        self.add_weight(id, POD_WEIGHT);
        self.arrivals += 1;
        if half_life > 0 && self.arrivals.is_multiple_of((half_life / DECAYS_A_HALF_LIFE).max(1)) {
            for class in self.by_id.values_mut() {
                class.weight =
                    class.weight / DECAY.1 * DECAY.0 + class.weight % DECAY.1 * DECAY.0 / DECAY.1;
            }
        }
        true
    }

    /// The pod is gone for good: its number is not kept, that it was there still counts.
    pub(super) fn forget_pod(&mut self, uid: &PodUid) {
        self.counted.remove(uid);
    }

    /// An eighth at a time, so that pods which are all different don't cost a look at each class.
    fn forget_rarest(&mut self) {
        let mut by_weight: Vec<(i64, u32)> =
            self.by_id.values().map(|class| (class.weight, class.id)).collect();
        by_weight.sort_unstable();
        for (_, id) in by_weight.into_iter().take(CLASSES_MAX / 8) {
            if let Some(class) = self.by_id.remove(&id) {
                self.by_demand.remove(&class.asked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(cpu_milli: i64) -> Arc<Demand> {
        Arc::new(Demand { cpu_milli, ..Demand::default() })
    }

    fn uid(at: usize) -> PodUid {
        PodUid(format!("{at}").into())
    }

    fn weight(classes: &Classes, demand: &Demand) -> i64 {
        classes.all().find(|class| *class.demand == *demand).map_or(0, |class| class.weight)
    }

    #[test]
    fn a_pod_counts_once_and_less_with_time() {
        let mut classes = Classes::default();
        assert!(classes.count(&uid(0), &demand(1), 80));
        assert!(!classes.count(&uid(0), &demand(1), 80));
        assert_eq!(weight(&classes, &demand(1)), POD_WEIGHT);
        for at in 1..=80 {
            classes.count(&uid(at), &demand(2), 80);
        }
        let half = weight(&classes, &demand(1)) * 2;
        assert!((POD_WEIGHT - 16..=POD_WEIGHT).contains(&half), "{half}");
    }

    #[test]
    fn the_rarest_go_when_there_are_too_many() {
        let mut classes = Classes::default();
        for at in 0..2 * CLASSES_MAX {
            classes.count(&uid(at), &demand(7), 0);
        }
        for at in 0..2 * CLASSES_MAX {
            classes.enter(&demand(at as i64 + 100));
        }
        assert!(classes.all().count() <= CLASSES_MAX);
        assert_eq!(weight(&classes, &demand(7)), 2 * CLASSES_MAX as i64 * POD_WEIGHT);
    }
}
