//! What nodes tell of their insides, on the real API server: NUMA cells that come and go, and an
//! annotation that can't be understood. With the rights of the manifests.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use berth::live::client::{Api, Target};
use berth::live::optional::Optional;
use berth::live::rate::TokenBucket;
use berth::live::watch::{Pace, Reporter, Source};
use berth::wire::Kind;
use berth_core::engine::Input;
use berth_core::snapshot::ClusterEvent;
use berth_stand::{ADMIN, ApiClient, Options, Patch, Stand, wait_for};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::installed::{USER, guarded, root, second};
use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, read, scheduled_condition};

const GROUP: &str = "topology.node.k8s.io";
const OBJECTS: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// As small as the server takes it.
fn crd() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let plural = "noderesourcetopologies";
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{GROUP}"),
            // The server asks for somebody's consent to a name under k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"kind": "NodeResourceTopology", "plural": plural,
                      "singular": "noderesourcetopology"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": open}}],
        },
    })
}

fn define(api: &ApiClient) {
    create(api, &crd());
    wait_for(SOON, OBJECTS, || api.get(OBJECTS).ok());
}

/// Two cells of four GPUs, so many available in each, whose kubelet splits nothing.
fn cells(node: &str, available: [u32; 2]) -> Value {
    let zone = |(number, available): (usize, &u32)| {
        json!({
            "name": format!("node-{number}"), "type": "Node",
            "resources": [{"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "4",
                           "available": available.to_string()}],
        })
    };
    json!({
        "apiVersion": format!("{GROUP}/v1alpha2"), "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": available.iter().enumerate().map(zone).collect::<Vec<_>>(),
    })
}

fn start(stand: &Stand, plugins: &str) -> Berth {
    let config = format!(
        "{FAST}profiles: [{{schedulerName: default-scheduler, \
         plugins: {{multiPoint: {{enabled: [{plugins}]}}}}}}]\n"
    );
    let kubeconfig = stand.service_account_kubeconfig(USER).expect("a token");
    Berth::start_with(stand.folder(), &kubeconfig, &config, &[])
}

fn refused(stand: &Stand) -> Vec<String> {
    let requests = stand.requests_of(USER).expect("the audit log");
    requests.iter().filter(|r| r.status == 403).map(ToString::to_string).collect()
}

/// Waits until the pod is told that some kubelet can't align it.
fn kept_off(api: &ApiClient, pod: &str) {
    wait_for(SOON, "it can't be aligned", || {
        let condition = scheduled_condition(&read(api, pod));
        condition["message"].as_str()?.contains("cannot align pod").then_some(())
    });
}

#[test]
fn pods_go_where_their_kubelet_can_align_them_while_nodes_tell_of_cells() {
    let Some(stand) = guarded(&[]) else { return };
    let api = stand.client();
    stand.grant_rights(&second()).expect("rights");
    stand.grant_rights(&root().join("manifests/topology")).expect("rights");
    create(&api, &gpu_node("split", 8));
    define(&api);
    let mut other = gpu_node("other", 8);
    other["spec"] = json!({"unschedulable": true});
    create(&api, &other);
    for node in ["split", "other"] {
        create(&api, &cells(node, [2, 2]));
    }
    let berth = start(&stand, "{name: NumaTopology}");
    create(&api, &gpu_pod("fits", 2));
    assert_eq!(bound(&api, "fits"), "split");
    create(&api, &gpu_pod("kept-off", 4));
    kept_off(&api, "kept-off");

    // It is on its node before the next report, and that helps.
    let path = format!("{OBJECTS}/split");
    let zones = json!({"zones": cells("split", [0, 4])["zones"]});
    api.patch(&path, Patch::Merge, &zones).expect("the exporter's part");
    assert_eq!(bound(&api, "kept-off"), "split");

    // And so does the end of all reports.
    let open = json!({"spec": {"unschedulable": null}});
    api.patch("/api/v1/nodes/other", Patch::Merge, &open).expect("it is uncordoned");
    create(&api, &gpu_pod("third", 4));
    kept_off(&api, "third");
    api.delete(&format!("{CRDS}/noderesourcetopologies.{GROUP}")).expect("it is taken away");
    assert_eq!(bound(&api, "third"), "other");
    let log = berth.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    assert_eq!(berth.terminate(), Some(0));
    assert_eq!(refused(&stand), [""; 0]);
}

/// Without the definition nobody waits; whenever that comes and goes, so do the watch and what is known.
#[test]
fn their_definition_may_come_and_go() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let runtime = Runtime::new().expect("a runtime");
    let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let target = Target { kubeconfig: Some(kubeconfig), master: None };
    let (sink, inputs) = channel();
    let source = Source {
        api: runtime.block_on(Api::new(&target)).expect("a client"),
        rate: Arc::new(TokenBucket::new(-1.0, 1)),
        tables: Arc::default(),
        sink: sink.clone(),
        pace: Pace { look_again: Duration::from_millis(200), ..Pace::default() },
        led: tokio::sync::watch::channel(true).1,
        reporter: Reporter::default(),
    };
    let optional = Optional::new(vec![Kind::NodeResourceTopology]);
    optional.announce(&sink);
    runtime.spawn(optional.clone().run(source));
    let next = || inputs.recv_timeout(SOON).expect("an input");
    let synced = |expected| {
        let input = next();
        let told = matches!(&input, Input::Watch { kind, synced }
            if *kind == "noderesourcetopologies" && *synced == expected);
        assert!(told, "{input:?}");
    };
    synced(false);
    synced(true);
    assert_eq!(optional.watched(), []);
    define(&api);
    create(&api, &cells("n", [2, 3]));
    let report = loop {
        match next() {
            Input::Cluster(ClusterEvent::NumaReportApplied(report)) => break report,
            // An empty list, if that was quicker.
            Input::Watch { synced: true, .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let available = report.cells.iter().map(|cell| cell.available.amount("nvidia.com/gpu"));
    assert_eq!((report.node.as_str(), available.collect::<Vec<_>>()), ("n", vec![2, 3]));
    assert_eq!(optional.watched(), [Kind::NodeResourceTopology]);
    api.delete(&format!("{CRDS}/noderesourcetopologies.{GROUP}")).expect("it is taken away");
    loop {
        if let Input::Cluster(event) = next() {
            let gone =
                matches!(&event, ClusterEvent::NumaReportDeleted { node, .. } if *node == "n");
            assert!(gone, "{event:?}");
            break;
        }
    }
    wait_for(SOON, "nothing is watched", || optional.watched().is_empty().then_some(()));
}

#[test]
fn cells_that_may_not_be_read_hold_nobody() {
    let Some(stand) = guarded(&[]) else { return };
    let api = stand.client();
    stand.grant_rights(&second()).expect("rights");
    define(&api);
    create(&api, &gpu_node("split", 8));
    create(&api, &cells("split", [2, 2]));
    let berth = start(&stand, "{name: NumaTopology}");
    create(&api, &gpu_pod("p", 4));
    assert_eq!(bound(&api, "p"), "split");
    let told = || berth.log().contains("nothing is known of NUMA cells meanwhile").then_some(());
    wait_for(SOON, "it is told", told);
    let missing = || berth.log().contains("resource=\"noderesourcetopologies\"").then_some(());
    wait_for(SOON, "the missing rule is named", missing);
    assert_eq!(berth.terminate(), Some(0));
}

/// Events about a node are in `default`.
fn reports(api: &ApiClient, node: &str) -> Vec<Value> {
    let mut events = api.list("/apis/events.k8s.io/v1/namespaces/default/events").expect("events");
    events.retain(|e| e["regarding"]["kind"] == "Node" && e["regarding"]["name"] == node);
    events
}

#[test]
fn an_annotation_that_is_wrong_is_told_once_on_its_node() {
    let Some(stand) = guarded(&[]) else { return };
    let api = stand.client();
    stand.grant_rights(&second()).expect("rights");
    let annotated = |name: &str, text: &str| {
        let mut node = gpu_node(name, 4);
        node["metadata"]["annotations"] = json!({"berth.dev/gpu-topology": text});
        node
    };
    create(&api, &annotated("odd", "nvlink 0-1"));
    create(&api, &annotated("good", "nvlink 0-1:600 2-3:600"));
    let berth = start(&stand, "{name: NvlinkTopology, weight: 1}");
    let first = wait_for(SOON, "it is told", || reports(&api, "odd").first().cloned());
    assert_eq!(
        (&first["type"], &first["reason"]),
        (&json!("Warning"), &json!("InvalidGpuTopology"))
    );
    let note = first["note"].as_str().unwrap_or_default();
    assert!(note.contains("\"0-1\": write GB/s after a colon, from 33 to 20000"), "{note}");

    // Whatever else changes of the node, it isn't told again; another text is.
    let patch = |of: Value| api.patch("/api/v1/nodes/odd", Patch::Merge, &of).expect("an update");
    for round in 0..3 {
        patch(json!({"metadata": {"labels": {"round": round.to_string()}}}));
    }
    patch(json!({"metadata": {"annotations": {"berth.dev/gpu-topology": "nvlinks 0-1"}}}));
    wait_for(SOON, "the other one is told", || (reports(&api, "odd").len() > 1).then_some(()));
    create(&api, &gpu_pod("p", 1));
    bound(&api, "p");
    // What waits to be told is told at the end.
    assert_eq!(berth.terminate(), Some(0));
    let notes: Vec<Value> = reports(&api, "odd").iter().map(|e| e["note"].clone()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(reports(&api, "good"), [json!(null); 0]);
    assert_eq!(refused(&stand), [""; 0]);
}
