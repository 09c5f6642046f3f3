//! Where the reference and Berth may differ, and what else is a mistake.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use berth_core::types::Text;
use berth_core::types::claim::AllocationMode;
use berth_plugins::allocate::Refused;

use super::checker::{Charging, Violation, Wrong, check, check_charged};
use super::generate::UNGUARDED;
use super::instance::Instance;
use super::oracle::{Allocated, Answer, Outcome};
use super::ours;

/// Differences that are allowed, each for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// kubernetes/kubernetes#140729: what administrators get is charged to counters, and likewise to
    /// capacities; and what one claim's administrator got before is kept from other claims, though
    /// not the other way round.
    AdministratorsTake,
    /// kubernetes/kubernetes#140802: a device that is held costs nothing once its slice is gone.
    GoneDeviceIsFree,
    /// The reference gives up at the first selector without a value; Berth goes on without that
    /// device.
    SelectorWithoutValue,
    /// kubernetes/kubernetes#131730: the reference didn't end in time.
    ReferenceTimesOut,
}

/// What came of comparing an instance.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Same,
    Explained(Rule),
    /// Unexplained: of which kind, and what it is.
    Differs(String, String),
}

/// Compares both modes of our allocator with the reference's answer.
pub(crate) fn judge(instance: &Instance, theirs: &Answer) -> Verdict {
    let first = ours::ask(instance, true);
    let best = ours::ask(instance, false);
    for ours in [&first, &best].into_iter().flatten() {
        let wrong = check(instance, ours);
        if !wrong.is_empty() {
            let kind = format!("ours is wrong: {:?}", wrong[0].wrong);
            return Verdict::Differs(kind, format!("{}\n{ours:#?}", shown(&wrong)));
        }
    }
    match (first, best) {
        (Ok(first), Ok(best)) if alternatives(&first) < alternatives(&best) => {
            let why = format!("first fit: {first:#?}\nbest: {best:#?}");
            Verdict::Differs("worse alternatives".to_owned(), why)
        }
        (Ok(first), Ok(_)) => feasible(instance, theirs, &first),
        (Err(first), Err(_)) => infeasible(instance, theirs, &first),
        (first, best) => {
            let why = format!("first fit: {first:#?}\nbest: {best:#?}");
            Verdict::Differs("one mode finds what the other doesn't".to_owned(), why)
        }
    }
}

/// Returns which alternatives were taken, in an order that puts better ones first.
fn alternatives(allocations: &[Allocated]) -> Vec<(usize, &str)> {
    let claims = allocations.iter().enumerate();
    let grants = claims.flat_map(|(claim, of)| of.grants.iter().map(move |g| (claim, &*g.request)));
    let mut names: Vec<(usize, &str)> = grants.filter(|(_, name)| name.contains('/')).collect();
    names.dedup();
    names
}

fn feasible(instance: &Instance, theirs: &Answer, ours: &[Allocated]) -> Verdict {
    match theirs.outcome {
        Outcome::Allocated if theirs.allocations == ours => Verdict::Same,
        Outcome::Timeout => Verdict::Explained(Rule::ReferenceTimesOut),
        Outcome::Selector => Verdict::Explained(Rule::SelectorWithoutValue),
        Outcome::Allocated
        | Outcome::NoFit
        | Outcome::AllPools
        | Outcome::AllConstraint
        | Outcome::Claim
        | Outcome::Panic => match charged_otherwise(instance, theirs, ours) {
            Some(rule) => Verdict::Explained(rule),
            None => {
                let both = theirs.outcome == Outcome::Allocated;
                differs(if both { "other devices" } else { "only ours" }, theirs, &ours)
            }
        },
    }
}

/// Returns the mistake of the reference that keeps it from our answer: it charges counters so that
/// ours doesn't do, or so that its own should not do.
fn charged_otherwise(instance: &Instance, theirs: &Answer, ours: &[Allocated]) -> Option<Rule> {
    let admin = Charging { admin: true, ..Charging::default() };
    if !check_charged(instance, ours, admin).is_empty() {
        return Some(Rule::AdministratorsTake);
    }
    gone_device(instance, theirs)
}

fn gone_device(instance: &Instance, theirs: &Answer) -> Option<Rule> {
    let forgets = Charging { forget_gone: true, ..Charging::default() };
    let wrong = theirs.outcome == Outcome::Allocated
        && counters_only(&check(instance, &theirs.allocations))
        && check_charged(instance, &theirs.allocations, forgets).is_empty();
    wrong.then_some(Rule::GoneDeviceIsFree)
}

fn counters_only(violations: &[Violation]) -> bool {
    !violations.is_empty() && violations.iter().all(|v| v.wrong == Wrong::Counters)
}

fn infeasible(instance: &Instance, theirs: &Answer, ours: &Refused) -> Verdict {
    match theirs.outcome {
        Outcome::Allocated => match gone_device(instance, theirs) {
            Some(rule) => Verdict::Explained(rule),
            None => differs("only theirs", theirs, &ours),
        },
        Outcome::Timeout => Verdict::Explained(Rule::ReferenceTimesOut),
        Outcome::Panic => differs("theirs panics", theirs, &ours),
        Outcome::NoFit
        | Outcome::Selector
        | Outcome::AllPools
        | Outcome::AllConstraint
        | Outcome::Claim => Verdict::Same,
    }
}

fn differs(kind: &str, theirs: &Answer, ours: &dyn Debug) -> Verdict {
    let Answer { outcome, error, allocations } = theirs;
    let why = format!("theirs: {outcome:?} {error}\n{allocations:#?}\nours: {ours:#?}");
    Verdict::Differs(kind.to_owned(), why)
}

/// Returns the same question with selectors that say no where they had no value; `None` if a
/// request for all devices has one, since it must not go on without the device.
pub(crate) fn guarded(instance: &Instance) -> Option<Instance> {
    let unguarded = |text: &Text| UNGUARDED.iter().find(|(known, _)| *text == *known);
    let for_all = instance.requests().any(|(_, request)| {
        request.mode == AllocationMode::All
            && request.selectors.iter().any(|s| unguarded(s).is_some())
    });
    if for_all {
        return None;
    }
    let mut made = instance.clone();
    for claim in &mut made.claims {
        let demand = Arc::make_mut(&mut claim.demand);
        let requests = demand.requests.iter_mut().flat_map(|request| &mut request.alternatives);
        for selector in requests.flat_map(|request| &mut request.selectors) {
            if let Some((_, guarded)) = unguarded(selector) {
                *selector = Text::from(*guarded);
            }
        }
    }
    Some(made)
}

/// Judges the reference's own answer: what is wrong with it must be one of its known mistakes.
pub(crate) fn judge_reference(instance: &Instance, theirs: &Answer) -> Verdict {
    if theirs.outcome != Outcome::Allocated {
        return Verdict::Same;
    }
    let wrong = check(instance, &theirs.allocations);
    if wrong.is_empty() {
        return Verdict::Same;
    }
    match gone_device(instance, theirs) {
        Some(rule) => Verdict::Explained(rule),
        None => {
            let kind = format!("theirs is wrong: {:?}", wrong[0].wrong);
            Verdict::Differs(kind, format!("{}\ntheirs: {theirs:#?}", shown(&wrong)))
        }
    }
}

fn shown(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// How often each rule was needed.
#[derive(Debug, Default)]
pub(crate) struct Hits(pub(crate) BTreeMap<Rule, usize>);

impl Hits {
    pub(crate) fn count(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }

    /// # Panics
    /// If a rule explains more than a hundredth of the instances.
    pub(crate) fn check(&self, instances: usize) {
        let most = (instances / 100).max(3);
        for (rule, count) in &self.0 {
            assert!(*count <= most, "{rule:?} explains {count} instances, {most} are allowed");
        }
    }
}
