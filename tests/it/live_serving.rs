//! The secure port of `berth run`, as probes and scrapers see it.

use berth_stand::{ADMIN, Options, Stand, wait_for};
use tokio::runtime::Runtime;

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::https::{Ask, free_port};
use crate::support::objects::{bound, create, gpu_node, gpu_pod};

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
    let disabled = "--disabled-metrics=scheduler_cache_size".to_owned();
    let flags = flags.into_iter().chain([gated, disabled]).collect::<Vec<String>>();
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

    let (_, page) = get(&admin, "/metrics").expect("an answer");
    assert!(page.contains("scheduler_pending_pods{") && !page.contains("scheduler_cache_size"));
    let (status, _) = get(&admin, "/debug/flags/v").expect("an answer");
    assert_eq!(status, 406);
    let put = |level: &str| get(&admin.clone().put(level), "/debug/flags/v").expect("an answer");
    assert_eq!(put("high").0, 400);
    assert_eq!(put("0"), (200, "successfully set klog.logging.verbosity to 0\n".to_owned()));
    create(&api, &gpu_pod("unheard-of", 1));
    bound(&api, "unheard-of");
    assert_eq!(put("3").0, 200);
    create(&api, &gpu_pod("heard-of", 1));
    bound(&api, "heard-of");
    let scheduled = |pod: &str| berth.log().contains(&format!("scheduled pod=default/{pod} "));
    wait_for(SOON, "the bind is logged", || scheduled("heard-of").then_some(()));
    assert!(scheduled("p") && !scheduled("unheard-of"));
    assert_eq!(get(&admin, "/debug/pprof/").expect("an answer").0, 404);
    assert_eq!(berth.terminate(), Some(0));
}
