//! Which domain each node is in, and how many selected pods each domain holds.
//!
//! The first part moves only with the nodes' labels and taints ([`Layout`]) and is kept from cycle
//! to cycle; the second ([`Domains`]) moves with every pod and is one pass over integers.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::framework::{Cycle, CycleState};
use berth_core::snapshot::{Cluster, CountColumn, CountQuery, IndexRef, NodeIdx, NodeSet, Version};
use berth_core::types::{Node, Pod, Text};

use crate::shared::{first_untolerated, node_matches, taints};

use super::constraints::Constraint;

/// A node lacks the label; it is in the domain of the empty value, as upstream's map look-up has
/// it.
const UNLABELED: u32 = 1 << 31;
/// The node counts for the constraint.
const COUNTS: u32 = 1 << 30;
const DOMAIN: u32 = COUNTS - 1;

/// The domains of one topology key: the values of that label.
#[derive(Debug)]
pub(super) struct Layout {
    /// By node: dense id of its domain, with [`UNLABELED`] and [`COUNTS`].
    of_node: Vec<u32>,
    /// Every domain id is below it.
    capacity: usize,
}

/// The layouts of all constraints of a class, as of one version of labels and taints.
struct Layouts {
    version: Version,
    all: Arc<[Layout]>,
}

/// A layout with the number of selected pods in each domain.
#[derive(Debug)]
pub(super) struct Domains {
    layouts: Arc<[Layout]>,
    constraint: usize,
    /// Selected pods by domain; None where no node of the domain counts.
    counts: Vec<Option<i64>>,
}

impl Domains {
    fn layout(&self) -> &Layout {
        &self.layouts[self.constraint]
    }

    /// Returns the node's domain, `None` if it lacks the label.
    pub(super) fn of(&self, node: NodeIdx) -> Option<u32> {
        let domain = self.layout().of_node.get(node.at()).copied()?;
        (domain & UNLABELED == 0).then_some(domain & DOMAIN)
    }

    /// Returns the node's domain, that of the empty value if it lacks the label.
    pub(super) fn of_any(&self, node: NodeIdx) -> Option<u32> {
        self.layout().of_node.get(node.at()).map(|domain| domain & DOMAIN)
    }

    /// Returns how many selected pods the domain's counted nodes hold.
    pub(super) fn count(&self, domain: u32) -> i64 {
        self.counts.get(domain as usize).copied().flatten().unwrap_or(0)
    }

    /// Number of domains with a node that counts.
    pub(super) fn counted(&self) -> i64 {
        self.counts.iter().flatten().count() as i64
    }

    /// Returns the fewest pods that a domain with a node that counts holds.
    pub(super) fn fewest(&self) -> Option<i64> {
        self.counts.iter().flatten().min().copied()
    }

    /// Every domain id is below it.
    pub(super) fn capacity(&self) -> usize {
        self.counts.len()
    }
}

/// Counts the domains of each constraint, in their order.
///
/// A node counts for a constraint if it passes the constraint's two inclusion policies and, with
/// `all_keys`, has the keys of all constraints; only those `within`, if that is given. Layouts are kept under `key` in `state`.
/// Cost: O(nodes · constraints) integer steps; label look-ups only when labels or taints moved.
pub(super) fn survey(
    cycle: Cycle<'_>,
    constraints: &[Constraint],
    within: Option<&Arc<NodeSet>>,
    all_keys: bool,
    state: &mut CycleState,
    key: &'static str,
) -> Vec<Domains> {
    let version = cycle.cluster.index_version(&IndexRef::Topology);
    let kept = state.kept::<Layouts>(key).filter(|kept| kept.version == version);
    let layouts = match kept {
        Some(kept) => kept.all.clone(),
        None => {
            let all: Arc<[Layout]> = lay_out(cycle, constraints, all_keys).into();
            state.put(key, Layouts { version, all: all.clone() });
            all
        }
    };
    let count = |(constraint, asked): (usize, &Constraint)| {
        let counter = Counter::of(cycle.cluster, asked.query(&cycle.pod.namespace));
        let counts = count(&layouts[constraint], &counter, within.map(Arc::as_ref));
        Domains { layouts: layouts.clone(), constraint, counts }
    };
    constraints.iter().enumerate().map(count).collect()
}

fn count(layout: &Layout, counter: &Counter<'_>, within: Option<&NodeSet>) -> Vec<Option<i64>> {
    let mut counts = vec![None; layout.capacity];
    let inside = |at: usize| within.is_none_or(|nodes| nodes.contains(NodeIdx(at as u32)));
    for (at, domain) in layout.of_node.iter().enumerate() {
        if domain & COUNTS != 0
            && inside(at)
            && let Some(count) = counts.get_mut((domain & DOMAIN) as usize)
        {
            let pods = counter.on(NodeIdx(at as u32));
            *count = Some(count.unwrap_or(0i64).saturating_add(pods));
        }
    }
    counts
}

fn lay_out(cycle: Cycle<'_>, constraints: &[Constraint], all_keys: bool) -> Vec<Layout> {
    let cluster = cycle.cluster;
    let mut plans: Vec<Draft<'_>> =
        constraints.iter().map(|constraint| Draft::new(cycle, constraint)).collect();
    for (idx, node) in cluster.nodes().iter() {
        let mut has_all = true;
        for plan in &mut plans {
            has_all &= plan.enter(idx, node);
        }
        if all_keys && !has_all {
            continue;
        }
        let mut inclusion = Inclusion { pod: cycle.pod, node, affinity: None, taints: None };
        for plan in &mut plans {
            if inclusion.passes(plan.constraint) {
                plan.of_node[idx.at()] |= COUNTS;
            }
        }
    }
    let done = |draft: Draft<'_>| Layout { of_node: draft.of_node, capacity: draft.next as usize };
    plans.into_iter().map(done).collect()
}

struct Draft<'a> {
    cluster: &'a Cluster,
    constraint: &'a Constraint,
    ids: BTreeMap<&'a str, u32>,
    /// Ids from here on are given out one by one.
    next: u32,
    of_node: Vec<u32>,
}

impl<'a> Draft<'a> {
    fn new(cycle: Cycle<'a>, constraint: &'a Constraint) -> Draft<'a> {
        let capacity = cycle.cluster.nodes().capacity();
        // Hosts are named by node indices, others in order of appearance.
        let reserved = if constraint.by_hostname() { capacity } else { 0 };
        Draft {
            cluster: cycle.cluster,
            constraint,
            ids: BTreeMap::new(),
            next: reserved as u32,
            of_node: vec![UNLABELED; capacity],
        }
    }

    /// Notes the node's domain and tells whether it has the label.
    fn enter(&mut self, idx: NodeIdx, node: &'a Node) -> bool {
        let value = node.labels.value(&self.constraint.topology_key);
        let domain = match value {
            Some(value) => self.id(idx, node, value),
            None => self.id_by_value("") | UNLABELED,
        };
        self.of_node[idx.at()] = domain;
        value.is_some()
    }

    fn id(&mut self, idx: NodeIdx, node: &'a Node, value: &'a Text) -> u32 {
        if !self.constraint.by_hostname() {
            return self.id_by_value(value);
        }
        // Nearly every host is labelled with its own name: no search among as many values.
        if *value == node.name {
            return idx.0;
        }
        match self.cluster.nodes().index(value) {
            Some(namesake) => namesake.0,
            None => self.id_by_value(value),
        }
    }

    fn id_by_value(&mut self, value: &'a str) -> u32 {
        let Draft { ids, next, .. } = self;
        *ids.entry(value).or_insert_with(|| {
            let id = *next;
            *next += 1;
            id
        })
    }
}

/// The inclusion policies of one node, each asked at most once.
struct Inclusion<'a> {
    pod: &'a Pod,
    node: &'a Node,
    affinity: Option<bool>,
    taints: Option<bool>,
}

impl Inclusion<'_> {
    fn passes(&mut self, constraint: &Constraint) -> bool {
        (!constraint.honor_node_affinity || self.affinity_matches())
            && (!constraint.honor_node_taints || self.taints_tolerated())
    }

    fn affinity_matches(&mut self) -> bool {
        let (pod, node) = (self.pod, self.node);
        *self.affinity.get_or_insert_with(|| node_matches(&pod.spec, &node.name, &node.labels))
    }

    fn taints_tolerated(&mut self) -> bool {
        let (pod, node) = (self.pod, self.node);
        *self.taints.get_or_insert_with(|| {
            first_untolerated(&node.taints, &pod.spec.tolerations, taints::REPELLING).is_none()
        })
    }
}

/// Tells how many selected pods run on a node.
pub(super) enum Counter<'a> {
    Nothing,
    Column(&'a CountColumn),
    /// The ledger does not keep this count (it was not declared, or was pushed out): look at the
    /// pods themselves.
    Pods(&'a Cluster, CountQuery),
}

impl<'a> Counter<'a> {
    pub(super) fn of(cluster: &'a Cluster, query: Option<CountQuery>) -> Counter<'a> {
        let Some(query) = query else { return Counter::Nothing };
        match cluster.count(&query) {
            Some(column) => Counter::Column(column),
            None => Counter::Pods(cluster, query),
        }
    }

    pub(super) fn on(&self, node: NodeIdx) -> i64 {
        match self {
            Counter::Nothing => 0,
            Counter::Column(column) => i64::from(column.on(node)),
            Counter::Pods(cluster, query) => {
                let counts = |pod: &&Pod| {
                    !pod.terminating
                        && pod.namespace == query.namespace
                        && query.selector.selects(&pod.labels)
                };
                cluster.pods_on(node).filter(counts).count() as i64
            }
        }
    }
}
