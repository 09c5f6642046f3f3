//! Faults that don't lie on a write's way: the server's, the watches', the nodes' and the pods'.

use berth_core::engine::Write;
use berth_core::framework::Op;
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Node, Pod, PodRef, PodUid, Span, Text};

use crate::fault::Fault;
use crate::world::Kind;

use super::{Due, Trial};

/// Seconds between two looks of the pod garbage collector.
const GHOSTS_EVERY: u64 = 10;

impl Trial<'_> {
    pub(super) fn second(&mut self) {
        self.enter(self.now + Span::from_secs(1), Due::Second);
        if (self.now.0 / 1000).is_multiple_of(GHOSTS_EVERY) {
            self.collect_ghosts();
        }
        if self.now < self.down_until {
            return;
        }
        if self.plan.strikes(Fault::ServerDown) {
            self.server_dies();
            return;
        }
        if self.process.is_some() && self.plan.strikes(Fault::Killed) {
            self.plan.took_effect(Fault::Killed);
            self.killed();
            return;
        }
        if self.plan.strikes(Fault::PlaceLost) {
            self.plan.took_effect(Fault::PlaceLost);
            let kind = self.some_kind(Fault::PlaceLost);
            let after = Span(10 + self.plan.draw(Fault::PlaceLost, 2000));
            self.watches.lose_place(kind, self.now, self.now + after);
        }
        self.hold_watches();
        // What was missed is found by a list some time.
        for kind in self.watches.missed() {
            if self.plan.draw(Fault::DeleteMissed, 20) == 0 {
                self.watches.lose_place(kind, self.now, self.now + Span(50));
            }
        }
        if self.plan.strikes(Fault::PodDeleted) {
            self.delete_some_queued();
        }
        self.trouble_for_gangs();
    }

    fn hold_watches(&mut self) {
        for (fault, most) in [(Fault::WatchClosed, 1000), (Fault::WatchLate, 6000)] {
            if self.plan.strikes(fault) {
                let kind = self.some_kind(fault);
                let until = self.now + Span(10 + self.plan.draw(fault, most));
                self.watches.hold(kind, until, fault);
            }
        }
    }

    /// Mostly a kind in which something happens.
    fn some_kind(&mut self, fault: Fault) -> Kind {
        match self.plan.draw(fault, 10) {
            0..4 => Kind::Pods,
            4..6 => Kind::Nodes,
            6..8 => Kind::ResourceClaims,
            8 => Kind::ResourceSlices,
            _ => Kind::Claims,
        }
    }

    /// F01: after its return no watch can be resumed.
    fn server_dies(&mut self) {
        self.plan.took_effect(Fault::ServerDown);
        let up = self.now + Span(1000 + self.plan.draw(Fault::ServerDown, 4000));
        self.down_until = up;
        self.lose_answers();
        for kind in Kind::played() {
            let list_at = up + Span(20 + self.plan.draw(Fault::ServerDown, 800));
            self.watches.lose_place(kind, up, list_at);
        }
        self.history.note(self.now, &[7], "", || format!("server down until {}", up.0));
    }

    /// Chances that a bind brings, before it arrives.
    pub(super) fn trouble_for(&mut self, write: &Write) {
        self.trouble_for_claims(&write.op);
        self.trouble_for_commit(&write.op);
        let Op::Bind { pod, node, .. } = &write.op else { return };
        if self.plan.strikes(Fault::NodeGone) {
            self.node_goes(node, Fault::NodeGone);
        }
        if self.plan.strikes(Fault::NodeRecreated) {
            self.node_recreated(node);
        }
        if self.plan.strikes(Fault::PodRecreated) {
            self.pod_recreated(pod);
        }
        if self.plan.strikes(Fault::PodDeleted) && self.world.pod_by_uid(&pod.uid).is_some() {
            self.plan.took_effect(Fault::PodDeleted);
            self.world.delete_pod(&pod.uid, self.now);
        }
    }

    fn take_node(&mut self, name: &Text) -> Option<Node> {
        let mut node = self.world.node(name)?.clone();
        let (name, uid) = (node.name.clone(), node.uid.clone());
        self.world.apply(ClusterEvent::NodeDeleted { name, uid }, self.now);
        node.uid = Text::default();
        node.unschedulable = false;
        Some(node)
    }

    /// F32, F29. The node comes back some time, as another.
    pub(super) fn node_goes(&mut self, name: &Text, fault: Fault) {
        let Some(node) = self.take_node(name) else { return };
        self.plan.took_effect(fault);
        let at = self.now + Span(5000 + self.plan.draw(fault, 35_000));
        self.enter(at, Due::NodeComes(Box::new(node)));
    }

    /// F34.
    fn node_recreated(&mut self, name: &Text) {
        let Some(node) = self.take_node(name) else { return };
        self.plan.took_effect(Fault::NodeRecreated);
        let at = self.now + Span(self.plan.draw(Fault::NodeRecreated, 500));
        self.enter(at, Due::NodeComes(Box::new(node)));
    }

    /// F45: the pod is gone and comes again under its name.
    fn pod_recreated(&mut self, pod: &PodRef) {
        let Some(known) = self.world.pod_by_uid(&pod.uid) else { return };
        if known.node_name.is_some() {
            return;
        }
        let again =
            Pod { uid: PodUid::default(), unscheduled: None, terminating: false, ..known.clone() };
        self.plan.took_effect(Fault::PodRecreated);
        self.world.remove_pod(&pod.uid, self.now);
        self.world.apply(ClusterEvent::PodApplied(Box::new(again)), self.now);
    }

    /// F46, while it waits.
    fn delete_some_queued(&mut self) {
        let waits = |pod: &&Pod| pod.node_name.is_none();
        let count = self.world.pods().filter(waits).count() as u64;
        let at = self.plan.draw(Fault::PodDeleted, count) as usize;
        let uid = self.world.pods().filter(waits).nth(at).map(|pod| pod.uid.clone());
        if let Some(uid) = uid {
            self.plan.took_effect(Fault::PodDeleted);
            self.world.delete_pod(&uid, self.now);
        }
    }
}
