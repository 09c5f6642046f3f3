//! Which earlier decisions stand in a member's way.
//!
//! Only decisions about a node that would fit without the group's own members can: moving any other
//! opens nothing. Among those, members of the same class, and of the same parts of the group, stay
//! out: if two such members change places, nothing has changed. Both hold where filters look at a node and what is on it; where a
//! member has claims, or a filter looks at more, or it decides who comes first, every decision may be
//! in the way.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::judge::verdict_on;
use crate::engine::placing::Placer;
use crate::framework::Cycle;
use crate::snapshot::{NodeIdx, Overlay};
use crate::types::Pod;

use super::{Gang, Turn};

impl Gang {
    /// Returns the decisions that, changed, may give `pod` a place. The pod was the last that the
    /// placer has looked at. Cost: a verdict for each node that has members.
    pub(super) fn culprits(
        &self,
        pod: &Pod,
        placer: &Placer<'_>,
        overlay: &mut Overlay<'_>,
    ) -> BTreeSet<usize> {
        let (class, independent) = placer.last_class();
        let next = self.order.get(self.frames.len()).and_then(Turn::member);
        let units = next.map(|member| &self.view.members[member].units);
        let mut on_node: BTreeMap<NodeIdx, Vec<usize>> = BTreeMap::new();
        for (at, frame) in self.frames.iter().enumerate() {
            if let Some(spot) = frame.spot() {
                on_node.entry(spot.node).or_default().push(at);
            }
        }
        let cross = next.is_some_and(|member| self.limits_cross(member));
        if !independent || self.order_decides || cross {
            return on_node.into_values().flatten().collect();
        }
        let alike = |at: &usize| {
            let frame = &self.frames[*at];
            let same = frame.spot().is_some_and(|spot| spot.class == class);
            let of = frame.member().map(|member| &self.view.members[member].units);
            same && of == units
        };
        let mut culprits = next.map_or_else(BTreeSet::new, |member| self.filling(member));
        culprits.retain(|at| !alike(at));
        for (node, frames) in on_node {
            let others: Vec<usize> = frames.iter().copied().filter(|at| !alike(at)).collect();
            if others.is_empty() {
                continue;
            }
            let mark = overlay.checkpoint();
            for member in frames.iter().filter_map(|at| self.frames[*at].member()) {
                overlay.evict(self.uid(member));
            }
            let cycle = Cycle { pod, cluster: overlay.cluster() };
            if verdict_on(placer.profile, cycle, node).fits() {
                culprits.extend(others);
            }
            overlay.rollback(mark);
        }
        culprits
    }
}
