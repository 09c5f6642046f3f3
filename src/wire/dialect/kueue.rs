//! Kueue's groups of plain pods: a label names the group, an annotation says how many there are.
//!
//! It needs neither Kueue nor an object. Where Kueue runs, its gates hold the pods until they are
//! admitted, and its Topology objects tell which node labels are levels. Source: kueue.x-k8s.io, pkg/controller/jobs/pod/constants.

use berth_core::types::Text;
use berth_core::types::group::{Dialect, GroupHint, Rank};

use super::tree::{self, TreeDef};
use super::versioned::Names;
use super::{DialectDef, PodWords, count};
use crate::wire::reading::Reading;

const NAME: Dialect = Dialect { rank: Rank::Counted, name: "kueue" };
const LABEL: &str = "kueue.x-k8s.io/pod-group-name";
const TOTAL_COUNT: &str = "kueue.x-k8s.io/pod-group-total-count";

pub(super) static DIALECT: DialectDef = DialectDef {
    dialect: NAME,
    summary: "label kueue.x-k8s.io/pod-group-name, annotation kueue.x-k8s.io/pod-group-total-count",
    annotations: &[TOTAL_COUNT],
    hint,
    objects: &[],
    tree: Some(&TOPOLOGY),
    peer: None,
};

static TOPOLOGY: TreeDef = TreeDef {
    names: Names {
        dialect: NAME,
        api_versions: &["kueue.x-k8s.io/v1", "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"],
        kind: "Topology",
        resource: "topologies",
    },
    read: tree::levels,
};

fn hint(words: &PodWords<'_>, reading: &mut Reading<'_>) -> Option<GroupHint> {
    let name = reading.tables.intern(words.label(LABEL)?);
    let missing = || Text::from(format!("annotation {TOTAL_COUNT} is missing"));
    let total = words.annotation(TOTAL_COUNT).ok_or_else(missing);
    let (min_member, problem) = match total.and_then(|total| count(TOTAL_COUNT, total, 1)) {
        Ok(total) => (Some(total), None),
        Err(problem) => (None, Some(problem)),
    };
    let hint = GroupHint::of_object(NAME, name);
    Some(GroupHint { needs_object: false, min_member, problem, ..hint })
}
