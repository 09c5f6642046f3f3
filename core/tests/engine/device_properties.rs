//! Random histories of devices and claims: a warm class decides as a fresh engine does.

use berth_core::engine::{CycleReport, Decision, Engine, Input, Limits, Setup, WriteResult};
use berth_core::snapshot::ClusterEvent;
use berth_core::testkit::parse;
use berth_core::types::Timestamp;
use proptest::prelude::*;

use crate::build::{With, labelled, node, pod, profile};

const PLUGINS: &[&str] = &["Order", "Cpu", "Claims", "Rank", "Binder"];
const NOW: Timestamp = Timestamp(5_000);

/// A statement, with `{}` for the object's version.
fn statement() -> impl Strategy<Value = String> {
    let place = prop_oneof![Just("node=n0"), Just("node=n1"), Just("all"), Just("nodes=zone=z0")];
    let devices = prop_oneof![Just("g"), Just("g; h"), Just("h; i"), Just("")];
    let device = prop_oneof![Just("g"), Just("h"), Just("i")];
    prop_oneof![
        4 => (0..3u8, 1..3u8, 1..3u8, place, devices).prop_map(|(name, pool, of, place, devices)| {
            let head = format!("slice s{name} rv={{}} pool=p{pool} of={of} {place}");
            format!("{head} devices=\"{devices}\"")
        }),
        1 => (0..3u8).prop_map(|name| format!("-slice s{name}")),
        4 => (0..3u8, 1..3u8, device).prop_map(|(name, pool, device)| {
            format!("claim c{name} rv={{}} allocated=\"r gpu.example.com/p{pool}/{device}\"")
        }),
        2 => (0..3u8).prop_map(|name| format!("claim c{name} rv={{}}")),
        1 => (0..3u8).prop_map(|name| format!("node n{name} uid=u{name} cpu=8 labels=zone=z0,rank={name}")),
        1 => (0..3u8).prop_map(|name| format!("node n{name} uid=u{name} cpu=8 labels=zone=z1,rank=1")),
    ]
}

fn engine(steps_a_poll: u64) -> Engine {
    let limits = Limits { steps_a_poll, ..Limits::default() };
    Engine::new(vec![profile(PLUGINS, 0)], Setup { limits, ..Setup::default() })
}

/// A long-lived engine whose tables are warm, and the history of its cluster.
struct Warm {
    engine: Engine,
    history: Vec<ClusterEvent>,
    probes: u32,
}

impl Warm {
    fn new(steps_a_poll: u64) -> Warm {
        let mut warm = Warm { engine: engine(steps_a_poll), history: Vec::new(), probes: 0 };
        for name in ["n0", "n1"] {
            let node = labelled(node(name, 8), &[("zone", "z0")]);
            warm.event(ClusterEvent::NodeApplied(node));
        }
        ["wanted", "too"].iter().for_each(|name| warm.tell(&format!("claim {name} rv=1")));
        warm
    }

    fn tell(&mut self, text: &str) {
        let text = text.replace("{}", &(self.history.len() + 1).to_string());
        let events = parse(&text).unwrap_or_else(|error| panic!("{error}"));
        events.into_iter().for_each(|event| self.event(event));
    }

    fn event(&mut self, event: ClusterEvent) {
        self.history.push(event.clone());
        self.engine.handle(Input::Cluster(event), NOW);
    }

    /// Asks for a decision about a pod with these claims. Nothing comes of it: no write is sent.
    fn probe(&mut self, claims: &str) {
        self.probes += 1;
        let probe = pod(&format!("probe-{}", self.probes), 1).label("claims", claims);
        let added = Input::Cluster(ClusterEvent::PodApplied(Box::new(probe.clone())));
        self.engine.handle(added.clone(), NOW);
        let warm = decided(&mut self.engine);
        self.engine.handle(Input::Cluster(ClusterEvent::PodDeleted { uid: probe.uid }), NOW);
        let mut fresh = engine(1_000_000);
        for event in &self.history {
            fresh.handle(Input::Cluster(event.clone()), NOW);
        }
        fresh.handle(added, NOW);
        assert_eq!(warm, decided(&mut fresh));
    }
}

/// Polls until there is a report, and answers that no write was sent.
fn decided(engine: &mut Engine) -> String {
    let mut decisions = Vec::new();
    while !decisions.iter().any(|decision| matches!(decision, Decision::Report(_))) {
        decisions.extend(engine.poll(NOW).decisions);
    }
    let mut told = None;
    for decision in decisions {
        match decision {
            Decision::Write(write) => {
                let result = WriteResult::NotSent { message: "a probe".into() };
                engine.handle(Input::Outcome { write: write.id, result }, NOW);
            }
            Decision::Report(report) => told = Some(shown(&report)),
            Decision::Notice(_) | Decision::Ask(_) => {}
        }
    }
    told.expect("it was waited for")
}

fn shown(report: &CycleReport) -> String {
    format!("{:?} {} {}", report.chosen, report.feasible, report.message)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_warm_class_of_pods_with_claims_decides_as_a_fresh_engine_does(
        steps in prop::collection::vec((statement(), any::<bool>()), 1..25),
        steps_a_poll in prop_oneof![Just(1u64), Just(5), Just(20_000)],
    ) {
        let mut warm = Warm::new(steps_a_poll);
        for (statement, both) in steps {
            warm.tell(&statement);
            warm.probe(if both { "wanted,too" } else { "wanted" });
        }
    }
}
