//! What converted objects share: texts, pod specs, amounts.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::types::claim::DeviceDemand;
use berth_core::types::device::{Capacity, DeviceModel, Quantity};
use berth_core::types::{Interner, PodRequests, PodSpec, Resources, Text};

use super::topology::Topologies;

/// Hands out one allocation per distinct content, so that the pods of one job share theirs.
#[derive(Debug, Default)]
pub struct Tables {
    /// The gate TaintTolerationComparisonOperators; while it is off, tolerations with `Lt` and
    /// `Gt` tolerate nothing and are left out.
    pub comparison_tolerations: bool,
    interner: Interner,
    specs: BTreeSet<Arc<PodSpec>>,
    usages: BTreeSet<Arc<PodRequests>>,
    limits: BTreeSet<Arc<Resources>>,
    models: BTreeSet<Arc<DeviceModel>>,
    capacities: BTreeSet<Arc<[Capacity]>>,
    counters: BTreeSet<Arc<[(Text, Quantity)]>>,
    demands: BTreeSet<Arc<DeviceDemand>>,
    pub(super) topologies: Topologies,
}

impl Tables {
    /// Makes empty tables; the argument is the gate [`Tables::comparison_tolerations`].
    pub fn new(comparison_tolerations: bool) -> Tables {
        Tables { comparison_tolerations, ..Tables::default() }
    }

    pub fn intern(&mut self, text: &str) -> Text {
        self.interner.intern(text)
    }

    pub fn spec(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        shared(&mut self.specs, spec)
    }

    pub fn usage(&mut self, usage: PodRequests) -> Arc<PodRequests> {
        shared(&mut self.usages, usage)
    }

    pub fn limits(&mut self, limits: Resources) -> Arc<Resources> {
        shared(&mut self.limits, limits)
    }

    pub fn model(&mut self, model: DeviceModel) -> Arc<DeviceModel> {
        shared(&mut self.models, model)
    }

    pub fn capacities(&mut self, capacities: Vec<Capacity>) -> Arc<[Capacity]> {
        shared_list(&mut self.capacities, capacities)
    }

    pub fn counters(&mut self, counters: Vec<(Text, Quantity)>) -> Arc<[(Text, Quantity)]> {
        shared_list(&mut self.counters, counters)
    }

    pub fn demand(&mut self, demand: DeviceDemand) -> Arc<DeviceDemand> {
        shared(&mut self.demands, demand)
    }

    /// Forgets what no object holds any more. Cost: O(n); call it on a timer.
    pub fn purge(&mut self) {
        // What holds other things that are shared goes before them, and texts go last.
        self.specs.retain(|spec| Arc::strong_count(spec) > 1);
        self.usages.retain(|usage| Arc::strong_count(usage) > 1);
        self.limits.retain(|limits| Arc::strong_count(limits) > 1);
        self.models.retain(|model| Arc::strong_count(model) > 1);
        self.capacities.retain(|capacities| Arc::strong_count(capacities) > 1);
        self.counters.retain(|counters| Arc::strong_count(counters) > 1);
        self.demands.retain(|demand| Arc::strong_count(demand) > 1);
        self.topologies.purge();
        self.interner.purge();
    }

    /// Returns the number of texts, specs and amounts that are kept.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.interner.len(), self.specs.len(), self.usages.len())
    }
}

fn shared<T: Ord>(known: &mut BTreeSet<Arc<T>>, value: T) -> Arc<T> {
    if let Some(known) = known.get(&value) {
        return Arc::clone(known);
    }
    let fresh = Arc::new(value);
    known.insert(Arc::clone(&fresh));
    fresh
}

fn shared_list<T: Ord>(known: &mut BTreeSet<Arc<[T]>>, list: Vec<T>) -> Arc<[T]> {
    if let Some(known) = known.get(&list[..]) {
        return Arc::clone(known);
    }
    let fresh: Arc<[T]> = list.into();
    known.insert(Arc::clone(&fresh));
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_specs_are_one_allocation_and_purge_forgets_them() {
        let mut tables = Tables::default();
        let spec = |tables: &mut Tables| {
            let scheduler_name = tables.intern("s");
            tables.spec(PodSpec { scheduler_name, ..PodSpec::default() })
        };
        let first = spec(&mut tables);
        assert!(Arc::ptr_eq(&first, &spec(&mut tables)));
        tables.purge();
        assert_eq!(tables.sizes(), (1, 1, 0));
        drop(first);
        tables.purge();
        assert_eq!(tables.sizes(), (0, 0, 0));
    }
}
