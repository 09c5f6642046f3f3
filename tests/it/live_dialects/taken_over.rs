//! Berth in the place of another scheduler whose name jobs have in `schedulerName`.

use berth_stand::{ApiClient, Options, Stand, wait_for};
use serde_json::{Value, json};

use super::{crd, define, group};
use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, event, gpu_node, gpu_pod, node_of, told};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano";

fn of(scheduler: &str, name: &str, of_group: &str) -> Value {
    let mut pod = gpu_pod(name, 1);
    pod["spec"]["schedulerName"] = json!(scheduler);
    pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": of_group});
    pod
}

fn read_group(api: &ApiClient, name: &str) -> Value {
    let path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups";
    api.get(&format!("{path}/{name}")).expect("the group")
}

/// Jobs go on being submitted to `volcano`. As long as Volcano's own scheduler holds its Lease
/// nothing is written on its objects; once it has let go they are told how they stand.
#[test]
fn pods_of_a_name_that_is_taken_over_are_placed_and_their_groups_told_once_its_lease_is_free() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    define(&api, &crd("volcano"));
    create(&api, &gpu_node("n-1", 8));
    create(
        &api,
        &json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "volcano-system", "name": "volcano"},
            "spec": {"holderIdentity": "vc", "leaseDurationSeconds": 3600,
                     "renewTime": "2026-01-01T00:00:00.000000Z"},
        }),
    );
    let taken = "profiles: [{schedulerName: berth, pluginConfig: [{name: GangScheduling, args: \
                 {dialects: [volcano], schedulerNames: [volcano]}}]}]\n";
    let config = format!("{FAST}{taken}");
    let berth = Berth::start(&stand, &config);
    for (name, members) in [("whole", 2), ("short", 3)] {
        let spec = json!({"minMember": members});
        create(&api, &group("scheduling.volcano.sh/v1beta1", name, spec));
    }
    let made = |name: &str| read_group(&api, name)["metadata"]["resourceVersion"].clone();
    let versions = [made("whole"), made("short")];
    for (name, of_group) in
        [("whole-0", "whole"), ("whole-1", "whole"), ("short-0", "short"), ("short-1", "short")]
    {
        create(&api, &of("volcano", name, of_group));
    }
    create(&api, &of("nobody", "stranger", "stranger"));

    assert_eq!([bound(&api, "whole-0"), bound(&api, "whole-1")], ["n-1", "n-1"]);
    let scheduled = event(&api, "whole-0", "Scheduled");
    assert_eq!(scheduled["reportingController"], "volcano");
    let short = told(&api, "short-0", "NotReadyForScheduling");
    assert_eq!(short["message"], "waiting for 2 of 3 members of short");
    // Of the one that is bound, a status was due long before.
    assert_eq!([made("whole"), made("short")], versions, "not written to");
    assert_eq!(berth.terminate(), Some(0));

    // A holder that doesn't renew counts for as long as it may; a Lease that is gone is nobody's.
    api.delete(LEASE).expect("the Lease is deleted");
    let berth = Berth::start(&stand, &config);
    for (name, phase) in [("whole", "Running"), ("short", "Inqueue")] {
        wait_for(SOON, &format!("{name} is {phase}"), || {
            (read_group(&api, name)["status"]["phase"] == phase).then_some(())
        });
    }
    create(&api, &of("volcano", "short-2", "short"));
    ["short-0", "short-1", "short-2"].iter().for_each(|name| drop(bound(&api, name)));
    assert_eq!(node_of(&api, "stranger"), None, "another scheduler's");
    assert_eq!(berth.terminate(), Some(0));
}
