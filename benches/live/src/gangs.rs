//! Pod groups of the native kind, and their members.

use serde_json::{Value, json};

use crate::load::NAMESPACE;

/// Members a group.
pub(crate) const SIZE: u32 = 8;

fn name(group: u32) -> String {
    format!("gang-{group}")
}

/// Returns the group that the pods `SIZE · group` and following are in.
pub(crate) fn group(group: u32) -> (String, Value) {
    let object = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name(group), "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
    });
    (format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"), object)
}

/// Puts the `i`-th pod into its group; `owned` as a Job's pod, so that somebody would make it anew.
pub(crate) fn join(pod: &mut Value, i: u32, owned: bool) {
    let group = name(i / SIZE);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    if owned {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": group,
            "uid": format!("00000000-0000-0000-0000-{:012}", i / SIZE),
            "controller": true,
        }]);
    }
}
