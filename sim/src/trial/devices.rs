//! Devices and claims: what users, drivers and others do to them, and the faults on the way of
//! writes to claims.

use berth_core::engine::WriteResult;
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{
    Allocation, CLAIM_FINALIZER, ClaimKey, ClaimRef, Consumer, DeviceId,
};
use berth_core::types::device::{DeviceTaint, DeviceTaintEffect, TaintedDevices};
use berth_core::types::{DeviceTaintRule, Pod, ResourceClaim, Span, Text};

use crate::drivers::{PoolKey, Republish};
use crate::fault::Fault;
use crate::workload::{Action, DeviceAction, FOREIGN};
use crate::world::Kind;

use super::network::store_broke;
use super::{Due, Trial};

impl Trial<'_> {
    pub(super) fn act_on_devices(&mut self, action: DeviceAction) {
        let now = self.now;
        match action {
            DeviceAction::AddClass(class) => self.apply(DeviceEvent::ClassApplied(class)),
            DeviceAction::Publish { pool, at } => {
                if let Some(slice) = self.drivers.slice(&pool, at) {
                    self.apply(DeviceEvent::SliceApplied(Box::new(slice)));
                }
            }
            DeviceAction::Roll { pool, change, gap } => self.roll(&pool, &change, gap),
            DeviceAction::Vanish { pool, at, gap } => {
                if let Some(deletion) = self.drivers.vanish(&pool, at) {
                    self.apply(deletion);
                    self.later(gap, DeviceAction::Publish { pool, at });
                }
            }
            DeviceAction::TaintRule { name, device, on: true } => {
                self.apply(DeviceEvent::TaintRuleApplied(Box::new(rule(name, device))));
            }
            DeviceAction::TaintRule { name, on: false, .. } => {
                self.apply(DeviceEvent::TaintRuleDeleted { name });
            }
            DeviceAction::CreateClaim(claim) => {
                self.world.add_claim(*claim, false, now);
            }
            DeviceAction::DeleteClaim(key) => {
                self.world.end_claim(&key, now);
                self.world.change_claim(&key, now, |claim| claim.finalizers.clear());
            }
        }
    }

    fn apply(&mut self, event: DeviceEvent) {
        self.world.apply(ClusterEvent::Devices(event), self.now);
    }

    fn later(&mut self, after: Span, action: DeviceAction) {
        self.enter(self.now + after, Due::Act(Action::Devices(action)));
    }

    /// Slices are published one after the other; between the first and the last the pool is
    /// incomplete.
    fn roll(&mut self, pool: &PoolKey, change: &Republish, gap: Span) {
        for at in 0..self.drivers.roll(pool, change) {
            let publish = DeviceAction::Publish { pool: pool.clone(), at };
            match at {
                0 => self.act_on_devices(publish),
                _ => self.later(Span(gap.0 * at as u64), publish),
            }
        }
    }

    /// Tells whether the process has written to claims of the pod, and has not bound it yet.
    pub(super) fn between_claims(&self, op: &Op) -> bool {
        let pod = match op {
            Op::Bind { pod, .. } => pod,
            Op::Claim { write: ClaimWrite::Allocate { pod, .. }, .. } => pod,
            _ => return false,
        };
        let Some(pod) = self.world.pod_by_uid(&pod.uid) else { return false };
        let protected = |key: &ClaimKey| {
            self.world
                .claim(key)
                .is_some_and(|c| c.finalizers.iter().any(|f| *f == CLAIM_FINALIZER))
        };
        pod.node_name.is_none() && claims_of(pod).iter().any(protected)
    }

    /// Chances that a write brings, before it arrives.
    pub(super) fn trouble_for_claims(&mut self, op: &Op) {
        match op {
            Op::Bind { pod, .. } => {
                let Some(pod) = self.world.pod_by_uid(&pod.uid) else { return };
                for key in claims_of(pod) {
                    self.forced(&key);
                    self.claim_deleted(&key);
                }
            }
            Op::Claim { claim, write, .. } => {
                let Some(grant) = self.grant_under_way(claim, write) else { return };
                self.claim_deleted(&claim.key);
                if let Some(id) = grant.results.first().map(|result| result.id.clone()) {
                    self.trouble_for_device(&id);
                }
                self.foreign_grant(&grant);
            }
            _ => {}
        }
    }

    /// Returns what a plan will write to the claim, or writes with this.
    fn grant_under_way(&self, claim: &ClaimRef, write: &ClaimWrite) -> Option<Allocation> {
        match write {
            ClaimWrite::Allocate { allocation, .. } => allocation.as_deref().cloned(),
            ClaimWrite::Protect { .. } => {
                let devices = self.process.as_ref()?.engine.cluster().devices();
                let planned = devices.claim(&claim.key)?.planned.as_ref()?;
                Some((*planned.allocation).clone())
            }
            ClaimWrite::Read | ClaimWrite::Release { .. } => None,
        }
    }

    /// F20. A claim that was there by itself is created again some time.
    fn claim_deleted(&mut self, key: &ClaimKey) {
        let Some(claim) = self.world.claim(key).filter(|claim| !claim.terminating) else { return };
        if !self.plan.strikes(Fault::ClaimDeleted) {
            return;
        }
        self.plan.took_effect(Fault::ClaimDeleted);
        let uid = claim.uid.clone();
        let again = ResourceClaim {
            key: key.clone(),
            spec: claim.spec.clone(),
            ..ResourceClaim::default()
        };
        let made = claim.owner_pod.is_some();
        self.tamper(&uid, key);
        self.world.end_claim(key, self.now);
        for after in [5000, 30_000].into_iter().filter(|_| !made) {
            self.later(Span(after), DeviceAction::CreateClaim(Box::new(again.clone())));
        }
    }

    fn tamper(&mut self, uid: &Text, key: &ClaimKey) {
        let users = self.world.pods().filter(|pod| claims_of(pod).contains(key));
        self.auditor.tampered(uid, users.map(|pod| pod.uid.clone()));
    }

    /// F20: an administrator clears the status.
    fn forced(&mut self, key: &ClaimKey) {
        let Some(claim) = self.world.claim(key) else { return };
        if claim.allocation.is_none() || !self.plan.strikes(Fault::ClaimForced) {
            return;
        }
        self.plan.took_effect(Fault::ClaimForced);
        let uid = claim.uid.clone();
        self.tamper(&uid, key);
        self.world.change_claim(key, self.now, |claim| {
            claim.allocation = None;
            claim.reserved_for.clear();
            claim.devices.clear();
        });
    }

    /// F21, F22: what a plan stands on changes.
    fn trouble_for_device(&mut self, id: &DeviceId) {
        let pool = (id.driver.clone(), id.pool.clone());
        if self.plan.strikes(Fault::PoolRolled) {
            let gap = Span(20 + self.plan.draw(Fault::PoolRolled, 6000));
            if self.drivers.slice(&pool, 1).is_some() {
                self.plan.took_effect(Fault::PoolRolled);
            }
            self.roll(&pool, &Republish::Same, gap);
        }
        if self.plan.strikes(Fault::DeviceTainted) {
            self.plan.took_effect(Fault::DeviceTainted);
            let after = Span(3000 + self.plan.draw(Fault::DeviceTainted, 20_000));
            let (name, device) = (Text::from(format!("health-{id}")), id.clone());
            let taint = |on| {
                let (name, device) = (name.clone(), device.clone());
                DeviceAction::TaintRule { name, device, on }
            };
            self.act_on_devices(taint(true));
            self.later(after, taint(false));
        }
        if self.plan.strikes(Fault::DeviceGone) {
            self.plan.took_effect(Fault::DeviceGone);
            let after = Span(3000 + self.plan.draw(Fault::DeviceGone, 20_000));
            let change = |on| Republish::Dropped(id.device.clone(), on);
            self.roll(&pool, &change(true), Span(1));
            let back = DeviceAction::Roll { pool, change: change(false), gap: Span(1) };
            self.later(after, back);
        }
    }

    /// F24. The other scheduler's claim goes some time later.
    fn foreign_grant(&mut self, grant: &Allocation) {
        if !self.plan.strikes(Fault::ForeignGrant) {
            return;
        }
        self.plan.took_effect(Fault::ForeignGrant);
        self.entered += 1;
        let name = Text::from(format!("{FOREIGN}{}", self.entered));
        let key = ClaimKey { namespace: "others".into(), name: name.clone() };
        let mut allocation = grant.clone();
        for result in &mut allocation.results {
            result.share_id = result.share_id.as_ref().map(|_| name.clone());
            result.binding_conditions.clear();
        }
        let claim = ResourceClaim {
            key: key.clone(),
            allocation: Some(allocation.into()),
            reserved_for: vec![Consumer::Other { uid: name }],
            finalizers: vec![CLAIM_FINALIZER.into()],
            ..ResourceClaim::default()
        };
        self.world.add_claim(claim, false, self.now);
        let after = Span(2000 + self.plan.draw(Fault::ForeignGrant, 30_000));
        self.later(after, DeviceAction::DeleteClaim(key));
    }

    /// The server carries out a write, unless something comes between.
    pub(super) fn carry_out(&mut self, op: &Op) -> WriteResult {
        let Op::Claim { claim, write, .. } = op else {
            return self.world.carry_out(op, self.now);
        };
        if matches!(write, ClaimWrite::Read) {
            return self.world.carry_out(op, self.now);
        }
        if self.plan.strikes(Fault::ClaimStoreBroke) {
            self.plan.took_effect(Fault::ClaimStoreBroke);
            if self.plan.draw(Fault::ClaimStoreBroke, 2) == 0 {
                self.world.carry_out(op, self.now);
            }
            return store_broke();
        }
        let touched = self.plan.strikes(Fault::ClaimConflict)
            && self.world.change_claim(&claim.key, self.now, |_| {});
        let result = self.world.carry_out(op, self.now);
        if touched && matches!(result, WriteResult::Stale { .. }) {
            self.plan.took_effect(Fault::ClaimConflict);
        }
        result
    }

    /// What makes kube-scheduler grant a device twice: the answer to what it allocated is lost, and
    /// the watch doesn't tell either.
    pub(super) fn loses_claim_answer(&mut self, op: &Op) -> bool {
        let Op::Claim { write: ClaimWrite::Allocate { .. }, .. } = op else { return false };
        if !self.plan.strikes(Fault::ClaimAnswerLost) {
            return false;
        }
        self.plan.took_effect(Fault::ClaimAnswerLost);
        let late = Span(500 + self.plan.draw(Fault::ClaimAnswerLost, 9000));
        self.watches.hold(Kind::ResourceClaims, self.now + late, Fault::WatchLate);
        true
    }
}

/// Returns the claims that the pod names.
fn claims_of(pod: &Pod) -> Vec<ClaimKey> {
    let made = |entry: &Text| {
        let status = pod.claim_statuses.iter().find(|(name, _)| name == entry);
        status.and_then(|(_, claim)| claim.clone())
    };
    let entries = pod.spec.claims.iter();
    let names = entries.filter_map(|entry| match entry.from_template {
        true => made(&entry.name),
        false => Some(entry.source.clone()),
    });
    names.map(|name| ClaimKey { namespace: pod.namespace.clone(), name }).collect()
}

fn rule(name: Text, device: DeviceId) -> DeviceTaintRule {
    let DeviceId { driver, pool, device } = device;
    let selector = TaintedDevices { driver: Some(driver), pool: Some(pool), device: Some(device) };
    let effect = DeviceTaintEffect::NoSchedule;
    let taint = DeviceTaint { key: "example.com/suspect".into(), value: Text::default(), effect };
    DeviceTaintRule { name, resource_version: 0, selector: Some(selector), taint }
}
