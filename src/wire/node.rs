//! Nodes: what can't be understood counts as not there, so that nothing is given out twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::types::resources::{AMOUNT_MAX, PODS};
use berth_core::types::{ImageId, Labels, Node, NodeTopology, Resources, Taint, TaintEffect, Text};

use super::field::Field;
use super::k8s::node as k8s;
use super::meta::Meta;
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::tables::Tables;
use super::topology::GPU_TOPOLOGY;

const GPU: &str = "nvidia.com/gpu";
/// On nodes whose GPUs are shared by time: of each there are so many.
const REPLICAS: &str = "nvidia.com/gpu.replicas";

/// Returns the node as far as it is understood, and what isn't.
///
/// An annotation about GPUs that can't be read says nothing; the node is as without it.
///
/// Fails closed: an unreadable amount is 0, an unreadable taint effect is NoSchedule, an
/// unreadable `unschedulable` is true.
pub fn node(node: k8s::Node, tables: &mut Tables) -> (Node, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let spec_at = Path::Root("spec");
    let status_at = Path::Root("status");
    let absent_spec = k8s::NodeSpec::default();
    let absent_status = k8s::NodeStatus::default();
    let name = reading.name(&node.metadata);
    let spec = reading.opt(&spec_at, &node.spec).unwrap_or(&absent_spec);
    let status = reading.opt(&status_at, &node.status).unwrap_or(&absent_status);
    let (allocatable, pods_max) = allocatable(&mut reading, &status_at, status);
    let labels = reading.labels(&node.metadata);
    let topology = topology(&mut reading, &node.metadata, &labels, &allocatable);
    let node = Node {
        name,
        uid: reading.tables.intern(node.metadata.object.uid.as_deref().unwrap_or("")),
        resource_version: node.metadata.resource_version(),
        labels,
        taints: taints(&mut reading, &spec_at, spec),
        unschedulable: unschedulable(&mut reading, &spec_at, &node.spec),
        allocatable,
        pods_max,
        images: images(&mut reading, &status_at, status),
        declared_features: declared_features(&mut reading, &status_at, status),
        topology,
    };
    (node, reading.finish())
}

/// How its GPUs are linked: as the annotation says, or as can't be otherwise.
fn topology(
    reading: &mut Reading<'_>,
    metadata: &Meta,
    labels: &Labels,
    allocatable: &Resources,
) -> Option<Arc<NodeTopology>> {
    let known = reading.tables.topologies.of_labels(labels);
    let Some(text) = metadata.annotation(GPU_TOPOLOGY) else { return known };
    let (metadata_at, annotations) = (Path::Root("metadata"), "annotations");
    let annotations_at = metadata_at.field(annotations);
    let at = annotations_at.key(GPU_TOPOLOGY);
    let told = match reading.tables.topologies.of_text(text) {
        Ok(told) => told,
        Err(problem) => {
            reading.problem(&at, problem);
            return known;
        }
    };
    let n_gpus = allocatable.amount(GPU);
    let shared = labels.value(REPLICAS).is_some_and(|replicas| replicas != "1");
    if !shared && n_gpus > told.len() as i64 {
        let of = told.len();
        reading.problem(&at, format_args!("tells of {of} GPUs, but the node has {n_gpus}"));
        return known;
    }
    Some(told)
}

fn unschedulable(
    reading: &mut Reading<'_>,
    spec_at: &Path<'_>,
    spec: &Field<k8s::NodeSpec>,
) -> bool {
    match spec {
        Field::Absent => false,
        Field::Odd(_) => true,
        Field::Is(spec) => {
            let flag = &spec.unschedulable;
            let read = reading.opt(&spec_at.field("unschedulable"), flag);
            read.copied().unwrap_or(!flag.is_absent())
        }
    }
}

fn allocatable(
    reading: &mut Reading<'_>,
    status_at: &Path<'_>,
    status: &k8s::NodeStatus,
) -> (Resources, i64) {
    // The API server fills a missing allocatable in from capacity.
    let amounts = if status.allocatable.is_absent() {
        reading.amounts(&status_at.field("capacity"), &status.capacity)
    } else {
        reading.amounts(&status_at.field("allocatable"), &status.allocatable)
    };
    let mut resources = Resources::default();
    let mut pods_max = 0;
    for (name, amount) in amounts {
        if name == PODS {
            pods_max = amount;
        } else {
            resources.set(&name, amount);
        }
    }
    (resources, pods_max)
}

fn taints(reading: &mut Reading<'_>, spec_at: &Path<'_>, spec: &k8s::NodeSpec) -> Vec<Taint> {
    let at = spec_at.field("taints");
    let mut taints = Vec::new();
    reading.each(&at, &spec.taints, |reading, at, taint| {
        taints.push(Taint {
            key: reading.required_text(&at.field("key"), &taint.key),
            value: reading.text(&at.field("value"), &taint.value),
            effect: reading
                .taint_effect(&at.field("effect"), &taint.effect)
                .unwrap_or(TaintEffect::NoSchedule),
        });
    });
    taints
}

impl Reading<'_> {
    /// Returns the effect; None if it is absent or empty, or can't be understood (a problem).
    pub(super) fn taint_effect(
        &mut self,
        at: &Path<'_>,
        effect: &Field<String>,
    ) -> Option<TaintEffect> {
        match self.opt(at, effect).map_or("", String::as_str) {
            "" => None,
            "NoSchedule" => Some(TaintEffect::NoSchedule),
            "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
            "NoExecute" => Some(TaintEffect::NoExecute),
            other => {
                self.unknown(at, other);
                None
            }
        }
    }
}

fn images(
    reading: &mut Reading<'_>,
    status_at: &Path<'_>,
    status: &k8s::NodeStatus,
) -> Vec<(ImageId, i64)> {
    let at = status_at.field("images");
    let mut images = BTreeMap::new();
    reading.each(&at, &status.images, |reading, at, image| {
        let size_bytes =
            reading.opt(&at.field("sizeBytes"), &image.size_bytes).copied().unwrap_or(0);
        reading.each(&at.field("names"), &image.names, |_, _, name| {
            images.insert(ImageId::of(name), size_bytes.clamp(0, AMOUNT_MAX));
        });
    });
    images.into_iter().collect()
}

fn declared_features(
    reading: &mut Reading<'_>,
    status_at: &Path<'_>,
    status: &k8s::NodeStatus,
) -> Vec<Text> {
    let at = status_at.field("declaredFeatures");
    let mut features = reading.texts(&at, &status.declared_features);
    features.sort();
    features.dedup();
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(json: serde_json::Value) -> (Node, Vec<String>) {
        let wire = serde_json::from_value(json).unwrap();
        let (node, problems) = node(wire, &mut Tables::default());
        (node, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_node_is_read() {
        let (node, problems) = check(json!({
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "labels": {"z": "1"}},
            "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {
                "allocatable": {"cpu": "1500m", "memory": "1Gi", "pods": 110, "nvidia.com/gpu": 8},
                "images": [{"names": ["a@sha256:1", "a"], "sizeBytes": 5}],
                "declaredFeatures": ["B", "A"],
            },
        }));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((node.allocatable.cpu_milli, node.pods_max), (1500, 110));
        assert_eq!(node.allocatable.amount("nvidia.com/gpu"), 8);
        assert_eq!(node.allocatable.amount("pods"), 0);
        assert_eq!((node.images.len(), node.taints.len()), (2, 1));
        assert_eq!(node.declared_features, ["A", "B"]);
        assert_eq!((node.resource_version, node.unschedulable), (7, false));
    }

    #[test]
    fn what_is_broken_fails_closed() {
        let (node, problems) = check(json!({
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": "k", "effect": "NoFun"}], "unschedulable": "yes"},
            "status": {"allocatable": {"cpu": "NaN", "memory": "-1", "nvidia.com/gpu": "9e18"}},
        }));
        assert_eq!(node.name, "n");
        assert!(node.unschedulable);
        assert_eq!(node.taints[0].effect, TaintEffect::NoSchedule);
        assert_eq!((node.allocatable.cpu_milli, node.allocatable.memory_bytes), (0, 0));
        assert_eq!(node.allocatable.amount("nvidia.com/gpu"), AMOUNT_MAX);
        assert_eq!(
            problems,
            [
                "status.allocatable.cpu: \"NaN\" is not a quantity",
                "status.allocatable.memory: must not be negative",
                "spec.taints[0].effect: unknown value \"NoFun\"",
                "spec.unschedulable: is a string, not true or false",
            ]
        );
    }

    #[test]
    fn a_missing_allocatable_is_the_capacity_but_a_broken_one_is_nothing() {
        let status = |allocatable| {
            let (node, _) = check(json!({
                "metadata": {"name": "n"},
                "status": {"capacity": {"cpu": "2"}, "allocatable": allocatable},
            }));
            node.allocatable.cpu_milli
        };
        assert_eq!(status(serde_json::Value::Null), 2000);
        assert_eq!(status(json!("much")), 0);
    }

    #[test]
    fn a_hundred_thousand_labels_are_no_trouble() {
        let labels: serde_json::Map<_, _> =
            (0..100_000).map(|i| (format!("l{i}"), json!("v"))).collect();
        let (node, problems) = check(json!({"metadata": {"name": "n", "labels": labels}}));
        assert_eq!((node.labels.len(), problems.len()), (100_000, 0));
    }
}
