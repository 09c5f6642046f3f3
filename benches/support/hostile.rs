//! Pods that are made to take long, and what others have beside them.

use std::sync::Arc;

use berth_core::engine::{Decision, Input, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{
    ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint, DeviceDemand, DeviceRequest,
};
use berth_core::types::{ClaimKey, Pod, PodClaim, PodSpec, PodUid, ResourceClaim, Text};

use super::devices::{DRIVER, NOW, Stage, devices_event};
use super::spec;

/// What makes a pod hard to decide about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hostile {
    /// kubernetes/kubernetes#131730: a claim more than the node has devices, one device each. Kubernetes
    /// tries every order of them.
    ClaimTooMany,
    /// Three devices of one NUMA node for each claim: a node has room for two such claims.
    GroupTooMany,
    /// Each leaves out another device, so that no two claims are alike.
    AllUnlike,
    /// Selectors of a third of what Kubernetes lets one cost, which look at each device by itself.
    Cel,
}

impl Hostile {
    fn demands(self, at: usize) -> Vec<DeviceDemand> {
        let request = |count, selector: Option<String>| DeviceRequest {
            selectors: selector.into_iter().map(Text::from).collect(),
            ..DeviceRequest::exact("devices", DRIVER, count)
        };
        let demand = |request, match_on: Option<&str>| DeviceDemand {
            requests: vec![ClaimRequest::only(request)],
            constraints: match_on
                .map(|attribute| DeviceConstraint {
                    requests: Vec::new(),
                    kind: ConstraintKind::Match,
                    attribute: attribute.into(),
                })
                .into_iter()
                .collect(),
        };
        let unlike = |i: usize| {
            let attribute = format!("device.attributes['{DRIVER}'].uuid");
            Some(format!("{attribute} != 'GPU-{i}' && {attribute} != 'pod-{at}'"))
        };
        match self {
            Hostile::ClaimTooMany => (0..9).map(|_| demand(request(1, None), None)).collect(),
            Hostile::GroupTooMany => {
                let three = || demand(request(3, None), Some("resource.kubernetes.io/numaNode"));
                (0..3).map(|_| three()).collect()
            }
            Hostile::AllUnlike => (0..9).map(|i| demand(request(1, unlike(i)), None)).collect(),
            Hostile::Cel => vec![demand(request(1, Some(costly(at))), None)],
        }
    }

    fn pod(self, at: usize) -> (Pod, Vec<ResourceClaim>) {
        let uid = PodUid(format!("00000000-0000-0000-0001-{at:012}").into());
        let claims = self.demands(at).into_iter().enumerate().map(|(nth, demand)| ResourceClaim {
            key: key(at, nth),
            uid: format!("hostile-claim-{at}-{nth}").into(),
            spec: Arc::new(ClaimSpec { demand: Arc::new(demand), config: Vec::new() }),
            owner_pod: Some(uid.clone()),
            ..ResourceClaim::default()
        });
        let claims: Vec<ResourceClaim> = claims.collect();
        let names = (0..claims.len()).map(|nth| PodClaim {
            name: format!("c{nth}").into(),
            source: "template".into(),
            from_template: true,
        });
        let spec = Arc::new(PodSpec { claims: names.collect(), ..spec(1_000, 1 << 30, 0) });
        let statuses = claims.iter().enumerate();
        let statuses =
            statuses.map(|(nth, it)| (format!("c{nth}").into(), Some(it.key.name.clone())));
        let pod = Pod {
            uid: uid.clone(),
            namespace: "default".into(),
            name: format!("hostile-{at}").into(),
            usage: Arc::new(spec.requests.clone()),
            claim_statuses: statuses.collect(),
            spec,
            resource_version: 1,
            ..Pod::default()
        };
        (pod, claims)
    }
}

fn key(at: usize, nth: usize) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: format!("hostile-{at}-{nth}").into() }
}

/// Some 300,000 cost units for each device, and never true.
fn costly(at: usize) -> String {
    let list = format!("[{}]", vec!["0"; 30].join(","));
    let id = format!("device.attributes['{DRIVER}'].uuid == 'pod-{at}'");
    format!("{list}.exists(a, {list}.exists(b, {list}.exists(c, a + b + c > 0 || {id})))")
}

impl Stage {
    /// Hands in hostile pods.
    pub(crate) fn invite(&mut self, kind: Hostile, first: usize, count: usize) {
        for at in first..first + count {
            let (pod, claims) = kind.pod(at);
            for claim in claims {
                let event = DeviceEvent::ClaimApplied(Box::new(claim));
                self.engine.handle(devices_event(event), NOW);
            }
            let pod = ClusterEvent::PodApplied(Box::new(pod));
            self.engine.handle(Input::Cluster(pod), NOW);
        }
    }

    /// Polls until every hostile pod has been told that it waits, or has its steps used up.
    pub(crate) fn decide_all(&mut self) {
        loop {
            let poll = self.engine.poll(NOW);
            let idle = poll.decisions.is_empty() && !poll.working;
            for decision in poll.decisions {
                let Decision::Write(write) = decision else { continue };
                assert!(!matches!(write.op, Op::Bind { .. }), "a hostile pod found a place");
                let result = WriteResult::Done(Written::default());
                self.engine.handle(Input::Outcome { write: write.id, result }, NOW);
            }
            if idle {
                return;
            }
        }
    }

    pub(crate) fn dismiss(&mut self, kind: Hostile, first: usize, count: usize) {
        for at in first..first + count {
            let (pod, claims) = kind.pod(at);
            self.engine.handle(Input::Cluster(ClusterEvent::PodDeleted { uid: pod.uid }), NOW);
            for claim in claims {
                let gone = DeviceEvent::ClaimDeleted { key: claim.key, uid: claim.uid };
                self.engine.handle(devices_event(gone), NOW);
            }
        }
    }
}
