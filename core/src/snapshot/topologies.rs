//! Topologies that objects describe: levels that are node labels, and domains that are listed.
//!
//! Reading order: this file (the objects), [`hyper_nodes`] (domains that are listed).

pub mod hyper_nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::tree::{Level, TopologyShape};
use crate::types::{Node, Text, TopologyKey, TopologyObject};

use super::cluster::Cluster;
use super::event::{Change, GroupChange, older};
use super::nodes::{NodeIdx, Nodes};
use super::sets::leave;

use hyper_nodes::HyperNodes;

/// What objects say of topologies. Those that can't be understood say nothing.
#[derive(Debug, Default)]
pub struct Topologies {
    objects: BTreeMap<TopologyKey, Arc<TopologyObject>>,
    /// Objects by the labels of their levels, and by the names that they have for them.
    by_label: BTreeMap<Text, BTreeSet<TopologyKey>>,
    by_name: BTreeMap<Text, BTreeSet<TopologyKey>>,
    hyper_nodes: HyperNodes,
}

/// Something that contradicts what other objects say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub key: TopologyKey,
    pub uid: Text,
    /// What was done about it, and why.
    pub what: Text,
}

impl Topologies {
    /// Returns all objects, in order of their keys.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<TopologyObject>> {
        self.objects.values()
    }

    /// Returns the levels of one object.
    pub fn levels(&self, key: &TopologyKey) -> Option<&[Level]> {
        match &self.objects.get(key)?.shape {
            TopologyShape::Levels(levels) => Some(levels),
            TopologyShape::HyperNode(_) => None,
        }
    }

    /// Returns the levels of the first object that has one with this label.
    pub fn with_label(&self, label: &str) -> Option<&[Level]> {
        self.levels(self.by_label.get(label)?.first()?)
    }

    /// As [`Topologies::with_label`], by the name of the level.
    pub fn with_name(&self, name: &str) -> Option<&[Level]> {
        self.levels(self.by_name.get(name)?.first()?)
    }

    pub fn hyper_nodes(&self) -> &HyperNodes {
        &self.hyper_nodes
    }

    fn put(&mut self, object: TopologyObject, nodes: &Nodes) -> bool {
        let known = self.objects.get(&object.key);
        let late = |known: &Arc<TopologyObject>| {
            known.uid == object.uid && older(object.resource_version, known.resource_version)
        };
        if known.is_some_and(late) {
            return false;
        }
        let same = known.is_some_and(|known| {
            known.shape == object.shape
                && known.problem == object.problem
                && known.uid == object.uid
        });
        let object = Arc::new(object);
        if !same {
            self.take_out(&object.key, nodes);
            self.take_in(&object, nodes);
        }
        self.objects.insert(object.key.clone(), object);
        !same
    }

    fn delete(&mut self, key: &TopologyKey, uid: &Text, nodes: &Nodes) -> bool {
        let known = self.objects.get(key);
        if !known.is_some_and(|known| uid.is_empty() || known.uid == *uid) {
            return false;
        }
        self.take_out(key, nodes);
        self.objects.remove(key);
        true
    }

    fn take_in(&mut self, object: &Arc<TopologyObject>, nodes: &Nodes) {
        if object.problem.is_some() {
            return;
        }
        match &object.shape {
            TopologyShape::Levels(levels) => {
                for Level { label, name } in levels {
                    let key = &object.key;
                    self.by_label.entry(label.clone()).or_default().insert(key.clone());
                    if let Some(name) = name {
                        self.by_name.entry(name.clone()).or_default().insert(key.clone());
                    }
                }
            }
            TopologyShape::HyperNode(it) => self.hyper_nodes.put(object, it, nodes),
        }
    }

    fn take_out(&mut self, key: &TopologyKey, nodes: &Nodes) {
        let Some(object) = self.objects.get(key).filter(|it| it.problem.is_none()) else { return };
        match &object.shape {
            TopologyShape::Levels(levels) => {
                for Level { label, name } in levels {
                    leave(&mut self.by_label, label, key);
                    name.iter().for_each(|name| leave(&mut self.by_name, name, key));
                }
            }
            TopologyShape::HyperNode(_) => self.hyper_nodes.remove(&key.name, nodes),
        }
    }

    /// A node has come, changed or gone.
    pub(super) fn follow_node(&mut self, at: NodeIdx, old: Option<&Node>, new: Option<&Node>) {
        self.hyper_nodes.follow_node(at, old, new);
    }
}

impl Cluster {
    /// Topologies that objects describe.
    pub fn topologies(&self) -> &Topologies {
        &self.topologies
    }

    /// Brings what hangs on several objects up to date, and returns the contradictions that are new.
    /// Until then [`HyperNodes::domains`] is as it was. Cost: O(HyperNodes) if one, or its nodes,
    /// have changed.
    pub fn settle_topologies(&mut self) -> Vec<Contradiction> {
        self.topologies.hyper_nodes.settle(&self.nodes)
    }

    pub(super) fn apply_topology(&mut self, object: TopologyObject) -> Vec<Change> {
        let key = object.key.clone();
        let changed = self.topologies.put(object, &self.nodes);
        self.topology_moved(changed, key)
    }

    pub(super) fn delete_topology(&mut self, key: TopologyKey, uid: &Text) -> Vec<Change> {
        let changed = self.topologies.delete(&key, uid, &self.nodes);
        self.topology_moved(changed, key)
    }

    fn topology_moved(&mut self, changed: bool, key: TopologyKey) -> Vec<Change> {
        if !changed {
            return Vec::new();
        }
        self.topology_version = self.nodes.fresh_version();
        vec![Change::Groups(GroupChange::Topology { key })]
    }
}
