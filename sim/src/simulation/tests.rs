//! The driver without faults.

use std::sync::Arc;

use berth_core::engine::{Engine, Setup};
use berth_core::framework::{Profile, ProfileSpec};
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Node, Phase, Pod, PodSpec};

use super::*;

fn engine() -> Engine {
    let spec = ProfileSpec::default_named("default-scheduler");
    let profile = Profile::build(&spec, berth_plugins::registry()).expect("the profile is built");
    Engine::new(vec![profile], Setup::default())
}

fn pod(name: &str) -> ClusterEvent {
    let spec = PodSpec { scheduler_name: "default-scheduler".into(), ..PodSpec::default() };
    let (namespace, name) = ("default".into(), name.into());
    let pod = Pod { namespace, name, spec: Arc::new(spec), ..Pod::default() };
    ClusterEvent::PodApplied(Box::new(pod))
}

#[test]
fn pods_are_bound_and_started_and_a_second_phase_goes_on() {
    let start = Timestamp(1_000_000);
    let mut world = World::default();
    world.apply(pod("a"), start);
    let mut simulation = Simulation::new(engine(), world, start);
    let quiet = simulation.run_until_quiet(&Patience::default());
    assert!(matches!(quiet, Quiet::Since(_)), "{quiet:?}");
    let waiting = simulation.world().pods().next().expect("the pod is there");
    assert_eq!(waiting.node_name, None);
    assert!(waiting.unscheduled.is_some());

    let node = Node { name: "n".into(), pods_max: 10, ..Node::default() };
    let now = simulation.now();
    simulation.world_mut().apply(ClusterEvent::NodeApplied(node), now);
    simulation.world_mut().apply(pod("b"), now);
    simulation.run_until_quiet(&Patience::default());
    for pod in simulation.world().pods() {
        assert_eq!(pod.phase, Phase::Running, "{}", pod.name);
        assert_eq!(pod.unscheduled, None);
    }
}
