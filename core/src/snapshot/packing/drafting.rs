//! The picture that a price solve works on, taken a few nodes at a time: each node as it is when it
//! is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Node;

use super::NodeEntry;
use super::classes::{Class, Classes};
use super::demand::Admits;
use super::prices::{Kind, Prices};
use super::solve::Picture;
use super::states::{NodeState, States};

/// The object that a node's group was found for, and that group.
type Grouped = Option<(Arc<Node>, u32)>;

#[derive(Debug)]
pub(super) struct Drafting {
    classes: Vec<Class>,
    admits: Arc<[Arc<Admits>]>,
    /// Numbered as they come.
    kinds: BTreeMap<Kind, u32>,
    states: BTreeMap<NodeState, i64>,
    groups: Vec<Grouped>,
}

/// Groups of nodes by index, as the picture has them, so that nobody needs to find them again.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Grouped>);

impl Groups {
    pub(super) fn of(&self, at: usize, object: &Arc<Node>) -> Option<u32> {
        let (of, group) = self.0.get(at)?.as_ref()?;
        Arc::ptr_eq(of, object).then_some(*group)
    }
}

impl Drafting {
    pub(super) fn new(classes: &Classes, prices: &Prices) -> Drafting {
        let mut admits: Vec<_> =
            classes.all().map(|class| Arc::clone(&class.demand.admits)).collect();
        admits.sort();
        admits.dedup();
        let same = admits[..] == prices.admits[..];
        Drafting {
            classes: classes.all().filter(|class| class.weight > 0).cloned().collect(),
            admits: if same { Arc::clone(&prices.admits) } else { admits.into() },
            kinds: BTreeMap::new(),
            states: BTreeMap::new(),
            groups: Vec::new(),
        }
    }

    /// The node to be looked at next.
    pub(super) fn at(&self) -> usize {
        self.groups.len()
    }

    /// Looks at the next node.
    pub(super) fn look_at(&mut self, entry: Option<&NodeEntry>, states: &States, prices: &Prices) {
        let entry = entry.filter(|entry| !entry.object.unschedulable);
        let of = entry.and_then(|entry| Some((entry, states.slot(entry.slot)?)));
        let grouped = of.map(|(entry, slot)| {
            let group = self.group(entry, slot.state.replicas, prices);
            let state = NodeState { group: Some(group), ..slot.state.clone() };
            *self.states.entry(state).or_default() += 1;
            (Arc::clone(&entry.object), group)
        });
        self.groups.push(grouped);
    }

    fn group(&mut self, entry: &NodeEntry, replicas: u16, prices: &Prices) -> u32 {
        let fresh = self.kinds.len() as u32;
        let known = entry.group.filter(|_| Arc::ptr_eq(&self.admits, &prices.admits));
        let kind = match known.and_then(|group| prices.kind(group)) {
            Some(kind) => kind.clone(),
            None => Kind::of(&entry.object, &self.admits, replicas),
        };
        *self.kinds.entry(kind).or_insert(fresh)
    }

    /// Numbers groups in the order of what they admit.
    pub(super) fn finish(mut self, room_for_named: bool) -> (Picture, Groups) {
        let mut renamed = vec![0; self.kinds.len()];
        for (at, (_, group)) in self.kinds.iter_mut().enumerate() {
            renamed[*group as usize] = at as u32;
            *group = at as u32;
        }
        for (_, group) in self.groups.iter_mut().flatten() {
            *group = renamed[*group as usize];
        }
        let rename = |state: NodeState| {
            let group = state.group.map(|group| renamed[group as usize]);
            NodeState { group, ..state }
        };
        let picture = Picture {
            classes: self.classes,
            admits: self.admits,
            kinds: self.kinds,
            states: self.states.into_iter().map(|(state, count)| (rename(state), count)).collect(),
            room_for_named,
        };
        (picture, Groups(self.groups))
    }
}
