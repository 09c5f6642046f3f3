//! Kubernetes' own groups: `spec.schedulingGroup` of pods, PodGroups and groups of them.
//!
//! Source: k8s.io/api scheduling v1beta1 and v1alpha3 (1.37), v1alpha2 (1.36); the conditions are
//! those of kube-scheduler, with a reason of its own for a group that isn't complete (KEP-5501).

use berth_core::types::group::{
    DisruptionMode, GroupClaim, GroupHint, GroupKind, GroupPhase, GroupTold, GroupWords, NATIVE,
    PodGroup, Quorum, TopologyConstraint,
};
use berth_core::types::{PreemptionPolicy, Text};
use serde::de::{IgnoredAny, MapAccess};
use serde_json::{Value as Json, json};

use super::object::{
    Conversion, GroupObject, ObjectDef, PatchType, SPEC, STATUS, Telling, number, read,
};
use super::versioned::Names;
use super::{DialectDef, Peer, PodWords};
use crate::wire::field::{Field, List, Shape};
use crate::wire::k8s::pod::{PodResourceClaim, PodResourceClaimStatus};
use crate::wire::k8s::wire;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

pub(super) static DIALECT: DialectDef = DialectDef {
    dialect: NATIVE,
    summary: "spec.schedulingGroup, PodGroup and CompositePodGroup of scheduling.k8s.io",
    annotations: &[],
    hint,
    objects: &[&POD_GROUP, &COMPOSITE],
    tree: None,
    peer: Some(Peer { namespace: "kube-system", name: "kube-scheduler" }),
};

static POD_GROUP: ObjectDef = ObjectDef {
    names: Names {
        dialect: NATIVE,
        api_versions: &["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3", OF_1_36],
        kind: "PodGroup",
        resource: "podgroups",
    },
    makes: GroupKind::Pods,
    status_subresource: true,
    patch: PatchType::Strategic,
    words: WORDS,
    read: read::<Pods>,
    status: Some(status),
};

static COMPOSITE: ObjectDef = ObjectDef {
    names: Names {
        dialect: NATIVE,
        api_versions: &["scheduling.k8s.io/v1alpha3"],
        kind: "CompositePodGroup",
        resource: "compositepodgroups",
    },
    makes: GroupKind::Groups,
    status_subresource: true,
    patch: PatchType::Strategic,
    words: WORDS,
    read: read::<Groups>,
    status: Some(status),
};

/// In it the condition has another name and may turn back.
const OF_1_36: &str = "scheduling.k8s.io/v1alpha2";
const WORDS: GroupWords = GroupWords { why: true, message: true, scheduled: false };

/// Reasons of the condition. A scheduled group's is `Scheduled`.
const WAITING: &str = "NotReadyForScheduling";
const UNSCHEDULABLE: &str = "Unschedulable";
const ERROR: &str = "SchedulerError";

fn hint(words: &PodWords<'_>, reading: &mut Reading<'_>) -> Option<GroupHint> {
    let spec = Path::Root("spec");
    let at = spec.field("schedulingGroup");
    let group = reading.opt(&at, words.scheduling_group)?;
    let name = reading.opt_text(&at.field("podGroupName"), &group.pod_group_name)?;
    Some(GroupHint::of_object(NATIVE, name))
}

wire! {
    pub struct PodGroupSpec {
        parent_composite_pod_group_name: Field<String>,
        scheduling_policy: Field<Policy>,
        scheduling_constraints: Field<Constraints>,
        resource_claims: Field<List<PodResourceClaim>>,
        disruption_mode: Field<Mode>,
        priority: Field<i64>,
        preemption_policy: Field<String>,
    }

    pub struct CompositeSpec {
        parent_composite_pod_group_name: Field<String>,
        scheduling_policy: Field<Policy>,
        scheduling_constraints: Field<Constraints>,
        disruption_mode: Field<Mode>,
        priority: Field<i64>,
        preemption_policy: Field<String>,
    }

    pub struct Policy {
        basic: Field<Nothing>,
        gang: Field<Gang>,
    }

    pub struct Nothing {}

    pub struct Gang {
        min_count: Field<i64>,
        min_group_count: Field<i64>,
    }

    pub struct Constraints {
        topology: Field<List<Topology>>,
    }

    pub struct Topology {
        key: Field<String>,
    }

    pub struct Status {
        conditions: Field<List<Condition>>,
        resource_claim_statuses: Field<List<PodResourceClaimStatus>>,
    }

    pub struct Condition {
        r#type: Field<String>,
        status: Field<String>,
        reason: Field<String>,
        message: Field<String>,
    }
}

/// A word in 1.36, an object with one key since.
#[derive(Clone, Debug)]
pub struct Mode(String);

impl Shape for Mode {
    const WANTED: &'static str = "an object with one of single and all";

    fn text(text: &str) -> Option<Mode> {
        Some(Mode(text.to_owned()))
    }

    fn object<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Option<Mode>, A::Error> {
        let mut modes = Vec::new();
        while let Some((mode, set)) = entries.next_entry::<String, Option<IgnoredAny>>()? {
            modes.extend(set.map(|_| mode));
        }
        Ok(match modes.len() {
            1 => modes.pop().map(Mode),
            _ => None,
        })
    }
}

/// PodGroup.
struct Pods;

impl Conversion for Pods {
    type Spec = PodGroupSpec;
    type Status = Status;

    fn spec(reading: &mut Reading<'_>, spec: &PodGroupSpec, group: &mut PodGroup) {
        let at = SPEC.field("parentCompositePodGroupName");
        group.parent = reading.opt_text(&at, &spec.parent_composite_pod_group_name);
        group.quorum = quorum(reading, &spec.scheduling_policy, "minCount", |g| &g.min_count);
        group.topology = topology(reading, &spec.scheduling_constraints);
        group.claims = claims(reading, &spec.resource_claims);
        group.disruption = disruption(reading, &spec.disruption_mode);
        group.priority = reading.int32(&SPEC.field("priority"), &spec.priority);
        group.preemption_policy = preemption_policy(reading, &spec.preemption_policy);
    }

    fn status(
        reading: &mut Reading<'_>,
        status: &Status,
        object: GroupObject,
        group: &mut PodGroup,
    ) {
        said(reading, status, object, group);
        let at = STATUS.field("resourceClaimStatuses");
        reading.each(&at, &status.resource_claim_statuses, |reading, at, status| {
            let name = reading.required_text(&at.field("name"), &status.name);
            let claim = reading.opt(&at.field("resourceClaimName"), &status.resource_claim_name);
            let claim = claim.map(|claim| Text::from(claim.as_str()));
            group.claim_statuses.push((name, claim));
        });
    }
}

/// CompositePodGroup.
struct Groups;

impl Conversion for Groups {
    type Spec = CompositeSpec;
    type Status = Status;

    fn spec(reading: &mut Reading<'_>, spec: &CompositeSpec, group: &mut PodGroup) {
        let at = SPEC.field("parentCompositePodGroupName");
        group.parent = reading.opt_text(&at, &spec.parent_composite_pod_group_name);
        let policy = &spec.scheduling_policy;
        group.quorum = quorum(reading, policy, "minGroupCount", |gang| &gang.min_group_count);
        group.topology = topology(reading, &spec.scheduling_constraints);
        group.disruption = disruption(reading, &spec.disruption_mode);
        group.priority = reading.int32(&SPEC.field("priority"), &spec.priority);
        group.preemption_policy = preemption_policy(reading, &spec.preemption_policy);
    }

    fn status(
        reading: &mut Reading<'_>,
        status: &Status,
        object: GroupObject,
        group: &mut PodGroup,
    ) {
        said(reading, status, object, group);
    }
}

/// Exactly one policy must be set; one that is newer than this is none.
fn quorum(
    reading: &mut Reading<'_>,
    policy: &Field<Policy>,
    key: &'static str,
    minimum: impl Fn(&Gang) -> &Field<i64>,
) -> Quorum {
    let at = SPEC.field("schedulingPolicy");
    let Some(policy) = reading.required(&at, policy) else { return Quorum::None };
    match (policy.basic.is_absent(), policy.gang.is_absent()) {
        (false, true) => Quorum::None,
        (true, false) => {
            let at = at.field("gang");
            let Some(gang) = reading.opt(&at, &policy.gang) else { return Quorum::None };
            let (at, field) = (at.field(key), minimum(gang));
            reading.required(&at, field);
            number(reading, &at, field, 1).map_or(Quorum::None, Quorum::AtLeast)
        }
        _ => {
            reading.problem(&at, "must have exactly one of basic and gang");
            Quorum::None
        }
    }
}

fn topology(
    reading: &mut Reading<'_>,
    constraints: &Field<Constraints>,
) -> Vec<TopologyConstraint> {
    let at = SPEC.field("schedulingConstraints");
    let Some(constraints) = reading.opt(&at, constraints) else { return Vec::new() };
    let mut topology = Vec::new();
    reading.each(&at.field("topology"), &constraints.topology, |reading, at, constraint| {
        let level = reading.required_text(&at.field("key"), &constraint.key);
        topology.push(TopologyConstraint::required(level));
    });
    topology
}

fn claims(reading: &mut Reading<'_>, list: &Field<List<PodResourceClaim>>) -> Vec<GroupClaim> {
    let mut claims = Vec::new();
    reading.each(&SPEC.field("resourceClaims"), list, |reading, at, claim| {
        let name = reading.required_text(&at.field("name"), &claim.name);
        let at_own = at.field("resourceClaimName");
        let own = reading.opt_text(&at_own, &claim.resource_claim_name);
        let at_template = at.field("resourceClaimTemplateName");
        let template = reading.opt_text(&at_template, &claim.resource_claim_template_name);
        match (own, template) {
            (Some(source), None) => {
                claims.push(GroupClaim { name, source, from_template: false });
            }
            (None, Some(source)) => claims.push(GroupClaim { name, source, from_template: true }),
            _ => reading.problem(
                at,
                "must have exactly one of resourceClaimName and resourceClaimTemplateName",
            ),
        }
    });
    claims
}

/// A mode that isn't known spares the group: it can't be placed, but what runs of it stays whole.
fn disruption(reading: &mut Reading<'_>, mode: &Field<Mode>) -> DisruptionMode {
    let at = SPEC.field("disruptionMode");
    match reading.opt(&at, mode).map(|mode| mode.0.as_str()) {
        None if mode.is_absent() => DisruptionMode::Single,
        None => DisruptionMode::All,
        Some("single" | "Pod") => DisruptionMode::Single,
        Some("all" | "PodGroup") => DisruptionMode::All,
        Some(other) => {
            reading.unknown(&at, other);
            DisruptionMode::All
        }
    }
}

fn preemption_policy(
    reading: &mut Reading<'_>,
    policy: &Field<String>,
) -> Option<PreemptionPolicy> {
    let at = SPEC.field("preemptionPolicy");
    match reading.opt(&at, policy).map_or("", String::as_str) {
        "" => None,
        "PreemptLowerPriority" => Some(PreemptionPolicy::PreemptLowerPriority),
        "Never" => Some(PreemptionPolicy::Never),
        other => {
            reading.unknown(&at, other);
            Some(PreemptionPolicy::Never)
        }
    }
}

fn condition_type(object: GroupObject) -> &'static str {
    match (object.makes(), object.api_version()) {
        (GroupKind::Groups, _) => "CompositePodGroupInitiallyScheduled",
        (GroupKind::Pods, OF_1_36) => "PodGroupScheduled",
        (GroupKind::Pods, _) => "PodGroupInitiallyScheduled",
    }
}

/// Reads what the condition says. True is its last word, but for 1.36.
fn said(reading: &mut Reading<'_>, status: &Status, object: GroupObject, group: &mut PodGroup) {
    let at = STATUS.field("conditions");
    let wanted = condition_type(object);
    reading.each(&at, &status.conditions, |reading, at, condition| {
        let is = |field: &Field<String>, text: &str| field.value().is_some_and(|it| it == text);
        if !is(&condition.r#type, wanted) {
            return;
        }
        let scheduled = is(&condition.status, "True");
        let phase = match condition.reason.value().map(String::as_str) {
            _ if scheduled => GroupPhase::Scheduled,
            Some(UNSCHEDULABLE) => GroupPhase::Unschedulable,
            Some(WAITING) => GroupPhase::Waiting,
            _ => GroupPhase::Error,
        };
        let message = reading.text(&at.field("message"), &condition.message);
        group.told = Some(GroupTold { phase, message, scheduled: 0 });
        group.settled = scheduled && object.api_version() != OF_1_36;
    });
}

fn status(telling: &Telling<'_>) -> Json {
    let (status, reason) = match telling.told.phase {
        GroupPhase::Waiting => ("False", WAITING),
        GroupPhase::Unschedulable => ("False", UNSCHEDULABLE),
        GroupPhase::Error => ("False", ERROR),
        GroupPhase::Scheduled => ("True", "Scheduled"),
    };
    let mut condition = json!({
        "type": condition_type(telling.object),
        "status": status,
        "reason": reason,
        "message": telling.told.message.as_str(),
    });
    // It is merged into the one that is there, whose time stays.
    if telling.turns() {
        condition["lastTransitionTime"] = json!(telling.now);
    }
    json!({"conditions": [condition]})
}
