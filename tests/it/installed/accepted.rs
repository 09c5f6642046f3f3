//! The real API server takes every document, and Berth its flags and configuration.

use std::fs;

use berth_stand::{ApiClient, ApiError};
use serde_json::{Value, json};

use super::{guarded, objects, of_kind, read, root, second, texts};
use crate::support::SOON;
use crate::support::berth::{berth, last_line};

/// What kustomize makes of config.yaml.
fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "berth-config", "namespace": "berth-system"},
        "data": {"config.yaml": read(&second().join("config.yaml"))},
    })
}

#[test]
fn the_server_takes_every_document() {
    let Some(stand) = guarded(&[]) else { return };
    let api = stand.client();
    stand.grant_rights(&second()).expect("namespace, service account and rights");
    let rest = objects(&second());
    let granted = ["Namespace", "ServiceAccount", "ClusterRole", "Role"];
    let rest = rest.iter().filter(|o| {
        let kind = o["kind"].as_str().unwrap_or_default();
        !granted.contains(&kind) && !kind.ends_with("Binding")
    });
    let mut kinds = Vec::new();
    for object in rest.chain([&config_map()]) {
        let taken = api.create_strictly(object);
        taken.unwrap_or_else(|problem| panic!("{object}: {problem}"));
        kinds.push(object["kind"].as_str().unwrap_or_default().to_owned());
    }
    kinds.sort();
    let all = [
        "ConfigMap",
        "Deployment",
        "FlowSchema",
        "FlowSchema",
        "NetworkPolicy",
        "PodDisruptionBudget",
    ];
    assert_eq!(kinds, all);
    flow_schemas_find_their_levels(&api);
    replicas_meet_the_strictest_level(&api);

    let [static_pod] = &objects(&root().join("manifests/static-pod"))[..] else {
        panic!("one static pod");
    };
    api.create_strictly(static_pod).expect("the server takes the static pod");
    let mut odd = static_pod.clone();
    odd["metadata"]["name"] = json!("odd");
    odd["spec"]["containers"][0]["imagePullPolice"] = json!("Never");
    let problem = api.create_strictly(&odd).expect_err("the check itself can fail");
    assert!(problem.to_string().contains("imagePullPolice"), "{problem}");
}

/// The server says by a condition when the level that a schema names isn't there.
fn flow_schemas_find_their_levels(api: &ApiClient) {
    for name in ["berth", "berth-leader-election"] {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{name}");
        berth_stand::wait_for(SOON, &format!("flow schema {name} has its level"), || {
            let schema = api.get(&path).ok()?;
            let conditions = schema["status"]["conditions"].as_array()?.clone();
            let found = |c: &Value| c["type"] == "Dangling" && c["status"] == "False";
            conditions.iter().any(found).then_some(())
        });
    }
}

/// Creates the pod that the Deployment describes, where the namespace enforces `restricted`.
fn replicas_meet_the_strictest_level(api: &ApiClient) {
    let objects = objects(&second());
    let deployment = of_kind(&objects, "Deployment")[0].clone();
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("replica");
    pod["metadata"]["namespace"] = json!("berth-system");
    api.create_strictly(&pod).expect("the namespace admits the replica");

    pod["metadata"]["name"] = json!("rooted");
    pod["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    match api.create_strictly(&pod) {
        Err(ApiError::Status { status: 403, message, .. }) => {
            assert!(message.contains("restricted"), "{message}");
        }
        other => panic!("the check itself can fail: {other:?}"),
    }
}

/// The arguments of the only container of a pod's specification.
fn arguments(spec: &Value) -> Vec<String> {
    let [container] = &spec["containers"].as_array().expect("containers")[..] else {
        panic!("not one container: {spec}");
    };
    let all = texts(&container["command"]).into_iter().skip(1).chain(texts(&container["args"]));
    all.map(str::to_owned).collect()
}

#[test]
fn berth_takes_its_flags_and_its_configuration() {
    let config = second().join("config.yaml").display().to_string();
    assert_eq!(berth(&["config", "check", &config]).status.code(), Some(0));

    let objects = objects(&second());
    let deployment = of_kind(&objects, "Deployment")[0];
    let second_args = arguments(&deployment["spec"]["template"]["spec"]);
    let mounted = "--config=/etc/berth/config.yaml";
    assert!(second_args.iter().any(|arg| arg == mounted), "{second_args:?}");
    let second_args = second_args.iter().map(|arg| match arg == mounted {
        true => format!("--config={config}"),
        false => arg.clone(),
    });
    let [static_pod] = &super::objects(&root().join("manifests/static-pod"))[..] else {
        panic!("one static pod");
    };
    for (name, args) in
        [("second", second_args.collect()), ("static", arguments(&static_pod["spec"]))]
    {
        let name = format!("{name}-{}.yaml", std::process::id());
        let written = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut args: Vec<String> = args;
        args.push(format!("--write-config-to={}", written.display()));
        let output = berth(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", last_line(&output));
        let completed = fs::read_to_string(&written).expect("the completed configuration");
        assert!(completed.contains("leaderElect: true"), "{completed}");
        fs::remove_file(&written).expect("removed");
    }
}
