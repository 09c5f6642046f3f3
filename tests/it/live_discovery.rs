//! Dynamic resource allocation on the real API server: what a server must have, and what not.

use berth_stand::{Options, Stand};

use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod};

#[test]
fn a_server_without_devices_is_scheduled_all_the_same() {
    let options = Options {
        runtime_config: "resource.k8s.io/v1=false,resource.k8s.io/v1beta1=false,\
                         resource.k8s.io/v1beta2=false"
            .to_owned(),
        ..Options::default()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    let berth = Berth::start(&stand, FAST);
    create(&api, &gpu_pod("fits", 8));
    assert_eq!(bound(&api, "fits"), "n-1");
    let log = berth.log();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("not served by this API server")).collect();
    let kinds = ["resourceslices", "deviceclasses", "resourceclaims", "devicetaintrules"];
    assert!(matches!(&told[..], [line] if kinds.iter().all(|it| line.contains(it))), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    assert_eq!(berth.terminate(), Some(0));
}
