//! What annotations of pods say of topology, in the words of Kueue and KAI. They count whichever dialect
//! says which group a pod is in.

use berth_core::types::Text;
use berth_core::types::group::TopologyConstraint;

use super::{PodWords, count};
use crate::wire::reading::Reading;

const KUEUE_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const KUEUE_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const KUEUE_SLICE: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const KUEUE_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
const KAI_REQUIRED: &str = "kai.scheduler/topology-required-placement";
const KAI_PREFERRED: &str = "kai.scheduler/topology-preferred-placement";

pub(super) const ANNOTATIONS: &[&str] =
    &[KUEUE_REQUIRED, KUEUE_PREFERRED, KUEUE_SLICE, KUEUE_SLICE_SIZE, KAI_REQUIRED, KAI_PREFERRED];

/// Returns the constraints that a pod names, the required ones first.
///
/// # Errors
/// What can't be understood.
pub(super) fn constraints(
    words: &PodWords<'_>,
    reading: &mut Reading<'_>,
) -> Result<Vec<TopologyConstraint>, Text> {
    let mut level = |key: &str| words.annotation(key).map(|level| reading.tables.intern(level));
    let mut constraints = Vec::new();
    for key in [KUEUE_REQUIRED, KAI_REQUIRED] {
        constraints.extend(level(key).map(TopologyConstraint::required));
    }
    if let Some(level) = level(KUEUE_SLICE) {
        let size = words.annotation(KUEUE_SLICE_SIZE);
        let size =
            size.ok_or_else(|| Text::from(format!("annotation {KUEUE_SLICE_SIZE} is missing")));
        let slice = Some(count(KUEUE_SLICE_SIZE, size?, 1)?);
        constraints.push(TopologyConstraint { slice, ..TopologyConstraint::required(level) });
    }
    for key in [KUEUE_PREFERRED, KAI_PREFERRED] {
        constraints.extend(level(key).map(TopologyConstraint::preferred));
    }
    Ok(constraints)
}
