//! Claims that are made to take long, in an engine with every plugin: each ends within its steps with
//! a message on its pod, and others have their turn meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::engine::{Decision, Engine, Input, Limits, Outcome, ReportLevel, Setup};
use berth_core::framework::{Op, Profile, ProfileSpec};
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::testkit::parse;
use berth_core::types::claim::{
    ClaimKey, ClaimRequest, ClaimSpec, DeviceDemand, DeviceRequest, ResourceClaim,
};
use berth_core::types::{Text, Timestamp, Value};

const NOW: Timestamp = Timestamp(1_000);
/// 1,000,000 steps.
const FILTER_TIMEOUT: &str = "40ms";
const STEPS_MAX: u64 = 1_000_000;

struct World {
    engine: Engine,
    polls: usize,
    planned: Vec<Text>,
    /// Steps of decisions, by pod.
    steps: BTreeMap<Text, u64>,
    told: BTreeMap<Text, Text>,
}

impl World {
    /// Eight nodes of eight devices, which differ in their `uuid`.
    fn new() -> World {
        World::with(Limits::default())
    }

    fn with(limits: Limits) -> World {
        let args = [("filterTimeout".into(), Value::text(FILTER_TIMEOUT))];
        let mut spec = ProfileSpec::default_named("");
        spec.args.insert("DynamicResources".into(), Value::Map(args.into()));
        let profile = Profile::build(&spec, berth_plugins::registry()).expect("a profile");
        let setup = Setup {
            selectors: Some(berth_plugins::selectors()),
            limits,
            report: ReportLevel::Scores,
            ..Setup::default()
        };
        let mut world = World {
            engine: Engine::new(vec![profile], setup),
            polls: 0,
            planned: Vec::new(),
            steps: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        world.events("deviceclass gpu select=\"device.driver == 'gpu.example.com'\"");
        for at in 0..8 {
            world.events(&format!("node n{at} cpu=1000 mem=1000Gi pods=1000"));
            let devices = format!("gpu-0..7 model=H100 uuid=u{at}#");
            world.events(&format!("slice s{at} node=n{at} devices=\"{devices}\""));
        }
        world
    }

    fn events(&mut self, text: &str) {
        for event in parse(text).expect("the statements are well formed") {
            self.engine.handle(Input::Cluster(event), NOW);
        }
    }

    fn claim(&mut self, name: &str, demand: DeviceDemand) {
        let claim = ResourceClaim {
            key: ClaimKey { namespace: "default".into(), name: name.into() },
            uid: format!("claim-{name}").into(),
            spec: Arc::new(ClaimSpec { demand: Arc::new(demand), config: Vec::new() }),
            ..ResourceClaim::default()
        };
        let event = ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim)));
        self.engine.handle(Input::Cluster(event), NOW);
    }

    /// Hands in pods that want nothing special, every fourth of them a device.
    fn others(&mut self, count: usize) {
        for at in 0..count {
            let claims = if at % 4 == 0 { format!(" claims=x=c{at}") } else { String::new() };
            if at % 4 == 0 {
                let selector = "device.attributes['gpu.example.com'].model == 'H100'";
                self.claim(&format!("c{at}"), demand(vec![request("r", &[selector.into()])]));
            }
            self.events(&format!("pod p{at} cpu=1{claims}"));
        }
    }

    fn poll(&mut self) -> bool {
        self.polls += 1;
        let poll = self.engine.poll(NOW);
        for decision in poll.decisions {
            match decision {
                Decision::Report(report) => {
                    self.steps.insert(report.pod.name.clone(), report.steps);
                    if report.outcome == Outcome::Planned {
                        self.planned.push(report.pod.name);
                    }
                }
                Decision::Write(write) => {
                    if let Op::SetCondition { pod, condition, .. } = write.op {
                        self.told.insert(pod.name, condition.message);
                    }
                }
                Decision::Ask(_) | Decision::Notice(_) => {}
            }
        }
        poll.working
    }

    /// Polls until so many pods have been placed. Returns how many polls that took.
    fn placed(&mut self, count: usize) -> usize {
        let before = self.polls;
        while self.planned.len() < count {
            assert!(self.poll() || self.planned.len() >= count, "somebody fits nowhere");
            assert!(self.polls - before < 5_000, "others never get their turn");
        }
        self.polls - before
    }
}

fn request(name: &str, selectors: &[String]) -> DeviceRequest {
    let selectors = selectors.iter().map(|text| Text::from(&**text)).collect();
    DeviceRequest { selectors, ..DeviceRequest::exact(name, "gpu", 1) }
}

fn demand(requests: Vec<DeviceRequest>) -> DeviceDemand {
    let requests = requests.into_iter().map(ClaimRequest::only).collect();
    DeviceDemand { requests, constraints: Vec::new() }
}

/// A third and more of the 1,000,000 cost units that Kubernetes allows for each device, which it looks at
/// by itself; true.
fn costly(nth: usize) -> String {
    let list = format!("[{}]", ["0"; 29].join(","));
    let id = "device.attributes['gpu.example.com'].uuid";
    format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c < 1 && {id} != 'x{nth}')))")
}

/// A claim of 32 requests with 32 selectors each.
fn thousand_selectors() -> DeviceDemand {
    let selectors =
        |at: usize| -> Vec<String> { (0..32).map(|nth| costly(32 * at + nth)).collect() };
    let of = |at| request(&format!("r{at}"), &selectors(at));
    demand((0..32).map(of).collect())
}

#[test]
fn a_thousand_costly_selectors_end_within_the_steps_and_say_so() {
    let mut world = World::new();
    world.claim("many", thousand_selectors());
    world.events("pod hostile claims=x=many");
    while !world.told.contains_key("hostile") {
        assert!(world.poll() || world.told.contains_key("hostile"), "it says nothing");
    }
    let told = &world.told["hostile"];
    assert!(told.contains("timed out trying to allocate devices: selector"), "{told}");
    assert!(told.contains("more steps than filterTimeout allows"), "{told}");
    let steps = world.steps["hostile"];
    // One evaluation more may have begun.
    assert!(steps <= STEPS_MAX + 500_000, "{steps} steps");
    assert!(world.polls > 1, "it has paused");
}

#[test]
fn others_have_their_turn_between_costly_selectors() {
    let mut alone = World::new();
    alone.others(200);
    let alone = alone.placed(200);
    for hostile in [1, 5] {
        let mut world = World::new();
        for at in 0..hostile {
            world.claim(&format!("many-{at}"), thousand_selectors());
            world.events(&format!("pod hostile-{at} claims=x=many-{at}"));
        }
        world.poll();
        world.others(200);
        let beside = world.placed(200);
        // Each has a few polls before it counts as hard.
        assert!(beside <= 2 * alone + 4 * hostile + 2, "{beside} beside {hostile}, {alone} alone");
    }
}

/// kubernetes/kubernetes#131730.
#[test]
fn claims_that_can_not_all_be_had_are_proven_so_without_trying_every_order() {
    let mut world = World::new();
    for at in 0..9 {
        world.claim(&format!("one-{at}"), demand(vec![request("r", &[])]));
    }
    let claims: Vec<String> = (0..9).map(|at| format!("x{at}=one-{at}")).collect();
    world.events(&format!("pod too-many claims={}", claims.join(",")));
    while !world.told.contains_key("too-many") {
        assert!(world.poll() || world.told.contains_key("too-many"), "it says nothing");
    }
    let told = &world.told["too-many"];
    assert!(told.contains("8 cannot allocate all claims"), "{told}");
    assert!(world.steps["too-many"] < 40_000, "{} steps", world.steps["too-many"]);
}

#[test]
fn what_filter_has_looked_for_over_many_polls_is_not_looked_for_again() {
    let steps = |steps_a_poll| {
        let mut world = World::with(Limits { steps_a_poll, ..Limits::default() });
        world.events("node big cpu=1000 mem=1000Gi pods=1000");
        for at in 0..4 {
            let shape = "node=big pool=big of=4";
            world.events(&format!("slice big{at} {shape} devices=\"s{at}-0..127 model=A100\""));
        }
        let selector = "device.attributes['gpu.example.com'].model == 'A100'";
        let many = DeviceRequest { ..request("r", &[selector.into()]) };
        let mode = berth_core::types::claim::AllocationMode::ExactCount(32);
        world.claim("many", demand(vec![DeviceRequest { mode, ..many }]));
        world.events("pod p cpu=1 claims=x=many");
        world.placed(1);
        (world.steps["p"], world.polls as u64)
    };
    let (whole, _) = steps(10_000_000);
    let (parts, polls) = steps(700);
    assert!(polls > 10, "{polls} polls show nothing");
    // Each poll begins with what an attempt costs anyway.
    assert!(
        parts < whole + whole / 4 + 50 * polls,
        "{parts} steps in {polls} polls, {whole} in one"
    );
}
