//! What is said at the start of rights that are missing.

use berth::live::lease::Rules;
use berth::live::preflight::needs::{Features, Need, of_scheduler};
use berth::wire::{Kind, dialect};
use berth_stand::{ApiClient, Authorization, Options, Stand, User, wait_for};
use serde_json::{Value, json};

use crate::support::SOON;
use crate::support::berth::Berth;
use crate::support::objects::{create, role};

const USER: &str = "scheduler";
const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 2000, burst: 2000}
";
const MISSING: &str = "a rule is missing";

/// Everything that the default configuration needs.
fn needs() -> Vec<Need> {
    of_scheduler(&Features {
        kinds: Kind::all().collect(),
        dialects: dialect::ALL.to_vec(),
        preemption: true,
        taking_back: true,
        volume_binding: true,
        lease: Some(Rules::new(&Default::default())),
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "berth"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
}

/// Runs it with these rights until it has been told of them, and returns what is said of missing
/// ones.
fn said(stand: &Stand, api: &ApiClient, needs: &[Need]) -> Vec<String> {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/berth";
    match api.find(path).expect("an answer") {
        None => {
            create(api, &role("berth", needs));
            create(api, &binding());
        }
        Some(_) => drop(api.put(path, &role("berth", needs)).expect("the role is changed")),
    }
    let kubeconfig = stand.kubeconfig_path(USER).expect("a kubeconfig");
    let berth = Berth::start_with(stand.folder(), &kubeconfig, CONFIG, &[]);
    let told = || berth.log().contains("rights are checked").then_some(());
    wait_for(SOON, "the rights are checked", told);
    let log = berth.log();
    let missing = log.lines().filter(|line| line.contains(MISSING));
    missing.map(str::to_owned).collect()
}

fn start(flags: &[&str]) -> Option<Stand> {
    let user = User { name: USER.to_owned(), groups: Vec::new() };
    Stand::start_or_skip(&Options {
        authorization: Authorization::Rbac,
        users: vec![user],
        apiserver_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..Options::default()
    })
}

/// As most clusters are, with both modes: the node authorizer can't list its rules, so single rights are asked for.
#[test]
fn it_is_named_too_where_not_all_rules_can_be_listed() {
    let Some(stand) = start(&["--authorization-mode=Node"]) else { return };
    let api = stand.client();
    let mut needs = needs();
    needs.retain(|need| need.resource != "pods/status");
    let said = said(&stand, &api, &needs);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("resource=\"pods/status\" verb=\"patch\""), "{}", said[0]);
}

#[test]
fn exactly_the_missing_rule_is_named() {
    let Some(stand) = start(&[]) else { return };
    let api = stand.client();
    let all = needs();
    assert_eq!(said(&stand, &api, &all), [""; 0]);
    for (resource, verb) in
        [("storageclasses", "watch"), ("pods/binding", "create"), ("leases", "update")]
    {
        let is_it = |need: &Need| need.resource == resource && need.verb == verb;
        let without: Vec<Need> = all.iter().filter(|need| !is_it(need)).cloned().collect();
        assert_eq!(without.len() + 1, all.len());
        let said = said(&stand, &api, &without);
        assert_eq!(said.len(), 1, "{said:?}");
        for part in
            ["WARN", "manifests/", &format!("resource={resource:?} verb={verb:?}"), "needed_for="]
        {
            assert!(said[0].contains(part), "{part} is not in {}", said[0]);
        }
    }
}
