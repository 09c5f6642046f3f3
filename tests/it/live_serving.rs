//! The secure port of `berth run`, as probes and scrapers see it.

use std::net::{SocketAddr, TcpListener};

use berth_stand::{ADMIN, Options, Stand, wait_for};
use tokio::runtime::Runtime;

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::https::Ask;
use crate::support::objects::{bound, create, gpu_node, gpu_pod};

/// Somebody else may take it before Berth does; then Berth says so and the test fails.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("its address")
}

#[test]
fn probes_scrapes_and_pages_are_answered() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let delegated = kubeconfig.display();
    let address = free_port();
    let flags = [
        format!("--secure-port={}", address.port()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--authentication-kubeconfig={delegated}"),
        format!("--authorization-kubeconfig={delegated}"),
    ];
    let gated = "--feature-gates=ComponentStatusz=false".to_owned();
    let flags = flags.into_iter().chain([gated]).collect::<Vec<String>>();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let berth = Berth::start_with(stand.folder(), &kubeconfig, FAST, &flags);
    let runtime = Runtime::new().expect("a runtime");
    let get = |ask: &Ask, path: &str| runtime.block_on(ask.try_get(address, path)).ok();

    let nobody = Ask::default();
    let ready = || get(&nobody, "/readyz").filter(|(status, _)| *status == 200);
    wait_for(SOON, "/readyz answers 200", ready);
    let (status, text) = get(&nobody, "/livez?verbose").expect("an answer");
    assert!(status == 200 && text.ends_with("livez check passed\n"), "{status} {text}");

    create(&api, &gpu_node("n-1", 8));
    create(&api, &gpu_pod("p", 1));
    assert_eq!(bound(&api, "p"), "n-1");
    let admin = Ask::token(&stand.admin_token());
    let counted = "scheduler_schedule_attempts_total{profile=\"default-scheduler\",\
                   result=\"scheduled\"} 1";
    let scraped = || get(&admin, "/metrics").filter(|(_, text)| text.contains(counted));
    wait_for(SOON, "the bind is counted", scraped);
    let (_, resources) = get(&admin, "/metrics/resources").expect("an answer");
    assert!(resources.contains("kube_pod_resource_request{"), "{resources}");
    let (_, configuration) = get(&admin, "/configz").expect("an answer");
    assert!(configuration.contains("KubeSchedulerConfiguration"), "{configuration}");
    let (_, flags) = get(&admin, "/flagz").expect("an answer");
    assert!(flags.contains("bind-address=127.0.0.1"), "{flags}");
    let (status, _) = get(&admin, "/statusz").expect("an answer");
    assert_eq!(status, 404, "its gate is off");
    assert_eq!(berth.terminate(), Some(0));
}
