//! The gate of what isn't built yet: pods that need it wait outside the queue, told why.
//!
//! It is asked for every pod, whatever plugins its profile has: a term or a claim that nobody looks
//! at would be ignored. What of groups isn't built, the ledger refuses with the group. A pod that
//! waits here is never called Unschedulable, on which autoscalers act.

use berth_core::framework::{Gate, Hint, HintContext, Interest, PreEnqueue};
use berth_core::snapshot::storage::Storage;
use berth_core::snapshot::{Change, Cluster, StorageKind};
use berth_core::types::{Labels, Pod, PodAffinityTerm, Text, VolumeSource};

use crate::shared::claims::{awaits_volume, named_claims, unbound_text};

const NO_INTER_POD: &str = "inter-pod affinity is not supported yet";

/// Holds pods that need what isn't built yet ([`gate()`]). It runs beside the plugins of every
/// profile, after their own gates: the API server tells of scheduling gates itself.
pub struct UnbuiltGate;

impl PreEnqueue for UnbuiltGate {
    fn gate(&self, pod: &Pod, cluster: &Cluster) -> Gate {
        match gate(pod, cluster) {
            Some(message) => Gate::Closed { message, told: true },
            None => Gate::Open,
        }
    }
}

/// Says what `pod` needs that isn't built yet, `None` if it can be scheduled.
///
/// Cost: O(terms of placed pods with required anti-affinity); everything else is read of the pod.
/// The answer changes with other pods, so it must be asked again before a pod that has waited in
/// the queue is placed.
pub fn gate(pod: &Pod, cluster: &Cluster) -> Option<Text> {
    let problem = pod.problem.as_ref();
    problem
        .map(|problem| Text::from(format!("the pod can't be understood: {problem}")))
        .or_else(|| own_terms(pod))
        .or_else(|| volumes(pod, cluster.storage()))
        .or_else(|| anti_affine_pod(pod, cluster))
}

fn own_terms(pod: &Pod) -> Option<Text> {
    let of = |kind: &str, terms: &[PodAffinityTerm]| {
        let key = terms.first()?.topology_key.clone();
        let what = format!("required pod {kind} on topology key {:?}", &*key);
        Some(Text::from(format!("{NO_INTER_POD}: {what}")))
    };
    of("affinity", &pod.spec.required_affinity)
        .or_else(|| of("anti-affinity", &pod.spec.required_anti_affinity))
}

/// Names the first claim that would have to be bound. One that does not exist, is lost or is being
/// deleted is for VolumeBinding to tell.
fn volumes(pod: &Pod, storage: &Storage) -> Option<Text> {
    let ephemeral = pod.spec.volumes.iter().find_map(|volume| match volume {
        VolumeSource::Ephemeral { volume } => Some(volume),
        VolumeSource::Claim { .. }
        | VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. }
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. }
        | VolumeSource::InlineCsi { .. } => None,
    });
    if let Some(volume) = ephemeral {
        let what = "volume binding of ephemeral claims is not supported yet";
        return Some(Text::from(format!("ephemeral volume {:?}: {what}", &**volume)));
    }
    let unbound = |name: &&Text| storage.claim(&pod.namespace, name).is_some_and(awaits_volume);
    named_claims(pod).find(unbound).map(|name| unbound_text(name))
}

/// Names the placed pod whose required anti-affinity selects `pod`. It only keeps `pod` out of one
/// topology domain; holding `pod` back altogether is the cautious half of the rule.
fn anti_affine_pod(pod: &Pod, cluster: &Cluster) -> Option<Text> {
    let owner = cluster.anti_affine_pods().find(|owner| repels(owner, pod, cluster))?;
    let which = format!("required anti-affinity of pod {} selects this pod", owner.reference());
    Some(Text::from(format!("{which}; {NO_INTER_POD}")))
}

fn repels(owner: &Pod, pod: &Pod, cluster: &Cluster) -> bool {
    owner.uid != pod.uid
        && owner.spec.required_anti_affinity.iter().any(|term| {
            covers_namespace(term, owner, pod, cluster)
                && term.selector.as_ref().is_some_and(|s| s.selects(&pod.labels))
        })
}

/// Tells whether a term of `owner` is about the namespace of `pod`. A namespace that isn't known
/// has no labels, as in `GetNamespaceLabelsSnapshot` of kube-scheduler.
fn covers_namespace(term: &PodAffinityTerm, owner: &Pod, pod: &Pod, cluster: &Cluster) -> bool {
    let Some(selector) = &term.namespace_selector else {
        return match term.namespaces.is_empty() {
            true => owner.namespace == pod.namespace,
            false => term.namespaces.contains(&pod.namespace),
        };
    };
    let none = Labels::default();
    let labels = cluster.namespace(&pod.namespace).map_or(&none, |namespace| &namespace.labels);
    term.namespaces.contains(&pod.namespace) || selector.selects(labels)
}

impl Interest for UnbuiltGate {
    /// Asks for another look also where the pod stays held for another reason: what it is told
    /// must be true.
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let may_help = match change {
            Change::Storage { kind: StorageKind::Claim, .. }
            | Change::StorageDeleted { kind: StorageKind::Claim } => {
                named_claims(cx.pod).next().is_some()
            }
            Change::PodFreed { old, .. } => repels(old, cx.pod, cx.cluster),
            Change::PodUpdated { uid, old, .. } => {
                *uid == cx.pod.uid || repels(old, cx.pod, cx.cluster)
            }
            Change::NamespaceChanged { name } => *name == cx.pod.namespace,
            Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NodeAdded { .. }
            | Change::NodeUpdated { .. }
            | Change::NodeDeleted { .. }
            | Change::PodAdded { .. }
            | Change::PodBound { .. }
            | Change::PodDeleted { .. }
            | Change::SelectorOwnerChanged
            | Change::Devices(_)
            | Change::Groups(_) => false,
        };
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}
