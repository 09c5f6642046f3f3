//! The election without IO, on clocks that the test sets.

use std::time::Duration;

use berth_core::types::Span;
use k8s_openapi::jiff;
use serde_json::{Value, json};

use super::moment::Moment;
use super::record::{Draft, Record};
use super::{Action, Elector, Observation, Rules, uuid};
use crate::config::LeaderElection;

/// Both clocks at so many milliseconds.
fn at(ms: u64) -> Moment {
    clocks(ms, ms)
}

fn clocks(monotonic: u64, boottime: u64) -> Moment {
    Moment {
        monotonic: Duration::from_millis(monotonic),
        boottime: Duration::from_millis(boottime),
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn elector() -> Elector {
    Elector::new(Rules::new(&LeaderElection::default()), "me".to_owned())
}

/// A Lease of 15 s; `renewed` is what its holder's clock said.
fn lease(holder: &str, renewed: &str, transitions: i64, version: &str) -> Record {
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
        "acquireTime": "2000-01-01T00:00:00.000000Z", "renewTime": renewed,
    });
    let metadata = json!({"name": "l", "resourceVersion": version, "labels": {"a": "b"}});
    Record::read(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The Lease as its holder leaves it who gives it up.
fn released(transitions: i64, version: &str) -> Record {
    let spec = json!({
        "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": transitions,
    });
    Record::read(json!({"metadata": {"resourceVersion": version}, "spec": spec})).unwrap()
}

fn draft(action: Action) -> Draft {
    match action {
        Action::Write(draft) => draft,
        other => panic!("no write: {other:?}"),
    }
}

fn lost(action: Action) -> String {
    match action {
        Action::Lost(why) => why,
        other => panic!("not lost: {other:?}"),
    }
}

/// Wins a free Lease at 0 ms.
fn leader() -> Elector {
    let mut elector = elector();
    assert_eq!(elector.step(at(0), Observation::Time), Action::Read);
    assert_eq!(draft(elector.step(at(0), Observation::Absent)).transitions, 0);
    let won = elector.step(at(100), Observation::Written(lease("me", "t0", 0, "1")));
    assert_eq!(won, Action::Wait(ms(2000)));
    assert_eq!(elector.renewed(), Some(at(0)), "from when it was sent on");
    elector
}

#[test]
fn a_leader_renews_without_reading_and_reads_once_when_that_fails() {
    let mut elector = leader();
    let renewal = draft(elector.step(at(2100), Observation::Time));
    assert_eq!((renewal.transitions, renewal.holder.as_str()), (0, "me"));
    // 409: a label was set, say.
    assert_eq!(elector.step(at(2200), Observation::Failed), Action::Read);
    let ours = lease("me", "t0", 0, "5");
    let renewal = draft(elector.step(at(2300), Observation::Seen(ours.clone())));
    assert_eq!(renewal.base, Some(ours));
    assert_eq!(elector.step(at(2400), Observation::Failed), Action::Wait(ms(2000)));
    draft(elector.step(at(4400), Observation::Time));
    elector.step(at(4500), Observation::Written(lease("me", "t1", 0, "6")));
    assert_eq!(elector.renewed(), Some(at(4400)));
    assert_eq!(elector.time_left(at(5400)), Some(ms(9000)));
}

#[test]
fn a_leader_that_cannot_renew_stops_at_the_deadline_of_either_clock() {
    for late in [at(10_000), clocks(10_000, 0), clocks(0, 10_000), at(86_400_000)] {
        for observation in [
            Observation::Time,
            Observation::Failed,
            Observation::Seen(lease("me", "t0", 0, "1")),
            Observation::Written(lease("me", "t1", 0, "2")),
        ] {
            let why = lost(leader().step(late, observation));
            assert_eq!(why, "not renewed for 10s");
        }
    }
    assert!(matches!(leader().step(at(9_999), Observation::Time), Action::Write(_)));
    let mut elector = leader();
    draft(elector.step(at(9_500), Observation::Time));
    elector.step(at(9_600), Observation::Failed);
    assert_eq!(elector.step(at(9_600), Observation::Failed), Action::Wait(ms(400)));
}

#[test]
fn what_others_do_to_the_lease_ends_the_leadership() {
    let seen = |record| lost(leader().step(at(1000), Observation::Seen(record)));
    assert_eq!(seen(lease("you", "t1", 1, "2")), "you holds it");
    assert_eq!(seen(lease("", "t1", 0, "2")), "somebody has released it");
    assert_eq!(lost(leader().step(at(1000), Observation::Absent)), "it was deleted");
}

#[test]
fn a_standby_goes_by_the_changes_that_it_sees_and_not_by_what_the_times_say() {
    let mut elector = elector();
    // Its holder's clock is decades behind.
    let old = lease("you", "1970-01-01T00:00:00Z", 3, "1");
    assert_eq!(elector.step(at(0), Observation::Seen(old.clone())), Action::Wait(ms(2000)));
    assert_eq!(elector.step(at(2000), Observation::Time), Action::Read);
    // A label is no renewal.
    let labelled = lease("you", "1970-01-01T00:00:00Z", 3, "2");
    assert_eq!(elector.step(at(14_000), Observation::Seen(labelled)), Action::Wait(ms(1000)));
    // Any other time is one, also an earlier one.
    let renewed = lease("you", "1969-01-01T00:00:00Z", 3, "3");
    elector.step(at(14_500), Observation::Seen(renewed.clone()));
    let still = elector.step(at(29_499), Observation::Seen(renewed.clone()));
    assert_eq!(still, Action::Wait(ms(1)));
    let taken = draft(elector.step(at(29_500), Observation::Seen(renewed)));
    assert_eq!((taken.transitions, taken.holder.as_str()), (4, "me"));
}

#[test]
fn a_standby_that_slept_looks_before_it_judges() {
    let mut elector = elector();
    elector.step(at(0), Observation::Seen(lease("you", "t0", 0, "1")));
    assert_eq!(elector.step(at(90_000), Observation::Time), Action::Read);
    let renewed = lease("you", "t9", 0, "9");
    assert_eq!(
        elector.step(at(90_000), Observation::Seen(renewed.clone())),
        Action::Wait(ms(2000))
    );
    // Suspended: only one of the clocks went on.
    let after = clocks(91_000, 200_000);
    assert_eq!(elector.step(after, Observation::Seen(renewed)), Action::Wait(ms(2000)));
}

#[test]
fn a_new_leader_waits_until_the_old_ones_writes_have_ended() {
    let config = LeaderElection { lease_duration: Span::from_secs(12), ..Default::default() };
    let mut elector = Elector::new(Rules::new(&config), "me".to_owned());
    assert_eq!(elector.rules.write_timeout(), ms(2000));
    let mut theirs = lease("you", "t0", 0, "1");
    theirs.duration = ms(5000);
    elector.step(at(0), Observation::Seen(theirs.clone()));
    draft(elector.step(at(5000), Observation::Seen(theirs)));
    elector.step(at(5000), Observation::Written(lease("me", "t1", 1, "2")));
    // 10 s of renewDeadline and 2 s of timeout, since it was last seen to renew.
    assert_eq!(elector.fence_left(at(6000)), ms(6000));
    assert_eq!(elector.fence_left(clocks(12_000, 11_000)), ms(1000));
    assert_eq!(elector.fence_left(at(12_000)), Duration::ZERO);
}

#[test]
fn a_released_lease_is_taken_at_once_and_needs_no_fence() {
    let mut elector = elector();
    elector.step(at(0), Observation::Seen(lease("you", "t0", 7, "1")));
    assert_eq!(elector.step(at(10), Observation::Changed), Action::Read);
    let taken = draft(elector.step(at(20), Observation::Seen(released(7, "2"))));
    assert_eq!(taken.transitions, 8);
    elector.step(at(30), Observation::Written(lease("me", "t2", 8, "3")));
    assert_eq!(elector.fence_left(at(30)), Duration::ZERO);
}

#[test]
fn a_lease_that_was_taken_from_its_holder_is_free_but_fenced() {
    let mut elector = elector();
    elector.step(at(0), Observation::Seen(lease("you", "t0", 7, "1")));
    // Its holder would have left one second, and may not know of it yet.
    draft(elector.step(at(20), Observation::Seen(lease("", "t0", 7, "2"))));
    elector.step(at(30), Observation::Written(lease("me", "t2", 8, "3")));
    assert_eq!(elector.fence_left(at(30)), ms(14_990));
}

#[test]
fn who_loses_the_race_waits_and_who_won_it_unknowingly_leads() {
    let mut elector = elector();
    draft(elector.step(at(0), Observation::Absent));
    assert_eq!(elector.step(at(10), Observation::Failed), Action::Wait(ms(2000)));
    assert_eq!(elector.renewed(), None);
    // The answer was lost, not the write.
    let ours = lease("me", "t0", 4, "2");
    let again = draft(elector.step(at(2010), Observation::Seen(ours)));
    assert_eq!(again.transitions, 4);
    // An answer that comes too late wins nothing, but loses nothing either.
    let late = elector.step(at(12_010), Observation::Written(lease("me", "t1", 4, "3")));
    assert_eq!((late, elector.renewed()), (Action::Read, None));
}

#[test]
fn a_release_keeps_the_transitions_and_ends_the_leadership() {
    let mut elector = leader();
    let release = elector.release(at(1000)).unwrap();
    assert_eq!((release.holder.as_str(), release.seconds, release.transitions), ("", 1, 0));
    assert_eq!(elector.release(at(1000)), None);
    assert_eq!(leader().release(at(10_000)), None, "it may be another's by now");
}

#[test]
fn requests_change_the_spec_and_nothing_else() {
    let rules = Rules::new(&LeaderElection::default());
    let sent = |draft: Draft| {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let call = draft.call(&rules, now, ms(5000));
        let body: Value = serde_json::from_slice(&call.body.unwrap().1).unwrap();
        (format!("{} {}", call.method, call.path), body)
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let (line, body) = sent(Draft::create("me", ms(15_000)));
    assert_eq!(line, format!("POST {leases}?timeout=5000ms"));
    assert_eq!(body["metadata"], json!({"namespace": "kube-system", "name": "kube-scheduler"}));
    assert_eq!(body["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
    let (line, body) = sent(Draft::hold(lease("me", "t0", 2, "9"), "me", ms(15_900)));
    assert_eq!(line, format!("PUT {leases}/kube-scheduler?timeout=5000ms"));
    assert_eq!(body["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(body["metadata"]["resourceVersion"], "9");
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 2,
        "acquireTime": "2000-01-01T00:00:00.000000Z", "renewTime": "1970-01-01T00:00:00.000000Z",
    });
    assert_eq!(body["spec"], spec);
    let (_, body) = sent(Draft::hold(lease("you", "t0", 2, "9"), "me", ms(15_000)));
    assert_eq!(body["spec"]["acquireTime"], "1970-01-01T00:00:00.000000Z");
}

#[test]
fn identities_differ() {
    let (one, other) = (uuid().unwrap(), uuid().unwrap());
    assert_ne!(one, other);
    let lengths: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!((lengths, &one[14..15]), (vec![8, 4, 4, 4, 12], "4"));
}
