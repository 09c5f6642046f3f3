//! SIGUSR2 on the running binary: ledger and API server are compared, and what differs is named.

use berth_faults::proxy::{Edit, Proxy, Requests, Rule};
use berth_stand::{ADMIN, Options, Patch, Stand, wait_for};
use serde_json::json;

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod};

const DONE: &str = "compared the ledger with the API server objects=";

fn n_done(berth: &Berth) -> usize {
    let log = berth.log();
    // It compares by itself too.
    log.lines().filter(|line| line.contains(DONE) && line.ends_with(" asked=true")).count()
}

/// Asks for a comparison, and returns what is logged of it.
fn compared(berth: &Berth) -> String {
    let (before, seen) = (n_done(berth), berth.log().len());
    berth.signal("USR2");
    wait_for(SOON, "the comparison ends", || (n_done(berth) > before).then_some(()));
    berth.log()[seen..].to_owned()
}

#[test]
fn what_differs_is_named_and_nothing_else() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let proxy = Proxy::start(&stand).expect("a proxy");
    let kubeconfig = proxy.kubeconfig(&stand, ADMIN).expect("a kubeconfig");
    let berth = Berth::start_with(stand.folder(), &kubeconfig, FAST, &[]);
    create(&api, &gpu_node("n-1", 8));
    create(&api, &gpu_node("n-2", 8));
    for name in ["a", "b", "c"] {
        create(&api, &gpu_pod(name, 1));
        bound(&api, name);
    }
    create(&api, &gpu_pod("too-big", 9));

    // The answer to a bind comes before the watch tells of it: then the pod is still assumed.
    let quiet = wait_for(SOON, "no pod is assumed", || {
        let log = compared(&berth);
        assert!(log.contains(" differences=0 "), "{log}");
        log.contains(" assumed=0 unconfirmed=0 ").then_some(log)
    });
    assert!(!quiet.contains("differ "), "{quiet}");

    // Asked for twice more while one is under way: once more is enough.
    let (begun, held) = (n_done(&berth), proxy.inject(Rule::on(Requests::lists("nodes")).hold()));
    berth.signal("USR2");
    held.wait_held(SOON).expect("the list is held");
    berth.signal("USR2");
    berth.signal("USR2");
    drop(held);
    wait_for(SOON, "two comparisons end", || (n_done(&berth) == begun + 2).then_some(()));

    let swallowed =
        proxy.watches("nodes").edit(|event| match event["object"]["metadata"]["name"] == "n-1" {
            true => Edit::Swallow,
            false => Edit::Pass,
        });
    let label = json!({"metadata": {"labels": {"planted": "yes"}}});
    api.patch("/api/v1/nodes/n-1", Patch::Merge, &label).expect("a label");
    swallowed.wait_effective(1, SOON).expect("the event is swallowed");
    let log = compared(&berth);
    let named: Vec<&str> = log.lines().filter(|line| line.contains("API server differ")).collect();
    assert_eq!(named.len(), 1, "{log}");
    for part in ["WARN", "kind=\"nodes\" object=n-1", "planted", "resourceVersion="] {
        assert!(named[0].contains(part), "{part} is not in {}", named[0]);
    }
    assert!(log.contains(" differences=1 assumed=0 unconfirmed=0 "), "{log}");

    // The next event of the node brings all of it.
    drop(swallowed);
    let label = json!({"metadata": {"labels": {"planted": "no"}}});
    api.patch("/api/v1/nodes/n-1", Patch::Merge, &label).expect("a label");
    wait_for(SOON, "they agree again", || {
        compared(&berth).contains(" differences=0 ").then_some(())
    });
    assert_eq!(berth.terminate(), Some(0));
}
