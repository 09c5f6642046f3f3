//! I9: nothing is sent without the Lease.

use std::collections::{BTreeMap, BTreeSet};

use crate::auditor::{LeaseRule, Replica};
use crate::history::History;
use crate::judge::{Invariant, Limits, Report};
use crate::moment::Moment;
use crate::objects::{Name, Object};
use crate::wire::WireBody;

/// One state of the Lease in the store.
struct State {
    revision: i64,
    received: Moment,
    holder: String,
    renewed: Option<Moment>,
    /// The Lease was deleted since the state before.
    is_new: bool,
}

/// A write to the Lease that its sender knows to have succeeded.
struct Hold {
    sent: Moment,
    /// Nothing until it is learned from the store.
    is_release: Option<bool>,
}

/// What one replica has sent, in order.
struct Sender<'a> {
    replica: &'a Replica,
    rule: &'a LeaseRule,
    holds: Vec<Hold>,
    writes: Vec<(Moment, String)>,
}

/// Judges every replica that has a Lease.
pub(crate) fn judge(history: &History, limits: &Limits, report: &mut Report) {
    let mut leases: BTreeMap<Name, Vec<Sender<'_>>> = BTreeMap::new();
    for replica in &history.replicas {
        if let Some(rule) = &replica.lease {
            let name = Name { namespace: rule.namespace.clone(), name: rule.name.clone() };
            let sender = sender(history, replica, rule, &name);
            leases.entry(name).or_default().push(sender);
        }
    }
    if !leases.is_empty() && !history.has_audit_log && history.sent.is_empty() {
        let text = "I9 was not judged: there is neither an audit log nor a proxy".to_owned();
        report.problems.push(text);
    }
    for (name, senders) in &mut leases {
        let states = states(history, name);
        let holders = learn_holders(&states, senders);
        learn_releases(&states, &holders, senders, limits);
        judge_takeovers(&states, &holders, senders, limits, report);
        for index in 0..senders.len() {
            judge_own_fence(&senders[index], limits, report);
            judge_against_others(index, senders, limits, report);
        }
    }
}

/// Where a proxy has seen this user at all, the wire's times count, else the log's.
fn sender<'a>(
    history: &History,
    replica: &'a Replica,
    rule: &'a LeaseRule,
    lease: &Name,
) -> Sender<'a> {
    let (mut holds, mut writes) = (Vec::new(), Vec::new());
    let on_wire = history.sent.iter().filter(|sent| sent.user == replica.user);
    for sent in on_wire.clone() {
        let is_write = !matches!(sent.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        let succeeded = sent.answer.is_some_and(|(_, status)| (200..300).contains(&status));
        if is_write && is_lease(&sent.target, lease) && succeeded {
            let is_release = match &sent.body {
                WireBody::Lease { holder } => Some(holder.is_empty()),
                WireBody::Bind { .. } | WireBody::Other => None,
            };
            holds.push(Hold { sent: sent.at, is_release });
        } else if is_write && !sent.target.is_lease() && !sent.target.is_review() {
            let what = format!("{} of {}", sent.method, described(&sent.target));
            writes.push((sent.at, what));
        }
    }
    let (no_holds, no_writes) = (holds.is_empty(), on_wire.count() == 0);
    for request in history.requests.iter().filter(|request| request.user == replica.user) {
        if !request.is_write() {
            continue;
        }
        if is_lease(&request.target, lease) && request.succeeded() && no_holds {
            holds.push(Hold { sent: request.received, is_release: None });
        } else if no_writes && !request.target.is_lease() && !request.target.is_review() {
            let what = format!("{} of {}", request.verb, described(&request.target));
            writes.push((request.received, what));
        }
    }
    Sender { replica, rule, holds, writes }
}

/// The name of a Lease that is made need not be in the path.
fn is_lease(target: &crate::wire::Target, lease: &Name) -> bool {
    let name = &target.name;
    target.is_lease()
        && name.namespace == lease.namespace
        && (name.name.is_empty() || name.name == lease.name)
}

fn described(target: &crate::wire::Target) -> String {
    let crate::wire::Target { resource, subresource, name, .. } = target;
    format!("{resource} {name} {subresource}").trim_end().to_owned()
}

fn states(history: &History, lease: &Name) -> Vec<State> {
    let mut states = Vec::new();
    let (mut key, mut is_new) = (None, false);
    for change in &history.changes.list {
        match &change.object {
            Some(Object::Lease(found)) if found.name == *lease => {
                states.push(State {
                    revision: change.revision,
                    received: change.received,
                    holder: found.holder.clone(),
                    renewed: found.renewed,
                    is_new,
                });
                (key, is_new) = (Some(&change.key), false);
            }
            None if key == Some(&change.key) => is_new = true,
            _ => {}
        }
    }
    states
}

/// Returns which sender, by index, goes by which identity: the one whose writes follow most often
/// right upon the time that the identity has written into the Lease.
fn learn_holders(states: &[State], senders: &[Sender<'_>]) -> BTreeMap<String, usize> {
    let mut votes: BTreeMap<&str, BTreeMap<usize, u64>> = BTreeMap::new();
    for state in states.iter().filter(|state| !state.holder.is_empty()) {
        let about = state.renewed.unwrap_or(state.received);
        let distance = |sender: &Sender<'_>| {
            let gaps = sender.holds.iter().map(|hold| hold.sent.0.abs_diff(about.0));
            gaps.min()
        };
        let near = senders.iter().enumerate().filter_map(|(at, s)| Some((distance(s)?, at)));
        if let Some((_, at)) = near.min() {
            *votes.entry(&state.holder).or_default().entry(at).or_default() += 1;
        }
    }
    let most =
        |votes: &BTreeMap<usize, u64>| votes.iter().max_by_key(|(_, n)| **n).map(|(at, _)| *at);
    votes.iter().filter_map(|(name, votes)| Some(((*name).to_owned(), most(votes)?))).collect()
}

/// The log does not tell what a write to the Lease said: the store does.
fn learn_releases(
    states: &[State],
    holders: &BTreeMap<String, usize>,
    senders: &mut [Sender<'_>],
    limits: &Limits,
) {
    for pair in states.windows(2) {
        let [before, state] = pair else { continue };
        let released = !before.holder.is_empty() && state.holder.is_empty();
        let holder = holders.get(&before.holder).copied().filter(|_| released);
        let Some(sender) = holder.and_then(|at| senders.get_mut(at)) else { continue };
        let known_by = state.received + limits.clock_slack;
        let mut holds = sender.holds.iter_mut().rev();
        if let Some(hold) = holds.find(|hold| hold.sent <= known_by) {
            hold.is_release.get_or_insert(true);
        }
    }
}

/// A Lease that is neither free nor expired is not taken from another replica.
fn judge_takeovers(
    states: &[State],
    holders: &BTreeMap<String, usize>,
    senders: &[Sender<'_>],
    limits: &Limits,
    report: &mut Report,
) {
    for pair in states.windows(2) {
        let [before, state] = pair else { continue };
        let (Some(old), Some(new)) = (holders.get(&before.holder), holders.get(&state.holder))
        else {
            continue;
        };
        let duration = senders[*new].rule.lease_duration;
        let waited = state.received.since(before.received) + limits.clock_slack;
        if before.holder != state.holder && !state.is_new && waited < duration {
            let (old, new) = (&senders[*old].replica.user, &senders[*new].replica.user);
            let seconds = state.received.since(before.received).as_secs_f32();
            let text = format!("{new} took the Lease {seconds:.1} s after {old} had renewed it");
            report.convict(Invariant::I9, state.revision, text);
        }
    }
}

impl Sender<'_> {
    /// Returns the last write to the Lease up to `moment`.
    fn last_hold(&self, moment: Moment) -> Option<&Hold> {
        let after = self.holds.partition_point(|hold| hold.sent <= moment);
        self.holds[..after].last()
    }
}

fn judge_own_fence(sender: &Sender<'_>, limits: &Limits, report: &mut Report) {
    let user = &sender.replica.user;
    let deadline = sender.rule.renew_deadline;
    let mut told = BTreeSet::new();
    for (at, what) in &sender.writes {
        let hold = sender.last_hold(*at);
        let fault = match hold {
            None if sender.last_hold(*at + limits.clock_slack).is_some() => None,
            None => Some("before it had the Lease".to_owned()),
            Some(hold) if hold.is_release == Some(true) => {
                let late = at.since(hold.sent);
                (late > limits.clock_slack)
                    .then(|| format!("{:.3} s after it had released the Lease", late.as_secs_f32()))
            }
            Some(hold) => {
                let late = at.since(hold.sent);
                (late > deadline + limits.clock_slack).then(|| {
                    let [late, deadline] = [late, deadline].map(|time| time.as_secs_f32());
                    format!("{late:.3} s after its last renewal, of {deadline} s")
                })
            }
        };
        if let Some(fault) = fault
            && told.insert(hold.map(|hold| hold.sent))
        {
            report.convict(Invariant::I9, None, format!("{user} sent {what} at {at}, {fault}"));
        }
    }
}

/// Whoever comes after waits until nothing of the one before can still be under way.
fn judge_against_others(
    index: usize,
    senders: &[Sender<'_>],
    limits: &Limits,
    report: &mut Report,
) {
    let (sender, mut told) = (&senders[index], BTreeSet::new());
    let user = &sender.replica.user;
    for (at, what) in &sender.writes {
        for (other_index, other) in senders.iter().enumerate().filter(|(at, _)| *at != index) {
            let Some(hold) = other.last_hold(*at) else { continue };
            // The other came after: it is the one to wait, and this one writes by its own renewals.
            if sender.last_hold(*at).is_some_and(|own| own.sent < hold.sent) {
                continue;
            }
            let wait = other.rule.renew_deadline + limits.write_timeout;
            let waited = at.since(hold.sent);
            let is_early = waited + limits.clock_slack < wait;
            let was_released = hold.is_release == Some(true);
            if is_early && !was_released && told.insert((other_index, hold.sent)) {
                let (other, seconds) = (&other.replica.user, waited.as_secs_f32());
                let text = format!(
                    "{user} sent {what} at {at}, {seconds:.3} s after the last renewal of {other}"
                );
                report.convict(Invariant::I9, None, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Builder, pod_path};
    use crate::report::Invariant::I9;
    use crate::wire::WireBody;

    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";

    /// The first replica leads and has written.
    fn led() -> Builder {
        let mut history = Builder::electing();
        history.lease("berth-0", "host-a_1");
        write(&mut history, "berth-0");
        history
    }

    fn write(history: &mut Builder, user: &str) {
        let path = format!("{}/status", pod_path("p"));
        history.logged(user, "patch", &path, Some(200));
    }

    fn on_wire(history: &mut Builder, user: &str) {
        let path = format!("{}/status", pod_path("p"));
        history.sent(user, "PATCH", &path, WireBody::Other, Some(200));
    }

    #[test]
    fn renewals_carry_the_fence_along() {
        let mut history = led();
        for _ in 0..5 {
            history.wait(8.0).lease("berth-0", "host-a_1");
            write(&mut history, "berth-0");
        }
        history.wait(9.9);
        write(&mut history, "berth-0");
        history.acquit();
    }

    #[test]
    fn a_write_behind_the_deadline_is_convicted_once_a_renewal() {
        let mut history = led();
        history.wait(10.5);
        write(&mut history, "berth-0");
        write(&mut history, "berth-0");
        let text = history.convict(I9);
        assert!(text.contains("berth-0 sent patch of pods default/p status"), "{text}");
        assert!(text.contains("s after its last renewal"), "{text}");
    }

    #[test]
    fn a_renewal_that_failed_carries_nothing() {
        let mut history = led();
        history.wait(8.0).logged("berth-0", "update", LEASE, Some(500));
        history.wait(1.0).logged("berth-0", "update", LEASE, None);
        history.wait(2.0);
        write(&mut history, "berth-0");
        history.convict(I9);
    }

    #[test]
    fn reads_reviews_and_the_lease_itself_are_no_writes() {
        let mut history = led();
        history.wait(60.0);
        history.logged("berth-0", "get", &pod_path("p"), Some(200));
        let review = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        history.logged("berth-0", "create", review, Some(201));
        history.logged("berth-0", "update", LEASE, Some(409)).acquit();
        // Events are.
        let events = "/apis/events.k8s.io/v1/namespaces/default/events";
        history.logged("berth-0", "create", events, Some(201)).convict(I9);
    }

    #[test]
    fn nobody_writes_before_having_the_lease() {
        let mut history = Builder::electing();
        write(&mut history, "berth-0");
        assert!(history.convict(I9).contains("before it had the Lease"));
    }

    #[test]
    fn after_a_release_the_next_one_writes_at_once_and_the_old_one_no_more() {
        let mut history = led();
        history.lease("berth-0", "").lease("berth-1", "host-b_2");
        write(&mut history, "berth-1");
        history.acquit();
        history.wait(1.0);
        write(&mut history, "berth-0");
        let report = history.judge();
        assert_eq!(report.of(I9).len(), 1, "{report}");
        assert!(report.to_string().contains("after it had released the Lease"), "{report}");
    }

    #[test]
    fn a_takeover_waits_for_the_fence_and_the_writes_under_way() {
        let mut history = led();
        history.wait(15.1).lease("berth-1", "host-b_2");
        write(&mut history, "berth-1");
        history.acquit();

        let mut history = led();
        history.wait(11.0).lease("berth-1", "host-b_2");
        write(&mut history, "berth-1");
        let report = history.judge();
        assert_eq!(report.of(I9).len(), 2, "{report}");
        assert!(report.to_string().contains("berth-1 took the Lease 11.0 s after"), "{report}");
    }

    #[test]
    fn a_lease_that_was_deleted_frees_nobody_from_waiting() {
        let mut history = led();
        history.lease_gone().wait(1.0).lease("berth-1", "host-b_2");
        write(&mut history, "berth-1");
        assert!(history.convict(I9).contains("after the last renewal of berth-0"));

        let mut history = led();
        history.lease_gone().wait(1.0).lease("berth-1", "host-b_2").wait(14.5);
        history.lease("berth-1", "host-b_2");
        write(&mut history, "berth-1");
        history.acquit();
    }

    /// Both replicas hold the Lease in the proxy's eyes: the first one since before a third party
    /// emptied it, the second one since a second after that.
    fn emptied() -> Builder {
        let mut history = Builder::electing();
        let holder = |name: &str| WireBody::Lease { holder: name.into() };
        history.lease_in_store("host-a_1");
        history.sent("berth-0", "PUT", LEASE, holder("host-a_1"), Some(200));
        on_wire(&mut history, "berth-0");
        history.lease_in_store("").wait(1.0).lease_in_store("host-b_2");
        history.sent("berth-1", "PUT", LEASE, holder("host-b_2"), Some(200));
        history
    }

    #[test]
    fn who_led_when_the_lease_was_emptied_writes_by_its_own_renewals() {
        let mut history = emptied();
        history.wait(1.0);
        on_wire(&mut history, "berth-0");
        history.acquit();
        // The rival has waited until nothing of the first one can be under way.
        history.wait(14.0);
        let holder = WireBody::Lease { holder: "host-b_2".into() };
        history.sent("berth-1", "PUT", LEASE, holder, Some(200));
        on_wire(&mut history, "berth-1");
        history.acquit();
    }

    #[test]
    fn who_takes_an_emptied_lease_and_does_not_wait_is_convicted() {
        let mut history = emptied();
        history.wait(1.0);
        on_wire(&mut history, "berth-1");
        let text = history.convict(I9);
        assert!(text.contains("berth-1 sent"), "{text}");
        assert!(text.contains("after the last renewal of berth-0"), "{text}");
    }

    #[test]
    fn two_who_use_one_identity_are_told_apart_by_their_users() {
        let mut history = led();
        history.wait(1.0).lease("berth-1", "host-a_1");
        write(&mut history, "berth-1");
        history.convict(I9);
    }

    #[test]
    fn the_wires_times_count_where_there_are_some() {
        // The server was stopped: what was sent in time was received late.
        let mut history = led();
        history.sent("berth-0", "PUT", LEASE, WireBody::Lease { holder: "x".into() }, Some(200));
        on_wire(&mut history, "berth-0");
        history.wait(60.0);
        write(&mut history, "berth-0");
        history.acquit();
        on_wire(&mut history, "berth-0");
        history.convict(I9);
    }

    #[test]
    fn a_renewal_whose_answer_was_lost_carries_nothing() {
        let mut history = Builder::electing();
        let holder = || WireBody::Lease { holder: "x".into() };
        history.sent("berth-0", "PUT", LEASE, holder(), Some(200));
        history.wait(9.0).sent("berth-0", "PUT", LEASE, holder(), None).wait(5.0);
        on_wire(&mut history, "berth-0");
        history.convict(I9);
    }

    #[test]
    fn a_lease_of_somebody_who_is_not_judged_binds_nobody() {
        let mut history = Builder::electing();
        history.lease_in_store("stranger").wait(16.0).lease("berth-0", "host-a_1");
        write(&mut history, "berth-0");
        history.acquit();
    }

    #[test]
    fn missing_evidence_is_told() {
        let mut history = Builder::electing();
        history.history.has_audit_log = false;
        assert_eq!(history.judge().problems.len(), 1);
    }
}
