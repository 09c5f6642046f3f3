//! Watches whose place is gone: 410, in both of its forms.

use berth_stand::try_wait_for;
use serde_json::json;

use super::Row;
use super::server::LONG;
use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::{Asked, Ending, Fault, Injection, Requests, Rule};
use crate::scene::Scene;

pub(super) const COMPACTED: Row = Row {
    id: "F05",
    title: "etcd is compacted and kube-apiserver restarted while the watches bring nothing",
    must: "list once for each 410, whether it is the answer or comes in the stream",
    once: true,
    repeat: compacted,
    ..Row::PLAIN
};

/// How the scheduler is kept from hearing of what is compacted afterwards.
enum Deaf {
    /// It hears when it is woken what was in its sockets, and no more.
    Stopped,
    /// Its watches are cut, and its new ones kept from the server.
    Held(Injection),
}

fn compacted(scene: &mut Scene) -> Outcome {
    let user = scene.scheduler()?.user.clone();
    let before = expired(scene, &user);
    scene.create_burst(8)?;
    scene.all_bound(SOON)?;
    scene.is_told(&user)?;
    let deaf = deafen(scene, &user)?;
    scene.delete_pod("p-0")?;
    scene.create_pod("late", 1)?;
    // So that the last change of pods is not the last of all, from which a watch could go on.
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "generateName": "other-"},
    });
    scene.api.create("/api/v1/namespaces/default/configmaps", &other)?;
    scene.compact()?;
    scene.stand.restart_apiserver()?;
    // kube-apiserver tells it in the stream. Others answer so, and so does a list's second page.
    let gone = Fault::Refuse { status: 410, retry_after_s: None };
    let watches = Requests::all().user(&user).resource("nodes").when(Asked::is_watch).first();
    let answered = scene.proxy.inject(Rule::on(watches).then(gone));
    match deaf {
        Deaf::Stopped => scene.scheduler()?.signal("CONT")?,
        Deaf::Held(held) => drop(held),
    }
    scene.all_bound(LONG)?;
    answered.wait_effective(1, LONG)?;
    scene.list_was_spoiled(&user, "nodes");
    let in_stream = || (expired(scene, &user) > before).then_some(());
    try_wait_for(SOON, "the server tells a watch 410", in_stream)?;
    scene.took_effect(1);
    Ok(())
}

fn deafen(scene: &mut Scene, user: &str) -> Outcome<Deaf> {
    if scene.repeat().is_multiple_of(2) {
        scene.scheduler()?.signal("STOP")?;
        return Ok(Deaf::Stopped);
    }
    let watches = Requests::all().user(user).when(Asked::is_watch);
    let held = scene.proxy.inject(Rule::on(watches).hold());
    scene.proxy.watches("").user(user).cut(Ending::Close);
    held.wait_held(SOON)?;
    Ok(Deaf::Held(held))
}

/// Returns how many 410s the server has sent.
fn expired(scene: &Scene, user: &str) -> u64 {
    let resources = ["pods", "nodes"];
    resources.map(|resource| scene.proxy.watches(resource).user(user).expired()).iter().sum()
}
