//! What is said on the command line → which gates are on; and the table against the real binary's.

use std::path::Path;

use super::*;

fn parse(values: &[&str]) -> Result<Gates, String> {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    Gates::parse(&values)
}

#[track_caller]
fn refused(value: &str, says: &str) {
    assert_eq!(parse(&[value]).expect_err("refused"), says);
}

#[test]
fn names_count_before_groups_and_the_last_value_counts() {
    let gates = parse(&["GenericWorkload=true, AllBeta=true", "GenericWorkload=false"]);
    refused_everything_but(gates, "GenericWorkload");
    assert!(parse(&["GenericWorkload=T"]).unwrap().enabled("GenericWorkload"));
    assert!(parse(&["kube:GenericWorkload=1,"]).unwrap().enabled("GenericWorkload"));
    assert!(!Gates::default().enabled("GenericWorkload"));
    assert!(Gates::default().enabled("ComponentFlagz"));
}

/// AllBeta moves gates that Berth does not follow; the one that is named stays as it is named.
fn refused_everything_but(gates: Result<Gates, String>, named: &str) {
    let error = gates.expect_err("beta gates that are off by default");
    assert!(error.contains("CoordinatedLeaderElection=true"), "{error}");
    assert!(!error.contains(named), "{error}");
}

#[test]
fn what_upstream_refuses_is_refused_in_its_words() {
    refused("Foo=true", "unrecognized feature gate: Foo");
    refused("foo:GenericWorkload=true", "component not registered: foo");
    refused("GenericWorkload", "missing bool value for GenericWorkload");
    refused(
        "GenericWorkload=maybe",
        "invalid value of GenericWorkload=maybe, err: strconv.ParseBool: parsing \"maybe\": \
         invalid syntax",
    );
    refused(
        "NodeDeclaredFeatures=false",
        "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true",
    );
    refused(
        "kube:GenericWorkload=true,ContextualLogging=true",
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not \
         mix use",
    );
}

#[test]
fn what_would_change_decisions_is_refused_and_what_does_nothing_is_told() {
    refused(
        "DRAListTypeAttributes=true,PodLevelResources=false",
        "feature gates that Berth follows at their default only: DRAListTypeAttributes=true, \
         PodLevelResources=false",
    );
    let gates = parse(&["MemoryQoS=false,KubeProxyIPVS=true,WatchList=true"]).unwrap();
    assert_eq!(
        gates.notes(),
        [
            "--feature-gates: without effect here: MemoryQoS",
            "--feature-gates: KubeProxyIPVS is deprecated; a future release won't know it",
        ]
    );
    assert_eq!(Gates::default().notes(), [""; 0]);
}

/// Prints the three lists: `cargo test -p berth --lib gates -- --nocapture`.
#[test]
fn every_gate_is_on_one_of_three_lists() {
    let list = |wanted: fn(&Kind) -> bool| -> Vec<&str> {
        all().filter(|gate| wanted(&gate.kind)).map(|gate| gate.name).collect()
    };
    let followed = list(|kind| matches!(kind, Kind::Followed(_)));
    let idle = list(|kind| *kind == Kind::NoEffect);
    let refused = list(|kind| *kind == Kind::RefusedUnlessDefault);
    println!("followed ({}): {}", followed.len(), followed.join(" "));
    println!("without effect ({}): {}", idle.len(), idle.join(" "));
    println!("refused away from the default ({}): {}", refused.len(), refused.join(" "));
    assert_eq!(followed.len() + idle.len() + refused.len(), all().count());
    let names: Vec<&str> = all().map(|gate| gate.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "by name, each once");
}

#[test]
fn stages_and_defaults_are_those_of_the_real_binary() {
    let facts =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/facts/observed-1.37/gates.tsv");
    let Ok(text) = std::fs::read_to_string(&facts) else {
        println!("skipped: {} is not there", facts.display());
        return;
    };
    let observed: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let ours: Vec<String> = all()
        .filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta))
        .map(|gate| format!("{}\t{}\t{}", gate.name, gate.stage.label(), gate.default))
        .collect();
    assert_eq!(ours, observed);
}
