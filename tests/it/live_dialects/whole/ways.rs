//! How custom resources and plain pods say that pods belong together.

use serde_json::{Value, json};

use super::{Way, group};

pub(super) fn all() -> [Way; 5] {
    [coscheduling(), volcano_tasks(), volcano_parts(), volcano_plain_pods(), kueue()]
}

fn coscheduling() -> Way {
    Way {
        name: "coscheduling",
        object: |name, n| group("scheduling.x-k8s.io/v1alpha1", name, json!({"minMember": n})),
        joins: |pod, group, _, _| {
            pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": group});
        },
        lacks: "waiting for 2 of 3 members of {}",
        statuses: [
            || json!({"phase": "Pending"}),
            || json!({"phase": "Pending"}),
            || json!({"phase": "Scheduling"}),
        ],
    }
}

/// As Volcano's scheduler does: the condition that was is gone.
const VOLCANO: [fn() -> Value; 3] = [
    || volcano("Inqueue", "Unschedulable", "NotEnoughTasks"),
    || volcano("Inqueue", "Unschedulable", "NotEnoughResources"),
    || volcano("Running", "Scheduled", "tasks in gang are ready to be scheduled"),
];

fn volcano(phase: &str, condition: &str, reason: &str) -> Value {
    json!({
        "phase": phase,
        "conditions": [{"type": condition, "status": "True", "reason": reason}],
    })
}

/// One server, and the others are workers.
fn volcano_tasks() -> Way {
    Way {
        name: "tasks",
        object: |name, n| {
            let minimums = json!({"server": 1, "worker": n - 1});
            let spec = json!({"minMember": n, "minTaskMember": minimums});
            group("scheduling.volcano.sh/v1beta1", name, spec)
        },
        joins: |pod, group, at, n| {
            let task = if at == n - 1 { "server" } else { "worker" };
            pod["metadata"]["annotations"] =
                json!({"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": task});
        },
        lacks: "waiting for 2 of 3 members of {}",
        statuses: VOLCANO,
    }
}

/// Pods that are alike in a label are one part, which is needed whole.
fn volcano_parts() -> Way {
    Way {
        name: "parts",
        object: |name, n| {
            let part = json!({
                "name": "replica", "subGroupSize": n, "minSubGroups": 1,
                "labelSelector": {"matchLabels": {"part": "yes"}}, "matchLabelKeys": ["replica"],
            });
            let spec = json!({"minMember": 1, "subGroupPolicy": [part]});
            group("scheduling.volcano.sh/v1beta1", name, spec)
        },
        joins: |pod, group, _, _| {
            pod["metadata"]["labels"] = json!({"part": "yes", "replica": "0"});
            pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/group-name": group});
        },
        lacks: "waiting for 0 of 1 groups of replica",
        statuses: VOLCANO,
    }
}

/// The pods of one controller; Volcano's own controller isn't there.
fn volcano_plain_pods() -> Way {
    Way {
        name: "plain",
        object: |_, _| Value::Null,
        joins: |pod, group, _, n| {
            pod["metadata"]["annotations"] =
                json!({"scheduling.volcano.sh/group-min-member": n.to_string()});
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": group, "uid": group,
                "controller": true,
            }]);
        },
        lacks: "waiting for 2 of 3 members of podgroup-{}",
        statuses: VOLCANO,
    }
}

fn kueue() -> Way {
    Way {
        name: "kueue",
        object: |_, _| Value::Null,
        joins: |pod, group, _, n| {
            pod["metadata"]["labels"] = json!({"kueue.x-k8s.io/pod-group-name": group});
            pod["metadata"]["annotations"] =
                json!({"kueue.x-k8s.io/pod-group-total-count": n.to_string()});
        },
        lacks: "waiting for 2 of 3 members of {}",
        statuses: VOLCANO,
    }
}
