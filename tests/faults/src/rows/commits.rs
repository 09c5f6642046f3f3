//! Gangs whose scheduler dies, or leads no more, when some of their members are bound.

use std::time::Instant;

use berth_stand::try_wait_for;

use super::Row;
use super::election::{start, successor, take, writes_of};
use super::leaders::give_away;
use super::orphans::start_both;
use crate::failed::Outcome;
use crate::objects::{claim, claiming, member, owned};
use crate::proxy::{Ending, Exchange, Fault, Injection, Requests, Rule, Told};
use crate::scene::{Scene, check};
use crate::stage::Setting;
use crate::{ELECTION, SOON};

/// Members of the gang, each with a claim for one device.
const MEMBERS: usize = 8;
/// Three nodes of three: one is left when the gang is whole.
const NODES: u32 = 3;
const DEVICES: u32 = 3;

fn prepare(scene: &mut Scene) -> Outcome {
    scene.devices(NODES, DEVICES)?;
    start_both(scene)
}

pub(super) const KILLED: Row = Row {
    id: "F25",
    title: "SIGKILL between two binds of a gang of 8 with claims: before the k-th, when it is done, \
            after its answer",
    must: "the next one, waiting or new, completes the gang in 60 s, by what the objects say",
    setting: Setting::ELECTING,
    prepare,
    repeat: killed,
    ..Row::PLAIN
};

/// How far the k-th bind has come.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// The server never sees it.
    Sent,
    /// Its sender never hears of it.
    Done,
    Answered,
}

/// A commit that stands still.
struct Halted {
    /// In force for as long as this lives.
    _rules: Vec<Injection>,
    /// Holds the binds that the server is not to see.
    rest: Injection,
    /// Members that are bound.
    done: usize,
}

fn killed(scene: &mut Scene) -> Outcome {
    let at = [At::Sent, At::Done, At::Answered][scene.repeat() as usize % 3];
    let anew = (scene.repeat() / 3).is_multiple_of(2);
    let k = 1 + usize::try_from(scene.draw(MEMBERS as u64)).unwrap_or_default();
    let old = scene.leader()?;
    let halted = halted_commit(scene, k, at)?;
    match anew {
        true => scene.schedulers.clear(),
        // Dropping it kills it.
        false => drop(take(scene, &old)?),
    }
    scene.faults_ended();
    let dead = Instant::now();
    let open = |e: &Exchange| e.is_open() && e.asked.user == old;
    let closed = || (scene.proxy.count(0, open) == 0).then_some(());
    try_wait_for(SOON, "its connections are closed", closed)?;
    scene.took_effect(1);
    let bound = scene.members_bound("g")?;
    check(bound == halted.done, format!("{bound} are bound, not {}", halted.done))?;
    drop(halted);
    match anew {
        true => start_both(scene)?,
        false => drop(successor(scene, &old)?),
    }
    scene.gang_bound("g", MEMBERS, SOON.saturating_sub(dead.elapsed()))?;
    is_whole_and_leaves_one(scene)?;
    if anew { Ok(()) } else { start(scene, &old) }
}

pub(super) const UNLED: Row = Row {
    id: "F26",
    title: "the Lease is lost when a part of a gang of 8 with claims is bound: given to another, \
            deleted, or its leader stands still until another leads",
    must: "send nothing after it, exit 1; the next one completes the gang",
    setting: Setting::ELECTING,
    prepare,
    repeat: unled,
    ..Row::PLAIN
};

fn unled(scene: &mut Scene) -> Outcome {
    let k = 1 + usize::try_from(scene.draw(MEMBERS as u64)).unwrap_or_default();
    let old = scene.leader()?;
    let halted = halted_commit(scene, k, At::Sent)?;
    match scene.repeat() % 3 {
        0 => stands_still(scene, &old, halted)?,
        1 => loses(scene, &old, halted, give_away)?,
        _ => loses(scene, &old, halted, delete_lease)?,
    }
    is_whole_and_leaves_one(scene)
}

/// The leader wakes when the other has completed what it began.
fn stands_still(scene: &mut Scene, old: &str, halted: Halted) -> Outcome {
    let sleeper = take(scene, old)?;
    sleeper.signal("STOP")?;
    scene.faults_ended();
    successor(scene, old)?;
    // Its own binds are not held.
    scene.gang_bound("g", MEMBERS, SOON)?;
    let woken = scene.proxy.n_exchanges();
    halted.rest.release();
    sleeper.signal("CONT")?;
    let code = sleeper.exit_code()?;
    scene.took_effect(1);
    let writes = writes_of(scene, old, woken);
    drop(halted);
    start(scene, old)?;
    check(writes.is_empty(), format!("sent on waking:\n{writes}"))?;
    check(code == Some(1), format!("the old leader's exit code is {code:?}"))
}

/// The leader lives, and learns that it leads no more.
fn loses(
    scene: &mut Scene,
    old: &str,
    halted: Halted,
    lose: impl FnOnce(&Scene) -> Outcome,
) -> Outcome {
    lose(scene)?;
    let code = take(scene, old)?.exit_code()?;
    scene.took_effect(1);
    scene.faults_ended();
    check(code == Some(1), format!("the old leader's exit code is {code:?}"))?;
    let bound = scene.members_bound("g")?;
    check(bound == halted.done, format!("{bound} are bound, not {}", halted.done))?;
    drop(halted);
    scene.gang_bound("g", MEMBERS, SOON)?;
    start(scene, old)
}

fn delete_lease(scene: &Scene) -> Outcome {
    scene.api.delete(&ELECTION.path())?;
    Ok(())
}

/// Creates the gang, and stops its commit at the k-th bind. The binds of a gang go out together: those
/// that the server gets before are as many as they are in the order in which they come.
fn halted_commit(scene: &Scene, k: usize, at: At) -> Outcome<Halted> {
    let old = scene.leader()?;
    let binds = || Requests::binds().user(&old);
    let inject = |rule| scene.proxy.inject(rule);
    let answered = if at == At::Answered { k } else { k - 1 };
    let mut rules = vec![inject(Rule::on(binds().first_n(answered as u64)))];
    if at == At::Done {
        rules.push(inject(Rule::on(binds().first()).hold_answer()));
    }
    let done = answered + (rules.len() - 1);
    // Cut, so that what a sleeper has sent does not come to the server after all.
    let rest = inject(Rule::on(binds()).hold().then(Fault::CutRequest(Ending::Close)));
    let from = scene.proxy.n_exchanges();
    create_gang(scene)?;
    let halted = || {
        let told = |e: &Exchange| e.asked.is_bind() && e.told == Told::Status(201);
        let as_many = scene.proxy.count(from, told) == answered;
        let held: u64 = rules.iter().skip(1).map(Injection::held).sum();
        let all = done as u64 + rest.held() == MEMBERS as u64;
        (as_many && held == done.saturating_sub(answered) as u64 && all).then_some(())
    };
    try_wait_for(SOON, &format!("{done} binds are done, and the others wait"), halted)?;
    Ok(Halted { _rules: rules, rest, done })
}

/// Half of the gangs have no controller: their binds are tried first.
fn create_gang(scene: &Scene) -> Outcome {
    let names: Vec<String> = (0..MEMBERS).map(|n| format!("g-{n}")).collect();
    names.iter().try_for_each(|name| scene.create(&claim(name)).map(drop))?;
    let pod = |name: &String| member(claiming(name, &[name]), "g");
    let mut pods: Vec<_> = names.iter().map(pod).collect();
    if scene.draw(2) == 0 {
        pods = pods.into_iter().map(|pod| owned(pod, "g")).collect();
    }
    scene.create_gang("g", &pods)
}

/// Every member has its device and says of which commit it is. Of the next gang, which lacks one device,
/// nobody is bound.
fn is_whole_and_leaves_one(scene: &Scene) -> Outcome {
    let names: Vec<String> = (0..MEMBERS).map(|n| format!("g-{n}")).collect();
    scene.each_has_its_own(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    scene.notes_agree("g", MEMBERS)?;
    let late: Vec<_> =
        ["late-0", "late-1"].map(|name| member(claiming(name, &[name]), "late")).to_vec();
    ["late-0", "late-1"].iter().try_for_each(|name| scene.create(&claim(name)).map(drop))?;
    scene.create_gang("late", &late)?;
    for name in ["late-0", "late-1"] {
        scene.told(name, "Unschedulable")?;
    }
    scene.quiet()?;
    let bound = scene.members_bound("late")?;
    check(bound == 0, format!("{bound} of a gang of 2 are bound, and there is room for one"))
}
