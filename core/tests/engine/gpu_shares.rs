//! Parts of GPUs by annotation: what is in flight, lost, or another's, is never given out twice.

use std::sync::Arc;

use berth_core::engine::{Setup, WriteResult};
use berth_core::framework::{
    Cycle, CycleState, Filter, Hint, HintContext, Interest, Op, PluginDef, Reason, Reserve,
    Verdict, Work,
};
use berth_core::snapshot::{Change, NodeIdx, Overlay};
use berth_core::types::gpu_share::{GPU_COUNT, GPU_FRACTIONS};
use berth_core::types::{GpuNumbers, GpuShare, Node, Pod, ShareSize};

use crate::build::{With, gang, labelled, node, pod};
use crate::gangs::group;
use crate::harness::{World, unknown};
use crate::plugins::def;

/// Filter: so much of one GPU is free. Reserve: takes the one of which least is.
pub(crate) const PARTS: PluginDef = def("Parts", |_, p| {
    p.gpu_shares();
    p.filter(Arc::new(Parts));
    p.reserve(Arc::new(Parts));
    p.interest(Arc::new(Parts));
});

struct Parts;

impl Filter for Parts {
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        let gpus = cycle.cluster.shared_gpus(node);
        let (Some(share), Ok(gpus)) = (cycle.pod.gpu_share(), gpus) else { return Verdict::Fit };
        let fits = match cycle.cluster.gpus_given(&cycle.pod.uid) {
            Some(given) => gpus.are_free(&share, given),
            None => gpus.n_with(&share) >= usize::from(share.n_gpus),
        };
        if fits { Verdict::Fit } else { Verdict::Unschedulable(Reason::of("no part")) }
    }
}

impl Reserve for Parts {
    fn reserve(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        _: &CycleState,
        node: NodeIdx,
        _: &mut Work,
    ) -> Result<(), Reason> {
        let Some(share) = pod.gpu_share() else { return Ok(()) };
        let gpus = overlay.cluster().shared_gpus_but(node, Some(&pod.uid));
        let way = gpus.ok().and_then(|gpus| gpus.ways(&share).into_iter().next());
        let given = way.is_some_and(|way| overlay.give_gpus(&pod.uid, way.gpus));
        if given { Ok(()) } else { Err(Reason::of("no part")) }
    }
}

impl Interest for Parts {
    fn hint(&self, _: HintContext<'_>, change: &Change) -> Hint {
        let frees = matches!(change, Change::PodFreed { .. } | Change::PodUpdated { .. });
        if frees { Hint::Queue } else { Hint::Skip }
    }
}

fn sharing(name: &str, n_gpus: u16) -> Node {
    let n_gpus = n_gpus.to_string();
    labelled(node(name, 64), &[(GPU_FRACTIONS, "true"), (GPU_COUNT, &n_gpus)])
}

fn part(name: &str, milli: u16) -> Pod {
    let mut pod = pod(name, 1);
    let share = GpuShare { size: ShareSize::Milli(milli), n_gpus: 1 };
    Arc::make_mut(&mut pod.spec).gpu_share = Some(Ok(share));
    pod
}

fn world() -> World {
    let plugins = ["Order", "Gangs", "Cpu", "Parts", "Prepare", "Binder"];
    let mut w = World::of(&plugins, Setup::default());
    w.node(sharing("n", 2));
    w
}

fn free(w: &World) -> Vec<i64> {
    let cluster = w.engine.cluster();
    let n = cluster.nodes().index("n").expect("the node");
    cluster.shared_gpus(n).expect("it shares").milli().collect()
}

fn numbers(op: &Op) -> String {
    let Op::Bind { gpus, .. } = op else { panic!("{op:?}") };
    gpus.as_ref().map(GpuNumbers::to_string).unwrap_or_default()
}

fn has(w: &World, name: &str) -> String {
    let numbers = w.on_server(name).gpu_numbers.as_ref();
    numbers.map(GpuNumbers::to_string).unwrap_or_default()
}

#[test]
fn pods_in_flight_never_get_more_of_a_gpu_than_there_is_and_a_restart_sees_the_same() {
    let mut w = world();
    for name in ["a", "b", "c"] {
        w.pod(part(name, 600));
    }
    let (a, b) = (w.bind_of("a"), w.bind_of("b"));
    assert_eq!((numbers(&a.op), numbers(&b.op)), ("0".into(), "1".into()));
    assert_eq!((free(&w), w.held("c")), (vec![400, 400], String::new()));
    w.pod(part("d", 400));
    let d = w.bind_of("d");
    assert_eq!((numbers(&d.op), free(&w)), ("0".into(), vec![0, 400]));
    [a, b, d].into_iter().for_each(|bind| w.carry_out(bind));
    assert_eq!((has(&w, "a"), has(&w, "b"), has(&w, "d")), ("0".into(), "1".into(), "0".into()));
    assert_eq!(free(&w), [0, 400]);
    w.restart();
    w.node(sharing("n", 2));
    w.run();
    assert_eq!((free(&w), w.held("c")), (vec![0, 400], String::new()));
    w.pod_gone("b");
    w.run();
    assert_eq!((has(&w, "c"), free(&w)), ("1".into(), vec![0, 400]));
}

#[test]
fn a_lost_bind_that_was_done_brings_its_gpu_back_with_the_watch() {
    let mut w = world();
    w.pod(part("a", 600));
    let bind = w.bind_of("a");
    let (_, seen) = w.server.carry_out(&bind.op);
    w.answer(&bind, unknown());
    assert_eq!(free(&w), [400, 1000], "until it is settled it counts as done");
    w.pod(seen.expect("it is bound"));
    w.wait_secs(60);
    assert_eq!((has(&w, "a"), free(&w)), ("0".into(), vec![400, 1000]));
}

#[test]
fn a_lost_bind_that_was_not_done_gives_its_gpu_back() {
    let mut w = world();
    w.pod(part("a", 600));
    let bind = w.bind_of("a");
    w.answer(&bind, WriteResult::NotSent { message: "no connection".into() });
    w.think();
    assert_eq!(free(&w), [1000, 1000]);
    w.wait_secs(60);
    assert_eq!((w.bound("a"), has(&w, "a"), free(&w)), ("n".into(), "0".into(), vec![400, 1000]));
}

/// Somebody binds a pod to the same GPU while the plan waits for what it writes before the bind. There
/// is room on the other one, but not where the plan stands.
#[test]
fn a_gpu_that_another_has_taken_meanwhile_is_not_bound_to() {
    let mut w = world();
    w.pod(part("a", 600).label("create", "x"));
    let create = w.write(|op| matches!(op, Op::Create { .. }));
    let mut stranger = part("stranger", 500).on("n");
    stranger.gpu_numbers = GpuNumbers::parse("0", ',');
    w.pod(stranger);
    w.carry_out(create);
    w.think();
    let binds = |op: &Op| matches!(op, Op::Bind { .. });
    assert!(!w.writes.iter().any(|write| binds(&write.op)), "{:?}", w.writes);
    w.wait_secs(60);
    assert_eq!((has(&w, "a"), free(&w)), ("1".into(), vec![500, 400]));
}

#[test]
fn members_of_a_group_share_gpus_beside_each_other() {
    let mut w = world();
    group(&mut w, gang("g", 4));
    for name in ["a", "b", "c", "d"] {
        w.pod(part(name, 500).grouped("g"));
    }
    w.run();
    let got = ["a", "b", "c", "d"].map(|name| has(&w, name));
    assert_eq!((got, free(&w)), (["0", "0", "1", "1"].map(String::from), vec![0, 0]));
}
