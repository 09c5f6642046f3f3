//! Permit: the last word before a plan is made, and waits for it.

use std::sync::Arc;

use crate::framework::plan::{LedgerCondition, Limit, Progress, Wait};
use crate::framework::{Permit, PermitAnswer, Point, Profile};
use crate::snapshot::{Cluster, NodeIdx};
use crate::types::{Pod, PodUid, Span, Text, Timestamp};

use super::guard::guarded;
use super::timing::{Code, Timing};
use super::unfit::{Unplaced, refused};

/// A Permit wait is cut to this. Source: `maxTimeout` of upstream's framework/runtime.
const PERMIT_MAX: Span = Span::from_secs(15 * 60);

/// Asks the Permit plugins. Returns a wait, as long as the longest that one of them wants, and
/// the plugin that wants it.
///
/// # Errors
/// A plugin rejects the placement, or failed.
pub(super) fn permit(
    profile: &Profile,
    cluster: &Cluster,
    pod: &Pod,
    node: NodeIdx,
    now: Timestamp,
    timing: Timing<'_>,
) -> Result<Option<(&'static str, Wait)>, Unplaced> {
    let mut longest: Option<(Timestamp, &'static str, Text)> = None;
    for (at, entry) in profile.permit.iter().enumerate() {
        let ask = || guarded(entry.name, || entry.plugin.permit(pod, cluster, node, now));
        match timing.call(Point::Permit, at, ask) {
            Ok(PermitAnswer::Allow) => {}
            Ok(PermitAnswer::Wait { until, reason }) => {
                timing.went(Point::Permit, Code::Wait);
                if longest.as_ref().is_none_or(|(longest, ..)| *longest < until) {
                    longest = Some((until, entry.name, reason));
                }
            }
            Ok(PermitAnswer::Reject(reason)) => {
                timing.went(Point::Permit, Code::Unschedulable);
                return Err(refused(entry.name, &reason));
            }
            Err(fault) => {
                timing.went(Point::Permit, Code::Error);
                return Err(Unplaced::Error(fault));
            }
        }
    }
    let wait = longest.map(|(until, plugin, reason)| {
        let permits = profile.permit.iter().map(|entry| entry.plugin.clone()).collect();
        let permitted = Permitted { permits, pod: pod.uid.clone(), node, asked: now };
        let limit = Limit::Until(until.min(now + PERMIT_MAX));
        (plugin, Wait { condition: Arc::new(permitted), limit, on_expiry: reason, event: None })
    });
    Ok(wait)
}

/// Reached when every Permit plugin allows the placement.
struct Permitted {
    permits: Vec<Arc<dyn Permit>>,
    pod: PodUid,
    node: NodeIdx,
    asked: Timestamp,
}

impl std::fmt::Debug for Permitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permitted({}, {:?})", self.pod, self.node)
    }
}

impl LedgerCondition for Permitted {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let Some(record) = cluster.pod(&self.pod) else {
            return Progress::Failed(Text::from("the pod is gone"));
        };
        let mut progress = Progress::Reached;
        for permit in &self.permits {
            match permit.permit(&record.pod, cluster, self.node, self.asked) {
                PermitAnswer::Allow => {}
                PermitAnswer::Wait { .. } => progress = Progress::Waiting,
                PermitAnswer::Reject(reason) => {
                    return Progress::Failed(Text::from(reason.texts.join(", ")));
                }
            }
        }
        progress
    }
}
