//! Units for members that pods, or slices of a group, want near each other.

use std::collections::BTreeMap;

use crate::types::group::{Spread, TopologyConstraint};
use crate::types::{Pod, Text};

use super::view::{GroupView, Member, Reading, Unit};

/// Labels that say which of its group a pod is, the first that all of a unit's members have counts.
const INDEX_LABELS: [&str; 3] = [
    "kueue.x-k8s.io/pod-group-pod-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
];

impl GroupView {
    /// Adds a constraint that some of the members have in common: to the group if it is all of them,
    /// else as a part that says who must be near whom.
    pub fn keep_together(&mut self, name: &str, members: &[usize], constraint: TopologyConstraint) {
        let all = members.len() == self.members.len();
        let Some(group) = self.units.first_mut().filter(|_| !members.is_empty()) else { return };
        if all {
            if !group.topology.contains(&constraint) {
                group.topology.push(constraint);
            }
            return;
        }
        let name = format!("{}[{name}]", group.name);
        let part = self.units.len();
        self.units.push(Unit::near_each_other(0, name.into(), vec![constraint]));
        members.iter().for_each(|at| self.members[*at].units.push(part));
    }
}

impl Unit {
    /// A part of `of` that says who must be near whom.
    fn near_each_other(of: usize, name: Text, topology: Vec<TopologyConstraint>) -> Unit {
        let (parent, min_parts, spread) = (Some(of), None, Vec::new());
        Unit { name, parent, min_member: 0, min_parts, loose: true, topology, spread }
    }
}

impl Reading<'_> {
    /// Adds what members themselves say of their topology, then cuts into slices what is to be kept
    /// together slice by slice. Expects the members in their order only where nothing indexes them.
    pub(super) fn keep_together(&mut self) {
        self.follow_members();
        self.spread_out();
        for at in 0..self.units.len() {
            let topology = std::mem::take(&mut self.units[at].topology);
            let (sliced, whole) = topology.into_iter().partition(|it| it.slice.is_some());
            self.units[at].topology = whole;
            self.slice(at, sliced);
        }
    }

    /// Members that say the same make a part; if all of them do, it is the group's own word.
    fn follow_members(&mut self) {
        let mut says: BTreeMap<&[TopologyConstraint], Vec<usize>> = BTreeMap::new();
        for at in 0..self.members.len() {
            let hint = self.cluster.groups().first_hint(self.members[at].0);
            says.entry(hint.map_or(&[], |hint| &hint.topology)).or_default().push(at);
        }
        let all = says.len() == 1;
        for (constraints, members) in says {
            match constraints.first() {
                None => {}
                Some(_) if all => self.units[0].topology.extend(constraints.iter().cloned()),
                Some(first) => {
                    let name = format!("{}[{}]", self.units[0].name, first.level);
                    let unit = Unit::near_each_other(0, name.into(), constraints.to_vec());
                    self.put(unit, &members);
                }
            }
        }
    }

    /// Members that name the same limits are counted together.
    fn spread_out(&mut self) {
        let mut says: BTreeMap<&[Spread], Vec<usize>> = BTreeMap::new();
        for at in 0..self.members.len() {
            let hint = self.cluster.groups().first_hint(self.members[at].0);
            says.entry(hint.map_or(&[], |hint| &hint.spread)).or_default().push(at);
        }
        let all = says.len() == 1;
        for (spread, members) in says.into_iter().filter(|(spread, _)| !spread.is_empty()) {
            if all {
                self.units[0].spread.extend(spread.iter().cloned());
                return;
            }
            let name = format!("{}[at most {}]", self.units[0].name, spread[0].at_most);
            let mut unit = Unit::near_each_other(0, name.into(), Vec::new());
            unit.spread = spread.to_vec();
            self.put(unit, &members);
        }
    }

    /// Cuts by the largest size first; smaller ones cut the slices.
    fn slice(&mut self, of: usize, constraints: Vec<TopologyConstraint>) {
        let Some(size) = constraints.iter().filter_map(|it| it.slice).max() else { return };
        let (constraints, smaller): (Vec<_>, Vec<_>) =
            constraints.into_iter().partition(|it| it.slice == Some(size));
        let mut members: Vec<usize> = (0..self.members.len()).collect();
        members.retain(|at| self.members[*at].1.units.contains(&of));
        let topology: Vec<TopologyConstraint> =
            constraints.into_iter().map(|it| TopologyConstraint { slice: None, ..it }).collect();
        for (nth, slice) in self.slices(members, size.max(1)) {
            let name = format!("{}[slice {nth}]", self.units[of].name);
            let mut unit = Unit::near_each_other(of, name.into(), topology.clone());
            if slice.len() == size as usize {
                // Of members that the group can do without, a slice is placed whole or not at all.
                unit.min_member = size;
            }
            let part = self.put(unit, &slice);
            self.slice(part, smaller.clone());
        }
    }

    /// Cuts members into slices of `size`: by their index where they have one, so that a slice stays
    /// the same when one of them is made anew, else by age.
    fn slices(&self, mut members: Vec<usize>, size: u32) -> BTreeMap<u32, Vec<usize>> {
        let pod = |at: &usize| self.members[*at].0;
        let index = |pod: &Pod, label: &str| pod.labels.value(label)?.parse::<u32>().ok();
        let label = INDEX_LABELS
            .into_iter()
            .find(|label| members.iter().all(|at| index(pod(at), label).is_some()));
        members.sort_by_key(|at| (pod(at).created, &pod(at).name, &pod(at).uid));
        let mut slices: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (nth, at) in (0u32..).zip(members) {
            let index = label.and_then(|label| index(pod(&at), label)).unwrap_or(nth);
            slices.entry(index / size).or_default().push(at);
        }
        slices
    }

    fn put(&mut self, unit: Unit, members: &[usize]) -> usize {
        let part = self.add(unit);
        for at in members {
            let Member { units, .. } = &mut self.members[*at].1;
            units.push(part);
        }
        part
    }
}
