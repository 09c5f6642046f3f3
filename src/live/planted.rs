//! Known-bad variants of the run: an auditor that has never convicted anybody proves nothing.
//!
//! Only a build with the feature `planted-bugs` has them, and only one at a time, named by the
//! variable [`VARIABLE`]. In any other build everything here folds away.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use berth_core::engine::{Input, Write, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::{Pod, PodRequests, Resources, Text};

/// The environment variable that names the bug.
pub const VARIABLE: &str = "BERTH_PLANTED_BUG";

/// Time for writes that should not be.
const LINGERS: Duration = Duration::from_secs(1);

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
        /// A way in which the part that talks to the server could be wrong. The bugs of core are
        /// named by the same variable ([`core_bug`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $bug,)*
        }

        impl Bug {
            pub const ALL: &[Bug] = &[$(Bug::$bug),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)*
                }
            }
        }
    };
}

bugs! {
    DeafToPodDeletions = "deaf-to-pod-deletions",
    /// Only the nodes of the first list are known.
    DeafToNewNodes = "deaf-to-new-nodes",
    DeafToNodeDeletions = "deaf-to-node-deletions",
    /// A node stays as it was when it was first seen.
    DeafToNodeUpdates = "deaf-to-node-updates",
    /// What others have placed counts for nothing.
    DeafToOtherSchedulers = "deaf-to-other-schedulers",
    IgnoresTaints = "ignores-taints",
    /// Every other unit of what a pod asks for is counted.
    Undercounts = "undercounts",
    /// A bind that was refused for good is believed done.
    RefusedIsDone = "refused-is-done",
    /// A bind that met a conflict is believed done.
    StaleIsDone = "stale-is-done",
    /// A bind whose answer was lost is believed done.
    UnknownIsDone = "unknown-is-done",
    /// A bind names the pod only, neither its UID nor its version.
    BindsNamesakes = "binds-namesakes",
    /// Nobody is told why a pod waits.
    Silent = "silent",
    /// Writes go on after the Lease was lost.
    WritesUnled = "writes-unled",
    /// A standby writes as a leader does.
    LeadsAtOnce = "leads-at-once",
    /// An expired watch goes on with what there is, and never hears what is gone.
    NeverRelists = "never-relists",
    /// Each watch request loses its first event.
    LosesTheFirstEvent = "loses-the-first-event",
    /// A pool of devices is believed whole, whatever is missing.
    TrustsPools = "trusts-pools",
}

/// Tells whether a bug is planted in this process.
pub fn on(bug: Bug) -> bool {
    cfg!(feature = "planted-bugs") && chosen().is_some_and(|name| name == bug.name())
}

/// Returns the name of the planted bug, for core's own.
pub fn core_bug() -> Option<Text> {
    match cfg!(feature = "planted-bugs") {
        true => chosen().map(Text::from),
        false => None,
    }
}

fn chosen() -> Option<&'static str> {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref()
}

/// Changes what the engine hears, or swallows it.
pub fn heard(input: Input) -> Option<Input> {
    if core_bug().is_none() {
        return Some(input);
    }
    match input {
        Input::Watch { kind, synced } => {
            LISTED.fetch_or(synced && *kind == *"nodes", Ordering::Relaxed);
            Some(Input::Watch { kind, synced })
        }
        Input::Cluster(event) => heard_of_cluster(event).map(Input::Cluster),
        Input::Outcome { write, result } => {
            Some(Input::Outcome { write, result: believed(result) })
        }
        other => Some(other),
    }
}

/// The first list of nodes is complete.
static LISTED: AtomicBool = AtomicBool::new(false);

fn heard_of_cluster(event: ClusterEvent) -> Option<ClusterEvent> {
    match event {
        ClusterEvent::PodDeleted { .. } if on(Bug::DeafToPodDeletions) => None,
        ClusterEvent::PodApplied(pod) => heard_of_pod(pod).map(ClusterEvent::PodApplied),
        ClusterEvent::NodeDeleted { .. } if on(Bug::DeafToNodeDeletions) => None,
        ClusterEvent::NodeApplied(node) if on(Bug::DeafToNodeUpdates) => {
            first_sight(&node.name).then_some(ClusterEvent::NodeApplied(node))
        }
        ClusterEvent::NodeApplied(node) if on(Bug::DeafToNewNodes) => {
            let known = is_of_first_list(&node.name);
            known.then_some(ClusterEvent::NodeApplied(node))
        }
        ClusterEvent::NodeApplied(mut node) if on(Bug::IgnoresTaints) => {
            node.taints.clear();
            node.unschedulable = false;
            Some(ClusterEvent::NodeApplied(node))
        }
        ClusterEvent::Devices(DeviceEvent::SliceApplied(mut slice)) if on(Bug::TrustsPools) => {
            slice.slice_count = 1;
            Some(ClusterEvent::Devices(DeviceEvent::SliceApplied(slice)))
        }
        other => Some(other),
    }
}

fn heard_of_pod(mut pod: Box<Pod>) -> Option<Box<Pod>> {
    let placed = pod.node_name.is_some();
    let foreign = placed && pod.spec.scheduler_name.starts_with("other");
    if on(Bug::DeafToOtherSchedulers) && foreign {
        return None;
    }
    if on(Bug::Undercounts) {
        let mut spec = (*pod.spec).clone();
        spec.requests = halved(&spec.requests);
        pod.usage = Arc::new(halved(&pod.usage));
        pod.spec = Arc::new(spec);
    }
    Some(pod)
}

fn halved(requests: &PodRequests) -> PodRequests {
    let mut real = Resources::default();
    for (name, amount) in requests.real.iter() {
        real.set(&Text::from(name), amount / 2);
    }
    PodRequests { real, ..requests.clone() }
}

/// Tells whether a name is new. Only the engine's thread asks.
fn first_sight(name: &Text) -> bool {
    names().insert(name.to_string())
}

/// Tells whether a node was there when the first list was complete.
fn is_of_first_list(name: &Text) -> bool {
    if !LISTED.load(Ordering::Relaxed) {
        names().insert(name.to_string());
    }
    names().contains(name.as_str())
}

fn names() -> MutexGuard<'static, BTreeSet<String>> {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn believed(result: WriteResult) -> WriteResult {
    let done = match &result {
        WriteResult::Refused { .. } => on(Bug::RefusedIsDone),
        WriteResult::Stale { .. } => on(Bug::StaleIsDone),
        WriteResult::Unknown { .. } => on(Bug::UnknownIsDone),
        WriteResult::Done(_) | WriteResult::NotSent { .. } => false,
    };
    if done { WriteResult::Done(Written::default()) } else { result }
}

/// Whoever writes on without the Lease doesn't end as soon as it is lost either.
pub async fn lingers() {
    if on(Bug::WritesUnled) {
        tokio::time::sleep(LINGERS).await;
    }
}

/// Changes what is sent. False: it isn't sent at all, and counts as done.
pub fn said(write: &mut Write) -> bool {
    if core_bug().is_none() {
        return true;
    }
    if let Op::Bind { pod, resource_version, .. } = &mut write.op
        && on(Bug::BindsNamesakes)
    {
        pod.uid = Default::default();
        *resource_version = 0;
    }
    !(on(Bug::Silent) && matches!(write.op, Op::SetCondition { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bug_is_on_where_none_is_named_and_names_are_unique() {
        assert!(Bug::ALL.iter().all(|bug| !on(*bug)));
        let names: BTreeSet<_> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert_eq!(names.len(), Bug::ALL.len());
    }
}
