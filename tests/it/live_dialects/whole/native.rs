//! Kubernetes' own groups, and groups of those.

use berth_stand::{ApiClient, Options, Stand, wait_for};
use serde_json::{Value, json};

use super::{Way, group, play, without_texts};
use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_pod, node_of, told};

fn native() -> Way {
    Way {
        name: "native",
        object: |name, n| {
            let spec = json!({"schedulingPolicy": {"gang": {"minCount": n}}});
            group("scheduling.k8s.io/v1beta1", name, spec)
        },
        joins: |pod, group, _, _| pod["spec"]["schedulingGroup"] = json!({"podGroupName": group}),
        lacks: "waiting for 2 of 3 members of {}",
        statuses: [
            || condition("PodGroupInitiallyScheduled", "False", "NotReadyForScheduling"),
            || condition("PodGroupInitiallyScheduled", "False", "Unschedulable"),
            || condition("PodGroupInitiallyScheduled", "True", "Scheduled"),
        ],
    }
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": status, "reason": reason}]})
}

#[test]
fn native_groups_are_bound_whole_and_so_are_groups_of_them() {
    let Some(stand) = Stand::start_or_skip(&Options::all_groups()) else { return };
    let api = stand.client();
    let berth = Berth::start(&stand, FAST);
    let way = native();
    play(&api, std::slice::from_ref(&way));
    // Room for them alone: one GPU is left of the rest.
    way.node(&api, "n-4", 4);
    groups_of_groups(&api, &way);
    assert_eq!(berth.terminate(), Some(0));
}

/// What a group in another says that it is made from; it needn't be there.
fn workload() -> Value {
    json!({"workloadName": "w", "templateName": "t"})
}

/// Two groups of two, both of which are needed: the second one's last member comes late.
fn groups_of_groups(api: &ApiClient, way: &Way) {
    let all = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"workloadRef": workload(), "schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    });
    create(api, &all);
    for name in ["left", "right"] {
        let spec = json!({
            "workloadRef": workload(), "parentCompositePodGroupName": "all",
            "schedulingPolicy": {"gang": {"minCount": 2}},
        });
        create(api, &group("scheduling.k8s.io/v1alpha3", name, spec));
    }
    let member = |group: &str, at: usize| {
        let mut pod = way.here(gpu_pod(&format!("{group}-{at}"), 1));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        create(api, &pod);
    };
    [("left", 0), ("left", 1), ("right", 0)].iter().for_each(|(group, at)| member(group, *at));
    for name in ["left-0", "left-1", "right-0"] {
        let said = told(api, name, "NotReadyForScheduling");
        assert_eq!(said["message"], "waiting for 1 of 2 groups of all", "{name}");
    }
    let says = |status: &str, reason: &str| {
        let wanted = condition("CompositePodGroupInitiallyScheduled", status, reason);
        let path = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups/all";
        wait_for(SOON, &format!("all says {wanted}"), || {
            let now = api.get(path).ok()?;
            (without_texts(&now["status"]) == wanted).then_some(())
        });
    };
    says("False", "NotReadyForScheduling");
    ["left-0", "left-1", "right-0"].iter().for_each(|name| assert_eq!(node_of(api, name), None));
    member("right", 1);
    ["left-0", "left-1", "right-0", "right-1"].iter().for_each(|name| drop(bound(api, name)));
    says("True", "Scheduled");
}
