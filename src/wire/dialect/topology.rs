//! What annotations of pods say of topology, in the words of Kueue and KAI, and one of our own. They count
//! whichever dialect says which group a pod is in.

use berth_core::types::group::{Spread, TopologyConstraint, TopologyLevel};
use berth_core::types::{LabelSelector, Text};

use serde::Deserialize;

use super::{PodWords, count, kai};
use crate::wire::meta::Meta;
use crate::wire::problem::shown;
use crate::wire::reading::Reading;

const KUEUE_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const KUEUE_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const KUEUE_SLICE: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const KUEUE_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
/// Slices in slices: `[{"topology": "rack", "size": 8}, {"topology": "host", "size": 4}]`.
const KUEUE_SLICES: &str = "kueue.x-k8s.io/podset-slice-required-topology-constraints";
/// As Kueue has it.
const SLICES_MAX: usize = 3;
const KAI_SEGMENT_SIZE: &str = "kai.scheduler/segment-size";
const KAI_SEGMENT_REQUIRED: &str = "kai.scheduler/segment-topology-required-placement";
const KAI_SEGMENT_PREFERRED: &str = "kai.scheduler/segment-topology-preferred-placement";
const KAI_TOPOLOGY: &str = "kai.scheduler/topology";
const KAI_REQUIRED: &str = "kai.scheduler/topology-required-placement";
const KAI_PREFERRED: &str = "kai.scheduler/topology-preferred-placement";

/// Labels of pods, as in `key=value,key=value`: what a group asks for holds for all pods that have
/// them. On a pod or on the object of a group.
const SPAN: &str = "berth.dev/topology-span";
/// More labels than this mean no pods that anybody has.
const SPAN_LABELS_MAX: usize = 16;

/// Node labels with a number each, as in `topology.kubernetes.io/rack=2`: so many of the group's pods
/// are in one domain at most. On a pod or on the object of a group.
const SPREAD: &str = "berth.dev/topology-spread";
/// Each costs a look at all nodes.
const SPREAD_LABELS_MAX: usize = 4;
/// Bytes of a label's key, prefix and all.
const LABEL_BYTES_MAX: usize = 317;

pub(super) const ANNOTATIONS: &[&str] = &[
    KUEUE_REQUIRED,
    KUEUE_PREFERRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    KUEUE_SLICES,
    KAI_SEGMENT_SIZE,
    KAI_SEGMENT_REQUIRED,
    KAI_SEGMENT_PREFERRED,
    KAI_TOPOLOGY,
    KAI_REQUIRED,
    KAI_PREFERRED,
    SPAN,
    SPREAD,
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
        let slice = Some(size(words, KUEUE_SLICE_SIZE)?);
        constraints.push(TopologyConstraint { slice, ..TopologyConstraint::required(level) });
    }
    let segments = [
        level(KAI_SEGMENT_REQUIRED).map(TopologyConstraint::required),
        level(KAI_SEGMENT_PREFERRED).map(TopologyConstraint::preferred),
    ];
    for segment in segments.into_iter().flatten().map(of_kai) {
        let slice = Some(size(words, KAI_SEGMENT_SIZE)?);
        constraints.push(TopologyConstraint { slice, ..segment });
    }
    constraints.extend(level(KUEUE_PREFERRED).map(TopologyConstraint::preferred));
    constraints.extend(level(KAI_PREFERRED).map(TopologyConstraint::preferred).map(of_kai));
    constraints.extend(slices(words, reading)?);
    if let Some(span) = span(words.meta, reading)? {
        spread_out(&mut constraints, &span);
    }
    Ok(constraints)
}

fn size(words: &PodWords<'_>, key: &str) -> Result<u32, Text> {
    let size = words.annotation(key);
    count(key, size.ok_or_else(|| Text::from(format!("annotation {key} is missing")))?, 1)
}

#[derive(Deserialize)]
struct Slice {
    topology: String,
    size: u32,
}

/// Returns Kueue's slices in slices, the largest first.
///
/// # Errors
/// It can't be understood.
fn slices(
    words: &PodWords<'_>,
    reading: &mut Reading<'_>,
) -> Result<Vec<TopologyConstraint>, Text> {
    let Some(text) = words.annotation(KUEUE_SLICES) else { return Ok(Vec::new()) };
    let wrong = || {
        let what = format!(
            "annotation {KUEUE_SLICES} must be a list of 1 to {SLICES_MAX} with topology and size, each \
             size a part of the one before, not \"{}\"",
            shown(text)
        );
        Text::from(what)
    };
    let slices: Vec<Slice> = serde_json::from_str(text).map_err(|_| wrong())?;
    let parts = slices.iter().zip(slices.iter().skip(1));
    let bad = |slice: &Slice| slice.size == 0 || slice.topology.is_empty();
    let known = (1..=SLICES_MAX).contains(&slices.len()) && !slices.iter().any(bad);
    if !known || !parts.into_iter().all(|(a, b)| a.size > b.size && a.size % b.size == 0) {
        return Err(wrong());
    }
    let constraint = |slice: Slice| {
        let level = reading.tables.intern(&slice.topology);
        TopologyConstraint { slice: Some(slice.size), ..TopologyConstraint::required(level) }
    };
    Ok(slices.into_iter().map(constraint).collect())
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

/// Returns how many pods of the group may be in one domain, nothing without the annotation.
///
/// # Errors
/// It can't be understood.
pub(super) fn spread(meta: &Meta, reading: &mut Reading<'_>) -> Result<Vec<Spread>, Text> {
    let Some(text) = meta.annotation(SPREAD) else { return Ok(Vec::new()) };
    let wrong = || {
        let what = format!(
            "annotation {SPREAD} must be a node label and a number of at least 1, such as \
             topology.kubernetes.io/rack=2, not \"{}\"",
            shown(text)
        );
        Text::from(what)
    };
    let mut all: Vec<Spread> = Vec::new();
    for pair in text.split(',') {
        let (label, at_most) = pair.trim().split_once('=').ok_or_else(wrong)?;
        let at_most: Option<u32> = at_most.parse().ok().filter(|n| *n > 0);
        let level = TopologyLevel::Named(reading.tables.intern(label));
        let again = all.iter().any(|other| other.level == level);
        let bad = label.is_empty() || label.contains(['!', ' ']) || label.len() > LABEL_BYTES_MAX;
        if bad || again || all.len() >= SPREAD_LABELS_MAX {
            return Err(wrong());
        }
        all.push(Spread { level, at_most: at_most.ok_or_else(wrong)? });
    }
    Ok(all)
}
