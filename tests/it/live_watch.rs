//! `berth run` while the API server goes and comes back.

use berth_stand::{Options, Stand, wait_for};

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, gpus_by_node, n_bound, told};

const NODES: usize = 20;
const PODS: usize = 160;

#[test]
fn a_server_killed_in_mid_burst_costs_nothing() {
    let Some(mut stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    (0..NODES).for_each(|n| drop(create(&api, &gpu_node(&format!("n-{n}"), 8))));
    (0..PODS).for_each(|n| drop(create(&api, &gpu_pod(&format!("p-{n}"), 1))));
    // Slow enough that the server dies in the middle.
    let config = FAST.replace("qps: 2000, burst: 2000", "qps: 100, burst: 20");
    let berth = Berth::start(&stand, &config);
    wait_for(SOON, "the burst has begun", || (n_bound(&api) > 20).then_some(()));
    stand.kill_apiserver();
    stand.restart_apiserver().expect("the server comes back");
    wait_for(SOON, "all pods are bound", || (n_bound(&api) == PODS).then_some(()));
    let fullest = gpus_by_node(&api);
    assert!(fullest.iter().all(|(_, gpus)| *gpus <= 8), "{fullest:?}");

    the_watch_goes_on(&mut stand, &berth);
    assert_eq!(berth.terminate(), Some(0));
    ending_in_mid_burst_leaves_nothing_open(&stand);
}

/// Binds that were sent are let end, the others are left to the next scheduler.
fn ending_in_mid_burst_leaves_nothing_open(stand: &Stand) {
    let api = stand.client();
    let before = n_bound(&api);
    (0..60).for_each(|n| drop(create(&api, &gpu_pod(&format!("q-{n}"), 0))));
    let config = FAST.replace("qps: 2000, burst: 2000", "qps: 20, burst: 20");
    let berth = Berth::start(stand, &config);
    wait_for(SOON, "the burst has begun", || (n_bound(&api) > before + 5).then_some(()));
    assert_eq!(berth.terminate(), Some(0));
    let at_end = n_bound(&api);
    assert!(at_end < before + 60, "{at_end}");
    let berth = Berth::start(stand, FAST);
    wait_for(SOON, "all pods are bound", || (n_bound(&api) == before + 60).then_some(()));
    assert!(!berth.log().contains("unconfirmed_binds=1"));
    assert_eq!(berth.terminate(), Some(0));
}

/// After the server's restart a watch from an older version is answered with 410.
fn the_watch_goes_on(stand: &mut Stand, berth: &Berth) {
    let api = stand.client();
    create(&api, &gpu_pod("waits", 1));
    told(&api, "waits", "Unschedulable");
    let expired = || berth.log().matches("watch expired, listing again").count();
    let before = expired();
    stand.kill_apiserver();
    stand.restart_apiserver().expect("the server comes back");
    // Room is made while nobody looks.
    api.delete_now("/api/v1/namespaces/default/pods/p-0").expect("the pod is deleted");
    bound(&api, "waits");
    wait_for(SOON, "a watch was 410", || (expired() > before).then_some(()));
    create(&api, &gpu_node("n-new", 8));
    create(&api, &gpu_pod("new", 8));
    assert_eq!(bound(&api, "new"), "n-new");
}
