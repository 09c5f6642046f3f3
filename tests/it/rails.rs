//! Rails and network cards, end to end: members of a gang on nodes that are half in use, each in another
//! way.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const DRA: &str = "resource.k8s.io/v1";

/// GPUs, or cards, of a node, by number.
type Numbers = BTreeSet<usize>;

/// The node's eight GPUs are on NVSwitches, with a card each.
fn node(name: &str) -> Value {
    let cards: Vec<String> = (0..8).map(|at| format!("mlx5_{at}:{at}")).collect();
    let topology = format!("nvswitch 0-7:900; nic {}", cards.join(" "));
    json!({"apiVersion": "v1", "kind": "Node",
           "metadata": {"name": name, "annotations": {"berth.dev/gpu-topology": topology}},
           "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}})
}

fn slice(node: &str, driver: &str, device: &str, kind: &str) -> Value {
    let devices: Vec<Value> = (0..8)
        .map(|at| json!({"name": format!("{device}-{at}"), "attributes": {"type": {"string": kind}}}))
        .collect();
    json!({"apiVersion": DRA, "kind": "ResourceSlice",
           "metadata": {"name": format!("{node}-{device}")},
           "spec": {"driver": driver, "nodeName": node, "devices": devices,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}

fn class(driver: &str) -> Value {
    let expression = format!("device.driver == '{driver}'");
    json!({"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": driver},
           "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

/// A claim for so many GPUs and as many cards; `had` are those that it has on a node.
fn claim(name: &str, n: usize, had: Option<(&str, &[usize])>) -> Value {
    let request = |name: &str, class: &str| json!({"name": name, "exactly": {"deviceClassName": class, "count": n}});
    let requests = [request("gpus", "gpu.nvidia.com"), request("cards", "dra.net")];
    let mut claim = json!({"apiVersion": DRA, "kind": "ResourceClaim",
                           "metadata": {"name": name, "namespace": "default"},
                           "spec": {"devices": {"requests": requests}}});
    if let Some((node, had)) = had {
        let result = |at: &usize, request: &str, driver: &str, device: &str| {
            json!({"request": request, "driver": driver, "pool": node,
                   "device": format!("{device}-{at}")})
        };
        let gpus = had.iter().map(|at| result(at, "gpus", "gpu.nvidia.com", "gpu"));
        let cards = had.iter().map(|at| result(at, "cards", "dra.net", "mlx5"));
        let results: Vec<Value> = gpus.chain(cards).collect();
        claim["status"] = json!({
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": "1"}],
        });
    }
    claim
}

/// A member takes more than half of a node's cores.
fn member(name: &str, node: Option<&str>) -> Value {
    let claims = json!({"requests": {"cpu": "5"}, "claims": [{"name": "devices"}]});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "berth", "schedulingGroup": {"podGroupName": "gang"},
                 "resourceClaims": [{"name": "devices", "resourceClaimName": name}],
                 "containers": [{"name": "main", "image": "i", "resources": claims}]}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// Nodes with what is in use there already, and members, of which the first may run.
fn world(held: &[&[usize]], n_members: usize, running: Option<(&str, &[usize])>) -> Vec<Value> {
    let mut objects = vec![class("gpu.nvidia.com"), class("dra.net")];
    for (at, held) in held.iter().enumerate() {
        let name = format!("n{at}");
        objects.push(node(&name));
        objects.push(slice(&name, "gpu.nvidia.com", "gpu", "gpu"));
        objects.push(slice(&name, "dra.net", "mlx5", "nic"));
        if !held.is_empty() {
            objects.push(claim(&format!("held-{at}"), held.len(), Some((&name, held))));
        }
    }
    let policy = json!({"gang": {"minCount": n_members}});
    objects.push(json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
                        "metadata": {"name": "gang", "namespace": "default"},
                        "spec": {"schedulingPolicy": policy}}));
    for at in 0..n_members {
        let (name, running) = (format!("w-{at}"), running.filter(|_| at == 0));
        objects.push(claim(&name, 4, running));
        objects.push(member(&name, running.map(|(node, _)| node)));
    }
    objects
}

fn config(test: &str, align: bool) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{align}.yaml"));
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
         - schedulerName: berth\n  \
           plugins: {{multiPoint: {{enabled: [{{name: NvlinkTopology, weight: 1}}]}}}}\n  \
           pluginConfig: [{{name: NvlinkTopology, args: {{alignRails: {align}}}}}]\n"
    );
    std::fs::write(&path, text).expect("a folder of our own");
    path.to_str().expect("UTF-8").to_owned()
}

/// Places the members; returns the GPUs and the cards of each.
fn placed(config: &str, objects: &[Value], n_members: usize) -> Vec<(Numbers, Numbers)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["simulate", "--config", config, "-f", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects});
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(list.to_string().as_bytes()).expect("it reads");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let numbers = |name: &str, device: &str| -> Numbers {
        let devices = result["claims"][format!("default/{name}")]["devices"].as_array();
        let names = devices.into_iter().flatten().filter_map(|it| it["device"].as_str());
        let numbers = names.filter_map(|name| name.strip_prefix(device)?.parse().ok());
        numbers.collect()
    };
    let members = (0..n_members).map(|at| format!("w-{at}"));
    members.map(|name| (numbers(&name, "gpu-"), numbers(&name, "mlx5-"))).collect()
}

/// Pairs of GPUs of one number, over all pairs of members.
fn pairs(members: &[(Numbers, Numbers)]) -> usize {
    let with = |at: usize| members[..at].iter().map(move |(other, _)| (at, other));
    let all = (0..members.len()).flat_map(with);
    all.map(|(at, other)| members[at].0.intersection(other).count()).sum()
}

#[test]
fn members_have_the_gpus_and_the_cards_of_one_that_runs() {
    let half = [4, 5, 6, 7];
    let objects = world(&[&[0, 1, 2, 3], &[], &[1], &[0, 7]], 4, Some(("n0", &half)));
    let half = Numbers::from(half);
    let members = placed(&config("one-runs", true), &objects, 4);
    let of_n3 = Numbers::from([1, 4, 5, 6]);
    // On n3 one of the four is in use.
    let mut sorted: Vec<&Numbers> = members.iter().map(|(gpus, _)| gpus).collect();
    sorted.sort_by_key(|gpus| **gpus != half);
    assert_eq!(sorted, [&half, &half, &half, &of_n3]);
    assert!(members.iter().all(|(gpus, cards)| gpus == cards), "{members:?}");
    // Without it each has the first that are free.
    let members = placed(&config("one-runs", false), &objects, 4);
    let mut sorted: Vec<&Numbers> = members.iter().skip(1).map(|(gpus, _)| gpus).collect();
    sorted.sort();
    let first = [[0, 1, 2, 3], [0, 2, 3, 4], [1, 2, 3, 4]].map(Numbers::from);
    assert_eq!(sorted, first.iter().collect::<Vec<_>>());
    assert!(members.iter().all(|(gpus, cards)| gpus == cards), "{members:?}");
}

#[test]
fn gangs_on_nodes_that_are_half_in_use_have_more_gpus_of_one_number() {
    let (with, without) = (config("half-in-use", true), config("half-in-use", false));
    let half: [&[usize]; 5] = [&[0, 1, 2, 3], &[0, 2, 4, 6], &[4, 5, 6], &[1, 3], &[]];
    let (mut aligned, mut as_they_come) = (0, 0);
    for n_members in 2..=4 {
        for start in 0..half.len() {
            let held: Vec<&[usize]> = (0..n_members).map(|at| half[(start + at) % 5]).collect();
            let objects = world(&held, n_members, None);
            for (config, sum) in [(&with, &mut aligned), (&without, &mut as_they_come)] {
                let members = placed(config, &objects, n_members);
                let whole = members.iter().all(|(gpus, cards)| gpus.len() == 4 && gpus == cards);
                assert!(whole, "{held:?}: {members:?}");
                *sum += pairs(&members);
            }
        }
    }
    assert!(aligned > as_they_come, "{aligned} pairs, without alignment {as_they_come}");
}
