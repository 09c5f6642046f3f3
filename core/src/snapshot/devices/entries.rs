//! What the entries of a pod's `spec.resourceClaims` stand for, and who has the claims: the pod, or
//! the pod group whose claims they are (KEP-5729).

use std::sync::Arc;

use crate::types::claim::{ClaimKey, Consumer};
use crate::types::group::{GroupClaim, GroupKey, GroupKind, NATIVE, PodGroup};
use crate::types::{Pod, PodClaim, PodUid, Text};

use super::super::cluster::Cluster;
use super::super::pods::{Place, PodRecord};

/// What a pod's entry of `spec.resourceClaims` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodClaimState {
    Claim(ClaimKey),
    /// The status says that no claim is needed.
    NotNeeded,
    /// The claim has not been made from its template yet.
    NotGenerated,
}

impl Cluster {
    /// Returns what `entry` of `pod` stands for, as the pod's status has it; where that says nothing
    /// as yet, as the status of the group has it whose claim it is.
    pub fn claim_of(&self, pod: &Pod, entry: &PodClaim) -> PodClaimState {
        let key = |name: &Text| ClaimKey { namespace: pod.namespace.clone(), name: name.clone() };
        if !entry.from_template {
            return PodClaimState::Claim(key(&entry.source));
        }
        let of_group = || self.group_with_claim(pod, entry).map(|group| &group.claim_statuses);
        let made = |statuses: &[(Text, Option<Text>)]| {
            let mut statuses = statuses.iter();
            statuses.find(|(name, _)| *name == entry.name).map(|(_, claim)| claim.clone())
        };
        match made(&pod.claim_statuses).or_else(|| made(of_group()?)) {
            Some(Some(name)) => PodClaimState::Claim(key(&name)),
            Some(None) => PodClaimState::NotNeeded,
            None => PodClaimState::NotGenerated,
        }
    }

    /// Returns the pod's group if `entry` is a claim of it: the names and what they refer to are
    /// equal. Only Kubernetes' own groups have claims.
    ///
    /// Source: `BindTo` of k8s.io/dynamic-resource-allocation 1.37. Where the feature is off the API
    /// server drops the groups' claims.
    pub fn group_with_claim(&self, pod: &Pod, entry: &PodClaim) -> Option<&Arc<PodGroup>> {
        let hint = pod.group_hints().iter().find(|hint| hint.dialect == NATIVE)?;
        let group = self.groups.object(&hint.key(&pod.namespace))?;
        let same = |claim: &GroupClaim| {
            claim.name == entry.name
                && claim.source == entry.source
                && claim.from_template == entry.from_template
        };
        group.claims.iter().any(same).then_some(group)
    }

    /// Returns who the claim of `entry` is reserved for when the pod uses it.
    pub fn consumer_of(&self, pod: &Pod, entry: &PodClaim) -> Consumer {
        match self.group_with_claim(pod, entry) {
            Some(group) => {
                Consumer::PodGroup { uid: group.uid.clone(), name: group.key.name.clone() }
            }
            None => Consumer::Pod(pod.uid.clone()),
        }
    }

    /// Tells whether `consumer` is a pod group of which a pod runs, or is to: it has a node, or a
    /// plan gives it one. Pods that are `leaving` their plan don't count unless they are bound.
    pub fn group_runs(
        &self,
        namespace: &Text,
        consumer: &Consumer,
        leaving: &dyn Fn(&PodUid) -> bool,
    ) -> bool {
        let runs = |record: &PodRecord| match record.place {
            Place::Nowhere => false,
            Place::Assumed(_) => !leaving(&record.pod.uid),
            Place::Bound(_) => true,
        };
        self.find_member(namespace, consumer, runs).is_some()
    }

    /// Returns the first pod by UID, of those in the group that `consumer` names, which is `wanted`;
    /// none if it is a pod.
    pub fn find_member(
        &self,
        namespace: &Text,
        consumer: &Consumer,
        wanted: impl Fn(&PodRecord) -> bool,
    ) -> Option<&PodRecord> {
        let Consumer::PodGroup { name, .. } = consumer else { return None };
        let key = GroupKey {
            dialect: NATIVE,
            kind: GroupKind::Pods,
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let mut members = self.groups.members(&key).filter_map(|uid| self.pods.get(uid));
        members.find(|record| wanted(record))
    }
}
