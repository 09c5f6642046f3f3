//! HyperNodes: domains that list their nodes, and other domains inside them.
//!
//! Which nodes each lists is kept as nodes and objects come and go. What follows from several of them
//! is worked out when asked for: who is in whom, and which nodes that makes. Where objects contradict
//! each other, the first by name is right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::snapshot::node_set::NodeSet;
use crate::snapshot::nodes::{NodeIdx, Nodes};
use crate::snapshot::sets::leave;
use crate::types::tree::{HyperNode, NodeMatch};
use crate::types::{Node, Text, TopologyObject};

use super::Contradiction;

/// Members of all HyperNodes together that are patterns or label selectors: each is tried on every
/// node that comes.
pub const SEARCHES_MAX: usize = 1024;

/// The HyperNodes of the cluster, by name.
#[derive(Debug, Default)]
pub struct HyperNodes {
    entries: BTreeMap<Text, Entry>,
    /// HyperNodes by the nodes that they name.
    naming: BTreeMap<Text, BTreeSet<Text>>,
    /// HyperNodes whose members are searched for, and how many such members they have.
    searching: BTreeMap<Text, usize>,
    /// Likewise, beyond [`SEARCHES_MAX`]: of these only nodes that they name count.
    refused: BTreeMap<Text, usize>,
    settled: Settled,
    changed: bool,
}

#[derive(Debug)]
struct Entry {
    object: Arc<TopologyObject>,
    it: Arc<HyperNode>,
    /// Nodes that it lists itself.
    listed: NodeSet,
}

/// What follows from all of them.
#[derive(Debug, Default)]
struct Settled {
    domains: BTreeMap<Text, Domain>,
    /// What each is in.
    parents: BTreeMap<Text, Text>,
    tiers: BTreeSet<u32>,
    names: BTreeMap<Text, u32>,
    /// The first one of each.
    contradictions: BTreeMap<Text, Text>,
}

#[derive(Debug)]
struct Domain {
    tier: u32,
    /// The tier of what it is in.
    above: Option<u32>,
    nodes: NodeSet,
}

impl HyperNodes {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the tiers that there are, lowest first.
    pub fn tiers(&self) -> impl Iterator<Item = u32> + '_ {
        self.settled.tiers.iter().copied()
    }

    /// Returns the tier that HyperNodes call by this name.
    pub fn tier_named(&self, name: &str) -> Option<u32> {
        self.settled.names.get(name).copied()
    }

    /// Returns the largest HyperNodes of this tier and those below it, in order of their names. Each
    /// node is in one of a tier at most.
    pub fn domains(&self, tier: u32) -> impl Iterator<Item = (&Text, &NodeSet)> {
        let largest =
            move |it: &Domain| it.tier <= tier && it.above.is_none_or(|above| above > tier);
        let of = self.settled.domains.iter();
        let of = of.filter(move |(_, it)| largest(it) && !it.nodes.is_empty());
        of.map(|(name, it)| (name, &it.nodes))
    }

    pub(super) fn put(&mut self, object: &Arc<TopologyObject>, it: &Arc<HyperNode>, nodes: &Nodes) {
        let name = object.key.name.clone();
        let searches = it.nodes.iter().filter(|of| of.searches()).count();
        for member in &it.nodes {
            if let NodeMatch::Name(node) = member {
                self.naming.entry(node.clone()).or_default().insert(name.clone());
            }
        }
        let entry = Entry { object: object.clone(), it: it.clone(), listed: NodeSet::default() };
        self.entries.insert(name.clone(), entry);
        if searches > 0 {
            let used: usize = self.searching.values().sum();
            let kept = if used + searches <= SEARCHES_MAX {
                &mut self.searching
            } else {
                &mut self.refused
            };
            kept.insert(name.clone(), searches);
        }
        self.list(&name, nodes);
    }

    pub(super) fn remove(&mut self, name: &Text, nodes: &Nodes) {
        let Some(entry) = self.entries.remove(name) else { return };
        for member in &entry.it.nodes {
            let NodeMatch::Name(node) = member else { continue };
            leave(&mut self.naming, node, name);
        }
        self.changed = true;
        self.refused.remove(name);
        if self.searching.remove(name).is_some() {
            self.let_in(nodes);
        }
    }

    /// Others get the room that one has left.
    fn let_in(&mut self, nodes: &Nodes) {
        let mut used: usize = self.searching.values().sum();
        let mut fit = |(name, searches): (&Text, &usize)| {
            let fits = used + searches <= SEARCHES_MAX;
            used += if fits { *searches } else { 0 };
            fits.then(|| name.clone())
        };
        let names: Vec<Text> = self.refused.iter().filter_map(&mut fit).collect();
        for name in names {
            let searches = self.refused.remove(&name).unwrap_or(0);
            self.searching.insert(name.clone(), searches);
            self.list(&name, nodes);
        }
    }

    /// Finds the nodes that a HyperNode lists. Cost: O(nodes) for each member that is searched for.
    fn list(&mut self, name: &Text, nodes: &Nodes) {
        self.changed = true;
        let searches = self.searching.contains_key(name);
        let Some(entry) = self.entries.get_mut(name) else { return };
        let mut listed = NodeSet::default();
        for member in &entry.it.nodes {
            match member {
                NodeMatch::Name(node) => {
                    let there = nodes.index(node).filter(|at| nodes.node(*at).is_some());
                    there.into_iter().for_each(|at| listed.insert(at));
                }
                NodeMatch::Pattern(_) | NodeMatch::Labels(_) if !searches => {}
                NodeMatch::Pattern(_) | NodeMatch::Labels(_) => {
                    let meant = nodes.iter().filter(|(_, node)| means(member, node));
                    meant.for_each(|(at, _)| listed.insert(at));
                }
            }
        }
        entry.listed = listed;
    }

    pub(super) fn follow_node(&mut self, at: NodeIdx, old: Option<&Node>, new: Option<&Node>) {
        let names = |node: &Node| self.naming.get(&node.name).cloned().unwrap_or_default();
        let mut touched: BTreeSet<Text> = old.or(new).map(names).unwrap_or_default();
        touched.extend(self.searching.keys().cloned());
        for name in touched {
            let searches = self.searching.contains_key(&name);
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            let counts = |member: &&NodeMatch| searches || !member.searches();
            let mut members = entry.it.nodes.iter().filter(counts);
            let is = new.is_some_and(|node| members.any(|member| means(member, node)));
            if is == entry.listed.contains(at) {
                continue;
            }
            self.changed = true;
            match is {
                true => entry.listed.insert(at),
                false => entry.listed.remove(at),
            }
        }
    }

    /// Returns the contradictions that are new.
    pub(super) fn settle(&mut self, nodes: &Nodes) -> Vec<Contradiction> {
        if !std::mem::take(&mut self.changed) {
            return Vec::new();
        }
        let mut settled = Settled::default();
        self.settle_names(&mut settled);
        self.settle_parents(&mut settled);
        self.settle_nodes(&mut settled, nodes);
        for name in self.refused.keys() {
            let what = format!(
                "HyperNodes have more than {SEARCHES_MAX} patterns and label selectors together; \
                 those of this one are not read"
            );
            settled.contradicts(name, what);
        }
        let before = std::mem::replace(&mut self.settled, settled).contradictions;
        let new = self.settled.contradictions.iter();
        let new = new.filter(|(name, what)| before.get(*name) != Some(*what));
        let told = new.filter_map(|(name, what)| {
            let TopologyObject { key, uid, .. } = &*self.entries.get(name)?.object;
            Some(Contradiction { key: key.clone(), uid: uid.clone(), what: what.clone() })
        });
        told.collect()
    }

    fn settle_names(&self, settled: &mut Settled) {
        for (name, Entry { it, .. }) in &self.entries {
            settled.tiers.insert(it.tier);
            let Some(tier_name) = &it.tier_name else { continue };
            let tier = *settled.names.entry(tier_name.clone()).or_insert(it.tier);
            if tier != it.tier {
                let what = format!(
                    "tier {} is called {tier_name}, as is tier {tier}: the name means tier {tier}",
                    it.tier
                );
                settled.contradicts(name, what);
            }
        }
    }

    /// A part is of a lower tier, so nothing is in itself.
    fn settle_parents(&self, settled: &mut Settled) {
        for (name, Entry { it, .. }) in &self.entries {
            for part in &it.parts {
                let Some(tier) = self.entries.get(part).map(|part| part.it.tier) else { continue };
                if tier >= it.tier {
                    let what = format!(
                        "HyperNode {part} is left out: it is of tier {tier}, and parts of one of \
                         tier {} must be below that",
                        it.tier
                    );
                    settled.contradicts(name, what);
                    continue;
                }
                let parent = settled.parents.entry(part.clone()).or_insert_with(|| name.clone());
                if parent != name {
                    let what = format!("HyperNode {part} is left out: it is in {parent} already");
                    settled.contradicts(name, what);
                }
            }
        }
    }

    fn settle_nodes(&self, settled: &mut Settled, nodes: &Nodes) {
        let mut tiers: BTreeMap<u32, Vec<(&Text, &Entry)>> = BTreeMap::new();
        for (name, entry) in &self.entries {
            tiers.entry(entry.it.tier).or_default().push((name, entry));
        }
        for (tier, of_tier) in tiers {
            let (mut taken, mut owner) = (NodeSet::default(), BTreeMap::new());
            for (name, entry) in of_tier {
                let mut own = entry.listed.clone();
                for part in &entry.it.parts {
                    let of = settled.domains.get(part);
                    let is_part = settled.parents.get(part) == Some(name);
                    of.filter(|_| is_part).into_iter().for_each(|it| own.extend(&it.nodes));
                }
                let twice = own.intersection(&taken);
                if let Some(node) = twice.iter().next() {
                    let (node_name, other) = (&nodes.slot(node).name, &owner[&node]);
                    let what = format!(
                        "node {node_name} is left out: it is in {other}, of tier {tier} too \
                         ({} such nodes)",
                        twice.len()
                    );
                    settled.contradicts(name, what);
                    own = own.difference(&twice);
                }
                owner.extend(own.iter().map(|node| (node, name.clone())));
                taken.extend(&own);
                let parent = settled.parents.get(name).and_then(|it| self.entries.get(it));
                let above = parent.map(|parent| parent.it.tier);
                settled.domains.insert(name.clone(), Domain { tier, above, nodes: own });
            }
        }
    }
}

impl Settled {
    fn contradicts(&mut self, name: &Text, what: String) {
        self.contradictions.entry(name.clone()).or_insert_with(|| what.into());
    }
}

fn means(member: &NodeMatch, node: &Node) -> bool {
    match member {
        NodeMatch::Name(name) => *name == node.name,
        NodeMatch::Pattern(pattern) => pattern.matches(&node.name),
        NodeMatch::Labels(selector) => selector.selects(&node.labels),
    }
}

#[cfg(test)]
mod tests;
