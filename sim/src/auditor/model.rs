//! A small model of what keeps a pod off a node, written from kube-scheduler's documentation and
//! messages, not from the plugins.

use std::collections::BTreeMap;

use berth_core::types::pod::TolerationOperator;
use berth_core::types::{
    Node, Pod, PodRequests, PodSpec, SpreadConstraint, Taint, TaintEffect, Text, Timestamp,
    Toleration,
};

use crate::world::World;

const CORDONED: &str = "node(s) were unschedulable";
const TAINTED: &str = "node(s) had untolerated taint(s)";
const UNMATCHED: &str = "node(s) didn't match Pod's node affinity/selector";
const SKEWED: &str = "node(s) didn't match pod topology spread constraints";
const NO_DOMAIN: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";

/// What a pod takes on a node, and the node as it was known when that was decided.
pub(super) struct Taken<'a> {
    pub(super) usage: &'a PodRequests,
    pub(super) known: &'a Node,
    pub(super) decided: Timestamp,
}

/// Says what is requested beyond what the node had, `None` if all fits.
///
/// Of each resource, what the node had when the last of it was given away counts: a node may grow,
/// and room be given away on it, or shrink, while an earlier bind is on its way. Only what the
/// newcomer itself asks for counts: of anything else there may be too much because the node has
/// become smaller under its pods.
pub(super) fn over(placed: &[Taken<'_>], newcomer: &PodRequests) -> Option<String> {
    let last = |asks: &dyn Fn(&PodRequests) -> bool| {
        placed.iter().filter(|taken| asks(taken.usage)).max_by_key(|taken| taken.decided)
    };
    let newest = last(&|_| true)?.known;
    if placed.len() as i64 > newest.pods_max {
        return Some(format!("{} pods of {}", placed.len(), newest.pods_max));
    }
    newcomer.real.iter().find_map(|(name, _)| {
        let had = last(&|usage| usage.real.amount(name) > 0)?.known.allocatable.amount(name);
        let sum: i64 = placed.iter().map(|taken| taken.usage.real.amount(name)).sum();
        (sum > had).then(|| format!("{sum} {name} of {had}"))
    })
}

/// Returns the text of the first thing of the node itself that keeps the pod away.
pub(super) fn turned_away(pod: &Pod, node: &Node) -> Option<&'static str> {
    let cordon =
        Taint { key: CORDON_TAINT.into(), value: Text::default(), effect: TaintEffect::NoSchedule };
    if node.unschedulable && !tolerates(&pod.spec.tolerations, &cordon) {
        return Some(CORDONED);
    }
    let keeps_away = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let mut taints = node.taints.iter().filter(keeps_away);
    if taints.any(|taint| !tolerates(&pod.spec.tolerations, taint)) {
        return Some(TAINTED);
    }
    (!selects(&pod.spec, node)).then_some(UNMATCHED)
}

fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let key = toleration.key.is_empty() || toleration.key == taint.key;
        let effect = toleration.effect.is_none_or(|effect| effect == taint.effect);
        let value = match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => toleration.value == taint.value,
            TolerationOperator::Lt | TolerationOperator::Gt => false,
        };
        key && effect && value
    })
}

fn selects(spec: &PodSpec, node: &Node) -> bool {
    let selector = spec
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.value(key).is_some_and(|label| label == value));
    let affinity = &spec.node_affinity.required;
    selector && affinity.as_ref().is_none_or(|terms| terms.matches(&node.name, &node.labels))
}

/// Returns the reason texts of why `pod` can't be on `node`, none if it can.
pub(super) fn reasons(world: &World, pod: &Pod, node: &Node) -> Vec<String> {
    if let Some(text) = turned_away(pod, node) {
        return vec![text.to_owned()];
    }
    let short = insufficient(world, pod, node);
    if !short.is_empty() {
        return short;
    }
    let hard = pod.spec.spread.iter().filter(|constraint| constraint.hard);
    for constraint in hard {
        if let Some(text) = skewed(world, pod, node, constraint) {
            return vec![text.to_owned()];
        }
    }
    Vec::new()
}

fn insufficient(world: &World, pod: &Pod, node: &Node) -> Vec<String> {
    let placed: Vec<&Pod> = placed_on(world, node).collect();
    let mut texts = Vec::new();
    if placed.len() as i64 + 1 > node.pods_max {
        texts.push("Too many pods".to_owned());
    }
    for (name, amount) in pod.spec.requests.real.iter() {
        let taken: i64 = placed.iter().map(|other| other.usage.real.amount(name)).sum();
        if taken + amount > node.allocatable.amount(name) {
            texts.push(format!("Insufficient {name}"));
        }
    }
    texts
}

fn placed_on<'a>(world: &'a World, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
    let here = |pod: &&Pod| pod.node_name.as_ref() == Some(&node.name) && !pod.finished();
    world.pods().filter(here)
}

fn skewed(
    world: &World,
    pod: &Pod,
    node: &Node,
    constraint: &SpreadConstraint,
) -> Option<&'static str> {
    let key = &constraint.topology_key;
    let Some(domain) = node.labels.value(key) else { return Some(NO_DOMAIN) };
    let selector = constraint.selector.as_ref();
    let counts = |other: &Pod| {
        !other.terminating
            && other.namespace == pod.namespace
            && selector.is_some_and(|selector| selector.selects(&other.labels))
    };
    let mut domains: BTreeMap<&Text, i64> = BTreeMap::new();
    for other in world.nodes() {
        if let Some(domain) = other.labels.value(key)
            && selects(&pod.spec, other)
        {
            let here = placed_on(world, other).filter(|pod| counts(pod)).count() as i64;
            *domains.entry(domain).or_default() += here;
        }
    }
    let least = domains.values().min().copied().unwrap_or(0);
    let own = i64::from(selector.is_some_and(|selector| selector.selects(&pod.labels)));
    let here = domains.get(domain).copied().unwrap_or(0);
    (here + own - least > i64::from(constraint.max_skew)).then_some(SKEWED)
}
