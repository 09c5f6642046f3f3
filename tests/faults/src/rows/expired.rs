//! Watches whose place is gone: 410, in both of its forms.

use berth_stand::try_wait_for;

use super::Row;
use super::server::LONG;
use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::{Asked, Fault, Requests, Rule, WatchInjection};
use crate::scene::Scene;

pub(super) const COMPACTED: Row = Row {
    id: "F05",
    title: "etcd is compacted and kube-apiserver restarted while the watches bring nothing",
    must: "list once for each 410, whether it is the answer or comes in the stream",
    slow: true,
    repeat: compacted,
    ..Row::PLAIN
};

/// How the scheduler is kept from hearing what is compacted afterwards.
enum Deaf {
    Stopped,
    Silent(#[expect(dead_code, reason = "it ends when it is dropped")] WatchInjection),
}

fn compacted(scene: &mut Scene) -> Outcome {
    let user = scene.scheduler()?.user.clone();
    let before = expired(scene, &user);
    // The last place that the watches know of is one that is compacted then.
    scene.create_burst(8)?;
    scene.all_bound(SOON)?;
    scene.is_told(&user)?;
    let deaf = match scene.repeat().is_multiple_of(2) {
        true => {
            scene.scheduler()?.signal("STOP")?;
            Deaf::Stopped
        }
        false => Deaf::Silent(scene.proxy.watches("").user(&user).black_hole()),
    };
    scene.delete_pod("p-0")?;
    scene.create_pod("late", 1)?;
    scene.compact()?;
    scene.stand.restart_apiserver()?;
    // kube-apiserver tells it in the stream. Others answer so, and so does a list's second page.
    let gone = Fault::Refuse { status: 410, retry_after_s: None };
    let watches = Requests::all().user(&user).resource("nodes").when(Asked::is_watch).first();
    let answered = scene.proxy.inject(Rule::on(watches).then(gone));
    if let Deaf::Stopped = deaf {
        scene.scheduler()?.signal("CONT")?;
    }
    drop(deaf);
    scene.all_bound(LONG)?;
    answered.wait_effective(1, LONG)?;
    scene.list_was_spoiled(&user, "nodes");
    let in_stream = || (expired(scene, &user) > before).then_some(());
    try_wait_for(SOON, "the server tells a watch 410", in_stream)?;
    scene.took_effect(1);
    Ok(())
}

/// Returns how many 410s the server has sent.
fn expired(scene: &Scene, user: &str) -> u64 {
    let resources = ["pods", "nodes"];
    resources.map(|resource| scene.proxy.watches(resource).user(user).expired()).iter().sum()
}
