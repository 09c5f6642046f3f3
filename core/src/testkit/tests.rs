//! Tests of the notation.

use super::*;

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
fn what_cannot_be_read_is_named_with_its_line() {
    for (text, message) in [
        ("node a color=red", "unknown key \"color\" in `node a color=red`"),
        ("pod", "a name is missing in `pod`"),
        ("boat b", "unknown statement \"boat\" in `boat b`"),
        ("node a cpu=x", "\"x\" is no quantity in `node a cpu=x`"),
        ("pod p spread=\"zone", "a quote is not closed in `pod p spread=\"zone`"),
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
