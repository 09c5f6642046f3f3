//! Hand-written histories for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::auditor::{LeaseRule, Replica};
use crate::history::{History, Request, Sent};
use crate::judge::{Limits, judge};
use crate::moment::Moment;
use crate::objects::Name;
use crate::report::{Invariant, Report};
use crate::wire::{Target, WireBody};

pub(crate) const SCHEDULER: &str = "berth";
const CLASS: &str = "gpu";

/// Each step takes 10 ms, one revision if it writes.
pub(crate) struct Builder {
    pub(crate) history: History,
    /// Objects by key, as they are stored.
    stored: BTreeMap<String, Value>,
    now: Moment,
    uids: u32,
}

/// Adds to a pod; what it asks for is set before it is first stored.
pub(crate) struct PodSteps<'a> {
    builder: &'a mut Builder,
    key: String,
    object: Value,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let replica = |user: &str| Replica {
            user: user.to_owned(),
            scheduler_names: vec![SCHEDULER.to_owned()],
            lease: None,
        };
        let mut history = History { has_audit_log: true, ..History::default() };
        history.replicas = vec![replica("berth-0"), replica("berth-1")];
        history.changes.read_to = 1;
        Self { history, stored: BTreeMap::new(), now: Moment(1_000_000_000), uids: 0 }
    }

    /// Both replicas contend for one Lease, 15/10 s.
    pub(crate) fn electing() -> Self {
        let mut builder = Self::new();
        for replica in &mut builder.history.replicas {
            replica.lease = Some(LeaseRule {
                namespace: "kube-system".to_owned(),
                name: "berth".to_owned(),
                lease_duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
            });
        }
        builder
    }

    pub(crate) fn wait(&mut self, seconds: f64) -> &mut Self {
        self.now = self.now + Duration::from_secs_f64(seconds);
        self
    }

    pub(crate) fn faults_ended(&mut self) -> &mut Self {
        self.history.faults_ended = Some(self.now);
        self
    }

    /// Returns the newest revision.
    pub(crate) fn revision(&self) -> i64 {
        self.history.changes.read_to
    }

    /// A Ready node with 110 pods, 64 CPUs and so many GPUs.
    pub(crate) fn node(&mut self, name: &str, gpus: u32) -> &mut Self {
        self.node_as(name, json!({"status": {"allocatable": {"gpu": gpus.to_string()}}}))
    }

    /// The same with other fields on top.
    pub(crate) fn node_as(&mut self, name: &str, over: Value) -> &mut Self {
        let mut node = json!({
            "kind": "Node", "apiVersion": "v1", "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": "64", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        merge(&mut node, over);
        self.put(format!("/registry/minions/{name}"), node)
    }

    pub(crate) fn node_gone(&mut self, name: &str) -> &mut Self {
        self.delete(&format!("/registry/minions/{name}"))
    }

    pub(crate) fn group(&mut self, name: &str, min_count: u32) -> &mut Self {
        let group = json!({
            "kind": "PodGroup", "metadata": {"namespace": "default", "name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
        });
        self.put(format!("/registry/podgroups/default/{name}"), group)
    }

    /// A claim without an allocation, reserved for these pods.
    pub(crate) fn claim(&mut self, name: &str, pod_uids: &[String]) -> &mut Self {
        let status = json!({"reservedFor": consumers(pod_uids)});
        self.claim_status(name, status)
    }

    /// The first replica allocates devices of driver `dr`, named as `pool/device`, and reserves the
    /// claim for these pods.
    pub(crate) fn claim_as(&mut self, name: &str, pods: &[String], devices: &[&str]) -> &mut Self {
        self.claim_by("berth-0", name, pods, devices)
    }

    pub(crate) fn claim_by(
        &mut self,
        user: &str,
        name: &str,
        pods: &[String],
        devices: &[&str],
    ) -> &mut Self {
        let results: Vec<Value> = devices.iter().map(|device| result(device)).collect();
        self.claim_given(user, name, pods, &results)
    }

    /// The same with results of the caller's, made by [`result`].
    pub(crate) fn claim_given(
        &mut self,
        user: &str,
        name: &str,
        pods: &[String],
        results: &[Value],
    ) -> &mut Self {
        let group = "/apis/resource.k8s.io/v1/namespaces/default";
        self.logged(user, "patch", &format!("{group}/resourceclaims/{name}/status"), Some(200));
        let allocation = json!({"devices": {"results": results}});
        let status = json!({"reservedFor": consumers(pods), "allocation": allocation});
        self.claim_status(name, status)
    }

    fn claim_status(&mut self, name: &str, status: Value) -> &mut Self {
        let key = claim_key(name);
        let known = self.stored.get(&key).map(|claim| claim["metadata"].clone());
        let metadata = known.unwrap_or_else(|| {
            self.uids += 1;
            json!({"namespace": "default", "name": name, "uid": format!("claim-{}", self.uids)})
        });
        let requests = json!([{"name": "r", "exactly": {"deviceClassName": CLASS}}]);
        let claim = json!({
            "kind": "ResourceClaim", "metadata": metadata, "status": status,
            "spec": {"devices": {"requests": requests}},
        });
        self.put(key, claim)
    }

    /// Sets any fields of a claim that is stored.
    pub(crate) fn claim_with(&mut self, name: &str, over: Value) -> &mut Self {
        let key = claim_key(name);
        let mut claim = self.stored[&key].clone();
        merge(&mut claim, over);
        self.put(key, claim)
    }

    pub(crate) fn claim_gone(&mut self, name: &str) -> &mut Self {
        self.delete(&claim_key(name))
    }

    /// A complete pool of driver `dr` in a slice of the same name, and the class that all claims
    /// ask for.
    pub(crate) fn pool(&mut self, name: &str, devices: &[&str]) -> &mut Self {
        let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
        self.class(json!([])).slice(name, json!({"pool": {"name": name}, "devices": devices}))
    }

    pub(crate) fn class(&mut self, selectors: Value) -> &mut Self {
        let class = json!({
            "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {"selectors": selectors},
        });
        self.put(class_key(), class)
    }

    pub(crate) fn class_gone(&mut self) -> &mut Self {
        self.delete(&class_key())
    }

    /// A slice of driver `dr`, the only one of generation 1 of its pool unless the spec says else.
    pub(crate) fn slice(&mut self, name: &str, spec: Value) -> &mut Self {
        let mut whole = json!({
            "driver": "dr", "allNodes": true, "pool": {"generation": 1, "resourceSliceCount": 1},
        });
        merge(&mut whole, spec);
        let slice = json!({"kind": "ResourceSlice", "metadata": {"name": name}, "spec": whole});
        self.put(format!("/registry/resourceslices/{name}"), slice)
    }

    pub(crate) fn slice_gone(&mut self, name: &str) -> &mut Self {
        self.delete(&format!("/registry/resourceslices/{name}"))
    }

    /// Taints the devices of a pool.
    pub(crate) fn taint_rule(&mut self, name: &str, pool: &str) -> &mut Self {
        let taint = json!({"key": "broken", "effect": "NoSchedule"});
        let spec = json!({"deviceSelector": {"pool": pool}, "taint": taint});
        let rule = json!({"kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec});
        self.put(format!("/registry/devicetaintrules/{name}"), rule)
    }

    /// A write to the Lease that is committed and logged.
    pub(crate) fn lease(&mut self, user: &str, holder: &str) -> &mut Self {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";
        self.logged(user, "update", path, Some(200));
        self.lease_in_store(holder)
    }

    /// The Lease as somebody else writes it.
    pub(crate) fn lease_in_store(&mut self, holder: &str) -> &mut Self {
        let renewed = jiff::Timestamp::from_microsecond(self.now.0).expect("a time").to_string();
        let lease = json!({
            "kind": "Lease", "metadata": {"namespace": "kube-system", "name": "berth"},
            "spec": {"holderIdentity": holder, "renewTime": renewed},
        });
        self.put("/registry/leases/kube-system/berth".to_owned(), lease)
    }

    pub(crate) fn lease_gone(&mut self) -> &mut Self {
        self.delete("/registry/leases/kube-system/berth")
    }

    /// Begins with a pod that asks for nothing, or goes on with the one of this name.
    pub(crate) fn pod(&mut self, name: &str) -> PodSteps<'_> {
        let key = format!("/registry/pods/default/{name}");
        let object = self.stored.get(&key).cloned().unwrap_or_else(|| {
            self.uids += 1;
            let uid = format!("uid-{name}-{}", self.uids);
            json!({
                "kind": "Pod", "apiVersion": "v1",
                "metadata": {"namespace": "default", "name": name, "uid": uid},
                "spec": {
                    "schedulerName": SCHEDULER,
                    "containers": [{"name": "main", "resources": {"requests": {}}}],
                },
                "status": {"phase": "Pending"},
            })
        });
        PodSteps { builder: self, key, object }
    }

    /// A request of the audit log, answered at once if it has a status.
    pub(crate) fn logged(
        &mut self,
        user: &str,
        verb: &str,
        path: &str,
        status: Option<u16>,
    ) -> &mut Self {
        self.history.requests.push(Request {
            user: user.to_owned(),
            verb: verb.to_owned(),
            target: Target::of_path(path),
            received: self.now,
            answer: status.map(|status| (self.now, status)),
            is_fresh_read: matches!(verb, "get" | "list"),
        });
        self.tick()
    }

    /// A request on the wire.
    pub(crate) fn sent(
        &mut self,
        user: &str,
        method: &str,
        path: &str,
        body: WireBody,
        status: Option<u16>,
    ) -> &mut Self {
        self.history.sent.push(Sent {
            user: user.to_owned(),
            method: method.to_owned(),
            target: Target::of_path(path),
            body,
            at: self.now,
            answer: status.map(|status| (self.now, status)),
        });
        self.tick()
    }

    /// A bind of a pod on the wire, nothing more.
    pub(crate) fn sent_bind(
        &mut self,
        pod: &str,
        node: &str,
        version: Option<i64>,
        status: Option<u16>,
    ) -> &mut Self {
        let body = WireBody::Bind {
            pod: None,
            uid: Some(self.uid(pod)),
            resource_version: version,
            node: node.to_owned(),
        };
        let path = format!("/api/v1/namespaces/default/pods/{pod}/binding");
        self.sent("berth-0", "POST", &path, body, status)
    }

    pub(crate) fn uid(&self, pod: &str) -> String {
        let pod = &self.stored[&format!("/registry/pods/default/{pod}")];
        pod["metadata"]["uid"].as_str().expect("a UID").to_owned()
    }

    pub(crate) fn judge(&mut self) -> Report {
        self.judge_by(&Limits::default())
    }

    pub(crate) fn judge_by(&mut self, limits: &Limits) -> Report {
        self.history.changes.followed_to = self.now;
        judge(&self.history, limits)
    }

    /// Asserts that nothing was broken, and that all was read.
    #[track_caller]
    pub(crate) fn acquit(&mut self) -> Report {
        let report = self.judge();
        assert!(report.is_clean(), "{report}");
        report
    }

    /// Asserts that exactly one violation was found, of this invariant, and returns its text.
    #[track_caller]
    pub(crate) fn convict(&mut self, invariant: Invariant) -> String {
        let report = self.judge();
        assert!(report.violations.len() == 1, "not one violation:\n{report}");
        assert_eq!(report.violations[0].invariant, invariant, "{report}");
        report.violations[0].to_string()
    }

    fn put(&mut self, key: String, object: Value) -> &mut Self {
        let text = object.to_string();
        let revision = self.revision() + 1;
        self.history.changes.push(revision, self.now, &key, Some(text.as_bytes()));
        self.stored.insert(key, object);
        self.tick()
    }

    fn delete(&mut self, key: &str) -> &mut Self {
        let revision = self.revision() + 1;
        self.history.changes.push(revision, self.now, key, None);
        self.stored.remove(key).expect("it is stored");
        self.tick()
    }

    fn tick(&mut self) -> &mut Self {
        self.wait(0.01)
    }
}

impl PodSteps<'_> {
    /// Asks for GPUs.
    pub(crate) fn asks(self, gpus: u32) -> Self {
        self.with(json!({"spec": {"containers":
            [{"name": "main", "resources": {"requests": {"gpu": gpus.to_string()}}}]}}))
    }

    pub(crate) fn in_group(self, group: &str) -> Self {
        self.with(json!({"spec": {"schedulingGroup": {"podGroupName": group}}}))
    }

    /// Sets any fields.
    pub(crate) fn with(mut self, over: Value) -> Self {
        merge(&mut self.object, over);
        self
    }

    /// Writes the pod as it is.
    pub(crate) fn stored(self) -> Self {
        self.builder.put(self.key.clone(), self.object.clone());
        self
    }

    /// Bound by the first replica.
    pub(crate) fn bound(self, node: &str) -> Self {
        self.bound_by("berth-0", node)
    }

    pub(crate) fn bound_by(self, user: &str, node: &str) -> Self {
        let this = match self.builder.stored.contains_key(&self.key) {
            true => self,
            false => self.stored(),
        };
        let name = this.object["metadata"]["name"].as_str().expect("a name").to_owned();
        let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
        this.builder.logged(user, "create", &path, Some(201));
        this.with(json!({"spec": {"nodeName": node}})).stored()
    }

    pub(crate) fn told_why(self) -> Self {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available",
        });
        self.with(json!({"status": {"conditions": [condition]}})).stored()
    }

    pub(crate) fn succeeded(self) -> Self {
        self.with(json!({"status": {"phase": "Succeeded"}})).stored()
    }

    pub(crate) fn terminating(self) -> Self {
        self.with(json!({"metadata": {"deletionTimestamp": "2026-11-29T23:00:00Z"}})).stored()
    }

    pub(crate) fn gone(self) {
        self.builder.delete(&self.key);
    }
}

fn class_key() -> String {
    format!("/registry/deviceclasses/{CLASS}")
}

fn claim_key(name: &str) -> String {
    format!("/registry/resourceclaims/default/{name}")
}

fn consumers(pod_uids: &[String]) -> Vec<Value> {
    let consumer = |uid: &String| json!({"resource": "pods", "name": "p", "uid": uid});
    pod_uids.iter().map(consumer).collect()
}

/// A device of driver `dr`, named as `pool/device`, as an allocation has it.
pub(crate) fn result(device: &str) -> Value {
    let (pool, device) = device.split_once('/').expect("pool and device");
    json!({"request": "r", "driver": "dr", "pool": pool, "device": device})
}

/// Sets what `over` holds: maps are merged, all else replaced.
fn merge(object: &mut Value, over: Value) {
    match (object, over) {
        (Value::Object(object), Value::Object(over)) => {
            for (field, value) in over {
                merge(object.entry(field).or_insert(Value::Null), value);
            }
        }
        (object, over) => *object = over,
    }
}

/// Names a pod of the tests.
pub(crate) fn pod_path(pod: &str) -> String {
    let Name { namespace, name } = Name { namespace: "default".to_owned(), name: pod.to_owned() };
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}
