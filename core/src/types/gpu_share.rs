//! Parts of GPUs that pods ask for by annotation, and nodes that give out their GPUs in this way.

use std::fmt;
use std::sync::Arc;

use super::Node;
use super::resources::is_gpu;

/// Annotation of a pod, put there together with its node: the numbers of its GPUs, such as `2` or
/// `0,3`.
pub const GPU_INDEX: &str = "berth.dev/gpu-index";

/// Label by which an administrator says that a node's GPUs are given out by annotations.
pub const GPU_FRACTIONS: &str = "berth.dev/gpu-fractions";
/// Labels of GPU feature discovery: number of GPUs, and what each has of memory in MiB.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";
pub const GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// Resource of nodes whose GPUs are given out by annotations, where Alibaba's words are spoken.
pub const ALIBABA_GPUS: &str = "alibabacloud.com/gpu-count";

/// GPUs on one node that are looked at.
pub const GPUS_MAX: u16 = 64;
/// A whole GPU in thousandths.
pub const WHOLE_MILLI: i64 = 1000;

/// As much of each of some GPUs of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuShare {
    pub size: ShareSize,
    /// Above 0.
    pub n_gpus: u16,
}

/// How much of a GPU. Above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareSize {
    /// Thousandths, at most 1000.
    Milli(u16),
    /// Memory. Unit: MiB.
    Mib(u32),
}

/// Numbers of GPUs on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuNumbers(Arc<[u16]>);

impl GpuNumbers {
    /// `None` if there are none, or if one comes twice.
    pub fn new(mut numbers: Vec<u16>) -> Option<GpuNumbers> {
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        (all > 0 && numbers.len() == all).then(|| GpuNumbers(numbers.into()))
    }

    /// Reads numbers with `between` them; `None` if it is anything else.
    pub fn parse(text: &str, between: char) -> Option<GpuNumbers> {
        let number = |part: &str| part.trim().parse::<u16>().ok();
        let numbers = text.split(between).take(usize::from(GPUS_MAX) + 1).map(number);
        GpuNumbers::new(numbers.collect::<Option<_>>()?)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for GpuNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.iter().enumerate() {
            let between = if at > 0 { "," } else { "" };
            write!(f, "{between}{number}")?;
        }
        Ok(())
    }
}

/// A node whose GPUs are given out by annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingNode {
    /// 1 to [`GPUS_MAX`].
    pub n_gpus: u16,
    /// Of each GPU. Unit: MiB, above 0.
    pub memory_mib: Option<u32>,
}

/// Why a node's GPUs aren't given out by annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotShared {
    /// Nobody has said so.
    Unmarked,
    /// It is marked, but doesn't tell how many GPUs it has.
    Uncounted,
    /// A device plugin gives them out too: it may choose one that is divided.
    Plugin,
    /// A DRA driver gives them out too.
    Driver,
}

impl SharingNode {
    /// Reads labels and allocatable amounts.
    ///
    /// # Errors
    /// Why its GPUs aren't given out by annotations.
    pub fn of(node: &Node) -> Result<SharingNode, NotShared> {
        let told = node.allocatable.amount(ALIBABA_GPUS);
        let marked = node.labels.value(GPU_FRACTIONS).is_some_and(|value| value == "true");
        if told == 0 && !marked {
            return Err(NotShared::Unmarked);
        }
        if node.allocatable.extended.iter().any(|(name, _)| is_gpu(name)) {
            return Err(NotShared::Plugin);
        }
        let label = |key: &str| node.labels.value(key)?.parse::<i64>().ok();
        let n_gpus = if told > 0 { Some(told) } else { label(GPU_COUNT) };
        let n_gpus = n_gpus.filter(|n| *n > 0).ok_or(NotShared::Uncounted)?;
        let memory_mib = label(GPU_MEMORY).and_then(|mib| u32::try_from(mib).ok());
        Ok(SharingNode {
            n_gpus: n_gpus.min(i64::from(GPUS_MAX)) as u16,
            memory_mib: memory_mib.filter(|mib| *mib > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Labels, Text};

    fn node(labels: &[(&str, &str)], amounts: &[(&str, i64)]) -> Node {
        let labels: Labels = labels.iter().map(|(k, v)| (Text::from(*k), Text::from(*v))).collect();
        let mut node = Node { labels, ..Node::default() };
        amounts.iter().for_each(|(name, n)| node.allocatable.set(&Text::from(*name), *n));
        node
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let numbers = GpuNumbers::parse("3,0", ',').unwrap();
        assert_eq!(numbers.to_string(), "0,3");
        assert_eq!(GpuNumbers::parse("2-3", '-').unwrap().to_string(), "2,3");
        for text in ["", "a", "1,", "1,1", "-1", "70000", "0-1"] {
            assert_eq!(GpuNumbers::parse(text, ','), None, "{text}");
        }
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert!(GpuNumbers::parse(&many.join(","), ',').unwrap().len() <= 65);
    }

    #[test]
    fn a_node_shares_its_gpus_if_it_is_marked_and_nobody_else_gives_them_out() {
        let marked = [(GPU_FRACTIONS, "true"), (GPU_COUNT, "4"), (GPU_MEMORY, "81920")];
        let shared = SharingNode { n_gpus: 4, memory_mib: Some(81920) };
        assert_eq!(SharingNode::of(&node(&marked, &[])), Ok(shared));
        let of = |labels: &[(&str, &str)], amounts: &[(&str, i64)]| {
            SharingNode::of(&node(labels, amounts))
        };
        assert_eq!(of(&marked, &[("nvidia.com/gpu", 4)]), Err(NotShared::Plugin));
        assert_eq!(of(&marked, &[("nvidia.com/mig-1g.10gb", 7)]), Err(NotShared::Plugin));
        assert_eq!(of(&marked[1..], &[]), Err(NotShared::Unmarked));
        assert_eq!(of(&marked[..1], &[]), Err(NotShared::Uncounted));
        assert_eq!(of(&[(GPU_FRACTIONS, "yes"), (GPU_COUNT, "4")], &[]), Err(NotShared::Unmarked));
        let told = of(&[(GPU_MEMORY, "a lot")], &[(ALIBABA_GPUS, 2)]).unwrap();
        assert_eq!(told, SharingNode { n_gpus: 2, memory_mib: None });
        assert_eq!(of(&[], &[(ALIBABA_GPUS, 1 << 40)]).unwrap().n_gpus, GPUS_MAX);
    }
}
