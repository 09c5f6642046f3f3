//! PodGroups of scheduler-plugins' coscheduling: a label names the group.
//!
//! Source: sigs.k8s.io/scheduler-plugins, apis/scheduling/v1alpha1. `minResources` is not read: a
//! plan for `minMember` pods proves more than a sum. Up to 0.25 its scheduler wrote phase and
//! `status.scheduled`; since then its controller, which may run beside us, derives the phase from
//! pods: so a phase is never taken back, and nothing is said once the group is bound.

use berth_core::types::group::{
    Dialect, GroupHint, GroupKind, GroupPhase, GroupTold, GroupWords, PodGroup, Quorum, Rank,
};
use berth_core::types::{Span, Text};
use serde_json::{Value as Json, json};

use super::object::{
    Conversion, GroupObject, ObjectDef, PatchType, SPEC, STATUS, Telling, number, read,
};
use super::versioned::Names;
use super::{DialectDef, Peer, PodWords};
use crate::wire::field::Field;
use crate::wire::k8s::wire;
use crate::wire::reading::Reading;

const NAME: Dialect = Dialect { rank: Rank::Explicit, name: "coscheduling" };
const LABEL: &str = "scheduling.x-k8s.io/pod-group";

const PENDING: &str = "Pending";
/// `minMember` pods have a node, and do not run yet.
const SCHEDULING: &str = "Scheduling";

pub(super) static DIALECT: DialectDef = DialectDef {
    dialect: NAME,
    summary: "label scheduling.x-k8s.io/pod-group, PodGroup of scheduling.x-k8s.io",
    annotations: &[],
    hint,
    objects: &[&POD_GROUP],
    tree: None,
    peer: Some(Peer { namespace: "kube-system", name: "scheduler-plugins-scheduler" }),
};

static POD_GROUP: ObjectDef = ObjectDef {
    names: Names {
        dialect: NAME,
        api_versions: &["scheduling.x-k8s.io/v1alpha1"],
        kind: "PodGroup",
        resource: "podgroups",
    },
    makes: GroupKind::Pods,
    status_subresource: true,
    patch: PatchType::Merge,
    words: GroupWords { why: false, message: false, scheduled: false },
    read: read::<PodGroups>,
    status: Some(status),
};

fn hint(words: &PodWords<'_>, reading: &mut Reading<'_>) -> Option<GroupHint> {
    let name = reading.tables.intern(words.label(LABEL)?);
    Some(GroupHint::of_object(NAME, name))
}

wire! {
    pub struct Spec {
        min_member: Field<i64>,
        schedule_timeout_seconds: Field<i64>,
    }

    pub struct Status {
        phase: Field<String>,
    }
}

struct PodGroups;

impl Conversion for PodGroups {
    type Spec = Spec;
    type Status = Status;

    fn spec(reading: &mut Reading<'_>, spec: &Spec, group: &mut PodGroup) {
        let min_member = number(reading, &SPEC.field("minMember"), &spec.min_member, 0);
        group.quorum = match min_member {
            None | Some(0) => Quorum::None,
            Some(min_member) => Quorum::AtLeast(min_member),
        };
        let at = SPEC.field("scheduleTimeoutSeconds");
        let seconds = number(reading, &at, &spec.schedule_timeout_seconds, 0);
        let seconds = seconds.filter(|seconds| *seconds > 0);
        group.deadline = seconds.map(|seconds| Span::from_secs(u64::from(seconds)));
        group.uneven_priorities = true;
    }

    fn status(reading: &mut Reading<'_>, status: &Status, _: GroupObject, group: &mut PodGroup) {
        let phase = reading.opt(&STATUS.field("phase"), &status.phase);
        let phase = match phase.map_or("", String::as_str) {
            "" => return,
            PENDING => GroupPhase::Waiting,
            _ => GroupPhase::Scheduled,
        };
        group.told = Some(GroupTold { phase, message: Text::default(), scheduled: 0 });
        group.settled = phase == GroupPhase::Scheduled;
    }
}

/// Of old versions, the controller goes on from `scheduled`; newer ones have no such field.
fn status(telling: &Telling<'_>) -> Json {
    match telling.told.phase {
        GroupPhase::Waiting | GroupPhase::Unschedulable | GroupPhase::Error => {
            json!({"phase": PENDING})
        }
        GroupPhase::Scheduled => {
            json!({"phase": SCHEDULING, "scheduled": telling.told.scheduled})
        }
    }
}
