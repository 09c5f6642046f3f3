//! KAI's PodGroups: an annotation names the group, an object says how many of it are needed and where.
//!
//! Source: scheduling.run.ai, v2alpha2, and kai.scheduler, v1alpha1 (KAI-Scheduler). The objects are made
//! and told by its own controllers, so nothing is written on them. Queues and
//! preemptibility are not read.

use berth_core::types::Text;
use berth_core::types::group::{
    Dialect, GroupHint, GroupKind, GroupWords, PodGroup, Quorum, Rank, SubGroup,
    TopologyConstraint, TopologyLevel,
};

use super::object::{Conversion, GroupObject, ObjectDef, PatchType, SPEC, number, read};
use super::tree::{self, TreeDef};
use super::versioned::Names;
use super::{DialectDef, PodWords};
use crate::wire::field::{Field, List};
use crate::wire::k8s::wire;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

pub(super) const NAME: Dialect = Dialect { rank: Rank::Explicit, name: "kai" };
const GROUP_NAME: &str = "pod-group-name";
const SUB_GROUP: &str = "kai.scheduler/subgroup-name";

pub(super) static DIALECT: DialectDef = DialectDef {
    dialect: NAME,
    summary: "annotation pod-group-name, PodGroup of scheduling.run.ai",
    annotations: &[GROUP_NAME],
    hint,
    objects: &[&POD_GROUP],
    tree: Some(&TOPOLOGY),
    peer: None,
};

static POD_GROUP: ObjectDef = ObjectDef {
    names: Names {
        dialect: NAME,
        api_versions: &["scheduling.run.ai/v2alpha2"],
        kind: "PodGroup",
        resource: "podgroups",
    },
    makes: GroupKind::Pods,
    status_subresource: true,
    patch: PatchType::Merge,
    words: GroupWords { why: false, message: false, scheduled: false },
    read: read::<PodGroups>,
    status: None,
};

static TOPOLOGY: TreeDef = TreeDef {
    names: Names {
        dialect: NAME,
        api_versions: &["kai.scheduler/v1alpha1"],
        kind: "Topology",
        resource: "topologies",
    },
    read: tree::levels,
};

fn hint(words: &PodWords<'_>, reading: &mut Reading<'_>) -> Option<GroupHint> {
    let name = reading.tables.intern(words.annotation(GROUP_NAME)?);
    let role = words.label(SUB_GROUP).map(|role| reading.tables.intern(role));
    Some(GroupHint { role, ..GroupHint::of_object(NAME, name) })
}

wire! {
    pub struct Spec {
        min_member: Field<i64>,
        min_sub_group: Field<i64>,
        sub_groups: Field<List<WireSubGroup>>,
        topology_constraint: Field<Constraint>,
    }

    pub struct WireSubGroup {
        name: Field<String>,
        min_member: Field<i64>,
        min_sub_group: Field<i64>,
        parent: Field<String>,
        topology_constraint: Field<Constraint>,
    }

    pub struct Constraint {
        topology: Field<String>,
        required_topology_level: Field<String>,
        preferred_topology_level: Field<String>,
    }

    pub struct Status {}
}

struct PodGroups;

impl Conversion for PodGroups {
    type Spec = Spec;
    type Status = Status;

    fn spec(reading: &mut Reading<'_>, spec: &Spec, group: &mut PodGroup) {
        group.uneven_priorities = true;
        let min_member = number(reading, &SPEC.field("minMember"), &spec.min_member, 0);
        let min_sub_group = number(reading, &SPEC.field("minSubGroup"), &spec.min_sub_group, 0);
        group.quorum = match (min_member.unwrap_or(0), min_sub_group.unwrap_or(0)) {
            (0, 0) => Quorum::None,
            (0, n) => Quorum::SubGroups(n),
            (n, 0) => Quorum::AtLeast(n),
            (_, _) => {
                reading.problem(&SPEC, "of minMember and minSubGroup only one may be given");
                Quorum::None
            }
        };
        let at = SPEC.field("topologyConstraint");
        group.topology = constraints(reading, &at, &spec.topology_constraint);
        reading.each(&SPEC.field("subGroups"), &spec.sub_groups, |reading, at, sub| {
            group.sub_groups.push(sub_group(reading, at, sub));
        });
    }

    /// It is its own controller's from the beginning.
    fn status(_: &mut Reading<'_>, _: &Status, _: GroupObject, group: &mut PodGroup) {
        group.settled = true;
    }
}

fn sub_group(reading: &mut Reading<'_>, at: &Path<'_>, sub: &WireSubGroup) -> SubGroup {
    let name = reading.required_text(&at.field("name"), &sub.name);
    let parent = reading.opt_text(&at.field("parent"), &sub.parent);
    let min_groups = number(reading, &at.field("minSubGroup"), &sub.min_sub_group, 0);
    let min_groups = min_groups.filter(|n| *n > 0);
    let min_member = number(reading, &at.field("minMember"), &sub.min_member, 0);
    let topology = constraints(reading, &at.field("topologyConstraint"), &sub.topology_constraint);
    let min_member = min_member.unwrap_or(1);
    SubGroup { parent, min_groups, topology, ..SubGroup::of_role(name, min_member) }
}

fn constraints(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    field: &Field<Constraint>,
) -> Vec<TopologyConstraint> {
    let Some(wanted) = reading.opt(at, field) else { return Vec::new() };
    let topology = reading.opt_text(&at.field("topology"), &wanted.topology);
    let mut level = |name: &'static str, level: &Field<String>| {
        Some(level_of(topology.clone(), reading.opt_text(&at.field(name), level)?))
    };
    let required = level("requiredTopologyLevel", &wanted.required_topology_level);
    let preferred = level("preferredTopologyLevel", &wanted.preferred_topology_level);
    let constraint =
        |(level, required)| TopologyConstraint { level, required, slice: None, span: None };
    let all = [(required, true), (preferred, false)].into_iter();
    all.filter_map(|(level, required)| Some(constraint((level?, required)))).collect()
}

/// Returns a level as KAI names it: with the topology that it is one of, if that is said.
pub(super) fn level_of(topology: Option<Text>, level: Text) -> TopologyLevel {
    match topology {
        None => TopologyLevel::Named(level),
        Some(name) => TopologyLevel::Of { topology: TOPOLOGY.key(name), level },
    }
}
