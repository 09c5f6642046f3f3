//! Which resources are GPUs, and how amounts are written.

use berth_core::types::resources::{CPU, is_gpu};
use berth_core::types::{GpuShare, Resources, ShareSize, SharingNode};

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

/// Returns how much of each GPU a share takes on a node whose GPUs annotations divide. Unit:
/// thousandths, rounded up.
pub(super) fn share_milli(share: &GpuShare, node: &SharingNode) -> i64 {
    match (share.size, node.memory_mib) {
        (ShareSize::Milli(milli), _) => i64::from(milli),
        (ShareSize::Mib(mib), Some(all)) => {
            (i64::from(mib) * 1000 + i64::from(all) - 1) / i64::from(all)
        }
        (ShareSize::Mib(_), None) => 1000,
    }
}

/// Writes thousandths of GPUs: 2, 0.5, 1.334.
pub(super) fn shown_milli(milli: i64) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
    fn amounts_are_written_as_people_do() {
        assert_eq!((label("nvidia.com/gpu"), label("nvidia.com/mig-1g.10gb")), ("", "mig-1g.10gb"));
        assert_eq!([2000, 500, 1334].map(shown_milli), ["2", "0.5", "1.334"]);
        assert_eq!((shown("cpu", 1500), shown("cpu", 64_000)), ("1.5".into(), "64".into()));
    }
}
