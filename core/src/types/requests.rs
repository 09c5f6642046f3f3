//! What a pod requests: containers, init containers, sidecars, overhead, in-place resize.
//!
//! Source: k8s.io/component-helpers/resource `PodRequests`; facts for each rule are KEP-753
//! (sidecars), KEP-2837 (pod-level resources) and KEP-1287 (in-place resize).

use super::{Resources, Text, resources::AMOUNT_MAX};

/// CPU that a container without a CPU request counts as in scores. Unit: milli-CPU.
pub const NONZERO_CPU_MILLI: i64 = 100;
/// Memory that a container without a memory request counts as in scores. Unit: bytes (200 MiB).
pub const NONZERO_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

/// The requests of one container.
///
/// `cpu_set` and `memory_set` tell an explicit request (also of 0) from none, since only a missing
/// one counts as the non-zero default in scores.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRequests {
    pub requests: Resources,
    pub cpu_set: bool,
    pub memory_set: bool,
    /// An init container with `restartPolicy: Always`.
    pub sidecar: bool,
}

/// The containers of a pod in the order of its spec.
#[derive(Clone, Debug, Default)]
pub struct PodContainers {
    pub init: Vec<ContainerRequests>,
    pub main: Vec<ContainerRequests>,
    /// `spec.overhead`.
    pub overhead: Resources,
    /// `spec.resources.requests` by name; replaces the aggregate of the resources that it names.
    pub pod_level: Vec<(Text, i64)>,
}

/// Which of three amounts of a placed pod's containers counts while it is being resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Not resizing, or wanted, allocated and actual amounts all count: the largest.
    Largest,
    /// The wanted amount can't ever be granted here: it is left out.
    Infeasible,
}

/// What a pod takes on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRequests {
    pub real: Resources,
    /// As `real.cpu_milli`, with [`NONZERO_CPU_MILLI`] for each container that requests none.
    pub nonzero_cpu_milli: i64,
    /// As `real.memory_bytes`, with [`NONZERO_MEMORY_BYTES`] for each container that requests none.
    pub nonzero_memory_bytes: i64,
}

impl PodContainers {
    /// Returns what the pod requests: the larger of what runs together and the peak of its start.
    pub fn requests(&self) -> PodRequests {
        let mut real = self.total(|c| c.requests.clone());
        for (name, amount) in &self.pod_level {
            real.set(name, *amount);
        }
        // Upstream's scorer is built without the pod-level flag, so scores read the containers.
        let nonzero = self.total(nonzero);
        real.add(&self.overhead);
        let sum = |a: i64, b: i64| a.saturating_add(b).min(AMOUNT_MAX);
        PodRequests {
            nonzero_cpu_milli: sum(nonzero.cpu_milli, self.overhead.cpu_milli),
            nonzero_memory_bytes: sum(nonzero.memory_bytes, self.overhead.memory_bytes),
            real,
        }
    }

    fn total(&self, amount: impl Fn(&ContainerRequests) -> Resources) -> Resources {
        let mut running = Resources::default();
        for container in &self.main {
            running.add(&amount(container));
        }
        let mut sidecars = Resources::default();
        let mut peak = Resources::default();
        for container in &self.init {
            let own = amount(container);
            if container.sidecar {
                running.add(&own);
                sidecars.add(&own);
                peak.raise_to(&sidecars);
            } else {
                let mut step = sidecars.clone();
                step.add(&own);
                peak.raise_to(&step);
            }
        }
        running.raise_to(&peak);
        running
    }
}

fn nonzero(container: &ContainerRequests) -> Resources {
    let own = &container.requests;
    let or = |set: bool, amount, default| if set { amount } else { default };
    Resources {
        cpu_milli: or(container.cpu_set, own.cpu_milli, NONZERO_CPU_MILLI),
        memory_bytes: or(container.memory_set, own.memory_bytes, NONZERO_MEMORY_BYTES),
        ..Resources::default()
    }
}

/// Returns what a placed pod takes while it may be resizing: each of `wanted`, `allocated` and
/// `actual` is summed over the containers first, then the largest of each resource counts.
///
/// Per-container maxima would count a shift between containers twice (kubernetes#140046).
pub fn resized(
    wanted: &PodContainers,
    allocated: &PodContainers,
    actual: &PodContainers,
    resize: Resize,
) -> PodRequests {
    let mut total = allocated.requests();
    total.raise_to(&actual.requests());
    if resize == Resize::Largest {
        total.raise_to(&wanted.requests());
    }
    total
}

impl PodRequests {
    fn raise_to(&mut self, other: &PodRequests) {
        self.real.raise_to(&other.real);
        self.nonzero_cpu_milli = self.nonzero_cpu_milli.max(other.nonzero_cpu_milli);
        self.nonzero_memory_bytes = self.nonzero_memory_bytes.max(other.nonzero_memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(milli: i64) -> ContainerRequests {
        ContainerRequests {
            requests: Resources { cpu_milli: milli, ..Resources::default() },
            cpu_set: milli > 0,
            ..ContainerRequests::default()
        }
    }

    fn sidecar(milli: i64) -> ContainerRequests {
        ContainerRequests { sidecar: true, ..cpu(milli) }
    }

    #[test]
    fn sidecars_add_up_and_init_steps_peak() {
        let pod = PodContainers {
            init: vec![cpu(500), sidecar(2000), cpu(3000)],
            main: vec![cpu(1000)],
            ..PodContainers::default()
        };
        assert_eq!(pod.requests().real.cpu_milli, 5000);
    }

    #[test]
    fn pod_level_replaces_and_overhead_is_added() {
        let pod = PodContainers {
            main: vec![cpu(1000)],
            overhead: Resources { cpu_milli: 50, ..Resources::default() },
            pod_level: vec![("cpu".into(), 700)],
            ..PodContainers::default()
        };
        assert_eq!(pod.requests().real.cpu_milli, 750);
        assert_eq!(pod.requests().nonzero_cpu_milli, 1050);
    }

    #[test]
    fn missing_requests_count_as_default_in_scores_only() {
        let pod = PodContainers { main: vec![cpu(0), cpu(250)], ..PodContainers::default() };
        let requests = pod.requests();
        assert_eq!(requests.real.cpu_milli, 250);
        assert_eq!(requests.nonzero_cpu_milli, 350);
        assert_eq!(requests.nonzero_memory_bytes, 2 * NONZERO_MEMORY_BYTES);
    }

    #[test]
    fn a_resize_is_summed_before_the_maximum() {
        let of = |a, b| PodContainers { main: vec![cpu(a), cpu(b)], ..PodContainers::default() };
        let total = resized(&of(1000, 2000), &of(2000, 1000), &of(2000, 1000), Resize::Largest);
        assert_eq!(total.real.cpu_milli, 3000);
        let total = resized(&of(9000, 0), &of(1000, 0), &of(1000, 0), Resize::Infeasible);
        assert_eq!(total.real.cpu_milli, 1000);
    }
}
