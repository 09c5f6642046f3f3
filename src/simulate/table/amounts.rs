//! Which resources are GPUs, and how amounts are written.

use berth_core::types::Resources;
use berth_core::types::resources::CPU;

/// Tells whether a resource counts GPUs or parts of them, by the names that device plugins use:
/// `nvidia.com/gpu`, `amd.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`,
/// `gpu.intel.com/i915`.
pub(super) fn is_gpu(name: &str) -> bool {
    let Some((domain, kind)) = name.split_once('/') else { return false };
    kind == "gpu"
        || kind.starts_with("gpu.")
        || kind.starts_with("mig-")
        || domain.starts_with("gpu.")
}

/// Returns the GPU resources of `resources`, whole GPUs first.
pub(super) fn gpus(resources: &Resources) -> Vec<(&str, i64)> {
    let mut gpus: Vec<(&str, i64)> = resources.iter().filter(|(name, _)| is_gpu(name)).collect();
    gpus.sort_by_key(|(name, _)| (is_part(name), *name));
    gpus
}

/// Number of GPUs and parts of them.
pub(super) fn n_gpus(resources: &Resources) -> i64 {
    sum(gpus(resources).into_iter().map(|(_, amount)| amount))
}

/// Adds up; absurd amounts end at the largest number.
pub(super) fn sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

/// Tells whether a GPU resource counts parts of GPUs.
pub(super) fn is_part(name: &str) -> bool {
    !name.ends_with("/gpu")
}

/// Returns the resource's name without its domain; nothing for whole GPUs.
pub(super) fn label(name: &str) -> &str {
    match name.split_once('/') {
        Some((_, "gpu")) => "",
        Some((_, kind)) => kind,
        None => name,
    }
}

/// Writes an amount of `name` as people do: 2.5 CPUs, 8 pieces.
pub(super) fn shown(name: &str, amount: i64) -> String {
    match name {
        CPU if amount % 1000 != 0 => format!("{:.1}", amount as f64 / 1000.0),
        CPU => (amount / 1000).to_string(),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_known_by_their_names() {
        for name in ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "gpu.intel.com/xe"]
        {
            assert!(is_gpu(name), "{name}");
        }
        for name in ["cpu", "memory", "rdma/shared_dev", "hugepages-2Mi"] {
            assert!(!is_gpu(name), "{name}");
        }
        assert_eq!((label("nvidia.com/gpu"), label("nvidia.com/mig-1g.10gb")), ("", "mig-1g.10gb"));
        assert_eq!((shown("cpu", 1500), shown("cpu", 64_000)), ("1.5".into(), "64".into()));
    }
}
