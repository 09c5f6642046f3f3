//! Topologies that objects describe: what groups make of them, and that they hold nobody.

use berth::wire::dialect::DialectDef;
use berth_core::types::TopologyKey;
use berth_core::types::group::{GroupKind, GroupPhase, Quorum};
use berth_core::types::tree::TopologyShape;
use berth_stand::{ADMIN, ApiClient, Authorization, Options, Stand, User, wait_for};
use serde_json::{Value, json};

use super::followed::{Followed, told};
use super::{SCHEDULER, crd, crd_named, define, grant, group, member};
use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, read, scheduled_condition};

/// A member of a Volcano job, for one GPU.
fn volcano_member(name: &str, group: &str) -> Value {
    let mut pod = gpu_pod(name, 1);
    pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": group});
    pod
}

fn hyper_node(name: &str, members: Value) -> Value {
    json!({
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
        "metadata": {"name": name}, "spec": {"tier": 1, "members": members},
    })
}

/// HyperNodes come while Berth runs: groups go by them from then on, and who writes one that can't be
/// right reads so in an event on it.
#[test]
fn hyper_nodes_come_and_go_while_we_schedule() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let gangs = "profiles: [{pluginConfig: [{name: GangScheduling, args: \
                 {dialects: [volcano]}}]}]\n";
    define(&api, &crd("volcano"));
    ["n-1", "n-2", "n-3"].iter().for_each(|name| drop(create(&api, &gpu_node(name, 1))));
    let berth = Berth::start(&stand, &format!("{FAST}{gangs}"));
    let near =
        json!({"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}});
    create(&api, &group("scheduling.volcano.sh/v1beta1", "near", near));
    ["a", "b"].iter().for_each(|name| drop(create(&api, &volcano_member(name, "near"))));
    let message = scheduled_condition_says(&api, "a", "topology tier 1 is not known");
    assert!(message.contains("there are no HyperNodes"), "{message}");

    define(&api, &crd_named("hypernodes.topology.volcano.sh"));
    let named = |name: &str| json!({"type": "Node", "selector": {"exactMatch": {"name": name}}});
    let pattern =
        |text: &str| json!({"type": "Node", "selector": {"regexMatch": {"pattern": text}}});
    create(&api, &hyper_node("s0", json!([named("n-1")])));
    scheduled_condition_says(&api, "a", "s0, the roomiest of 1, has room for 1");
    create(&api, &hyper_node("s1", json!([pattern("^n-[123]$"), pattern("rack-(")])));
    assert_eq!([bound(&api, "a"), bound(&api, "b")].map(|node| node == "n-1"), [false, false]);

    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (of, says) in [
        ("s1", "spec.members[1].selector.regexMatch.pattern: is no regular expression"),
        ("s1", "node n-1 is left out: it is in s0, of tier 1 too"),
    ] {
        wait_for(SOON, says, || {
            let events = api.get(events).ok()?;
            let tells = |event: &&Value| {
                event["reason"] == "InvalidTopology"
                    && event["regarding"]["kind"] == "HyperNode"
                    && event["regarding"]["name"] == of
                    && event["note"].as_str().is_some_and(|note| note.starts_with(says))
            };
            events["items"].as_array()?.iter().find(tells).cloned()
        });
    }
    // And they go: until then a group of two finds room for one.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.delete(&format!("{path}/hypernodes.topology.volcano.sh")).expect("the CRD is deleted");
    let far = json!({"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}});
    create(&api, &group("scheduling.volcano.sh/v1beta1", "far", far));
    ["c", "d"].iter().for_each(|name| drop(create(&api, &volcano_member(name, "far"))));
    scheduled_condition_says(&api, "c", "topology tier 1 is not known");
    assert_eq!(berth.terminate(), Some(0));
}

fn scheduled_condition_says(api: &ApiClient, pod: &str, text: &str) -> String {
    wait_for(SOON, text, || {
        let condition = scheduled_condition(&read(api, pod));
        let message = condition["message"].as_str()?.to_owned();
        message.contains(text).then_some(message)
    })
}

/// Topologies are hints: one whose objects may not be read, or that is not there, holds nobody.
#[test]
fn topologies_that_may_not_be_read_hold_nobody() {
    let options = Options {
        authorization: Authorization::Rbac,
        users: vec![User { name: SCHEDULER.to_owned(), groups: Vec::new() }],
        ..Options::default()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    define(&api, &crd_named("topologies.kueue.x-k8s.io"));
    create(
        &api,
        &json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "t"},
            "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
        }),
    );
    for (name, block) in [("n-1", "x"), ("n-2", "y"), ("n-3", "y")] {
        let mut node = gpu_node(name, 1);
        node["metadata"]["labels"] = json!({"block": block, "rack": "r"});
        create(&api, &node);
    }
    grant(&api, "all-but-topologies", &[]);
    let kubeconfig = stand.kubeconfig_path(SCHEDULER).expect("a kubeconfig");
    let gangs = "profiles: [{pluginConfig: [{name: GangScheduling, args: \
                 {dialects: [kueue]}}]}]\n";
    let config = format!("{FAST}{gangs}");
    let berth = Berth::start_with(stand.folder(), &kubeconfig, &config, &[]);
    let counted = |group: &str, of: usize| {
        let labels = json!({"kueue.x-k8s.io/pod-group-name": group});
        let said = json!({
            "kueue.x-k8s.io/pod-group-total-count": of.to_string(),
            "kueue.x-k8s.io/podset-required-topology": "rack",
        });
        for at in 0..of {
            let mut pod = gpu_pod(&format!("{group}-{at}"), 1);
            pod["metadata"]["labels"] = labels.clone();
            pod["metadata"]["annotations"] = said.clone();
            create(&api, &pod);
        }
    };
    let refused = || berth.log().contains("groups do without what it says of topologies");
    wait_for(SOON, "the list is refused", || refused().then_some(()));
    counted("one", 1);
    let first = bound(&api, "one-0");
    api.delete_now("/api/v1/namespaces/default/pods/one-0").expect("it is deleted");
    grant(&api, "all", &[DialectDef::named("kueue").expect("kueue")]);
    let watched = || berth.log().contains("watching again").then_some(());
    wait_for(SOON, "it is read now", watched);
    // Racks of one name in two blocks are two by now, and three GPUs are in none of them.
    counted("three", 3);
    scheduled_condition_says(&api, "three-0", "y/r, the roomiest of 2, has room for 2");
    assert!(["n-1", "n-2", "n-3"].contains(&first.as_str()));
    assert_eq!(berth.terminate(), Some(0));
}

/// KAI's groups are read, and nothing is written on them; its topologies come with them.
#[test]
fn kais_groups_and_topologies_are_read() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    define(&api, &crd_named("podgroups.scheduling.run.ai"));
    define(&api, &crd_named("topologies.kai.scheduler"));
    let followed = Followed::start(&stand, ADMIN, &["kai"]);
    let constraint = json!({"topology": "t", "requiredTopologyLevel": "rack"});
    let spec = json!({"minMember": 2, "topologyConstraint": constraint});
    create(&api, &group("scheduling.run.ai/v2alpha2", "train", spec));
    create(
        &api,
        &json!({
            "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"},
            "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
        }),
    );
    create(&api, &member("m", json!({}), json!({"pod-group-name": "train"})));
    let train = followed.group(GroupKind::Pods, "train");
    assert_eq!((train.quorum, train.problem.as_ref()), (Quorum::AtLeast(2), None));
    assert!(train.is_told(&told(GroupPhase::Waiting, "m")), "nothing is to be written");
    assert_eq!(followed.hints("m"), ["kai: train"]);
    let wanted = TopologyKey { dialect: "kai", name: "t".into() };
    let topology = followed.until("the topology", |known| known.topologies.get(&wanted).cloned());
    let TopologyShape::Levels(levels) = &topology.shape else { panic!("{topology:?}") };
    assert_eq!(levels.iter().map(|it| &*it.label).collect::<Vec<_>>(), ["block", "rack"]);
    api.delete("/apis/kai.scheduler/v1alpha1/topologies/t").expect("it is deleted");
    followed.until("it is gone", |known| known.topologies.is_empty().then_some(()));
}
