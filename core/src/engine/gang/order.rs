//! In which order the members of a group are placed: those with the fewest nodes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::budget::Budget;
use crate::engine::placing::Placer;
use crate::engine::unfit::Unplaced;
use crate::framework::rng::Rng;
use crate::snapshot::Overlay;
use crate::types::Pod;

use super::{Gang, Stopped, Turn};

impl Gang {
    /// Puts the members in order: by the number of nodes that fit, then larger ones first, then by
    /// age. A retry after the steps ran out takes another order, by seed, group and how often
    /// that has happened.
    pub(super) fn put_in_order(
        &mut self,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        // How many nodes fit a class, and the first member of it.
        let mut of_class: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let mut keys = Vec::with_capacity(self.open.len());
        let mut kinds: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let apart = self.units_apart();
        let mut counts = false;
        self.asks.clear();
        for (at, member) in self.open.iter().enumerate() {
            let uid = &self.view.members[*member].uid;
            let Some(pod) = overlay.cluster().pod(uid).map(|record| record.pod.clone()) else {
                continue;
            };
            *self.asks.entry(pod.spec.clone()).or_default() += 1;
            let stopped = |unplaced| Stopped::At(uid.clone(), unplaced);
            let class = placer.class_of(overlay, &pod, budget).map_err(stopped)?;
            let (fit, first) = match of_class.get(&class) {
                Some(known) => *known,
                None => {
                    let fit = match placer.count_fit(overlay, &pod, budget) {
                        Ok(fit) => fit,
                        Err(Unplaced::Unfit(_)) => 0,
                        Err(unplaced) => return Err(stopped(unplaced)),
                    };
                    counts |= placer.counts_pods;
                    of_class.insert(class, (fit, at));
                    (fit, at)
                }
            };
            kinds.entry(class).or_default().push(*member);
            let part = self.view.members[*member].units.iter().rfind(|unit| apart.contains(unit));
            keys.push(((part, fit, Reverse(size(&pod)), first), *member));
        }
        // Stable: by age within a class. Classes stay together, so that a table is used in one go.
        keys.sort_by_key(|(key, _)| *key);
        let mut members: Vec<usize> = keys.into_iter().map(|(_, member)| member).collect();
        self.shuffle(&mut members, placer);
        self.order = self.with_domains(members);
        self.kinds = kinds.into_values().collect();
        self.note_kinds(counts);
        self.ordered = true;
        Ok(())
    }

    /// Units of which each has a placement of its own inside the group: their members follow each
    /// other.
    fn units_apart(&self) -> BTreeSet<usize> {
        let units = self.view.units.iter().enumerate().skip(1);
        units.filter(|(_, unit)| !unit.topology.is_empty()).map(|(at, _)| at).collect()
    }

    /// Puts the choice of a placement before the first member that it is about.
    fn with_domains(&self, members: Vec<usize>) -> Vec<Turn> {
        let mut order = Vec::with_capacity(members.len());
        let mut seen = BTreeSet::new();
        for member in members {
            for unit in self.constrained(member) {
                if seen.insert(unit) {
                    order.push(Turn::Domain(unit));
                }
            }
            order.push(Turn::Member(member));
        }
        order
    }

    fn shuffle(&self, members: &mut [usize], placer: &Placer<'_>) {
        if self.doublings == 0 {
            return;
        }
        let key = self.view.key.to_string();
        let mut rng = Rng::stream(placer.seed(), "gang", &key, u64::from(self.doublings));
        for at in (1..members.len()).rev() {
            members.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }
}

/// A measure of how much a pod takes: the sum of its amounts, each by its logarithm, so that units
/// matter little, and extended resources first.
fn size(pod: &Pod) -> (u32, u32) {
    let (mut extended, mut native) = (0, 0);
    for (name, amount) in pod.usage.real.iter() {
        let bits = u64::BITS - amount.max(0).unsigned_abs().leading_zeros();
        match name.contains('/') {
            true => extended += bits * 16 + amount.clamp(0, 15) as u32,
            false => native += bits,
        }
    }
    let claims = pod.spec.claims.len() as u32 + pod.spec.extended.len() as u32;
    (extended + claims, native)
}
