//! A plan is checked against the ledger before each stage: what it stands on must still be so.

use crate::framework::{Cycle, Profile};
use crate::snapshot::devices::claims::ClaimRecord;
use crate::snapshot::devices::entries::PodClaimState;
use crate::snapshot::{Cluster, Overlay, Place};
use crate::types::{PodUid, Text};

use super::Engine;
use super::crowded::judged_with_nominated;
use super::drafting::devices_of;
use super::judge::verdict_on;
use super::plans::{Failure, Placement, Plan};

impl Engine {
    /// Checks the plan before its next stage. A nominated pod whose victims are gone takes its place.
    pub(super) fn check(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        if let Some(moved) = moved_on(&self.cluster, plan) {
            return Err(moved);
        }
        if plan.evicting {
            return Ok(());
        }
        self.suffices_still(plan)?;
        for placement in plan.placements.iter_mut().filter(|placement| !placement.bound) {
            if placement.nominated {
                self.take_nominated(placement)?;
            } else if self.moved(placement) {
                self.fits_still(placement)?;
            }
            placement.nominated = false;
            placement.version = self.cluster.nodes().slot(placement.node).version;
            let record = self.cluster.pod(&placement.pod.uid);
            placement.devices = record.and_then(|r| devices_of(&self.cluster, &r.pod));
        }
        Ok(())
    }

    /// A group may need more members by now than when it was placed.
    fn suffices_still(&self, plan: &Plan) -> Result<(), Failure> {
        let entry = self
            .queue
            .entry(plan.entry)
            .filter(|_| plan.commit.is_some() && !self.setup.bug("half-gang-binds"));
        let Some(key) = entry.and_then(|entry| entry.group.as_ref()) else { return Ok(()) };
        let lack = match self.cluster.group_as_it_is(key) {
            Ok(view) => view.lacks(&view.count(|member| {
                member.done || (member.placed && !self.leaving.contains(&member.uid))
            })),
            Err(lack) => Some(lack),
        };
        match lack {
            None => Ok(()),
            Some(lack) => Err(Failure::moved_on(format!("pod group {key}: {lack}").into())),
        }
    }

    /// Tells whether anything has changed that the placement's verdict may depend on.
    fn moved(&self, placement: &Placement) -> bool {
        let record = self.cluster.pod(&placement.pod.uid);
        self.cluster.nodes().slot(placement.node).version != placement.version
            || record.and_then(|r| devices_of(&self.cluster, &r.pod)) != placement.devices
    }

    fn take_nominated(&mut self, placement: &Placement) -> Result<(), Failure> {
        let Some(profile) = profile_of(&self.profiles, &self.by_name, &self.cluster, placement)
        else {
            return Ok(());
        };
        let mut overlay = Overlay::new(&mut self.cluster);
        fits_on(profile, overlay.cluster(), placement)?;
        fits_beside_nominated(profile, &mut overlay, placement)?;
        overlay.assume(&placement.pod.uid, placement.node);
        overlay.commit();
        self.stirs += 1;
        // Its place is taken in earnest: nobody gains by the nomination's end.
        let freed = self.cluster.unnominate(&placement.pod.uid);
        debug_assert!(freed.is_empty(), "a pod with a place frees nothing");
        Ok(())
    }

    /// Asks the filters again, with the pod itself taken off.
    fn fits_still(&mut self, placement: &Placement) -> Result<(), Failure> {
        let Some(profile) = profile_of(&self.profiles, &self.by_name, &self.cluster, placement)
        else {
            return Ok(());
        };
        let mut overlay = Overlay::new(&mut self.cluster);
        overlay.evict(&placement.pod.uid);
        overlay.keep_within(placement.within.clone());
        fits_on(profile, overlay.cluster(), placement)
    }
}

/// Tells whether something a plan stands on is no longer so.
pub(super) fn moved_on(cluster: &Cluster, plan: &Plan) -> Option<Failure> {
    let failure = |message: String| Some(Failure::moved_on(message.into()));
    for placement in plan.placements.iter().filter(|placement| !placement.bound) {
        let pod = &placement.pod;
        let Some(record) = cluster.pod(&pod.uid) else {
            return failure(format!("pod {pod} is gone"));
        };
        if record.pod.terminating {
            return failure(format!("pod {pod} is being deleted"));
        }
        let expected = match record.place {
            Place::Nowhere => placement.nominated,
            Place::Assumed(node) => node == placement.node,
            Place::Bound(node) => node == placement.node,
        };
        if !expected {
            return failure(format!("pod {pod} has another place"));
        }
        let uid = cluster.nodes().node(placement.node).map(|node| &node.uid);
        if uid != Some(&placement.node_uid) {
            return failure(format!("node {} is gone", placement.node_name));
        }
        if let Some(text) = claim_moved_on(cluster, &pod.uid) {
            return failure(text);
        }
    }
    plan.taken_back(cluster)
        .and_then(|claim| failure(format!("resource claim {claim} was taken back by another")))
}

/// Says which of the pod's claims the plan can't go on with: one that it is to write has been
/// allocated by another, or one that it has written has been taken back.
fn claim_moved_on(cluster: &Cluster, uid: &PodUid) -> Option<String> {
    let devices = cluster.devices();
    let pod = &cluster.pod(uid)?.pod;
    for entry in &pod.spec.claims {
        let PodClaimState::Claim(key) = cluster.claim_of(pod, entry) else { continue };
        let allocation = devices.claim(&key).map(ClaimRecord::allocation);
        if !matches!(allocation, Some(Some(_))) {
            return Some(format!("resource claim {key} was deallocated"));
        }
    }
    let mut planned = devices.planned_by(uid);
    planned.find_map(|record| {
        let claim = &record.claim;
        match &claim.allocation {
            _ if claim.terminating => {
                Some(format!("resource claim {} is being deleted", claim.key))
            }
            Some(_) => Some(format!("resource claim {} was allocated by another", claim.key)),
            None => None,
        }
    })
}

fn profile_of<'a>(
    profiles: &'a [Profile],
    by_name: &std::collections::BTreeMap<Text, usize>,
    cluster: &Cluster,
    placement: &Placement,
) -> Option<&'a Profile> {
    let record = cluster.pod(&placement.pod.uid)?;
    by_name.get(&record.pod.spec.scheduler_name).map(|at| &profiles[*at])
}

fn fits_on(profile: &Profile, cluster: &Cluster, placement: &Placement) -> Result<(), Failure> {
    let Some(record) = cluster.pod(&placement.pod.uid) else { return Ok(()) };
    let cycle = Cycle { pod: &record.pod, cluster };
    if verdict_on(profile, cycle, placement.node).fits() { Ok(()) } else { Err(crowded(placement)) }
}

fn fits_beside_nominated(
    profile: &Profile,
    overlay: &mut Overlay<'_>,
    placement: &Placement,
) -> Result<(), Failure> {
    let Some(pod) = overlay.cluster().pod(&placement.pod.uid).map(|record| record.pod.clone())
    else {
        return Ok(());
    };
    match judged_with_nominated(overlay, profile, &pod, placement.node) {
        Some((_, verdict)) if !verdict.fits() => Err(crowded(placement)),
        Some(_) | None => Ok(()),
    }
}

fn crowded(placement: &Placement) -> Failure {
    let message = format!("pod {} no longer fits on node {}", placement.pod, placement.node_name);
    Failure::moved_on(message.into())
}
