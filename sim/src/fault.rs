//! Which faults strike, how often, and how often they took effect.
//!
//! Each fault draws from a stream of its own, so that one more draw of one fault moves no other.
//! Each seed switches on a random part of them (swarm testing): faults can hide each other.

use berth_core::framework::rng::Rng;

/// A fault, by its row in facts/reliability.md B5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// F01: the API server dies and comes back; no watch can be resumed.
    ServerDown,
    /// F05: a watch's place is no longer kept (410): a new list.
    PlaceLost,
    /// F06: a watch is closed and resumed where it was.
    WatchClosed,
    /// F07: one kind's watch is late for some seconds.
    WatchLate,
    /// F14: the write is committed, its answer is lost.
    AnswerLost,
    /// F14: the bind is committed after the client gave it up.
    LateCommit,
    /// F02: the bind reaches the server long after the client gave it up.
    LateArrival,
    /// F15: the write is lost before the server has it.
    SendLost,
    /// F16: somebody else binds the pod first.
    BoundElsewhere,
    /// F03: 409 because the store broke, though the bind was committed.
    ConflictCommitted,
    /// F03: 409 because the store broke; the bind is committed later.
    ConflictLate,
    /// F03: 409 because the store broke; the bind is never committed.
    ConflictNever,
    /// F32: the node goes between decision and bind.
    NodeGone,
    /// F34: the node comes again with another UID.
    NodeRecreated,
    /// F39: SIGTERM in mid-bind, then another process.
    Drained,
    /// F40: SIGKILL, then another process from a fresh list.
    Killed,
    /// F44: events come twice.
    Repeated,
    /// F44: kinds overtake each other.
    Reordered,
    /// F44: a deletion is missed until the next list.
    DeleteMissed,
    /// F45: the pod comes again with another UID.
    PodRecreated,
    /// F46: the pod is deleted while it is queued or being bound.
    PodDeleted,
    /// F14: what is allocated to a claim is written, its answer is lost, and the claims' watch is
    /// late.
    ClaimAnswerLost,
    /// F02: a write to a claim reaches the server long after the client gave it up.
    ClaimLate,
    /// F03: 409 because the store broke; the write to a claim was committed, or never is.
    ClaimStoreBroke,
    /// F18: somebody else has written to the claim: 409.
    ClaimConflict,
    /// F19: SIGKILL between the writes to a pod's claims, or between those and the bind.
    ClaimKilled,
    /// F39: SIGTERM there.
    ClaimDrained,
    /// F20: the claim is deleted in mid-plan.
    ClaimDeleted,
    /// F20: the claim is deallocated by force before the bind.
    ClaimForced,
    /// F21: the pool rolls in mid-plan, and is incomplete meanwhile.
    PoolRolled,
    /// F22: the device is tainted between decision and write.
    DeviceTainted,
    /// F22: the device is not published any more between decision and write.
    DeviceGone,
    /// F24: another scheduler grants the same device at the same time.
    ForeignGrant,
    /// The driver never says that the device is ready.
    DriverSilent,
    /// F17: the server refuses to bind a member to one node.
    BindDenied,
    /// F17: the server refuses to bind a member at all, for a while or for ever.
    MemberDenied,
    /// F19: SIGKILL between the writes to the claims of a group.
    GangClaimKilled,
    /// F23: another scheduler takes the claim that members share.
    SharedTaken,
    /// F25: SIGKILL between two binds of a commit.
    GangKilled,
    /// F26: the Lease is lost between two writes of a commit; another process takes over.
    LeaseLost,
    /// F27: a member is deleted while its group waits, or in mid-plan.
    MemberDeleted,
    /// F28: the group's minimum is changed in mid-plan.
    GangResized,
    /// F29: the node of a member goes whose group has started.
    MemberNodeGone,
    /// F30: two groups alike come at once; one is turned away while the other has its places.
    Rivals,
    /// F31: the kubelet refuses a member.
    MemberRejected,
    /// F35: containers of a member that runs are started anew in place.
    MemberRestarted,
}

/// A fault's row, name and ratio.
struct Row {
    fault: Fault,
    id: &'static str,
    what: &'static str,
    /// Strikes in 10,000 chances: writes, events, or seconds, as the fault has it.
    ratio: u64,
}

const fn row(fault: Fault, id: &'static str, what: &'static str, ratio: u64) -> Row {
    Row { fault, id, what, ratio }
}

/// In the order of [`Fault`].
const ROWS: [Row; 46] = [
    row(Fault::ServerDown, "F01", "API server down and back", 80),
    row(Fault::PlaceLost, "F05", "410, full relist", 100),
    row(Fault::WatchClosed, "F06", "watch closed and resumed", 300),
    row(Fault::WatchLate, "F07", "watch of one kind late", 250),
    row(Fault::AnswerLost, "F14", "committed, answer lost", 500),
    row(Fault::LateCommit, "F14", "committed after the client gave up", 400),
    row(Fault::LateArrival, "F02", "bind read long after it was given up", 300),
    row(Fault::SendLost, "F15", "lost before the server", 300),
    row(Fault::BoundElsewhere, "F16", "bound elsewhere by another", 150),
    row(Fault::ConflictCommitted, "F03", "409 though committed", 300),
    row(Fault::ConflictLate, "F03", "409, committed later", 200),
    row(Fault::ConflictNever, "F03", "409, never committed", 200),
    row(Fault::NodeGone, "F32", "node gone before the bind", 80),
    row(Fault::NodeRecreated, "F34", "node recreated, new UID", 80),
    row(Fault::Drained, "F39", "SIGTERM in mid-bind", 80),
    row(Fault::Killed, "F40", "SIGKILL, a new engine", 80),
    row(Fault::Repeated, "F44", "event repeated", 300),
    row(Fault::Reordered, "F44", "kinds reordered", 0),
    row(Fault::DeleteMissed, "F44", "deletion missed until a relist", 1000),
    row(Fault::PodRecreated, "F45", "pod recreated, new UID", 150),
    row(Fault::PodDeleted, "F46", "pod deleted while queued or binding", 150),
    row(Fault::ClaimAnswerLost, "F14", "claim written, answer lost, watch late", 800),
    row(Fault::ClaimLate, "F02", "claim's write read long after it was given up", 500),
    row(Fault::ClaimStoreBroke, "F03", "claim: 409, committed or never", 500),
    row(Fault::ClaimConflict, "F18", "claim written by another: 409", 500),
    row(Fault::ClaimKilled, "F19", "SIGKILL between claim and bind", 150),
    row(Fault::ClaimDrained, "F39", "SIGTERM between claim and bind", 150),
    row(Fault::ClaimDeleted, "F20", "claim deleted in mid-plan", 150),
    row(Fault::ClaimForced, "F20", "claim deallocated by force in mid-plan", 200),
    row(Fault::PoolRolled, "F21", "pool rolls in mid-plan, incomplete", 300),
    row(Fault::DeviceTainted, "F22", "device tainted before the write", 300),
    row(Fault::DeviceGone, "F22", "device gone before the write", 300),
    row(Fault::ForeignGrant, "F24", "device granted by another scheduler too", 500),
    row(Fault::DriverSilent, "F20", "driver never prepares the device", 1000),
    row(Fault::BindDenied, "F17", "member's bind refused on one node", 300),
    row(Fault::MemberDenied, "F17", "member's bind refused everywhere", 150),
    row(Fault::GangClaimKilled, "F19", "SIGKILL between a group's claims and binds", 300),
    row(Fault::SharedTaken, "F23", "shared claim taken by another scheduler", 2000),
    row(Fault::GangKilled, "F25", "SIGKILL between two binds of a commit", 500),
    row(Fault::LeaseLost, "F26", "Lease lost in mid-commit", 300),
    row(Fault::MemberDeleted, "F27", "member deleted while waiting or in mid-plan", 200),
    row(Fault::GangResized, "F28", "minimum changed in mid-plan", 300),
    row(Fault::MemberNodeGone, "F29", "node of a started group's member gone", 300),
    row(Fault::Rivals, "F30", "two groups that don't fit side by side", 0),
    row(Fault::MemberRejected, "F31", "kubelet refuses a member", 300),
    row(Fault::MemberRestarted, "F35", "member's containers started anew in place", 300),
];

const KINDS: usize = ROWS.len();

impl Fault {
    pub fn all() -> impl Iterator<Item = Fault> {
        ROWS.iter().map(|row| row.fault)
    }

    /// Returns the row's id and what the fault is.
    pub fn describe(self) -> (&'static str, &'static str) {
        let row = &ROWS[self as usize];
        (row.id, row.what)
    }
}

/// How often each fault took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects([u64; KINDS]);

impl Default for Effects {
    fn default() -> Effects {
        Effects([0; KINDS])
    }
}

impl Effects {
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    pub fn add(&mut self, other: &Effects) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// The faults of one seed.
#[derive(Debug)]
pub struct FaultPlan {
    ratios: [u64; KINDS],
    streams: Vec<Rng>,
    effects: Effects,
    on: bool,
}

/// Chances are counted in this.
const WHOLE: u64 = 10_000;

impl FaultPlan {
    /// Returns the faults that `seed` switches on. One seed in 20 has none: what goes wrong then
    /// is no fault's doing.
    pub fn of(seed: u64) -> FaultPlan {
        let mut swarm = Rng::stream(seed, "swarm", "", 0);
        let none = swarm.below(20) == 0;
        let mut ratios = [0; KINDS];
        for row in &ROWS {
            let strength = swarm.below(5);
            // Off, a third, or up to three times the ratio.
            let ratio = match strength {
                _ if none => 0,
                0 | 1 => 0,
                2 => row.ratio / 3,
                3 => row.ratio,
                _ => row.ratio * 3,
            };
            ratios[row.fault as usize] = ratio;
        }
        let streams = ROWS.iter().map(|row| Rng::stream(seed, "fault", row.what, 0)).collect();
        FaultPlan { ratios, streams, effects: Effects::default(), on: true }
    }

    /// Nothing ever strikes.
    pub fn none() -> FaultPlan {
        let mut plan = FaultPlan::of(0);
        plan.ratios = [0; KINDS];
        plan
    }

    /// Tells whether the fault strikes at this chance.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        let ratio = self.ratios[fault as usize];
        self.on && ratio > 0 && self.draw(fault, WHOLE) < ratio
    }

    /// Draws a number below `bound` from the fault's stream: how long, which, when.
    pub fn draw(&mut self, fault: Fault, bound: u64) -> u64 {
        self.streams[fault as usize].below(bound)
    }

    /// The fault took effect.
    pub fn took_effect(&mut self, fault: Fault) {
        self.effects.0[fault as usize] += 1;
    }

    pub fn effects(&self) -> Effects {
        self.effects
    }

    /// From now on nothing strikes.
    pub fn stop(&mut self) {
        self.on = false;
    }

    pub fn on(&self) -> bool {
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_faults() {
        for (at, fault) in Fault::all().enumerate() {
            assert_eq!(fault as usize, at);
        }
    }

    #[test]
    fn another_fault_s_draws_move_nothing() {
        let mut one = FaultPlan::of(7);
        let mut two = FaultPlan::of(7);
        two.draw(Fault::Killed, 10);
        assert_eq!(one.draw(Fault::SendLost, 1000), two.draw(Fault::SendLost, 1000));
        one.stop();
        assert!((0..1000).all(|_| !one.strikes(Fault::AnswerLost)));
    }
}
