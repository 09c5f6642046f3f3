//! I2: no bind makes a node overfull, binds a host port twice, or lands where no pod may.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::judge::Limits;
use crate::judge::author::{Author, Binders};
use crate::moment::Moment;
use crate::objects::{Amounts, Node, Object, Pod};
use crate::quantity::{Nanos, shown};
use crate::report::{Invariant, Report};
use crate::world::Step;

/// Neighbours that a report names.
const NAMED: usize = 4;

pub(crate) struct Capacity<'a> {
    binders: &'a Binders<'a>,
    limits: &'a Limits,
    /// Each node's states that differ in what counts here, with their beginnings.
    nodes: BTreeMap<String, Vec<State>>,
    /// What pods asked for before a resize, and until when.
    before_resize: BTreeMap<Arc<str>, Vec<(Moment, Arc<Pod>)>>,
    /// When others bound a pod.
    foreign: BTreeMap<Arc<str>, Moment>,
}

/// A state of a node, from its beginning on; nothing while the node is gone.
type State = (Moment, Option<Arc<Node>>);

/// A bind to be judged.
struct Bind<'a> {
    key: &'a Arc<str>,
    pod: &'a Pod,
    node: &'a str,
    /// What happened later than this need not have been known.
    known_to: Moment,
    step: &'a Step<'a>,
}

impl<'a> Capacity<'a> {
    pub(crate) fn new(binders: &'a Binders<'a>, limits: &'a Limits) -> Self {
        Self {
            binders,
            limits,
            nodes: BTreeMap::new(),
            before_resize: BTreeMap::new(),
            foreign: BTreeMap::new(),
        }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, report: &mut Report) {
        self.note_node(step);
        self.note_pod(step);
        let Some((pod, node)) = step.bind() else { return };
        let key = &step.change.key;
        let (binder, sent) = self.binders.of(pod, step.now());
        if let Author::Foreign(_) = binder {
            report.foreign_binds += 1;
            self.foreign.insert(Arc::clone(key), step.now());
            return;
        }
        let by = binder.shown();
        report.binds += 1;
        let known_to = sent - self.limits.node_grace;
        for fault in self.faults(&Bind { key, pod, node, known_to, step }) {
            let text = format!("{} bound to {node}{by}: {fault}", pod.name);
            report.convict(Invariant::I2, step.change.revision, text);
        }
    }

    fn note_node(&mut self, step: &Step<'_>) {
        let new = match &step.change.object {
            Some(Object::Node(node)) => Some(node),
            _ => None,
        };
        let name = match (new, &step.old) {
            (Some(node), _) | (None, Some(Object::Node(node))) => &node.name,
            _ => return,
        };
        let states = self.nodes.entry(name.clone()).or_default();
        let is_same = match (states.last(), new) {
            (Some((_, Some(last))), Some(new)) => {
                last.allocatable == new.allocatable && last.taints == new.taints
            }
            _ => false,
        };
        if !is_same {
            states.push((step.now(), new.cloned()));
        }
    }

    fn note_pod(&mut self, step: &Step<'_>) {
        let key = &step.change.key;
        match (step.old_pod(), step.new_pod()) {
            (Some(old), Some(new)) if old.requests != new.requests => {
                let before = self.before_resize.entry(Arc::clone(key)).or_default();
                before.push((step.now(), Arc::clone(old)));
            }
            // Born bound: nobody else could have known of it before.
            (None, Some(new)) if new.node.is_some() => {
                self.foreign.insert(Arc::clone(key), step.now());
            }
            (Some(_), None) => {
                self.before_resize.remove(key);
                self.foreign.remove(key);
            }
            _ => {}
        }
    }

    /// Returns what is wrong with a bind, judged by each state of the node that its sender may
    /// have known: one that allows it is enough.
    fn faults(&self, bind: &Bind<'_>) -> Vec<String> {
        let Some(states) = self.nodes.get(bind.node) else {
            return vec!["there was never such a node".to_owned()];
        };
        let first = states.partition_point(|(from, _)| *from < bind.known_to).saturating_sub(1);
        let nodes: Vec<&Node> =
            states[first..].iter().filter_map(|(_, node)| node.as_deref()).collect();
        if nodes.is_empty() {
            return vec!["the node was gone".to_owned()];
        }
        let overfull = nodes.iter().map(|node| self.overfull(bind, &node.allocatable));
        let fullest = overfull.min_by_key(Vec::len).unwrap_or_default();
        let taints: Option<Vec<_>> = nodes.iter().map(|node| node.untolerated(bind.pod)).collect();
        let taint = taints.and_then(|taints| taints.into_iter().next_back());
        let taint = taint.map(|taint| format!("it does not tolerate {}", taint.key));
        fullest.into_iter().chain(taint).chain(port_twice(bind)).collect()
    }

    /// Returns the resources of which more is held than there is, among those that the pod takes
    /// some of.
    fn overfull(&self, bind: &Bind<'_>, allocatable: &Amounts) -> Vec<String> {
        let asked = bind.pod.requests.iter().filter(|(_, amount)| **amount > 0);
        let over = asked.filter_map(|(resource, _)| {
            let own = self.held(bind.key, bind.pod, resource, bind.known_to);
            let others = self.others(bind, resource);
            let total = others.iter().fold(own, |sum, (_, amount)| sum.saturating_add(*amount));
            let there = allocatable.get(resource).copied().unwrap_or(0);
            (total > there).then(|| {
                let (total, there) = (shown(total), shown(there));
                format!("{resource} {total} of {there}, {}", beside(&others))
            })
        });
        over.collect()
    }

    /// Returns what the others on the node hold of a resource.
    fn others<'b>(&self, bind: &'b Bind<'_>, resource: &str) -> Vec<(&'b Pod, Nanos)> {
        let mut others = Vec::new();
        for (key, pod) in bind.step.world.running_on(bind.node) {
            let is_news = self.foreign.get(key).is_some_and(|since| *since > bind.known_to);
            let amount = self.held(key, pod, resource, bind.known_to);
            if key != bind.key && !is_news && amount > 0 {
                others.push((&**pod, amount));
            }
        }
        others
    }

    /// Returns what a pod holds of a resource: the least that may have been known.
    fn held(&self, key: &Arc<str>, pod: &Pod, resource: &str, known_to: Moment) -> Nanos {
        let amount = |pod: &Pod| pod.requests.get(resource).copied().unwrap_or(0);
        let before = self.before_resize.get(key).into_iter().flatten();
        let known = before.filter(|(until, _)| *until > known_to).map(|(_, pod)| amount(pod));
        known.fold(amount(pod), Nanos::min)
    }
}

fn port_twice(bind: &Bind<'_>) -> Option<String> {
    let ports = &bind.pod.ports;
    let others = bind.step.world.running_on(bind.node).filter(|(key, _)| *key != bind.key);
    for (_, other) in others {
        let taken = ports.iter().find(|port| other.ports.iter().any(|o| o.collides(port)));
        if let Some(port) = taken {
            return Some(format!("{} has host port {} already", other.name, port.port));
        }
    }
    None
}

fn beside(others: &[(&Pod, Nanos)]) -> String {
    let names: Vec<String> =
        others.iter().take(NAMED).map(|(pod, _)| pod.name.to_string()).collect();
    match (others.len(), names.join(", ")) {
        (0, _) => "alone".to_owned(),
        (count, names) if count > NAMED => format!("beside {names} and {} more", count - NAMED),
        (_, names) => format!("beside {names}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builder::Builder;
    use crate::report::Invariant::I2;

    fn with_node() -> Builder {
        let mut history = Builder::new();
        history.node("n-1", 8);
        history
    }

    #[test]
    fn a_second_pod_on_a_full_node_is_convicted_at_its_bind() {
        let mut history = with_node();
        history.pod("a").asks(8).bound("n-1");
        history.pod("b").asks(1).bound("n-1");
        let at = history.revision();
        history.node("n-2", 8).pod("c").asks(8).bound("n-2");
        let text = history.convict(I2);
        let expected = "default/b bound to n-1 by berth-0: gpu 9 of 8, beside default/a";
        assert_eq!(text, format!("I2 at revision {at}: {expected}"));
    }

    #[test]
    fn a_full_node_is_not_overfull_and_each_resource_counts_by_itself() {
        let mut history = with_node();
        history.pod("a").asks(5).bound("n-1");
        history.pod("b").asks(3).bound("n-1");
        assert_eq!(history.acquit().binds, 2);
        history
            .pod("c")
            .with(json!({"spec": {"overhead": {"ephemeral-storage": "1"}}}))
            .bound("n-1");
        assert!(history.convict(I2).ends_with("ephemeral-storage 1 of 0, alone"));
    }

    #[test]
    fn the_number_of_pods_is_a_resource() {
        let mut history = Builder::new();
        history.node_as("n-1", json!({"status": {"allocatable": {"pods": "1"}}}));
        history.pod("a").bound("n-1");
        history.pod("b").bound("n-1");
        assert!(history.convict(I2).contains("pods 2 of 1"));
    }

    #[test]
    fn succeeded_pods_hold_nothing_and_terminating_ones_hold_all() {
        let mut history = with_node();
        history.pod("a").asks(8).bound("n-1").succeeded();
        history.pod("b").asks(8).bound("n-1").terminating();
        history.acquit();
        history.pod("c").asks(8).bound("n-1");
        assert!(history.convict(I2).contains("default/c"));
    }

    #[test]
    fn a_pod_that_is_gone_makes_room_for_one_of_its_name() {
        let mut history = with_node();
        history.pod("a").asks(8).bound("n-1").terminating().gone();
        history.pod("a").asks(8).bound("n-1");
        assert_eq!(history.acquit().binds, 2);
    }

    #[test]
    fn a_node_that_grew_has_room() {
        let mut history = with_node();
        history.pod("a").asks(8).bound("n-1");
        history.node("n-1", 16).pod("b").asks(8).bound("n-1");
        history.acquit();
    }

    #[test]
    fn a_bind_may_be_as_old_as_the_grace_when_a_node_shrinks_and_no_older() {
        let mut history = with_node();
        history.node("n-1", 0).wait(1.0).pod("a").asks(8).bound("n-1");
        history.acquit();

        let mut history = with_node();
        history.node("n-1", 0).wait(2.1).pod("a").asks(8).bound("n-1");
        assert!(history.convict(I2).contains("gpu 8 of 0"));
    }

    #[test]
    fn a_bind_that_was_sent_before_the_node_shrank_may_be_committed_late() {
        let mut history = with_node();
        history.pod("a").asks(8).stored();
        history.logged("berth-0", "create", "/api/v1/namespaces/default/pods/a/binding", None);
        history.node("n-1", 0).wait(9.0);
        history.pod("a").with(json!({"spec": {"nodeName": "n-1"}})).stored();
        history.acquit();
    }

    #[test]
    fn a_pod_needs_its_room_in_one_and_the_same_state_of_the_node() {
        let allocatable =
            |cpu: &str, gpu: &str| json!({"status": {"allocatable": {"cpu": cpu, "gpu": gpu}}});
        let mut history = Builder::new();
        history.node_as("n-1", allocatable("0", "8")).node_as("n-1", allocatable("8", "0"));
        history.pod("a").asks(8).with(json!({"spec": {"overhead": {"cpu": "8"}}})).bound("n-1");
        assert_eq!(history.judge().of(I2).len(), 1);
    }

    #[test]
    fn a_node_that_is_gone_or_never_was_gets_no_pods() {
        let mut history = with_node();
        history.node_gone("n-1").wait(1.0).pod("a").asks(1).bound("n-1");
        history.acquit();
        history.wait(5.0).pod("b").asks(1).bound("n-1");
        assert!(history.convict(I2).contains("the node was gone"));

        let mut history = with_node();
        history.pod("a").bound("n-2");
        assert!(history.convict(I2).contains("never such a node"));
    }

    #[test]
    fn a_node_that_came_back_smaller_is_another_one_after_the_grace() {
        let mut history = with_node();
        history.node_gone("n-1").node("n-1", 4).wait(0.5).pod("a").asks(8).bound("n-1");
        history.acquit();
        history.pod("a").gone();
        history.wait(3.0).pod("b").asks(8).bound("n-1");
        assert!(history.convict(I2).contains("gpu 8 of 4"));
    }

    #[test]
    fn cordons_and_taints_count_after_the_grace_unless_tolerated() {
        let mut history = with_node();
        history.node_as("n-1", json!({"spec": {"unschedulable": true}}));
        history.wait(1.0).pod("a").bound("n-1");
        let tolerations =
            json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        history.wait(5.0).pod("b").with(json!({"spec": {"tolerations": tolerations}})).bound("n-1");
        history.acquit();
        history.pod("c").bound("n-1");
        assert!(history.convict(I2).contains("does not tolerate node.kubernetes.io/unschedulable"));
    }

    #[test]
    fn binds_by_others_are_load_once_they_can_be_known() {
        let mut history = with_node();
        history.pod("a").asks(8).bound_by("somebody", "n-1");
        history.wait(1.0).pod("b").asks(8).bound("n-1");
        let report = history.acquit();
        assert_eq!((report.binds, report.foreign_binds), (1, 1));

        let mut history = with_node();
        history.pod("a").asks(8).bound_by("somebody", "n-1");
        history.wait(2.1).pod("b").asks(8).bound("n-1");
        assert!(history.convict(I2).contains("default/b"));
    }

    #[test]
    fn a_bind_that_nobody_can_be_named_for_is_judged() {
        let mut history = with_node();
        history.pod("a").asks(8).bound("n-1");
        history.pod("b").asks(8).stored().with(json!({"spec": {"nodeName": "n-1"}})).stored();
        assert!(history.convict(I2).contains("default/b bound to n-1: gpu 16 of 8"));
    }

    #[test]
    fn the_bind_of_a_pod_of_the_same_name_long_ago_names_nobody() {
        let mut history = with_node();
        history.pod("a").asks(8).bound_by("somebody", "n-1").gone();
        history.wait(60.0).pod("b").asks(8).bound("n-1");
        history.pod("a").asks(8).stored().with(json!({"spec": {"nodeName": "n-1"}})).stored();
        assert!(history.convict(I2).contains("default/a bound to n-1: gpu 16"));
    }

    #[test]
    fn a_resize_counts_once_it_can_be_known() {
        let mut history = with_node();
        history.pod("a").asks(4).bound("n-1").asks(8).stored();
        history.wait(1.0).pod("b").asks(4).bound("n-1");
        history.acquit();
        history.wait(2.1).pod("c").asks(1).bound("n-1");
        assert!(history.convict(I2).contains("gpu 13 of 8"));
    }

    #[test]
    fn a_host_port_is_given_once() {
        let port = |port: u16, ip: &str| {
            let ports = [json!({"hostPort": port, "containerPort": 80, "hostIP": ip})];
            json!({"spec": {"containers": [{"name": "main", "ports": ports}]}})
        };
        let mut history = with_node();
        history.pod("a").with(port(80, "10.0.0.1")).bound("n-1");
        history.pod("b").with(port(80, "10.0.0.2")).bound("n-1");
        history.pod("c").with(port(81, "0.0.0.0")).bound("n-1");
        history.acquit();
        history.pod("d").with(port(81, "10.0.0.1")).bound("n-1");
        assert!(history.convict(I2).contains("default/c has host port 81 already"));
    }
}
