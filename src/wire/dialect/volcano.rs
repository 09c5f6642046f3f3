//! Volcano's PodGroups, and the groups that it makes of the plain pods of one controller.
//!
//! Source: volcano.sh/apis, scheduling/v1beta1; what its scheduler makes of minimums:
//! pkg/scheduler/api/job_info.go; what it writes: framework/session.go and plugins/gang. Its CRD has
//! no status subresource, so the status is a part of the object.

use std::collections::BTreeMap;

use berth_core::types::group::{
    Dialect, GroupHint, GroupKind, GroupPhase, GroupTold, GroupWords, PodGroup, Quorum, Rank,
    SubGroup, SubGroupMembers, TopologyConstraint, TopologyLevel,
};
use berth_core::types::{PodUid, Text};
use serde_json::{Value as Json, json};

use super::object::{
    Conversion, GroupObject, ObjectDef, PatchType, SPEC, STATUS, Telling, number, read,
};
use super::tree::{self, TreeDef};
use super::versioned::Names;
use super::{DialectDef, Peer, PodWords, count};
use crate::wire::field::{Field, List, Map};
use crate::wire::k8s::selector::LabelSelector;
use crate::wire::k8s::wire;
use crate::wire::problem::{Path, shown};
use crate::wire::reading::Reading;

const NAME: Dialect = Dialect { rank: Rank::Explicit, name: "volcano" };

/// Both name the group: the first is older, and what most operators and its controller write.
const GROUP_NAMES: [&str; 2] = ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"];
const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
const TASK: &str = "volcano.sh/task-spec";
/// Its controller calls the group of a controller's pods by this and the controller's UID.
const PLAIN_PREFIX: &str = "podgroup-";

pub(super) static DIALECT: DialectDef = DialectDef {
    dialect: NAME,
    summary: "annotations scheduling.k8s.io/group-name and scheduling.volcano.sh/group-name, \
              PodGroup of scheduling.volcano.sh",
    annotations: &[GROUP_NAMES[0], GROUP_NAMES[1], MIN_MEMBER, TASK],
    hint,
    objects: &[&POD_GROUP],
    tree: Some(&HYPER_NODE),
    peer: Some(Peer { namespace: "volcano-system", name: "volcano" }),
};

static POD_GROUP: ObjectDef = ObjectDef {
    names: Names {
        dialect: NAME,
        api_versions: &["scheduling.volcano.sh/v1beta1"],
        kind: "PodGroup",
        resource: "podgroups",
    },
    makes: GroupKind::Pods,
    status_subresource: false,
    patch: PatchType::Merge,
    words: GroupWords { why: true, message: true, scheduled: false },
    read: read::<PodGroups>,
    status: Some(status),
};

static HYPER_NODE: TreeDef = TreeDef {
    names: Names {
        dialect: NAME,
        api_versions: &["topology.volcano.sh/v1alpha1"],
        kind: "HyperNode",
        resource: "hypernodes",
    },
    read: tree::hyper_node,
};

/// Reasons of the condition Unschedulable.
const NOT_ENOUGH_PODS: &str = "NotEnoughTasks";
const NOT_ENOUGH_RESOURCES: &str = "NotEnoughResources";
const ERROR: &str = "SchedulerError";

fn hint(words: &PodWords<'_>, reading: &mut Reading<'_>) -> Option<GroupHint> {
    let mut hint = match GROUP_NAMES.map(|key| words.annotation(key)) {
        [Some(a), Some(b)] if a != b => {
            let [x, y] = GROUP_NAMES;
            let what = format!(
                "annotations {x} and {y} name two groups: \"{}\" and \"{}\"",
                shown(a),
                shown(b)
            );
            let hint = GroupHint::of_object(NAME, reading.tables.intern(a));
            GroupHint { problem: Some(what.into()), ..hint }
        }
        [Some(name), _] | [None, Some(name)] => {
            GroupHint::of_object(NAME, reading.tables.intern(name))
        }
        [None, None] => plain(words, words.annotation(MIN_MEMBER)?, reading),
    };
    hint.role = words.annotation(TASK).map(|task| reading.tables.intern(task));
    Some(hint)
}

/// The pods of one controller that say themselves how many make a group, as Volcano's controller
/// makes it where it runs.
fn plain(words: &PodWords<'_>, min_member: &str, reading: &mut Reading<'_>) -> GroupHint {
    let PodUid(own) = words.uid;
    let of = words.owner.map_or(own, |owner| &owner.uid);
    let name = reading.tables.intern(&format!("{PLAIN_PREFIX}{of}"));
    let (min_member, problem) = match count(MIN_MEMBER, min_member, 0) {
        Ok(min_member) => (Some(min_member), None),
        Err(problem) => (None, Some(problem)),
    };
    GroupHint { needs_object: false, min_member, problem, ..GroupHint::of_object(NAME, name) }
}

wire! {
    pub struct Spec {
        min_member: Field<i64>,
        min_task_member: Field<Map<i64>>,
        network_topology: Field<NetworkTopology>,
        sub_group_policy: Field<List<SubGroupPolicy>>,
    }

    pub struct NetworkTopology {
        mode: Field<String>,
        highest_tier_allowed: Field<i64>,
        highest_tier_name: Field<String>,
    }

    pub struct SubGroupPolicy {
        name: Field<String>,
        network_topology: Field<NetworkTopology>,
        sub_group_size: Field<i64>,
        min_sub_groups: Field<i64>,
        label_selector: Field<LabelSelector>,
        match_label_keys: Field<List<String>>,
    }

    pub struct Status {
        phase: Field<String>,
        conditions: Field<List<Condition>>,
    }

    pub struct Condition {
        r#type: Field<String>,
        status: Field<String>,
        reason: Field<String>,
        message: Field<String>,
    }
}

struct PodGroups;

impl Conversion for PodGroups {
    type Spec = Spec;
    type Status = Status;

    /// The priority class is a name only, and members have priorities of their own.
    fn spec(reading: &mut Reading<'_>, spec: &Spec, group: &mut PodGroup) {
        group.uneven_priorities = true;
        let min_member = number(reading, &SPEC.field("minMember"), &spec.min_member, 0);
        let min_member = min_member.unwrap_or(0);
        if min_member > 0 {
            group.quorum = Quorum::AtLeast(min_member);
        }
        let at = SPEC.field("networkTopology");
        group.topology = constraints(reading, &at, &spec.network_topology);
        group.sub_groups = tasks(reading, &spec.min_task_member, min_member);
        let at = SPEC.field("subGroupPolicy");
        reading.each(&at, &spec.sub_group_policy, |reading, at, policy| {
            group.sub_groups.push(sub_group(reading, at, policy));
        });
    }

    fn status(reading: &mut Reading<'_>, status: &Status, _: GroupObject, group: &mut PodGroup) {
        let phase = reading.opt(&STATUS.field("phase"), &status.phase);
        let (phase, condition) = match phase.map_or("", String::as_str) {
            "Running" | "Unknown" => (GroupPhase::Scheduled, "Scheduled"),
            "Inqueue" => (GroupPhase::Waiting, "Unschedulable"),
            "Completed" => {
                group.settled = true;
                return;
            }
            // Made, and nobody has looked at it.
            _ => return,
        };
        let (reason, message) = condition_of(reading, status, condition);
        let phase = match &*reason {
            NOT_ENOUGH_RESOURCES => GroupPhase::Unschedulable,
            ERROR => GroupPhase::Error,
            _ => phase,
        };
        group.told = Some(GroupTold { phase, message, scheduled: 0 });
    }
}

/// Minimums of tasks hold only where the group's own is not below their sum: a Volcano Job that may
/// start with fewer pods than its tasks have says so by that.
fn tasks(reading: &mut Reading<'_>, tasks: &Field<Map<i64>>, min_member: u32) -> Vec<SubGroup> {
    let at = SPEC.field("minTaskMember");
    let mut minimums: BTreeMap<&str, u32> = BTreeMap::new();
    for (task, minimum) in reading.opt(&at, tasks).into_iter().flatten() {
        let minimum = number(reading, &at.key(task), minimum, 0);
        minimums.extend(minimum.map(|minimum| (task.as_str(), minimum)));
    }
    let sum = minimums.values().fold(0u32, |sum, minimum| sum.saturating_add(*minimum));
    if min_member < sum {
        return Vec::new();
    }
    let sub_group = |(task, min_member): (&str, u32)| {
        SubGroup::of_role(reading.tables.intern(task), min_member)
    };
    minimums.into_iter().filter(|(_, minimum)| *minimum > 0).map(sub_group).collect()
}

fn sub_group(reading: &mut Reading<'_>, at: &Path<'_>, policy: &SubGroupPolicy) -> SubGroup {
    let size = number(reading, &at.field("subGroupSize"), &policy.sub_group_size, 1);
    let min_groups = number(reading, &at.field("minSubGroups"), &policy.min_sub_groups, 0);
    let selector = reading.label_selector(&at.field("labelSelector"), &policy.label_selector);
    let keys = reading.texts(&at.field("matchLabelKeys"), &policy.match_label_keys);
    SubGroup {
        name: reading.text(&at.field("name"), &policy.name),
        parent: None,
        members: SubGroupMembers::Labels { selector, keys },
        // The defaults of its CRD.
        min_member: size.unwrap_or(1),
        min_groups: Some(min_groups.unwrap_or(0)),
        topology: constraints(reading, &at.field("networkTopology"), &policy.network_topology),
    }
}

/// The tier allowed is how far apart members may be; the nearer, the better.
fn constraints(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    network_topology: &Field<NetworkTopology>,
) -> Vec<TopologyConstraint> {
    let Some(wanted) = reading.opt(at, network_topology) else { return Vec::new() };
    let mode_at = at.field("mode");
    let required = match reading.opt(&mode_at, &wanted.mode).map_or("", String::as_str) {
        "" | "hard" => true,
        "soft" => false,
        other => {
            reading.unknown(&mode_at, other);
            true
        }
    };
    let name = reading.opt_text(&at.field("highestTierName"), &wanted.highest_tier_name);
    let at = at.field("highestTierAllowed");
    let tier = number(reading, &at, &wanted.highest_tier_allowed, 1);
    // One tier is the default of its CRD.
    let allowed = name.map_or(TopologyLevel::Tier(tier.unwrap_or(1)), TopologyLevel::Named);
    let nearest = TopologyLevel::Tier(1);
    let within =
        TopologyConstraint { level: allowed.clone(), required: true, slice: None, span: None };
    let near = TopologyConstraint { level: nearest.clone(), required: false, ..within.clone() };
    match required {
        true if allowed == nearest => vec![within],
        true => vec![within, near],
        false => vec![near],
    }
}

/// Returns reason and message of the condition of this type, if it is true.
fn condition_of(reading: &mut Reading<'_>, status: &Status, wanted: &str) -> (Text, Text) {
    let mut found = (Text::default(), Text::default());
    reading.each(&STATUS.field("conditions"), &status.conditions, |reading, at, condition| {
        let is = |field: &Field<String>, text: &str| field.value().is_some_and(|it| it == text);
        if is(&condition.r#type, wanted) && is(&condition.status, "True") {
            let reason = reading.text(&at.field("reason"), &condition.reason);
            found = (reason, reading.text(&at.field("message"), &condition.message));
        }
    });
    found
}

/// Inqueue lets Volcano's controllers make the pods of a job, without which nothing can be placed:
/// the queues that a group would have to pass before are Volcano's own.
fn status(telling: &Telling<'_>) -> Json {
    let (phase, condition, reason) = match telling.told.phase {
        GroupPhase::Waiting => ("Inqueue", "Unschedulable", NOT_ENOUGH_PODS),
        GroupPhase::Unschedulable => ("Inqueue", "Unschedulable", NOT_ENOUGH_RESOURCES),
        GroupPhase::Error => ("Inqueue", "Unschedulable", ERROR),
        GroupPhase::Scheduled => {
            ("Running", "Scheduled", "tasks in gang are ready to be scheduled")
        }
    };
    let condition = json!({
        "type": condition,
        "status": "True",
        "reason": reason,
        "message": telling.told.message.as_str(),
        "lastTransitionTime": telling.now,
    });
    json!({"phase": phase, "conditions": [condition]})
}
