//! The result as data, printed as JSON or YAML: `berth.dev/v1alpha1 SimulationResult`.

use std::collections::BTreeMap;

use berth_core::types::claim::DeviceResult;
use berth_core::types::group::GroupKind;
use berth_core::types::{PodUid, ResourceClaim, Text};
use serde::Serialize;

use super::groups::Group;

pub use crate::config::OWN_API_VERSION as API_VERSION;

pub const KIND: &str = "SimulationResult";

/// The whole result. Fields may be added to it; none is renamed or taken away within a version.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationResult {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The state at the end.
    #[serde(flatten)]
    pub state: State,
    /// The state after each phase.
    pub phases: Vec<State>,
    pub summary: Summary,
    /// Documents that say nothing to the scheduler, by `kind (apiVersion)`.
    pub ignored: BTreeMap<String, usize>,
    /// What the user should know about the input.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub nodes: usize,
    pub pods: usize,
    /// Pods that had no node in the files and have one now.
    pub placed: usize,
    /// Pods that are neither bound nor finished nor evicted.
    pub pending: usize,
    pub evicted: usize,
    /// False if objects still changed after a simulated day.
    pub settled: bool,
}

/// Everything that scheduling decides, by `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    pub pods: BTreeMap<String, PodState>,
    pub claims: BTreeMap<String, ClaimState>,
    pub pvcs: BTreeMap<String, PvcState>,
    /// By dialect, namespace and name: two dialects may have groups of one name.
    pub groups: Vec<GroupState>,
}

/// An outermost group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupState {
    pub dialect: &'static str,
    /// What it is made of: `Pods` or `Groups`.
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// How many members, or groups, it needs to start; none for one whose pods are on their own.
    pub needs: Option<u32>,
    /// Its pods, by `namespace/name`; in a group of groups those of all of them.
    pub members: Vec<String>,
    /// How many of them have a node.
    pub placed: usize,
    /// `Waiting`, `Unschedulable`, `Error` or `Scheduled`.
    pub state: &'static str,
    /// What it waits for, or why it fits nowhere.
    pub message: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodState {
    /// `spec.nodeName`. An evicted pod keeps the node it was on.
    pub node: Option<String>,
    /// Which GPUs of the node its share is of: annotation `berth.dev/gpu-index`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Of the condition PodScheduled=False.
    pub reason: Option<String>,
    pub message: Option<String>,
    /// The scheduler deleted it.
    pub evicted: bool,
    /// The scheduler wrote to or about it: binding, condition, nomination, event or deletion.
    pub touched: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimState {
    pub allocated: bool,
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    pub driver: String,
    pub pool: String,
    pub device: String,
    /// Only for shared devices.
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PvcState {
    /// Annotation `volume.kubernetes.io/selected-node`.
    pub selected_node: Option<String>,
    /// `spec.volumeName`, or the volume whose `claimRef` names the claim.
    pub volume_name: Option<String>,
}

impl ClaimState {
    /// Returns what is allocated to the claim.
    pub fn of(claim: &ResourceClaim) -> ClaimState {
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        let (allocated, devices) = (claim.allocation.is_some(), results.map(Device::of));
        ClaimState { allocated, devices: devices.collect() }
    }
}

impl GroupState {
    /// `names` says how members are called.
    pub fn of(group: &Group, names: impl Fn(&PodUid) -> Option<String>) -> GroupState {
        GroupState {
            dialect: group.key.dialect.name,
            kind: match group.key.kind {
                GroupKind::Pods => "Pods",
                GroupKind::Groups => "Groups",
            },
            namespace: group.key.namespace.to_string(),
            name: group.key.name.to_string(),
            needs: group.needs,
            members: group.members.iter().filter_map(names).collect(),
            placed: group.n_placed,
            state: group.state.name(),
            message: (!group.message.is_empty()).then(|| group.message.to_string()),
        }
    }
}

impl Device {
    fn of(result: &DeviceResult) -> Device {
        Device {
            driver: result.id.driver.to_string(),
            pool: result.id.pool.to_string(),
            device: result.id.device.to_string(),
            share_id: result.share_id.as_ref().map(Text::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::groups::GroupStage;
    use crate::wire::{Kind, Object, Tables, decode};
    use berth_core::types::GroupKey;
    use berth_core::types::group::NATIVE;
    use serde_json::{Value, json};

    fn claim(status: Value) -> ResourceClaim {
        let json = json!({"metadata": {"name": "c"}, "spec": {}, "status": status});
        let decoded = decode(Kind::ResourceClaim, json, &mut Tables::default()).unwrap();
        let Object::ResourceClaim(claim) = decoded.object else { panic!("not a claim") };
        *claim
    }

    fn group() -> GroupState {
        let key = GroupKey {
            dialect: NATIVE,
            kind: GroupKind::Groups,
            namespace: "a".into(),
            name: "g".into(),
        };
        let group = Group {
            key,
            needs: Some(2),
            members: vec![PodUid("u".into()), PodUid("gone".into())],
            n_placed: 1,
            state: GroupStage::Waiting,
            message: "waiting for 1 of 2 groups of g".into(),
        };
        GroupState::of(&group, |uid| (uid.0 == "u").then(|| "a/b".to_owned()))
    }

    #[test]
    fn the_contract_is_met_to_the_letter() {
        let claim = claim(json!({"allocation": {"devices": {"results": [
            {"driver": "d", "pool": "p", "device": "gpu-0", "request": "r"},
            {"driver": "d", "pool": "p", "device": "gpu-1", "shareID": "s"}]}}}));
        let pvc = PvcState { selected_node: Some("n".into()), volume_name: None };
        let state = State {
            pods: [("a/b".to_owned(), PodState::default())].into(),
            claims: [("a/c".to_owned(), ClaimState::of(&claim))].into(),
            pvcs: [("a/v".to_owned(), pvc)].into(),
            groups: vec![group()],
        };
        let expected = json!({
            "pods": {"a/b": {"node": null, "reason": null, "message": null, "evicted": false,
                             "touched": false}},
            "claims": {"a/c": {"allocated": true, "devices": [
                {"driver": "d", "pool": "p", "device": "gpu-0"},
                {"driver": "d", "pool": "p", "device": "gpu-1", "shareID": "s"}]}},
            "pvcs": {"a/v": {"selectedNode": "n", "volumeName": null}},
            "groups": [{"dialect": "native", "kind": "Groups", "namespace": "a", "name": "g",
                        "needs": 2, "members": ["a/b"], "placed": 1, "state": "Waiting",
                        "message": "waiting for 1 of 2 groups of g"}],
        });
        assert_eq!(serde_json::to_value(state).unwrap(), expected);
        assert_eq!(ClaimState::of(&ResourceClaim::default()), ClaimState::default());
    }
}
