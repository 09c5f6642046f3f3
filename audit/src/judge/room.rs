//! What each node had free during all of a time: the least of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{Amounts, Object, Pod};
use crate::world::{Step, World};

/// Empty until it begins.
#[derive(Default)]
pub(crate) struct Room {
    nodes: Option<BTreeMap<String, Least>>,
}

struct Least {
    free: Amounts,
    /// Ready all the time, without taints and cordon.
    is_open: bool,
    labels: BTreeSet<(String, String)>,
}

impl Room {
    /// Takes the world as it is, the first time.
    pub(crate) fn begin(&mut self, world: &World) {
        self.nodes.get_or_insert_with(|| {
            let least = |name: &String| Some((name.clone(), least(world, name)?));
            world.nodes.keys().filter_map(least).collect()
        });
    }

    /// Narrows what a change has touched.
    pub(crate) fn narrow(&mut self, step: &Step<'_>) {
        let Some(nodes) = &mut self.nodes else { return };
        for object in [step.old.as_ref(), step.change.object.as_ref()].into_iter().flatten() {
            let touched = match object {
                Object::Node(node) => vec![&node.name],
                Object::Pod(pod) => [&pod.node, &pod.nominated].into_iter().flatten().collect(),
                Object::Group(_)
                | Object::Lease(_)
                | Object::Claim(_)
                | Object::Slice(_)
                | Object::Class(_)
                | Object::TaintRule(_) => Vec::new(),
            };
            for name in touched {
                // A node that is new was not there all the time.
                if let Some(known) = nodes.get_mut(name) {
                    known.narrow(least(step.world, name));
                }
            }
        }
    }

    /// Returns a node that had room for the pod all the time. Only for pods that are plain.
    pub(crate) fn for_pod(&self, pod: &Pod) -> Option<&str> {
        let nodes = self.nodes.iter().flatten();
        let mut fitting = nodes.filter(|(_, least)| least.fits(pod));
        fitting.next().map(|(name, _)| name.as_str())
    }
}

impl Least {
    fn narrow(&mut self, other: Option<Least>) {
        let Some(other) = other else {
            self.is_open = false;
            return;
        };
        self.is_open &= other.is_open;
        self.labels.retain(|label| other.labels.contains(label));
        self.free.retain(|resource, _| other.free.contains_key(resource));
        for (resource, amount) in &mut self.free {
            *amount = (*amount).min(other.free.get(resource).copied().unwrap_or(0));
        }
    }

    fn fits(&self, pod: &Pod) -> bool {
        let mut selected = pod.node_selector.iter();
        let mut asked = pod.requests.iter().filter(|(_, amount)| **amount > 0);
        self.is_open
            && selected.all(|(key, value)| self.labels.contains(&(key.clone(), value.clone())))
            && asked.all(|(resource, amount)| self.free.get(resource).unwrap_or(&0) >= amount)
    }
}

fn least(world: &World, name: &str) -> Option<Least> {
    let node = world.nodes.get(name)?;
    let mut free = node.allocatable.clone();
    let running = world.running_on(name).map(|(_, pod)| pod);
    for pod in running.chain(world.nominated_for(name)) {
        for (resource, amount) in &pod.requests {
            if let Some(free) = free.get_mut(resource) {
                *free = free.saturating_sub(*amount);
            }
        }
    }
    let labels = node.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    Some(Least { free, is_open: node.is_ready && node.taints.is_empty(), labels })
}
