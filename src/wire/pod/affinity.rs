//! Node affinity and inter-pod affinity.

use berth_core::types::{
    LabelSelector, NodeAffinity, Operator, PodAffinityTerm, PodSpec, PreferredTerm, Requirement,
    Text,
};

use super::SPEC;
use crate::wire::field::{Field, List};
use crate::wire::k8s::pod as k8s;
use crate::wire::meta::Meta;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn read(
    reading: &mut Reading<'_>,
    meta: &Meta,
    spec: &k8s::PodSpec,
    pod_spec: &mut PodSpec,
) {
    let at = SPEC.field("affinity");
    let Some(affinity) = reading.opt(&at, &spec.affinity) else { return };
    let node_at = at.field("nodeAffinity");
    if let Some(node) = reading.opt(&node_at, &affinity.node_affinity) {
        pod_spec.node_affinity = node_affinity(reading, &node_at, node);
    }
    let near_at = at.field("podAffinity");
    if let Some(near) = reading.opt(&near_at, &affinity.pod_affinity) {
        pod_spec.required_affinity = required(reading, &near_at, meta, near);
        pod_spec.preferred_pod_terms += n_preferred(reading, &near_at, near);
    }
    let apart_at = at.field("podAntiAffinity");
    if let Some(apart) = reading.opt(&apart_at, &affinity.pod_anti_affinity) {
        pod_spec.required_anti_affinity = required(reading, &apart_at, meta, apart);
        pod_spec.preferred_pod_terms += n_preferred(reading, &apart_at, apart);
    }
}

fn node_affinity(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::NodeAffinity,
) -> NodeAffinity {
    let required_at = at.field(REQUIRED);
    let required = reading.opt(&required_at, &wire.required);
    let required = required.map(|selector| reading.node_selector(&required_at, selector));
    let mut preferred = Vec::new();
    reading.each(&at.field(PREFERRED), &wire.preferred, |reading, at, term| {
        preferred.extend(preferred_term(reading, at, term));
    });
    NodeAffinity { required, preferred }
}

/// Returns the term; None if it can't count, as it has no weight or matches nothing.
fn preferred_term(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::PreferredNodeTerm,
) -> Option<PreferredTerm> {
    let weight_at = at.field("weight");
    let weight = reading.int32(&weight_at, &wire.weight)?;
    if !(0..=100).contains(&weight) {
        reading.problem(&weight_at, "must be from 1 to 100");
        return None;
    }
    let term_at = at.field("preference");
    let term = reading.required(&term_at, &wire.preference)?;
    let term = reading.node_term(&term_at, term)?;
    let counts = weight > 0 && !(term.labels.is_empty() && term.names.is_empty());
    counts.then_some(PreferredTerm { weight, term })
}

fn n_preferred(reading: &mut Reading<'_>, at: &Path<'_>, wire: &k8s::PodAffinity) -> u32 {
    let mut n_terms = 0;
    reading.each(&at.field(PREFERRED), &wire.preferred, |_, _, _| n_terms += 1);
    n_terms
}

fn required(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    meta: &Meta,
    wire: &k8s::PodAffinity,
) -> Vec<PodAffinityTerm> {
    let mut terms = Vec::new();
    reading.each(&at.field(REQUIRED), &wire.required, |reading, at, term| {
        terms.push(pod_term(reading, at, meta, term));
    });
    terms
}

fn pod_term(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    meta: &Meta,
    wire: &k8s::PodAffinityTerm,
) -> PodAffinityTerm {
    let mut selector = reading.label_selector(&at.field("labelSelector"), &wire.label_selector);
    if let Some(selector) = &mut selector {
        let keys_at = at.field("matchLabelKeys");
        merge(reading, &keys_at, meta, &wire.match_label_keys, selector, Operator::In);
        let keys_at = at.field("mismatchLabelKeys");
        merge(reading, &keys_at, meta, &wire.mismatch_label_keys, selector, Operator::NotIn);
    }
    let mut namespaces = reading.texts(&at.field("namespaces"), &wire.namespaces);
    namespaces.sort();
    namespaces.dedup();
    let namespaces_at = at.field("namespaceSelector");
    PodAffinityTerm {
        topology_key: reading.required_text(&at.field("topologyKey"), &wire.topology_key),
        selector,
        namespaces,
        namespace_selector: reading.label_selector(&namespaces_at, &wire.namespace_selector),
    }
}

/// Adds the pod's own values of `keys` to the selector, as the API server does at creation.
///
/// Where a key is in the selector already, the API server has done so.
fn merge(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    meta: &Meta,
    keys: &Field<List<String>>,
    selector: &mut LabelSelector,
    operator: Operator,
) {
    for key in reading.texts(at, keys) {
        let Some(value) = own_label(reading, meta, &key) else { continue };
        if selector.requirements.iter().all(|requirement| requirement.key != key) {
            selector.requirements.push(Requirement { key, operator, values: vec![value] });
        }
    }
}

fn own_label(reading: &mut Reading<'_>, meta: &Meta, key: &str) -> Option<Text> {
    let value = meta.object.labels.as_ref()?.get(key)?;
    Some(reading.tables.intern(value))
}
