//! GangScheduling: gives the rules by which groups start whole, and holds the members of a plan until
//! all that the group needs have a place.
//!
//! Which pods make a group is the ledger's to say, the search for a placement the engine's: both go
//! by the rules of a profile ([`args`]). Permit is the barrier behind them, in upstream's words.
//!
//! Source of the verdicts and texts: `plugins/gangscheduling` of kube-scheduler 1.36, whose Permit is
//! PlacementFeasible since; on by default there behind the gate GenericWorkload.

mod args;
mod hints;

use std::sync::Arc;

use berth_core::framework::{Args, Permit, PermitAnswer, PluginDef, Points, Reason};
use berth_core::snapshot::{Cluster, Lack, Membership, NodeIdx};
use berth_core::types::group::{GroupKind, Quorum};
use berth_core::types::{GroupKey, Pod, Span, Text, Timestamp};

const NAME: &str = "GangScheduling";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "starts a group of pods as a whole or not at all",
    missing: None,
    build,
};

/// What a member is told whose group doesn't come together in time.
const WAITS: &str = "waiting for minCount pods from a gang to be scheduled";

struct GangScheduling {
    /// How long a member may wait where its group's object says nothing.
    deadline: Span,
}

fn build(args: &Args, points: &mut Points) {
    let rules = args::read(args);
    let plugin = Arc::new(GangScheduling { deadline: rules.deadline });
    points.groups(rules);
    points.permit(plugin.clone());
    points.interest(plugin);
}

impl Permit for GangScheduling {
    /// Cost: O(1) for a group without parts once it has enough members, else O(its members).
    fn permit(&self, pod: &Pod, cluster: &Cluster, _node: NodeIdx, now: Timestamp) -> PermitAnswer {
        let key = match cluster.groups().membership(pod) {
            Membership::Alone => return PermitAnswer::Allow,
            Membership::Refused(text) => return PermitAnswer::Reject(Reason::from(text)),
            Membership::In(key) => key,
        };
        if enough_by_count(&key, cluster) {
            return PermitAnswer::Allow;
        }
        match cluster.group_view(&key) {
            Ok(view) if view.suffices(&view.count(|member| member.placed)) => PermitAnswer::Allow,
            Err(Lack::Refused(text)) => PermitAnswer::Reject(Reason::from(text)),
            Ok(_) | Err(Lack::Object(_) | Lack::Members { .. } | Lack::Groups { .. }) => {
                let until = now + self.deadline_of(&key, cluster);
                PermitAnswer::Wait { until, reason: Text::from(WAITS) }
            }
        }
    }
}

impl GangScheduling {
    fn deadline_of(&self, key: &GroupKey, cluster: &Cluster) -> Span {
        let own = cluster.groups().object(key).and_then(|object| object.deadline);
        own.unwrap_or(self.deadline)
    }
}

/// Tells whether a group that needs nothing but a number of members has it, without looking at each.
fn enough_by_count(key: &GroupKey, cluster: &Cluster) -> bool {
    let groups = cluster.groups();
    let Some(object) = groups.object(key) else { return false };
    match object.quorum {
        Quorum::AtLeast(least) if key.kind == GroupKind::Pods && object.sub_groups.is_empty() => {
            groups.n_placed(key) >= least
        }
        Quorum::AtLeast(_) | Quorum::SubGroups(_) | Quorum::None => false,
    }
}
