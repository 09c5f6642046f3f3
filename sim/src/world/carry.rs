//! Carrying out operations with the real server's rules.
//!
//! Sources: `BindingREST.Create` and `assignPod` of Kubernetes' pkg/registry/core/pod/storage; the
//! same rules were tried on kube-apiserver 1.37 (facts/observed-1.37/faults.md).

use berth_core::engine::{PodRead, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::framework::plan::NameOf;
use berth_core::types::{
    Condition, GpuNumbers, PlanNote, Pod, PodRef, PodUid, Text, Timestamp, Value,
};

use super::World;
use super::other::{Other, merge};

/// What goes with a Binding: the commit of a group, and the GPUs of a share.
pub(crate) type Notes<'a> = (Option<&'a PlanNote>, Option<&'a GpuNumbers>);

const CLAIMS: &str = "resourceclaims";

impl World {
    /// Carries out `op` now and returns what the server answers.
    pub fn carry_out(&mut self, op: &Op, now: Timestamp) -> WriteResult {
        match op {
            Op::Bind { pod, node, resource_version, plan, gpus } => {
                let notes = (plan.as_ref(), gpus.as_ref());
                self.bind(pod, node, *resource_version, notes, now)
            }
            Op::TryBind { pod, node } => match self.admitted(pod, node, 0, true) {
                Ok(_) => self.done(),
                Err(refusal) => refusal,
            },
            Op::SetDisruption { pod, .. } => self.set_disruption(pod, now),
            Op::TellGroup { group, uid, told } => self.tell_group(group, uid, told, now),
            Op::ReadPod { pod } => self.read(pod),
            Op::Fence { pod, resource_version, node } => {
                self.fence(pod, *resource_version, node, now)
            }
            Op::SetCondition { pod, resource_version, condition, nominated_node } => {
                let at = *resource_version;
                self.set_condition(pod, at, condition, nominated_node.as_ref(), now)
            }
            Op::Nominate { pod, resource_version, node } => {
                self.nominate(pod, *resource_version, node, now)
            }
            Op::DeletePod { pod } => match self.guarded(pod, 0) {
                Ok(_) => {
                    self.delete_pod(&pod.uid, now);
                    self.done()
                }
                Err(refusal) => refusal,
            },
            Op::Claim { claim, resource_version, write } => {
                self.write_claim(claim, *resource_version, write, now)
            }
            Op::Create { kind, namespace, name: NameOf::Known(name), body, .. }
                if kind == CLAIMS =>
            {
                self.create_claim(namespace, name, body, now)
            }
            Op::Create { kind, namespace, name, generate_name, body } => {
                self.create(kind, namespace, name, *generate_name, body)
            }
            Op::Patch { kind, namespace, name: NameOf::Known(name), .. } if kind == "pods" => {
                self.tell_pod(namespace, name, now)
            }
            Op::Patch { kind, namespace, name, subresource: _, resource_version, body } => {
                self.patch(kind, namespace, name, *resource_version, body)
            }
            Op::Delete { kind, namespace, name: NameOf::Known(name) } if kind == CLAIMS => {
                self.delete_claim(namespace, name, now)
            }
            Op::Delete { kind, namespace, name } => {
                let Some(name) = known(name) else { return unnamed() };
                match self.others.remove(&(kind.clone(), namespace.clone(), name.clone())) {
                    Some(_) => self.done(),
                    None => not_found(&format!("{kind} {name:?}")),
                }
            }
        }
    }

    /// Finds the pod by name and checks its UID, and its version unless that is 0.
    fn guarded(&self, pod: &PodRef, resource_version: u64) -> Result<&Pod, WriteResult> {
        let Some(known) = self.pod(&pod.namespace, &pod.name) else {
            return Err(not_found(&format!("pods {:?}", &*pod.name)));
        };
        if known.uid != pod.uid {
            return Err(stale(format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                pod.uid, known.uid
            )));
        }
        if resource_version != 0 && known.resource_version != resource_version {
            return Err(stale(format!("the object {pod} has been modified")));
        }
        Ok(known)
    }

    fn bind(
        &mut self,
        pod: &PodRef,
        node: &Text,
        resource_version: u64,
        notes: Notes<'_>,
        now: Timestamp,
    ) -> WriteResult {
        let uid = match self.admitted(pod, node, resource_version, false) {
            Ok(known) => known.uid.clone(),
            Err(refusal) => return refusal,
        };
        self.store_bind(&uid, node, notes, now);
        self.done()
    }

    /// The pod is on the node, as the store has it: what goes with a Binding is stored with it.
    pub(crate) fn store_bind(
        &mut self,
        uid: &PodUid,
        node: &Text,
        (plan, gpus): Notes<'_>,
        now: Timestamp,
    ) {
        self.change_pod(uid, now, |pod| {
            pod.node_name = Some(node.clone());
            pod.gpu_numbers = gpus.cloned();
            pod.unscheduled = None;
            pod.nominated_node = None;
            let Some(plan) = plan else { return };
            let gang = pod.gang.get_or_insert_default();
            gang.plan = Some(plan.clone());
            gang.scheduled = Some(now);
        });
    }

    fn set_disruption(&mut self, pod: &PodRef, now: Timestamp) -> WriteResult {
        if let Err(refusal) = self.guarded(pod, 0) {
            return refusal;
        }
        if self.disrupt(&pod.uid) {
            self.change_pod(&pod.uid, now, |_| {});
        }
        self.done()
    }

    /// Returns the pod if it may be bound at this version, and admission lets it.
    fn admitted(
        &self,
        pod: &PodRef,
        node: &Text,
        resource_version: u64,
        dry: bool,
    ) -> Result<&Pod, WriteResult> {
        let known = self.bindable(pod, resource_version)?;
        match self.denied(&known.name, node, dry) {
            Some(refusal) => Err(refusal),
            None => Ok(known),
        }
    }

    /// Returns the pod if it may be bound at this version.
    fn bindable(&self, pod: &PodRef, resource_version: u64) -> Result<&Pod, WriteResult> {
        let known = self.guarded(pod, resource_version)?;
        let name = &known.name;
        if known.terminating {
            let text = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(stale(text));
        }
        if let Some(taken) = &known.node_name {
            return Err(stale(format!("pod {name} is already assigned to node \"{taken}\"")));
        }
        if !known.gates.is_empty() {
            return Err(stale(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        Ok(known)
    }

    fn read(&self, pod: &PodRef) -> WriteResult {
        let read = match self.pod(&pod.namespace, &pod.name) {
            Some(known) if known.uid == pod.uid => match &known.node_name {
                Some(node) => PodRead::BoundTo { node: node.clone() },
                None => PodRead::Unbound { resource_version: known.resource_version },
            },
            Some(_) | None => PodRead::Gone,
        };
        let resource_version = self.version;
        WriteResult::Done(Written { resource_version, pod: Some(read), ..Written::default() })
    }

    fn fence(&mut self, pod: &PodRef, at: u64, node: &Text, now: Timestamp) -> WriteResult {
        match self.guarded(pod, at) {
            Err(refusal) => refusal,
            Ok(known) if known.node_name.is_some() => {
                stale(format!("pod {} is assigned by now", known.name))
            }
            Ok(known) => {
                let uid = known.uid.clone();
                // It always changes the object: the version is what fences.
                self.change_pod(&uid, now, |pod| {
                    pod.unscheduled = Some(Condition {
                        reason: Text::from("BindUnconfirmed"),
                        message: Text::from(format!("bind to {node} unconfirmed")),
                    });
                });
                self.done()
            }
        }
    }

    fn set_condition(
        &mut self,
        pod: &PodRef,
        at: u64,
        condition: &Condition,
        nominated: Option<&Text>,
        now: Timestamp,
    ) -> WriteResult {
        let known = match self.guarded(pod, at) {
            Ok(known) => known,
            Err(refusal) => return refusal,
        };
        let nominated = match nominated {
            None => known.nominated_node.clone(),
            Some(node) => Some(node.clone()).filter(|node| !node.is_empty()),
        };
        let same =
            known.unscheduled.as_ref() == Some(condition) && known.nominated_node == nominated;
        if same {
            // A patch that changes nothing leaves the version as it is.
            let resource_version = known.resource_version;
            return WriteResult::Done(Written { resource_version, ..Written::default() });
        }
        let uid = known.uid.clone();
        self.change_pod(&uid, now, |pod| {
            pod.unscheduled = Some(condition.clone());
            pod.nominated_node = nominated;
        });
        self.done()
    }

    fn nominate(&mut self, pod: &PodRef, at: u64, node: &Text, now: Timestamp) -> WriteResult {
        let known = match self.guarded(pod, at) {
            Ok(known) => known,
            Err(refusal) => return refusal,
        };
        let nominated = Some(node.clone()).filter(|node| !node.is_empty());
        if known.nominated_node != nominated {
            self.change_pod(&pod.uid, now, |pod| pod.nominated_node = nominated);
        }
        self.answer_with(&pod.uid)
    }

    fn create(
        &mut self,
        kind: &Text,
        namespace: &Text,
        name: &NameOf,
        generate: bool,
        body: &Value,
    ) -> WriteResult {
        let Some(name) = known(name) else { return unnamed() };
        let name = match generate {
            true => Text::from(format!("{name}{:05}", self.fresh_number())),
            false => name.clone(),
        };
        let key = (kind.clone(), namespace.clone(), name.clone());
        if self.others.contains_key(&key) {
            return stale(format!("{kind} {name:?} already exists"));
        }
        self.version += 1;
        let resource_version = self.version;
        self.others.insert(key, Other { resource_version, body: body.clone() });
        WriteResult::Done(Written { name: Some(name), resource_version, ..Written::default() })
    }

    fn patch(
        &mut self,
        kind: &Text,
        namespace: &Text,
        name: &NameOf,
        at: u64,
        body: &Value,
    ) -> WriteResult {
        let Some(name) = known(name) else { return unnamed() };
        let fresh = self.version + 1;
        let key = (kind.clone(), namespace.clone(), name.clone());
        let Some(other) = self.others.get_mut(&key) else {
            return not_found(&format!("{kind} {name:?}"));
        };
        if at != 0 && other.resource_version != at {
            return stale(format!("{kind} {name:?} has been modified"));
        }
        merge(&mut other.body, body);
        other.resource_version = fresh;
        self.version = fresh;
        self.done()
    }

    pub(super) fn done(&self) -> WriteResult {
        let resource_version = self.version;
        WriteResult::Done(Written { resource_version, ..Written::default() })
    }
}

fn known(name: &NameOf) -> Option<&Text> {
    match name {
        NameOf::Known(name) => Some(name),
        NameOf::FromWrite(_) => None,
    }
}

pub(super) fn stale(message: String) -> WriteResult {
    WriteResult::Stale { message: Text::from(message) }
}

pub(super) fn not_found(what: &str) -> WriteResult {
    WriteResult::Refused { code: 404, message: Text::from(format!("{what} not found")) }
}

fn unnamed() -> WriteResult {
    WriteResult::Refused { code: 422, message: Text::from("name is required") }
}
