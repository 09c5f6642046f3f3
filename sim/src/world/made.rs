//! Claims that a scheduler makes for extended resources, and what it tells of them in pods.

use std::sync::Arc;

use berth_core::engine::{WriteResult, Written};
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{ClaimKey, ClaimRequest, ClaimSpec, DeviceDemand, DeviceRequest};
use berth_core::types::{PodUid, ResourceClaim, Text, Timestamp, Value};

use super::World;
use super::carry::{not_found, stale};
use super::claims::done;

impl World {
    pub(super) fn create_claim(
        &mut self,
        namespace: &Text,
        name: &Text,
        body: &Value,
        now: Timestamp,
    ) -> WriteResult {
        let key = ClaimKey { namespace: namespace.clone(), name: name.clone() };
        if self.claim(&key).is_some() {
            return stale(format!("resourceclaims {:?} already exists", &**name));
        }
        let Some(spec) = spec(body) else {
            return WriteResult::Refused { code: 422, message: "spec: invalid".into() };
        };
        let number = self.fresh_number();
        let claim = ResourceClaim {
            uid: format!("{name}-{number:04}").into(),
            key: key.clone(),
            spec: Arc::new(spec),
            owner_pod: owner(body),
            extended_resources: true,
            ..ResourceClaim::default()
        };
        let event = DeviceEvent::ClaimApplied(Box::new(claim));
        self.apply(ClusterEvent::Devices(event), now);
        match self.claim(&key) {
            Some(claim) => done(claim.clone()),
            None => not_found(&format!("resourceclaims {:?}", &**name)),
        }
    }

    /// A claim with finalizers waits for them.
    pub(super) fn delete_claim(
        &mut self,
        namespace: &Text,
        name: &Text,
        now: Timestamp,
    ) -> WriteResult {
        let key = ClaimKey { namespace: namespace.clone(), name: name.clone() };
        let Some(claim) = self.claim(&key).cloned() else {
            return not_found(&format!("resourceclaims {:?}", &**name));
        };
        let event = match claim.finalizers.is_empty() {
            true => DeviceEvent::ClaimDeleted { key, uid: claim.uid.clone() },
            false => {
                let claim = ResourceClaim { terminating: true, ..claim };
                DeviceEvent::ClaimApplied(Box::new(claim))
            }
        };
        self.apply(ClusterEvent::Devices(event), now);
        self.done()
    }

    /// Scheduling doesn't read what is told, but the pod has a new version.
    pub(super) fn tell_pod(
        &mut self,
        namespace: &Text,
        name: &Text,
        now: Timestamp,
    ) -> WriteResult {
        let Some(uid) = self.pod(namespace, name).map(|pod| pod.uid.clone()) else {
            return not_found(&format!("pods {:?}", &**name));
        };
        self.change_pod(&uid, now, |_| {});
        self.answer_with(&uid)
    }

    /// Answers with the pod as it is now.
    pub(super) fn answer_with(&self, uid: &PodUid) -> WriteResult {
        let pod = self.pod_by_uid(uid).cloned();
        let resource_version = pod.as_ref().map_or(self.version(), |pod| pod.resource_version);
        let event = pod.map(|pod| Box::new(ClusterEvent::PodApplied(Box::new(pod))));
        WriteResult::Done(Written { resource_version, event, ..Written::default() })
    }
}

fn field<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Map(map) => map.get(*name),
        _ => None,
    })
}

fn text(value: &Value, path: &[&str]) -> Option<Text> {
    match field(value, path)? {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    match field(value, path) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

fn owner(body: &Value) -> Option<PodUid> {
    text(items(body, &["metadata", "ownerReferences"]).first()?, &["uid"]).map(PodUid)
}

fn spec(body: &Value) -> Option<ClaimSpec> {
    let requests = items(body, &["spec", "devices", "requests"]).iter().map(request);
    let requests = requests.collect::<Option<Vec<ClaimRequest>>>()?;
    let demand = DeviceDemand { requests, constraints: Vec::new() };
    Some(ClaimSpec { demand: Arc::new(demand), config: Vec::new() })
}

fn request(value: &Value) -> Option<ClaimRequest> {
    let name = text(value, &["name"])?;
    let Some(Value::Int(count)) = field(value, &["exactly", "count"]) else { return None };
    let class = text(value, &["exactly", "deviceClassName"])?;
    Some(ClaimRequest::only(DeviceRequest::exact(name, class, *count)))
}
