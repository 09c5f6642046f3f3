//! Pod groups of the native kind, and their members.

use serde_json::{Value, json};

use crate::load::NAMESPACE;

/// Nodes with the same value are in one rack.
pub(crate) const RACK: &str = "example.com/rack";

/// What groups are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gangs {
    /// Members a group.
    pub(crate) size: u32,
    /// They have a controller, as a Job's pods do.
    pub(crate) owned: bool,
    /// How many racks there are, of which each group has to be in one.
    pub(crate) racks: Option<u32>,
}

fn name(group: u32) -> String {
    format!("gang-{group}")
}

impl Gangs {
    /// Returns the group that the pods `size · group` and following are in.
    pub(crate) fn group(self, group: u32) -> (String, Value) {
        let mut object = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name(group), "namespace": NAMESPACE},
            "spec": {"schedulingPolicy": {"gang": {"minCount": self.size}}},
        });
        if self.racks.is_some() {
            object["spec"]["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
        }
        (format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"), object)
    }

    /// Puts the `i`-th pod into its group.
    pub(crate) fn join(self, pod: &mut Value, i: u32) {
        let group = name(i / self.size);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        if self.owned {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": group,
                "uid": format!("00000000-0000-0000-0000-{:012}", i / self.size),
                "controller": true,
            }]);
        }
    }
}
