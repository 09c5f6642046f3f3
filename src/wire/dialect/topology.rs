//! What annotations of pods say of topology, in the words of Kueue and KAI, and one of our own. They count
//! whichever dialect says which group a pod is in.

use berth_core::types::group::{TopologyConstraint, TopologyLevel};
use berth_core::types::{LabelSelector, Text};

use super::{PodWords, count, kai};
use crate::wire::meta::Meta;
use crate::wire::problem::shown;
use crate::wire::reading::Reading;

const KUEUE_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const KUEUE_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const KUEUE_SLICE: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const KUEUE_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
const KAI_TOPOLOGY: &str = "kai.scheduler/topology";
const KAI_REQUIRED: &str = "kai.scheduler/topology-required-placement";
const KAI_PREFERRED: &str = "kai.scheduler/topology-preferred-placement";

/// Labels of pods, as in `key=value,key=value`: what a group asks for holds for all pods that have
/// them. On a pod or on the object of a group.
const SPAN: &str = "berth.dev/topology-span";
/// More labels than this mean no pods that anybody has.
const SPAN_LABELS_MAX: usize = 16;

pub(super) const ANNOTATIONS: &[&str] = &[
    KUEUE_REQUIRED,
    KUEUE_PREFERRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    KAI_TOPOLOGY,
    KAI_REQUIRED,
    KAI_PREFERRED,
    SPAN,
];

/// Returns the constraints that a pod names, the required ones first.
///
/// # Errors
/// What can't be understood.
pub(super) fn constraints(
    words: &PodWords<'_>,
    reading: &mut Reading<'_>,
) -> Result<Vec<TopologyConstraint>, Text> {
    let mut level = |key: &str| words.annotation(key).map(|level| reading.tables.intern(level));
    let topology = level(KAI_TOPOLOGY);
    let of_kai = |level: TopologyConstraint| TopologyConstraint {
        level: match level.level {
            TopologyLevel::Named(name) => kai::level_of(topology.clone(), name),
            other => other,
        },
        ..level
    };
    let mut constraints = Vec::new();
    constraints.extend(level(KUEUE_REQUIRED).map(TopologyConstraint::required));
    constraints.extend(level(KAI_REQUIRED).map(TopologyConstraint::required).map(of_kai));
    if let Some(level) = level(KUEUE_SLICE) {
        let size = words.annotation(KUEUE_SLICE_SIZE);
        let size =
            size.ok_or_else(|| Text::from(format!("annotation {KUEUE_SLICE_SIZE} is missing")));
        let slice = Some(count(KUEUE_SLICE_SIZE, size?, 1)?);
        constraints.push(TopologyConstraint { slice, ..TopologyConstraint::required(level) });
    }
    constraints.extend(level(KUEUE_PREFERRED).map(TopologyConstraint::preferred));
    constraints.extend(level(KAI_PREFERRED).map(TopologyConstraint::preferred).map(of_kai));
    if let Some(span) = span(words.meta, reading)? {
        spread_out(&mut constraints, &span);
    }
    Ok(constraints)
}

/// Has constraints hold for all pods that a span means; those of slices stay as they are.
pub(super) fn spread_out(constraints: &mut [TopologyConstraint], span: &LabelSelector) {
    for constraint in constraints.iter_mut().filter(|it| it.slice.is_none()) {
        constraint.span = Some(span.clone());
    }
}

/// Returns which pods the annotation means, none without.
///
/// # Errors
/// It can't be understood.
pub(super) fn span(meta: &Meta, reading: &mut Reading<'_>) -> Result<Option<LabelSelector>, Text> {
    let Some(text) = meta.annotation(SPAN) else { return Ok(None) };
    let wrong = || {
        let what = format!(
            "annotation {SPAN} must be labels of pods, such as key=value,key=value, not \"{}\"",
            shown(text)
        );
        Text::from(what)
    };
    let mut requirements = Vec::new();
    for pair in text.split(',') {
        let (key, value) = pair.trim().split_once('=').ok_or_else(wrong)?;
        let bad = |word: &str| word.is_empty() || word.contains(['=', '!', ' ']);
        if bad(key) || bad(value) || requirements.len() >= SPAN_LABELS_MAX {
            return Err(wrong());
        }
        let (key, value) = (reading.tables.intern(key), reading.tables.intern(value));
        requirements.extend(LabelSelector::equals(key, value).requirements);
    }
    Ok(Some(LabelSelector { requirements }))
}
