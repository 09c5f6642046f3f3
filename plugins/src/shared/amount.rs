//! Amounts of resources as people write them: `500m` CPU, `10Gi` of memory, 8 pieces.

use berth_core::types::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};

/// Returns the amount with the resource's name, such as `8 nvidia.com/gpu`.
pub(crate) fn shown(name: &str, amount: i64) -> String {
    format!("{} {name}", bare(name, amount))
}

/// Returns the amount without the name. It is exact: bytes take the largest binary unit that
/// divides them.
pub(crate) fn bare(name: &str, amount: i64) -> String {
    match name {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY | EPHEMERAL_STORAGE => bytes(amount),
        _ if name.starts_with("hugepages-") => bytes(amount),
        _ => amount.to_string(),
    }
}

fn bytes(amount: i64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let (mut left, mut at) = (amount, 0);
    while left != 0 && left % 1024 == 0 && at + 1 < units.len() {
        (left, at) = (left / 1024, at + 1);
    }
    format!("{left}{}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_their_own_units() {
        assert_eq!(shown("nvidia.com/gpu", 8), "8 nvidia.com/gpu");
        assert_eq!(shown("cpu", 64_000), "64 cpu");
        assert_eq!(bare("cpu", 1500), "1500m");
        assert_eq!(bare("memory", 10 << 30), "10Gi");
        assert_eq!(bare("memory", 1025), "1025");
        assert_eq!(bare("hugepages-2Mi", 0), "0");
    }
}
