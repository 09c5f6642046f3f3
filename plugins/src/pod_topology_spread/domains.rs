//! One pass over the nodes: which domain each is in, and how many selected pods each domain holds.

use std::collections::BTreeMap;

use berth_core::framework::Cycle;
use berth_core::snapshot::{Cluster, CountColumn, CountQuery, NodeIdx};
use berth_core::types::{Node, Pod, Text};

use crate::shared::{first_untolerated, node_matches, taints};

use super::constraints::Constraint;

/// The domains of one topology key: the values of that label.
#[derive(Debug, Default)]
pub(super) struct Domains {
    /// Dense id of each node's domain. A node without the label is in the domain of the empty
    /// value, as upstream's map look-up has it, with the bit [`UNLABELED`] set.
    of_node: Vec<u32>,
    /// Selected pods by domain; None where no node of the domain counts.
    counts: Vec<Option<i64>>,
}

const UNLABELED: u32 = 1 << 31;

impl Domains {
    /// Returns the node's domain, `None` if it lacks the label.
    pub(super) fn of(&self, node: NodeIdx) -> Option<u32> {
        self.of_node.get(node.at()).copied().filter(|domain| domain & UNLABELED == 0)
    }

    /// Returns the node's domain, that of the empty value if it lacks the label.
    pub(super) fn of_any(&self, node: NodeIdx) -> Option<u32> {
        self.of_node.get(node.at()).map(|domain| domain & !UNLABELED)
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

    fn add(&mut self, domain: u32, pods: i64) {
        if let Some(count) = self.counts.get_mut(domain as usize) {
            *count = Some(count.unwrap_or(0).saturating_add(pods));
        }
    }
}

/// Counts the domains of each constraint, in their order.
///
/// A node counts for a constraint if it passes the constraint's two inclusion policies and, with
/// `all_keys`, has the keys of all constraints. Cost: O(nodes · constraints) label look-ups.
pub(super) fn survey(cycle: Cycle<'_>, constraints: &[Constraint], all_keys: bool) -> Vec<Domains> {
    let cluster = cycle.cluster;
    let mut surveys: Vec<Survey<'_>> =
        constraints.iter().map(|constraint| Survey::new(cycle, constraint)).collect();
    for (idx, node) in cluster.nodes().iter() {
        let mut has_all = true;
        for survey in &mut surveys {
            has_all &= survey.enter(idx, node);
        }
        if all_keys && !has_all {
            continue;
        }
        let mut inclusion = Inclusion { pod: cycle.pod, node, affinity: None, taints: None };
        for survey in &mut surveys {
            if inclusion.passes(survey.constraint) {
                survey.count(idx);
            }
        }
    }
    surveys.into_iter().map(|survey| survey.domains).collect()
}

struct Survey<'a> {
    cluster: &'a Cluster,
    constraint: &'a Constraint,
    counter: Counter<'a>,
    ids: BTreeMap<&'a str, u32>,
    /// Ids from here on are given out one by one.
    next: u32,
    domains: Domains,
}

impl<'a> Survey<'a> {
    fn new(cycle: Cycle<'a>, constraint: &'a Constraint) -> Survey<'a> {
        let capacity = cycle.cluster.nodes().capacity();
        // Hosts are named by node indices, others in order of appearance.
        let reserved = if constraint.by_hostname() { capacity } else { 0 };
        Survey {
            cluster: cycle.cluster,
            constraint,
            counter: Counter::of(cycle.cluster, constraint.query(&cycle.pod.namespace)),
            ids: BTreeMap::new(),
            next: reserved as u32,
            domains: Domains { of_node: vec![UNLABELED; capacity], counts: vec![None; reserved] },
        }
    }

    /// Notes the node's domain and tells whether it has the label.
    fn enter(&mut self, idx: NodeIdx, node: &'a Node) -> bool {
        let value = node.labels.value(&self.constraint.topology_key);
        let domain = match value {
            Some(value) => self.id(idx, node, value),
            None => self.id_by_value("") | UNLABELED,
        };
        self.domains.of_node[idx.at()] = domain;
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
        let Survey { ids, next, domains, .. } = self;
        *ids.entry(value).or_insert_with(|| {
            let id = *next;
            *next += 1;
            domains.counts.push(None);
            id
        })
    }

    fn count(&mut self, idx: NodeIdx) {
        let pods = self.counter.on(idx);
        if let Some(domain) = self.domains.of_any(idx) {
            self.domains.add(domain, pods);
        }
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
