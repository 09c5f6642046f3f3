//! What the keys below `expect` and `expect_after` mean.

use std::collections::{BTreeMap, BTreeSet};

use berth::simulate::result::State;
use serde_json::Value;

use super::file::Scenario;

/// A phase's end together with the documents that it came from.
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    before: Option<&'a State>,
    pods: BTreeMap<String, &'a Value>,
    nodes: BTreeMap<String, &'a Value>,
    expect: &'a serde_json::Map<String, Value>,
}

impl<'a> View<'a> {
    pub(super) fn of(
        scenario: &'a Scenario,
        phase: usize,
        state: &'a State,
        before: Option<&'a State>,
    ) -> View<'a> {
        let (pods, nodes) = (scenario.of_kind("Pod", phase), scenario.of_kind("Node", phase));
        View { state, before, pods, nodes, expect: scenario.expect(phase) }
    }

    /// Where the pod is bound; None if it is not, or has been evicted.
    fn node(&self, pod: &str) -> Option<&'a str> {
        let state = self.state.pods.get(pod).unwrap_or_else(|| panic!("no pod {pod}"));
        state.node.as_deref().filter(|_| !state.evicted)
    }

    /// Pods that the file leaves without a node.
    fn waiting(&self) -> impl Iterator<Item = &str> {
        let free = |pod: &&Value| pod["spec"]["nodeName"].is_null();
        self.pods.iter().filter(move |(_, pod)| free(pod)).map(|(name, _)| name.as_str())
    }

    fn bound(&self) -> Vec<&str> {
        self.waiting().filter(|pod| self.node(pod).is_some()).collect()
    }

    /// Pods that are neither bound nor evicted.
    pub(super) fn unbound(&self) -> Vec<&str> {
        let evicted = |pod: &str| self.state.pods[pod].evicted;
        self.waiting().filter(|pod| self.node(pod).is_none() && !evicted(pod)).collect()
    }

    /// Pods evicted in this phase.
    pub(super) fn evicted(&self) -> BTreeSet<&str> {
        let was =
            |pod: &str| self.before.is_some_and(|b| b.pods.get(pod).is_some_and(|p| p.evicted));
        let now = self.state.pods.iter().filter(|(name, pod)| pod.evicted && !was(name));
        now.map(|(name, _)| name.as_str()).collect()
    }

    /// Tells of pods that are bound though they are to wait, or to another node than allowed.
    pub(super) fn allowed_nowhere_else(&self, except: &[&str]) -> impl Iterator<Item = String> {
        let pending = map(self.expect.get("pending")).map(|(pod, _)| (pod, Vec::new()));
        let bound = map(self.expect.get("bound")).map(|(pod, nodes)| (pod, texts(nodes)));
        let wrong = |(pod, nodes): (&str, Vec<&str>)| {
            let node = self.node(pod).filter(|node| !nodes.contains(node))?;
            (!except.contains(&pod)).then(|| format!("{pod} is bound to {node}, not to {nodes:?}"))
        };
        pending.chain(bound).filter_map(wrong).collect::<Vec<_>>().into_iter()
    }

    fn message(&self, pod: &str) -> &str {
        self.state.pods[pod].message.as_deref().unwrap_or_default()
    }

    fn devices(&self, claim: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.state.claims[claim].devices.iter().map(|d| d.device.as_str()).collect();
        names.sort_unstable();
        names
    }

    fn domain(&self, pod: &str, label: &str) -> Option<&str> {
        let node = self.nodes.get(self.node(pod)?)?;
        node["metadata"]["labels"][label].as_str()
    }
}

fn map(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    }
}

fn lists(value: &Value) -> Vec<Vec<&str>> {
    value.as_array().into_iter().flatten().map(texts).collect()
}

/// Returns a sentence for each expectation of the phase that does not hold.
///
/// # Panics
/// If the header has a key that isn't known here.
pub(super) fn violations(view: &View<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in view.expect {
        let found = check(view, key, value);
        all.extend(found.into_iter().map(|what| format!("{key}: {what}")));
    }
    if !view.expect.contains_key("evicted") && !view.expect.contains_key("evicted_one_of") {
        all.extend(evicted_one_of(view, &[Vec::new()]));
    }
    all
}

fn check(view: &View<'_>, key: &str, value: &Value) -> Vec<String> {
    match key {
        "bound" => bound(view, value),
        "pending" => pending(view, value),
        "together" => together(view, value),
        "evicted" => evicted_one_of(view, &[texts(value)]),
        "evicted_one_of" => evicted_one_of(view, &lists(value)),
        "bound_count" => count(view.bound().len(), value),
        "pending_count" => count(view.unbound().len(), value),
        "pending_reason" => pending_reason(view, value),
        "bound_counts" => bound_counts(view, value),
        "same_domain" => same_domain(view, value),
        "distinct_nodes" => distinct_nodes(view, value),
        "devices" => devices(view, value),
        "devices_one_of" => devices_one_of(view, value),
        "distinct_devices" => distinct_devices(view, value),
        "not_allocated" => not_allocated(view, value),
        "pvc_selected_node" => pvcs(value, |pvc| view.state.pvcs[pvc].selected_node.as_deref()),
        "pvc_bound_to" => pvcs(value, |pvc| view.state.pvcs[pvc].volume_name.as_deref()),
        "untouched" => untouched(view, value),
        // Virtual time is not what it means; the runner outside measures.
        "max_seconds" => Vec::new(),
        other => panic!("unknown expectation {other}"),
    }
}

fn bound(view: &View<'_>, value: &Value) -> Vec<String> {
    let elsewhere = |(pod, nodes): &(&str, &Value)| {
        !view.node(pod).is_some_and(|node| texts(nodes).contains(&node))
    };
    let tell = |(pod, nodes): (&str, &Value)| {
        format!("{pod} is on {:?}, not {nodes} ({})", view.node(pod), view.message(pod))
    };
    map(Some(value)).filter(elsewhere).map(tell).collect()
}

fn pending(view: &View<'_>, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pod, wanted) in map(Some(value)) {
        if view.node(pod).is_some() || view.state.pods[pod].evicted {
            wrong.push(format!("{pod} does not wait"));
        }
        let lacks = texts(wanted).into_iter().filter(|text| !view.message(pod).contains(text));
        wrong.extend(lacks.map(|text| format!("{pod}: no {text:?} in {:?}", view.message(pod))));
    }
    wrong
}

fn together(view: &View<'_>, value: &Value) -> Vec<String> {
    let broken = |pods: &Vec<&str>| {
        let n_bound = pods.iter().filter(|pod| view.node(pod).is_some()).count();
        n_bound > 0 && n_bound < pods.len()
    };
    lists(value).into_iter().filter(broken).map(|pods| format!("only some of {pods:?}")).collect()
}

fn evicted_one_of(view: &View<'_>, sets: &[Vec<&str>]) -> Vec<String> {
    let evicted = view.evicted();
    let one_of = sets.iter().any(|set| set.iter().copied().collect::<BTreeSet<_>>() == evicted);
    if one_of { Vec::new() } else { vec![format!("evicted {evicted:?}, not one of {sets:?}")] }
}

fn count(n: usize, value: &Value) -> Vec<String> {
    if *value == n { Vec::new() } else { vec![format!("{n}, not {value}")] }
}

fn pending_reason(view: &View<'_>, value: &Value) -> Vec<String> {
    let text = value.as_str().expect("a text");
    let lacking = view.unbound().into_iter().filter(|pod| !view.message(pod).contains(text));
    lacking.map(|pod| format!("{pod}: {:?}", view.message(pod))).collect()
}

fn bound_counts(view: &View<'_>, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pair, n) in map(Some(value)) {
        let (label, wanted) = pair.split_once('=').expect("label=value");
        let labelled = |pod: &&&str| view.pods[**pod]["metadata"]["labels"][label] == wanted;
        let n_bound = view.bound().iter().filter(labelled).count();
        wrong.extend(count(n_bound, n).into_iter().map(|what| format!("{pair}: {what}")));
    }
    wrong
}

fn same_domain(view: &View<'_>, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (label, groups) in map(Some(value)) {
        for pods in lists(groups) {
            let domains: BTreeSet<Option<&str>> =
                pods.iter().map(|pod| view.domain(pod, label)).collect();
            if domains.len() > 1 || domains.contains(&None) {
                wrong.push(format!("{pods:?} are in {domains:?}"));
            }
        }
    }
    wrong
}

fn distinct_nodes(view: &View<'_>, value: &Value) -> Vec<String> {
    let shared = |pods: &Vec<&str>| {
        let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| view.node(pod)).collect();
        nodes.len() < pods.len()
    };
    lists(value).into_iter().filter(shared).map(|pods| format!("{pods:?}")).collect()
}

fn devices(view: &View<'_>, value: &Value) -> Vec<String> {
    let wrong = |(claim, wanted): &(&str, &Value)| match wanted.as_u64() {
        Some(n) => view.devices(claim).len() as u64 != n,
        None => view.devices(claim) != sorted(texts(wanted)),
    };
    let tell = |(claim, _): (&str, &Value)| format!("{claim} has {:?}", view.devices(claim));
    map(Some(value)).filter(wrong).map(tell).collect()
}

fn devices_one_of(view: &View<'_>, value: &Value) -> Vec<String> {
    let none = |(claim, sets): &(&str, &Value)| {
        !lists(sets).into_iter().any(|set| sorted(set) == view.devices(claim))
    };
    let tell = |(claim, _): (&str, &Value)| format!("{claim} has {:?}", view.devices(claim));
    map(Some(value)).filter(none).map(tell).collect()
}

fn sorted(mut texts: Vec<&str>) -> Vec<&str> {
    texts.sort_unstable();
    texts
}

fn distinct_devices(view: &View<'_>, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for claims in lists(value) {
        let mut seen = BTreeSet::new();
        for claim in claims {
            for device in &view.state.claims[claim].devices {
                if !seen.insert((&device.driver, &device.pool, &device.device)) {
                    wrong.push(format!("{claim} shares {}", device.device));
                }
            }
        }
    }
    wrong
}

fn not_allocated(view: &View<'_>, value: &Value) -> Vec<String> {
    let claims = texts(value).into_iter().filter(|claim| view.state.claims[*claim].allocated);
    claims.map(str::to_owned).collect()
}

fn pvcs<'a>(value: &Value, is: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pvc, wanted) in map(Some(value)) {
        if !is(pvc).is_some_and(|is| texts(wanted).contains(&is)) {
            wrong.push(format!("{pvc} has {:?}, not {wanted}", is(pvc)));
        }
    }
    wrong
}

fn untouched(view: &View<'_>, value: &Value) -> Vec<String> {
    texts(value)
        .into_iter()
        .filter(|pod| view.state.pods[*pod].touched)
        .map(str::to_owned)
        .collect()
}
