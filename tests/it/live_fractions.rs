//! Parts of GPUs by annotation on the real API server: which GPU it is stands on the bound pod.

use berth_stand::{ApiClient, Options, Stand};
use serde_json::{Value, json};

use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, read, told};

const CONFIG: &str = "profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: \
                      {enabled: [{name: GpuPacking, weight: 1}, {name: GpuFractions}]}}}]\n";

fn asking(name: &str, annotations: Value) -> Value {
    let mut pod = gpu_pod(name, 0);
    pod["metadata"]["annotations"] = annotations;
    pod
}

fn start(stand: &Stand) -> Berth {
    Berth::start(stand, &format!("{FAST}{CONFIG}"))
}

fn index(api: &ApiClient, name: &str) -> Value {
    assert_eq!(bound(api, name), "shared");
    read(api, name)["metadata"]["annotations"]["berth.dev/gpu-index"].clone()
}

#[test]
fn a_bound_pod_says_which_gpu_its_share_is_of() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let mut node = gpu_node("shared", 0);
    node["metadata"]["labels"]["berth.dev/gpu-fractions"] = json!("true");
    node["metadata"]["labels"]["nvidia.com/gpu.count"] = json!("2");
    create(&api, &node);
    let berth = start(&stand);

    create(&api, &asking("a", json!({"gpu-fraction": "0.6"})));
    assert_eq!(index(&api, "a"), "0");
    create(&api, &asking("b", json!({"alibabacloud.com/gpu-milli": "600"})));
    assert_eq!(index(&api, "b"), "1");
    create(&api, &asking("odd", json!({"gpu-fraction": "lots", "kept": "as it was"})));
    let message = told(&api, "odd", "Unschedulable")["message"].clone();
    let message = message.as_str().unwrap_or_default();
    assert!(
        message.contains("annotation gpu-fraction is \"lots\": it must be above 0"),
        "{message}"
    );
    assert_eq!(berth.terminate(), Some(0));

    // Another process knows it by the pods.
    let berth = start(&stand);
    create(&api, &asking("c", json!({"gpu-fraction": "0.4", "kept": "as it was"})));
    assert_eq!(index(&api, "c"), "0");
    assert_eq!(read(&api, "c")["metadata"]["annotations"]["kept"], "as it was");
    create(&api, &asking("d", json!({"gpu-fraction": "0.5"})));
    let message = told(&api, "d", "Unschedulable")["message"].clone();
    let message = message.as_str().unwrap_or_default();
    let numbers = "needs 500 of 1000 of a GPU; at most 400 of 1000 are free of one GPU (shared)";
    assert!(
        message.contains("Insufficient GPU fraction") && message.contains(numbers),
        "{message}"
    );
    assert_eq!(berth.terminate(), Some(0));
}
