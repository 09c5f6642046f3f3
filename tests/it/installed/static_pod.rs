//! The static pod is kubeadm's, but for what it says.

use serde_json::{Value, json};

use super::{objects, read, root, texts};

/// Image and command, and what follows from the image: whose user may not read scheduler.conf.
const DIFFERENT: [&str; 3] =
    ["/spec/containers/0/command/0", "/spec/containers/0/image", "/spec/securityContext/runAsUser"];

/// Collects the places at which two values differ.
fn differences(at: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let side = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                let (a, b) = (side(a).unwrap_or(Value::Null), side(b).unwrap_or(Value::Null));
                differences(&format!("{at}/{key}"), &a, &b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{at}/{index}"), a, b, found);
            }
        }
        _ if a == b => {}
        _ => found.push(at.to_owned()),
    }
}

#[test]
fn it_differs_from_kubeadms_in_image_command_and_user() {
    let [ours] = &objects(&root().join("manifests/static-pod"))[..] else {
        panic!("one static pod");
    };
    let text = read(&root().join("tests/it/installed/kubeadm-1.37-kube-scheduler.yaml"));
    let theirs: Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut found = Vec::new();
    differences("", &theirs, ours, &mut found);
    assert_eq!(found, DIFFERENT);
    assert_eq!(ours["spec"]["securityContext"]["runAsUser"], json!(0));
    let command = texts(&ours["spec"]["containers"][0]["command"]);
    assert_eq!(command[0], "berth");
    assert_eq!(command[1..], texts(&theirs["spec"]["containers"][0]["command"])[1..]);
}
