//! `berth run` that is there before its API server, as on a machine that boots.

use berth_stand::{ADMIN, Options, Stand, wait_for};
use tokio::runtime::Runtime;

use crate::support::SOON;
use crate::support::berth::Berth;
use crate::support::https::{Ask, free_port};
use crate::support::objects::{bound, create, gpu_node, gpu_pod};

const WAITS: &str = "the API server can't be reached";

/// kube-scheduler's flags in a static pod: it waits, answers its probes, and schedules as soon as
/// there is a server.
#[test]
fn a_server_that_comes_later_is_waited_for() {
    let Some(mut stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    create(&api, &gpu_pod("p", 1));
    let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let kubeconfig = kubeconfig.display().to_string();
    let address = free_port();
    let flags = [
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", address.port()),
        "--leader-elect=true".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    stand.kill_apiserver();
    let berth = Berth::start_as_told(&stand.folder().join("berth.log"), &flags);
    let runtime = Runtime::new().expect("a runtime");
    let get = |path: &str| runtime.block_on(Ask::default().try_get(address, path)).ok();

    wait_for(SOON, "berth says what it waits for", || berth.log().contains(WAITS).then_some(()));
    let alive = || get("/livez").filter(|answer| *answer == (200, "ok".to_owned()));
    wait_for(SOON, "/livez answers", alive);
    // It doesn't lead, and so is no leader that hangs.
    assert_eq!(get("/healthz?verbose").expect("an answer").0, 200);
    assert_eq!(get("/readyz").expect("an answer").0, 500);
    // Who may see the page of the check alone, nobody can say yet; the log has what it would show.
    assert!(berth.log().contains("the API server has not answered yet"), "{}", berth.log());

    stand.restart_apiserver().expect("the server comes back");
    assert_eq!(bound(&api, "p"), "n-1");
    let ready = || get("/readyz").filter(|(status, _)| *status == 200);
    wait_for(SOON, "/readyz answers 200", ready);
    assert_eq!(berth.log().matches(WAITS).count(), 1, "{}", berth.log());
    assert_eq!(berth.terminate(), Some(0));
}
