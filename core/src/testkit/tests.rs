//! Tests of the notation.

use super::*;
use crate::snapshot::devices::entries::PodClaimState;
use crate::snapshot::devices::selections::Selected;
use crate::types::ClaimKey;
use crate::types::claim::AllocationMode;
use crate::types::device::{AttributeValue, NANOS};

#[test]
fn statements_become_objects() {
    let cluster = cluster(
        "node a cpu=4 mem=8Gi gpu=8 labels=zone=z1 taints=k=v:NoSchedule\n\
         pod x on=a cpu=1500m  # placed\n\
         pod p affinity=\"zone in z1; gpu > 4 | @name in a\" tol=k:NoSchedule,*",
    )
    .expect("the statements are well formed");
    let (idx, node) = cluster.nodes().iter().next().expect("there is a node");
    assert_eq!(node.allocatable.amount("nvidia.com/gpu"), 8);
    assert_eq!(cluster.nodes().requested(crate::snapshot::ResourceId::CPU, idx), 1500);
    let pod = pod(&cluster, "p").expect("p is there");
    let terms = &pod.spec.node_affinity.required.as_ref().expect("it has terms").terms;
    assert_eq!((terms.len(), terms[0].labels.len(), terms[1].names.len()), (2, 2, 1));
    assert_eq!(pod.spec.tolerations.len(), 2);
}

#[test]
fn containers_that_may_need_devices_are_noted() {
    let cluster = cluster(
        "pod p cpu=1 d.io/gpu=2 init=\"mem=1Gi d.io/gpu=3\" sidecar=\"d.io/gpu=1\" container=\"cpu=1\"",
    )
    .expect("the statement is well formed");
    let pod = pod(&cluster, "p").expect("it is there");
    let noted: Vec<(&str, bool, i64, u32)> = pod
        .spec
        .extended
        .iter()
        .map(|own| (&*own.container, own.ends, own.resources[0].amount, own.resources[0].index))
        .collect();
    assert_eq!(noted, [("c0", true, 3, 0), ("c1", false, 1, 0), ("c2", false, 2, 1)]);
}

#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    for (text, message) in [
        ("node a color=red", "unknown key \"color\" in `node a color=red`"),
        ("pod", "a name is missing in `pod`"),
        ("boat b", "unknown statement \"boat\" in `boat b`"),
        ("node a cpu=x", "\"x\" is no quantity in `node a cpu=x`"),
        ("pod p spread=\"zone", "a quote is not closed in `pod p spread=\"zone`"),
        ("slice s devices=\"g a=[1+x]\"", "[1+x] mixes kinds in `slice s devices=\"g a=[1+x]\"`"),
        ("slice s devices=\"g mem:8x\"", "\"8x\" is no quantity in `slice s devices=\"g mem:8x\"`"),
        ("claim c wants=\"r: 1\"", "\"1\" names no class in `claim c wants=\"r: 1\"`"),
        (
            "claim c allocated=\"r g\"",
            "\"g\" is not driver/pool/device in `claim c allocated=\"r g\"`",
        ),
    ] {
        assert_eq!(parse(text).expect_err("it is wrong"), message);
    }
}

#[test]
fn arguments_are_read_like_json_with_bare_words() {
    let text = "a: 1\nb: {c: [x, \"y z\"], d: true}";
    let value = literal::parse(text).expect("it is well formed");
    assert_eq!(value.to_string(), r#"{"a": 1, "b": {"c": ["x", "y z"], "d": true}}"#);
    assert!(literal::parse("a: 1\na: 2").is_err());
    assert!(literal::parse("a: }").is_err());
}

#[test]
fn a_case_file_keeps_its_prose_when_rewritten() {
    let text = "# P\n\n## One\nprose\n```cluster with Q\nnode a\n```\n```expect\nold\n```\nend\n";
    let file = case::CaseFile::read(text).expect("it is well formed");
    assert_eq!((file.plugin.as_str(), file.cases[0].with.as_slice()), ("P", &["Q".to_owned()][..]));
    let rewritten = file.rewritten(&["new\n".to_owned()]);
    assert_eq!(rewritten, text.replace("old", "new"));
}

#[test]
fn statements_about_devices_become_objects() {
    let cluster = cluster(
        "slice s driver=d.io pool=p/q gen=3 of=2 node=a devices=\"g-0..2 i=# model=H100 \
         v=version(1.2.0) n=[0+1] s='8' mem:1.5Gi(default=1Gi,min=1Gi,step=1Gi) shared \
         uses=c(m=2); x model=H100\" counters=\"c m=8 n=1k\"\n\
         claim c wants=\"a: all gpu tol=k:NoExecute where e == 1 where f; b: big=2 gpu | small=1 gpu \
         cap=mem=1Gi; c: admin ?New gpu; d: ?\" match=\"d.io/model of a,b\" \
         allocated=\"a d.io/p/q/g-1 share=1 takes=mem=1Gi\" usable=\"@name in a\" reserved=p\n\
         pod p claims=x=c templates=y=t,z=t made=y=made,z",
    )
    .expect("the statements are well formed");
    let devices = cluster.devices();
    let slice = devices.slices().next().expect("there is a slice");
    assert_eq!((&*slice.driver, &*slice.pool, slice.generation), ("d.io", "p/q", 3));
    let names: Vec<&str> = slice.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(names, ["g-0", "g-1", "g-2", "x"]);
    let device = &slice.devices[2];
    assert!(Arc::ptr_eq(&device.model, &slice.devices[0].model), "they share what is alike");
    assert_eq!(device.model.attributes.len(), 1, "what all devices have");
    assert_eq!(device.attribute("d.io", "d.io/i"), Some(&AttributeValue::Int(2)));
    assert_eq!(device.published("s"), Some(&AttributeValue::String("8".into())));
    assert_eq!(device.published("n"), Some(&AttributeValue::Ints([0, 1].into())));
    assert_eq!(device.capacity("mem").expect("it has it").value.nanos, 3 * (NANOS << 29));
    assert_eq!(device.consumes[0].counters[0].1.nanos, 2 * NANOS);
    assert_eq!(slice.counter_sets[0].counters[1].1.nanos, 1000 * NANOS);
    let claim = &devices.claims().next().expect("there is a claim").claim;
    let requests = &claim.spec.demand.requests;
    let asked: Vec<Vec<&str>> =
        requests.iter().map(|r| r.alternatives.iter().map(|a| &*a.name).collect()).collect();
    assert_eq!(asked, [vec!["a"], vec!["b/big", "b/small"], vec!["c"], vec![]]);
    let first = &requests[0].alternatives[0];
    assert_eq!((&first.mode, first.selectors.len()), (&AllocationMode::All, 2));
    assert!(requests[2].alternatives[0].admin && requests[1].first_available);
    let result = &claim.allocation.as_ref().expect("it is allocated").results[0];
    assert_eq!((&*result.id.pool, &*result.id.device), ("p/q", "g-1"));
    let states = pod(&cluster, "p").expect("it is there");
    let states: Vec<PodClaimState> =
        states.spec.claims.iter().map(|entry| cluster.claim_of(&states, entry)).collect();
    let key = |name: &str| ClaimKey { namespace: "default".into(), name: name.into() };
    let made = [PodClaimState::Claim(key("c")), PodClaimState::Claim(key("made"))];
    assert_eq!(states[..2], made);
    assert_eq!(states[2], PodClaimState::NotNeeded);
}

#[test]
fn the_tiny_selectors_tell_devices_apart() {
    let mut cluster = cluster("node a\nslice s node=a devices=\"g kind=a mem:40Gi; h mem:80Gi\"")
        .expect("the statements are well formed");
    let (_, node) = cluster.nodes().iter().next().expect("there is a node");
    let node = node.clone();
    for (expression, wanted) in [
        ("attr.kind == a", [Selected::Yes, Selected::Error]),
        ("has.kind && attr.kind != b", [Selected::Yes, Selected::No]),
        ("driver == gpu.example.com && cap.mem >= 80Gi", [Selected::No, Selected::Yes]),
        ("device.driver == 'x'", [Selected::Error, Selected::Error]),
    ] {
        assert!(cluster.declare_selector(&expression.into(), &mut |_| true));
        let pools = cluster.devices().pools_on(&node);
        let selections = cluster.devices().selections();
        let told = [0, 1].map(|at| {
            let device = &pools[0].devices[at];
            selections.selected(expression, device.slice_idx, device.at)
        });
        assert_eq!(told, wanted, "{expression}");
    }
}
