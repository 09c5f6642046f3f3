//! `berth run` on the real API server: what users see.

use std::fs;

use berth_stand::{ADMIN, ApiClient, Authorization, Options, Stand, User, wait_for};
use serde_json::json;

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::told;
use crate::support::objects::{bound, create, event, gpu_node, gpu_pod, read, scheduled_condition};

#[test]
fn pods_are_bound_and_told() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    create(&api, &gpu_node("n-2", 2));
    let berth = Berth::start(&stand, FAST);

    a_pod_is_bound_where_it_fits(&api);
    a_gated_pod_is_left_alone(&api);
    what_fits_nowhere_is_told_why(&api);
    what_is_not_built_is_told(&api);
    preferred_terms_are_named_once(&api, &berth);
    a_waiting_pod_is_bound_when_there_is_room(&api);

    let log = berth.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    assert_eq!(berth.terminate(), Some(0));
    wrong_credentials_are_named(&stand);
}

#[test]
fn kube_schedulers_rights_are_enough_and_missing_ones_are_named() {
    let user = |name: &str| User { name: name.to_owned(), groups: Vec::new() };
    let options = Options {
        authorization: Authorization::Rbac,
        users: vec![user("system:kube-scheduler"), user("nobody")],
        ..Options::default()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));

    let kubeconfig = stand.kubeconfig_path("nobody").expect("a kubeconfig");
    let berth = Berth::start_with(stand.folder(), &kubeconfig, FAST, &[]);
    wait_for(SOON, "the missing right is named", || {
        let log = berth.log();
        let named = log.contains("can't list, trying on; nothing is scheduled meanwhile")
            && log.contains("User \"nobody\" cannot list resource \"pods\"");
        named.then_some(())
    });
    assert_eq!(berth.terminate(), Some(0));

    let kubeconfig = stand.kubeconfig_path("system:kube-scheduler").expect("a kubeconfig");
    let config = FAST.replace("leaderElect: false", "leaderElect: true");
    let berth = Berth::start_with(stand.folder(), &kubeconfig, &config, &[]);
    create(&api, &gpu_pod("fits", 8));
    assert_eq!(bound(&api, "fits"), "n-1");
    event(&api, "fits", "Scheduled");
    create(&api, &gpu_pod("waits", 8));
    told(&api, "waits", "Unschedulable");
    assert!(!berth.log().contains("orbidden"), "{}", berth.log());
    assert_eq!(berth.terminate(), Some(0));
}

fn a_pod_is_bound_where_it_fits(api: &ApiClient) {
    create(api, &gpu_pod("fits", 4));
    assert_eq!(bound(api, "fits"), "n-1");
    let scheduled = event(api, "fits", "Scheduled");
    assert_eq!(scheduled["note"], "Successfully assigned default/fits to n-1");
    assert_eq!(scheduled["type"], "Normal");
    assert_eq!(scheduled["action"], "Binding");
    assert_eq!(scheduled["reportingController"], "default-scheduler");
    let name = scheduled["metadata"]["name"].as_str().unwrap_or_default();
    let digits = name.strip_prefix("fits.").unwrap_or_default();
    assert!(digits.len() == 16 && digits.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    assert_eq!(scheduled_condition(&read(api, "fits"))["status"], "True");
}

fn a_gated_pod_is_left_alone(api: &ApiClient) {
    let mut pod = gpu_pod("gated", 1);
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/hold"}]);
    let born = create(api, &pod);
    // Whoever came later was looked at already.
    create(api, &gpu_pod("later", 1));
    bound(api, "later");
    let now = read(api, "gated");
    assert_eq!(now["metadata"]["resourceVersion"], born["metadata"]["resourceVersion"]);
    assert_eq!(scheduled_condition(&now)["reason"], "SchedulingGated");
}

/// Upstream's text to the byte, then our numbers.
fn what_fits_nowhere_is_told_why(api: &ApiClient) {
    create(api, &gpu_pod("big", 16));
    let condition = told(api, "big", "Unschedulable");
    assert_eq!(
        (&condition["status"], &condition["observedGeneration"]),
        (&json!("False"), &json!(1))
    );
    let message = condition["message"].as_str().unwrap_or_default();
    let upstream = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.";
    let numbers = message.strip_prefix(upstream).unwrap_or_else(|| panic!("{message}"));
    assert!(numbers.starts_with(" (") && numbers.ends_with(')'), "{message}");
    let failed = event(api, "big", "FailedScheduling");
    assert_eq!((&failed["note"], &failed["type"]), (&json!(message), &json!("Warning")));
    assert_eq!(failed["action"], "Scheduling");
}

fn what_is_not_built_is_told(api: &ApiClient) {
    let mut pod = gpu_pod("affine", 1);
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
    pod["spec"]["affinity"] =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    create(api, &pod);
    let condition = wait_for(SOON, "affine is told", || {
        let condition = scheduled_condition(&read(api, "affine"));
        condition["message"].is_string().then_some(condition)
    });
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("inter-pod affinity is not supported yet"), "{condition}");
    assert_ne!(condition["reason"], "Unschedulable");
}

fn preferred_terms_are_named_once(api: &ApiClient, berth: &Berth) {
    for name in ["prefers-1", "prefers-2"] {
        let mut pod = gpu_pod(name, 0);
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
        pod["spec"]["affinity"] = json!({"podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "podAffinityTerm": term}],
        }});
        create(api, &pod);
        bound(api, name);
    }
    assert_eq!(berth.log().matches("left out of the score").count(), 1);
}

fn a_waiting_pod_is_bound_when_there_is_room(api: &ApiClient) {
    create(api, &gpu_pod("waits", 8));
    told(api, "waits", "Unschedulable");
    create(api, &gpu_node("n-3", 8));
    assert_eq!(bound(api, "waits"), "n-3");
}

fn wrong_credentials_are_named(stand: &Stand) {
    let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let text = fs::read_to_string(&kubeconfig).expect("its text");
    let wrong = stand.folder().join("kubeconfig-wrong");
    fs::write(&wrong, text.replace("token-of-", "no-token-of-")).expect("a file");
    let path = wrong.display().to_string();
    let flags = ["--kubeconfig", &path, "--leader-elect=false", "--secure-port=0"];
    let berth = Berth::start_as_told(&stand.folder().join("berth-wrong.log"), &flags);
    let says = "the API server refuses us: Unauthorized; waiting for it";
    wait_for(SOON, "berth says who refuses it", || berth.log().contains(says).then_some(()));
    // Its token may yet come to be known.
    assert_eq!(berth.terminate(), Some(0));
}
