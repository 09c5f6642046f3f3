//! Asking PreFilter and Filter plugins.

use crate::framework::{Cycle, CycleState, PreFilterAnswer, Profile, Reason, Verdict, Work};
use crate::snapshot::NodeIdx;
use crate::types::Text;

use super::budget::Budget;
use super::guard::guarded;

/// How PreFilter went, without its side effects.
#[derive(PartialEq)]
pub(crate) enum Shape {
    Skip,
    Continue,
    Only(Vec<NodeIdx>),
}

pub(crate) fn shape_of(answer: Result<PreFilterAnswer, Text>) -> Result<Shape, PreFilterAnswer> {
    match answer {
        Ok(PreFilterAnswer::Continue) => Ok(Shape::Continue),
        Ok(PreFilterAnswer::Only(nodes)) => Ok(Shape::Only(nodes)),
        Ok(PreFilterAnswer::Skip) => Ok(Shape::Skip),
        Ok(rejected) => Err(rejected),
        Err(fault) => Err(PreFilterAnswer::Broken(fault)),
    }
}

pub(crate) fn filter_at(
    profile: &Profile,
    at: usize,
    cycle: Cycle<'_>,
    state: &CycleState,
    node: NodeIdx,
) -> Verdict {
    let entry = &profile.filter[at];
    entry.calls.count();
    match guarded(entry.name, || entry.plugin.filter(cycle, state, node)) {
        Ok(verdict) => verdict,
        Err(fault) => Verdict::Broken(fault),
    }
}

/// As [`filter_at`], within the budget; `None` if it has to go on at the next poll.
pub(crate) fn search_at(
    profile: &Profile,
    at: usize,
    cycle: Cycle<'_>,
    state: &mut CycleState,
    node: NodeIdx,
    budget: &mut Budget,
) -> Option<Verdict> {
    let entry = &profile.filter[at];
    entry.calls.count();
    let kept = state.take_found(entry.name, node);
    let mut work = Work::new(budget.remaining(), kept);
    let answer = guarded(entry.name, || entry.plugin.search(cycle, state, node, &mut work));
    budget.spend(work.spent().max(1));
    state.put_found(entry.name, node, work.into_kept());
    answer.unwrap_or_else(|fault| Some(Verdict::Broken(fault)))
}

/// Runs PreFilter and Filter for one node against the ledger as it is, without any table: for
/// nominated pods on top, checks of a plan, and victims.
pub(crate) fn verdict_on(profile: &Profile, cycle: Cycle<'_>, node: NodeIdx) -> Verdict {
    judged_on(profile, cycle, node).1
}

/// As [`verdict_on`], with the plugin that said so; none if the pod fits.
pub(crate) fn judged_on(
    profile: &Profile,
    cycle: Cycle<'_>,
    node: NodeIdx,
) -> (&'static str, Verdict) {
    if cycle.cluster.nodes().node(node).is_none() {
        return ("", Verdict::Unresolvable(Reason::of("node is gone")));
    }
    let mut state = CycleState::default();
    let mut skipped = Vec::new();
    for entry in &profile.pre_filter {
        entry.calls.count();
        let answer = guarded(entry.name, || entry.plugin.pre_filter(cycle, &mut state));
        let verdict = match shape_of(answer) {
            Ok(Shape::Skip) => {
                skipped.push(entry.name);
                continue;
            }
            Ok(Shape::Only(nodes)) if !nodes.contains(&node) => {
                Verdict::Unresolvable(Reason::of("node(s) didn't satisfy plugin(s)"))
            }
            Ok(Shape::Continue | Shape::Only(_)) => continue,
            Err(answer) => verdict_of(answer),
        };
        return (entry.name, verdict);
    }
    for (at, entry) in profile.filter.iter().enumerate() {
        if skipped.contains(&entry.name) {
            continue;
        }
        let verdict = filter_at(profile, at, cycle, &state, node);
        if !verdict.fits() {
            return (entry.name, verdict);
        }
    }
    ("", Verdict::Fit)
}

/// What PreFilter's no means for every node.
pub(crate) fn verdict_of(answer: PreFilterAnswer) -> Verdict {
    match answer {
        PreFilterAnswer::Continue | PreFilterAnswer::Only(_) | PreFilterAnswer::Skip => {
            Verdict::Fit
        }
        PreFilterAnswer::Unschedulable(reason) => Verdict::Unschedulable(reason),
        PreFilterAnswer::Unresolvable(reason) | PreFilterAnswer::Pending(reason) => {
            Verdict::Unresolvable(reason)
        }
        PreFilterAnswer::Broken(text) => Verdict::Broken(text),
    }
}
