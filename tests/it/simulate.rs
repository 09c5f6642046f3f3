//! `berth simulate` as its user meets it: files in, text and exit status out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// What a run printed, and its exit status.
struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the command in the project's folder.
fn simulate(args: &[&str], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .current_dir(root())
        .arg("simulate")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // A command that has seen enough may have closed it.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    let output = child.wait_with_output().expect("the binary ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran {
        status: output.status.code().expect("no signal"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Compares with a file; `UPDATE_EXPECT=1` rewrites it.
fn check_golden(name: &str, actual: &str) {
    let path: PathBuf = root().join("tests/golden").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, actual).expect("the golden file is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "{} differs:\n{actual}", path.display());
}

fn node(name: &str, gpus: u32) -> Value {
    let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": gpus});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
           "status": {"allocatable": amounts}})
}

fn pod(name: &str, gpus: u32) -> Value {
    let resources = json!({"requests": {"cpu": "1", "nvidia.com/gpu": gpus}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
           "spec": {"containers": [{"name": "main", "resources": resources}]}})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string()
}

#[test]
fn the_shipped_cluster_is_drawn_within_100_columns() {
    let ran = simulate(&["-f", "examples/gpu-cluster"], "");
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""));
    let longest = ran.stdout.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|n| n <= 100), "{longest:?} columns");
    check_golden("gpu-cluster.txt", &ran.stdout);
}

#[test]
fn what_kubectl_prints_is_read_from_stdin() {
    let mut running = pod("old", 2);
    running["spec"]["nodeName"] = json!("n-1");
    running["metadata"]["managedFields"] = json!([{"manager": "kubelet", "fieldsV1": {"f:a": {}}}]);
    running["metadata"]["resourceVersion"] = json!("812345");
    running["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let input = list(&[node("n-1", 4), running, pod("new", 2), map]);
    let ran = simulate(&["-f", "-", "-o", "json"], &input);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(result["pods"]["default/new"]["node"], "n-1");
    assert_eq!(result["pods"]["default/old"]["touched"], false);
    assert_eq!(result["ignored"], json!({"ConfigMap (v1)": 1}));

    let again = simulate(&["-f", "-", "-o", "json"], &input);
    assert_eq!(again.stdout, ran.stdout, "the same input gives the same bytes");
    let yaml = simulate(&["-f", "-", "-o", "yaml"], &input);
    let yaml: Value = serde_saphyr::from_str(&yaml.stdout).expect("YAML");
    assert_eq!(yaml, result);
}

#[test]
fn claims_are_made_from_templates_and_the_table_names_their_devices() {
    let version = "resource.k8s.io/v1";
    let devices: Vec<Value> = (0..8).map(|i| json!({"name": format!("gpu-{i}")})).collect();
    let request = |count: i64| {
        json!({"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}})
    };
    let template = |name: &str, count| {
        json!({"apiVersion": version, "kind": "ResourceClaimTemplate",
               "metadata": {"name": name, "namespace": "default"},
               "spec": {"spec": request(count)}})
    };
    let user = |name: &str, template: &str| {
        let mut pod = pod(name, 0);
        pod["spec"]["containers"][0]["resources"] = json!({});
        pod["spec"]["resourceClaims"] =
            json!([{"name": "gpus", "resourceClaimTemplateName": template}]);
        pod
    };
    let input = list(&[
        node("n", 0),
        json!({"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"}}),
        json!({"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "s"},
               "spec": {"driver": "gpu.example.com", "nodeName": "n", "devices": devices,
                        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}}),
        template("two", 2),
        template("five", 5),
        template("many", 9),
        user("a", "two"),
        user("b", "five"),
        user("c", "many"),
        user("d", "missing"),
    ]);
    let ran = simulate(&["-f", "-"], &input);
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""));
    for text in ["PODS (×GPUs, [devices], + placed now)", "and 2 more]", "+a [gpu-"] {
        assert!(ran.stdout.contains(text), "{text:?} is not in\n{}", ran.stdout);
    }
    let ran = simulate(&["-f", "-", "-o", "json"], &input);
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let claims = result["claims"].as_object().expect("claims");
    let devices = |pod: &str| -> Vec<&Value> {
        let begin = format!("default/{pod}-gpus-");
        let (_, claim) = claims.iter().find(|(name, _)| name.starts_with(&begin)).expect(pod);
        claim["devices"].as_array().expect("a list").iter().map(|it| &it["device"]).collect()
    };
    let [a, b] = [devices("a"), devices("b")];
    assert_eq!((a.len(), b.len(), devices("c").len()), (2, 5, 0));
    assert!(a.iter().all(|device| !b.contains(device)), "{a:?} {b:?}");
    let text = |pod: &str| result["pods"][pod]["message"].as_str().unwrap_or_default();
    assert!(text("default/d").contains("not created yet"), "{}", text("default/d"));
}

/// A selector that is nested as deep as may be is parsed, also where threads have little stack.
#[test]
fn a_selector_at_the_limit_of_nesting_is_read() {
    let version = "resource.k8s.io/v1";
    let expression = format!("{}{} == []", "[".repeat(240), "]".repeat(240));
    let class = json!({"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"},
                       "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    let slice = json!({"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "s"},
               "spec": {"driver": "gpu.example.com", "nodeName": "n", "devices": [{"name": "d"}],
                        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}});
    let claim = json!({"apiVersion": version, "kind": "ResourceClaim",
                       "metadata": {"name": "c", "namespace": "default"},
                       "spec": {"devices": {"requests": [
                           {"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}});
    let mut user = pod("p", 0);
    user["spec"]["containers"][0]["resources"] = json!({});
    user["spec"]["resourceClaims"] = json!([{"name": "g", "resourceClaimName": "c"}]);
    let input = list(&[node("n", 0), class, slice, claim, user]);
    let ran = simulate(&["-f", "-"], &input);
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""), "no device is meant: {}", ran.stdout);
}

fn pod_group(name: &str, min_count: u32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
           "metadata": {"name": name, "namespace": "default"},
           "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}})
}

/// Members `name-0`, `name-1`, … of a native group.
fn members(group: &str, n: usize, gpus: u32) -> impl Iterator<Item = Value> {
    (0..n).map(move |at| {
        let mut pod = pod(&format!("{group}-{at}"), gpus);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        pod
    })
}

/// Groups that are whole, elastic, too large, incomplete, without object, and parts of another.
fn groups() -> String {
    let mut items = vec![node("n-1", 8), node("n-2", 8), pod("alone", 1), pod("hungry", 9)];
    for (name, min_count, n, gpus) in
        [("train", 2, 2, 4), ("elastic", 1, 3, 3), ("huge", 2, 2, 8), ("late", 8, 3, 1)]
    {
        items.push(pod_group(name, min_count));
        items.extend(members(name, n, gpus));
    }
    items.extend(members("lost", 1, 0));
    items.push(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"workloadRef": {"workloadName": "w", "templateName": "t"},
                 "schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }));
    for part in ["left", "right"] {
        let mut group = pod_group(part, 1);
        group["spec"]["parentCompositePodGroupName"] = json!("all");
        items.push(group);
        items.extend(members(part, 1, 0));
    }
    let mut counted = pod("swept", 0);
    counted["metadata"]["labels"] = json!({"kueue.x-k8s.io/pod-group-name": "sweep"});
    counted["metadata"]["annotations"] = json!({"kueue.x-k8s.io/pod-group-total-count": "1"});
    counted["metadata"]["namespace"] = json!("lab");
    items.push(counted);
    list(&items)
}

#[test]
fn groups_are_drawn_with_their_members_and_what_they_lack() {
    let ran = simulate(&["--config", "config/gpu.yaml", "-f", "-"], &groups());
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""));
    check_golden("groups.txt", &ran.stdout);
}

#[test]
fn groups_are_told_as_data() {
    let ran = simulate(&["--config", "config/gpu.yaml", "-f", "-", "-o", "json"], &groups());
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let told_of = result["groups"].as_array().expect("groups");
    let told = |name: &str| told_of.iter().find(|group| group["name"] == name).expect(name);
    assert_eq!(
        *told("late"),
        json!({
            "dialect": "native", "kind": "Pods", "namespace": "default", "name": "late",
            "needs": 8, "members": ["default/late-0", "default/late-1", "default/late-2"],
            "placed": 0, "state": "Waiting", "message": "waiting for 3 of 8 members of late",
        })
    );
    let stands = |name: &str| {
        let group = told(name);
        (group["placed"].as_u64(), group["state"].as_str().expect("a state"))
    };
    assert_eq!(stands("train"), (Some(2), "Scheduled"));
    assert_eq!(stands("all"), (Some(2), "Scheduled"));
    assert_eq!(stands("sweep"), (Some(1), "Scheduled"));
    assert_eq!(stands("huge"), (Some(0), "Unschedulable"));
    assert_eq!(told("lost")["message"], "waiting for pod group lost");
    assert_eq!(told("all")["kind"], "Groups");
    let last = result["phases"].as_array().and_then(|phases| phases.last()).expect("a phase");
    assert_eq!(last["groups"], result["groups"]);

    // Where the profile doesn't list the dialect, the label makes no group.
    let ran = simulate(&["-f", "-", "-o", "json"], &groups());
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(result["pods"]["lab/swept"]["node"].as_str().map(str::len), Some(3));
    let dialects = result["groups"].as_array().into_iter().flatten().map(|it| &it["dialect"]);
    assert!(dialects.clone().count() > 0 && dialects.clone().all(|it| it == "native"));
}

#[test]
fn exit_status_tells_whether_somebody_waits() {
    let placed = list(&[node("n", 1), pod("a", 1)]);
    let waits = list(&[node("n", 1), pod("a", 1), pod("b", 1)]);
    assert_eq!(simulate(&["-f", "-"], &placed).status, 0);
    let ran = simulate(&["-f", "-"], &waits);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("needs 1 GPU; none is free on any node"), "{}", ran.stdout);
    assert_eq!(simulate(&["-f", "-"], "").status, 0, "an empty cluster is no error");
    assert_eq!(simulate(&[], "").status, 2);
    assert_eq!(simulate(&["-f", "no/such/file"], "").status, 2);
}

#[test]
fn malformed_documents_are_told_with_file_document_line_and_path() {
    let text = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\napiVersion: v1\nkind: Pod\n\
                metadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    resources:\n      \
                requests:\n        nvidia.com/gpu: many\n";
    let ran = simulate(&["-f", "-"], text);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    let place = "-: document 2, line 14: spec.containers[0].resources.requests[nvidia.com/gpu]: ";
    assert!(ran.stderr.contains(place), "{}", ran.stderr);
    for (text, told) in [
        ("kind: Pod\n", "-: document 1, line 1: has no apiVersion"),
        ("a: 1\n---\nb: [\n", "-: document 2, line "),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: vip}\n",
            "line 4: spec.priorityClassName: no PriorityClass \"vip\"",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
          profiles:\n- schedulerName: a\n  plugins:\n    filter:\n      enabled:\n      \
          - name: Nope\n",
            "line 8: profiles[0].plugins.filter.enabled[0]: plugin \"Nope\"",
        ),
    ] {
        let ran = simulate(&["-f", "-"], text);
        assert_eq!(ran.status, 2, "{text}");
        assert!(ran.stderr.contains(told), "{told:?} is not in {:?}", ran.stderr);
    }
}

#[test]
fn nothing_in_a_name_reaches_the_terminal_unescaped() {
    let evil = "x\u{1b}[2J\u{202e}\n";
    let mut gated = pod(evil, 1);
    gated["spec"]["schedulingGates"] = json!([{"name": evil}]);
    let mut stranger = pod("s", 1);
    stranger["spec"]["schedulerName"] = json!(evil);
    let mut labelled = node(evil, 1);
    labelled["metadata"]["labels"] = json!({"example.com/pool": evil});
    labelled["spec"] = json!({"taints": [{"key": evil, "value": evil, "effect": "NoSchedule"}]});
    let mut kind = json!({"apiVersion": evil, "kind": evil, "metadata": {"name": evil}});
    kind["metadata"]["namespace"] = json!(evil);
    let twice = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": evil}});
    let mut member = pod(&format!("{evil}m"), 1);
    member["spec"]["schedulingGroup"] = json!({"podGroupName": evil});
    let group = pod_group(evil, 2);
    let input = list(&[twice, labelled, gated, stranger, pod("plain", 1), kind, member, group]);
    for ran in [simulate(&["-f", "-"], &input), simulate(&["-f", "-"], &input.replace('1', "-1"))] {
        let printed = [ran.stdout, ran.stderr].concat();
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!printed.contains(bad), "{printed:?}");
    }
}

#[test]
fn absurd_amounts_do_no_harm() {
    let mut huge = pod("huge", 1);
    let amounts =
        json!({"cpu": "9E", "memory": "8191Pi", "nvidia.com/gpu": 9_007_199_254_740_992u64});
    huge["spec"]["containers"][0]["resources"]["requests"] = amounts.clone();
    let mut nodes: Vec<Value> = (0..3).map(|n| node(&format!("n-{n}"), 1)).collect();
    for node in &mut nodes {
        node["status"]["allocatable"] = amounts.clone();
    }
    nodes.push(huge);
    let ran = simulate(&["-f", "-"], &list(&nodes));
    assert!(matches!(ran.status, 0 | 1), "{}", ran.stderr);
}
