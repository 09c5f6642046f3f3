//! Amounts of resources as integers with units.

use super::Text;

/// Upper bound of any single amount: 2^53, in milli-CPU, bytes or pieces.
///
/// Larger amounts are cut to it when an object is read, so that sums over a node stay exact.
/// Nothing real comes near: it is 9 PB of memory or 9·10^12 CPUs.
pub const AMOUNT_MAX: i64 = 1 << 53;

/// Amounts of each resource.
///
/// `extended` holds everything but cpu, memory and ephemeral-storage (hugepages too), sorted by
/// name, without zero entries, in the resource's own unit (pieces, or bytes for hugepages).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub ephemeral_bytes: i64,
    pub extended: Vec<(Text, i64)>,
}

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const PODS: &str = "pods";

impl Resources {
    pub fn is_zero(&self) -> bool {
        self.cpu_milli == 0
            && self.memory_bytes == 0
            && self.ephemeral_bytes == 0
            && self.extended.is_empty()
    }

    /// Returns the amount of `name`; 0 if there is none. Unit: milli-CPU for cpu.
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            CPU => self.cpu_milli,
            MEMORY => self.memory_bytes,
            EPHEMERAL_STORAGE => self.ephemeral_bytes,
            _ => match self.extended.binary_search_by(|(n, _)| n.as_str().cmp(name)) {
                Ok(at) => self.extended[at].1,
                Err(_) => 0,
            },
        }
    }

    /// Sets the amount of `name`, cut to `0..=AMOUNT_MAX`. Setting 0 removes the entry.
    pub fn set(&mut self, name: &Text, amount: i64) {
        let amount = amount.clamp(0, AMOUNT_MAX);
        match name.as_str() {
            CPU => self.cpu_milli = amount,
            MEMORY => self.memory_bytes = amount,
            EPHEMERAL_STORAGE => self.ephemeral_bytes = amount,
            _ => self.set_extended(name, amount),
        }
    }

    fn set_extended(&mut self, name: &Text, amount: i64) {
        match self.extended.binary_search_by(|(n, _)| n.cmp(name)) {
            Ok(at) if amount == 0 => {
                self.extended.remove(at);
            }
            Ok(at) => self.extended[at].1 = amount,
            Err(_) if amount == 0 => {}
            Err(at) => self.extended.insert(at, (name.clone(), amount)),
        }
    }

    /// Adds each amount of `other`, cut to [`AMOUNT_MAX`].
    pub fn add(&mut self, other: &Resources) {
        self.combine(other, |a, b| a.saturating_add(b));
    }

    /// Raises each amount to that of `other` where it is larger.
    pub fn raise_to(&mut self, other: &Resources) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Resources, f: impl Fn(i64, i64) -> i64) {
        let cut = |a, b| f(a, b).clamp(0, AMOUNT_MAX);
        self.cpu_milli = cut(self.cpu_milli, other.cpu_milli);
        self.memory_bytes = cut(self.memory_bytes, other.memory_bytes);
        self.ephemeral_bytes = cut(self.ephemeral_bytes, other.ephemeral_bytes);
        for (name, amount) in &other.extended {
            self.set_extended(name, cut(self.amount(name), *amount));
        }
    }

    /// Returns every non-zero amount by name, cpu, memory and ephemeral-storage first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        [
            (CPU, self.cpu_milli),
            (MEMORY, self.memory_bytes),
            (EPHEMERAL_STORAGE, self.ephemeral_bytes),
        ]
        .into_iter()
        .filter(|(_, amount)| *amount != 0)
        .chain(self.extended.iter().map(|(name, amount)| (name.as_str(), *amount)))
    }
}

/// Tells whether `name` is an extended resource, that is not one of Kubernetes' own.
///
/// Source: `IsExtendedResourceName` of k8s.io/component-helpers: a domain outside kubernetes.io,
/// and not a `requests.` quota name.
pub fn is_extended(name: &str) -> bool {
    match name.split_once('/') {
        None => false,
        Some((domain, _)) => {
            let native = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
            !native && !name.starts_with("requests.")
        }
    }
}

/// Tells whether a resource counts GPUs or parts of them, by the names that device plugins use:
/// `nvidia.com/gpu`, `amd.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`,
/// `gpu.intel.com/i915`.
pub fn is_gpu(name: &str) -> bool {
    let Some((domain, kind)) = name.split_once('/') else { return false };
    kind == "gpu"
        || kind.starts_with("gpu.")
        || kind.starts_with("mig-")
        || domain.starts_with("gpu.")
}

/// Stands before the name of a device class in the extended resource that every class has.
pub const CLASS_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Tells whether a device class may back the resource.
///
/// Source: `IsDRAExtendedResourceName` of kube-scheduler 1.37.
pub fn may_be_devices(name: &str) -> bool {
    is_extended(name) || name.starts_with(CLASS_RESOURCE_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_kept_sorted_and_cut() {
        let mut r = Resources::default();
        r.set(&"nvidia.com/gpu".into(), 8);
        r.set(&"amd.com/gpu".into(), 1);
        r.set(&"cpu".into(), -5);
        r.set(&"memory".into(), i64::MAX);
        assert_eq!(r.extended[0].0, "amd.com/gpu");
        assert_eq!((r.amount("nvidia.com/gpu"), r.cpu_milli), (8, 0));
        assert_eq!(r.memory_bytes, AMOUNT_MAX);
        r.set(&"amd.com/gpu".into(), 0);
        assert_eq!(r.extended.len(), 1);
    }

    #[test]
    fn gpus_are_known_by_their_names() {
        for name in ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "gpu.intel.com/xe"]
        {
            assert!(is_gpu(name), "{name}");
        }
        for name in ["cpu", "memory", "rdma/shared_dev", "hugepages-2Mi"] {
            assert!(!is_gpu(name), "{name}");
        }
    }

    #[test]
    fn native_names_are_not_extended() {
        assert!(is_extended("nvidia.com/gpu"));
        assert!(!is_extended("hugepages-2Mi"));
        assert!(!is_extended("x.kubernetes.io/y"));
    }
}
