//! The cluster as it was at one revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::Change;
use crate::moment::Moment;
use crate::objects::{Claim, Group, Name, Node, Object, Pod};

/// Built by applying the changes in their order.
#[derive(Debug, Default)]
pub(crate) struct World {
    objects: BTreeMap<Arc<str>, Object>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) groups: BTreeMap<Name, Arc<Group>>,
    /// Keys of the pods that are bound to a node, and of those nominated for it.
    on_node: BTreeMap<String, BTreeSet<Arc<str>>>,
    in_group: BTreeMap<Name, BTreeSet<Arc<str>>>,
}

/// One change, with the world behind it.
pub(crate) struct Step<'a> {
    pub(crate) change: &'a Change,
    /// What the key held before.
    pub(crate) old: Option<Object>,
    pub(crate) world: &'a World,
}

impl Step<'_> {
    pub(crate) fn now(&self) -> Moment {
        self.change.received
    }

    pub(crate) fn old_pod(&self) -> Option<&Arc<Pod>> {
        as_pod(self.old.as_ref())
    }

    pub(crate) fn new_pod(&self) -> Option<&Arc<Pod>> {
        as_pod(self.change.object.as_ref())
    }

    /// Returns the pod that this change binds, and its node. A pod that is born with a node was
    /// bound by no scheduler.
    pub(crate) fn bind(&self) -> Option<(&Arc<Pod>, &str)> {
        let (old, new) = (self.old_pod()?, self.new_pod()?);
        let node = new.node.as_deref()?;
        (old.uid == new.uid && old.node.is_none()).then_some((new, node))
    }
}

fn as_pod(object: Option<&Object>) -> Option<&Arc<Pod>> {
    match object {
        Some(Object::Pod(pod)) => Some(pod),
        _ => None,
    }
}

impl World {
    /// Applies a change and returns what the key held before.
    pub(crate) fn apply(&mut self, change: &Change) -> Option<Object> {
        let old = match &change.object {
            Some(object) => self.objects.insert(Arc::clone(&change.key), object.clone()),
            None => self.objects.remove(&change.key),
        };
        if let Some(old) = &old {
            self.forget(&change.key, old);
        }
        if let Some(new) = &change.object {
            self.learn(&change.key, new);
        }
        old
    }

    fn forget(&mut self, key: &Arc<str>, object: &Object) {
        match object {
            Object::Node(node) => {
                self.nodes.remove(&node.name);
            }
            Object::Group(group) => {
                self.groups.remove(&group.name);
            }
            Object::Pod(pod) => {
                for node in [&pod.node, &pod.nominated].into_iter().flatten() {
                    self.on_node.get_mut(node).map(|keys| keys.remove(key));
                }
                if let Some(group) = group_of(pod) {
                    self.in_group.get_mut(&group).map(|keys| keys.remove(key));
                }
            }
            Object::Lease(_)
            | Object::Claim(_)
            | Object::Slice(_)
            | Object::Class(_)
            | Object::TaintRule(_) => {}
        }
    }

    fn learn(&mut self, key: &Arc<str>, object: &Object) {
        match object {
            Object::Node(node) => {
                self.nodes.insert(node.name.clone(), Arc::clone(node));
            }
            Object::Group(group) => {
                self.groups.insert(group.name.clone(), Arc::clone(group));
            }
            Object::Pod(pod) => {
                for node in [&pod.node, &pod.nominated].into_iter().flatten() {
                    self.on_node.entry(node.clone()).or_default().insert(Arc::clone(key));
                }
                if let Some(group) = group_of(pod) {
                    self.in_group.entry(group).or_default().insert(Arc::clone(key));
                }
            }
            Object::Lease(_)
            | Object::Claim(_)
            | Object::Slice(_)
            | Object::Class(_)
            | Object::TaintRule(_) => {}
        }
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Pod>)> {
        self.objects.iter().filter_map(|(key, object)| Some((key, as_pod(Some(object))?)))
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Claim>)> {
        self.objects.iter().filter_map(|(key, object)| match object {
            Object::Claim(claim) => Some((key, claim)),
            _ => None,
        })
    }

    /// Returns the pods that hold something on the node: bound to it and not over.
    pub(crate) fn running_on(&self, node: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<Pod>)> {
        self.near(node).filter(|(_, pod)| pod.node.is_some() && !pod.is_terminal)
    }

    /// Returns the pods that were told to expect a place on the node.
    pub(crate) fn nominated_for(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.near(node).map(|(_, pod)| pod).filter(|pod| pod.node.is_none())
    }

    fn near(&self, node: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<Pod>)> {
        self.keyed(self.on_node.get(node))
    }

    pub(crate) fn members(&self, group: &Name) -> impl Iterator<Item = &Arc<Pod>> {
        self.keyed(self.in_group.get(group)).map(|(_, pod)| pod)
    }

    fn keyed<'a>(
        &'a self,
        keys: Option<&'a BTreeSet<Arc<str>>>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Pod>)> {
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| Some((key, as_pod(self.objects.get(key))?)))
    }
}

/// Returns the name of the pod's group.
pub(crate) fn group_of(pod: &Pod) -> Option<Name> {
    let name = pod.group.clone()?;
    Some(Name { namespace: pod.name.namespace.clone(), name })
}
