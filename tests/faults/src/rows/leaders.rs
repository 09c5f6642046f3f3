//! Two leaders, or one whose Lease is no longer what it was.

use std::thread::sleep;
use std::time::Duration;

use berth_stand::{Patch, try_wait_for};
use serde_json::json;

use super::Row;
use super::election::{self, PODS, burst_under_way, n_bound_by, start, successor, take, writes_of};
use super::server::LONG;
use crate::failed::Outcome;
use crate::proxy::{Ending, Exchange, Fault, Requests, Rule};
use crate::scene::{Scene, check, holder};
use crate::stage::Setting;
use crate::{ELECTION, SOON};

/// Binds that Berth has under way at a time; the rest of a burst waits inside.
const UNDER_WAY: u64 = 32;

pub(super) const TWO_LEADERS: Row = Row {
    id: "F36",
    title: "the leader stands still until another leads, and wakes with binds waiting",
    must: "send nothing on waking, exit 1; the other binds all",
    setting: Setting::ELECTING,
    prepare: election::prepare,
    repeat: two_leaders,
    ..Row::PLAIN
};

fn two_leaders(scene: &mut Scene) -> Outcome {
    let old = scene.leader()?;
    let binds = Rule::on(Requests::binds().user(&old)).hold();
    let held = scene.proxy.inject(binds.then(Fault::CutRequest(Ending::Close)));
    let from = scene.proxy.n_exchanges();
    scene.create_burst(PODS)?;
    let wait = || (held.held() >= UNDER_WAY).then_some(());
    try_wait_for(SOON, "binds are under way, and others wait", wait)?;
    let sleeper = take(scene, &old)?;
    sleeper.signal("STOP")?;
    let new = successor(scene, &old)?;
    let binds = || (n_bound_by(scene, &new, from) > 0).then_some(());
    try_wait_for(SOON, "the new leader binds", binds)?;
    let woken = scene.proxy.n_exchanges();
    // Cut, so that what the sleeper had sent does not come to the server after all.
    held.release();
    sleeper.signal("CONT")?;
    let code = sleeper.exit_code()?;
    scene.took_effect(1);
    let writes = writes_of(scene, &old, woken);
    drop(held);
    start(scene, &old)?;
    scene.all_bound(SOON)?;
    check(writes.is_empty(), format!("sent on waking:\n{writes}"))?;
    check(code == Some(1), format!("the old leader's exit code is {code:?}"))
}

pub(super) const MEDDLED: Row = Row {
    id: "F38",
    title: "the leader's Lease is deleted, given to another, or freed by somebody else",
    must: "count as lost at once: write no more, exit 1; a standby takes over",
    setting: Setting::ELECTING,
    prepare: election::prepare,
    repeat: meddled,
    ..Row::PLAIN
};

fn meddled(scene: &mut Scene) -> Outcome {
    let old = scene.leader()?;
    let (slow, from) = burst_under_way(scene)?;
    match scene.repeat() % 3 {
        0 => drop(scene.api.delete(&ELECTION.path())?),
        1 => give_away(scene)?,
        _ => {
            let freed = json!({"spec": {"holderIdentity": ""}});
            scene.api.patch(&ELECTION.path(), Patch::Merge, &freed)?;
        }
    }
    let code = take(scene, &old)?.exit_code()?;
    scene.took_effect(1);
    check(code == Some(1), format!("the old leader's exit code is {code:?}"))?;
    start(scene, &old)?;
    drop(slow);
    scene.leader()?;
    scene.all_bound(LONG)?;
    no_identity_comes_twice(scene, from)
}

/// Made anew, because the auditor would take an edited one's holder for a replica that took it early.
pub(super) fn give_away(scene: &Scene) -> Outcome {
    let mut lease = scene.api.get(&ELECTION.path())?;
    lease["metadata"] = json!({"namespace": ELECTION.namespace, "name": ELECTION.name});
    lease["spec"]["holderIdentity"] = json!("somebody-else");
    scene.api.delete(&ELECTION.path())?;
    // The leader may be faster: then it has lost it all the same.
    match scene.api.create_object(&lease) {
        Err(error) if error.status() != Some(409) => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Schedulers on one host go by different names, and so do one and its successor.
fn no_identity_comes_twice(scene: &Scene, from: usize) -> Outcome {
    let exchanges = scene.proxy.exchanges(from);
    let holders = exchanges.iter().filter_map(|e| Some((holder(e)?, e.asked.user.as_str())));
    let holders: Vec<_> = holders.filter(|(name, _)| !name.is_empty()).collect();
    let twice =
        |(name, user): &&(String, &str)| holders.iter().any(|(n, u)| n == name && u != user);
    let shared = holders.iter().find(twice);
    check(shared.is_none(), format!("an identity is used by two: {shared:?}"))
}

pub(super) const CUT_OFF: Row = Row {
    id: "F02-lease",
    title: "kube-apiserver stands still for 1 s, or until the leader must step down",
    must: "stay leader within the renewDeadline; after it send nothing, exit 1",
    setting: Setting::ELECTING,
    prepare: election::prepare,
    repeat: cut_off,
    ..Row::PLAIN
};

fn cut_off(scene: &mut Scene) -> Outcome {
    let old = scene.leader()?;
    let (slow, from) = burst_under_way(scene)?;
    scene.stand.signal_apiserver("STOP")?;
    let code = match scene.repeat().is_multiple_of(2) {
        true => Ok(None),
        false => take(scene, &old)?.exit_code().map(Some),
    };
    if let Ok(None) = code {
        sleep(Duration::from_secs(1));
    }
    let open = scene.proxy.count(from, Exchange::is_open);
    scene.stand.signal_apiserver("CONT")?;
    drop(slow);
    match code? {
        None => {
            scene.took_effect(u64::from(open > 0));
            scene.all_bound(LONG)?;
            let now = scene.leader()?;
            check(now == old, format!("{old} led, and now {now} does"))
        }
        Some(code) => {
            scene.took_effect(1);
            check(code == Some(1), format!("the exit code is {code:?}"))?;
            start(scene, &old)?;
            scene.all_bound(LONG)
        }
    }
}

pub(super) const STARVED: Row = Row {
    id: "F43",
    title: "the leader has a tenth of its time, in turns of 0.1, 0.5 or 2.5 s",
    must: "renew or step down; send nothing beyond the Lease; lose no pod",
    setting: Setting::ELECTING,
    prepare: election::prepare,
    repeat: starved,
    ..Row::PLAIN
};

/// How long the leader is starved, at least.
const STARVING: Duration = Duration::from_secs(5);

fn starved(scene: &mut Scene) -> Outcome {
    let old = scene.leader()?;
    let turn = [100, 500, 2500][usize::try_from(scene.draw(3)).unwrap_or_default()];
    let turn = Duration::from_millis(turn);
    let from = scene.proxy.n_exchanges();
    let mut starving = take(scene, &old)?;
    scene.create_burst(PODS)?;
    let turns = STARVING.as_millis() / turn.as_millis();
    for _ in 0..turns {
        if starving.ended().is_some() {
            break;
        }
        starving.signal("STOP")?;
        sleep(turn.mul_f64(0.9));
        starving.signal("CONT")?;
        sleep(turn.mul_f64(0.1));
    }
    let ended = starving.ended();
    let sent = scene.proxy.count(from, |exchange| exchange.asked.user == old);
    scene.took_effect(u64::from(sent > 0));
    match ended {
        None => scene.schedulers.insert(0, starving),
        Some(status) => {
            let code = status.code();
            check(code == Some(1), format!("the starved one's exit code is {code:?}"))?;
            start(scene, &old)?;
        }
    }
    scene.all_bound(LONG)
}
