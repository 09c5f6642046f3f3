//! Products whose GPUs can be linked in one way only, given their number.
//!
//! Cards that may or may not be bridged in pairs aren't here, nor are names that time-slicing or MIG
//! have lengthened. Source: NVIDIA's data sheets and `nvidia-smi topo -m` of such machines.

use super::graph::Graph;

enum Links {
    /// All on NVSwitches, with so much for each GPU. Unit: GB/s.
    Switched(u16),
    /// Every pair by itself.
    Paired(u16),
    CubeMesh,
}

/// Label values of feature discovery, number of GPUs, links, and whether the first half is in one NUMA
/// cell and the rest in another.
const PRODUCTS: [(&str, usize, Links, bool); 12] = [
    ("Tesla-V100-SXM2-16GB", 8, Links::CubeMesh, false),
    ("Tesla-V100-SXM2-32GB", 8, Links::CubeMesh, false),
    ("NVIDIA-A100-SXM4-40GB", 4, Links::Paired(200), false),
    ("NVIDIA-A100-SXM4-80GB", 4, Links::Paired(200), false),
    ("NVIDIA-A100-SXM4-40GB", 8, Links::Switched(600), false),
    ("NVIDIA-A100-SXM4-80GB", 8, Links::Switched(600), false),
    ("A100-SXM4-40GB", 8, Links::Switched(600), false),
    ("NVIDIA-H100-80GB-HBM3", 8, Links::Switched(900), true),
    ("NVIDIA-H200", 8, Links::Switched(900), true),
    ("NVIDIA-B200", 8, Links::Switched(1800), true),
    ("NVIDIA-GB200", 4, Links::Switched(1800), false),
    ("NVIDIA-GB200", 72, Links::Switched(1800), false),
];

/// Links of the hybrid cube mesh of eight V100, one of 50 GB/s or two. Source: `nvidia-smi topo -m` of
/// a DGX-1.
const SINGLE: [(usize, usize); 8] =
    [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)];
const DOUBLE: [(usize, usize); 8] =
    [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];

/// Returns the product's name as it stands here.
pub(super) fn known(product: &str, count: usize) -> Option<&'static str> {
    let mut products = PRODUCTS.iter();
    products.find(|(name, n, _, _)| *name == product && *n == count).map(|(name, ..)| *name)
}

pub(super) fn graph(product: &str, count: usize) -> Option<Graph> {
    let mut products = PRODUCTS.iter();
    let (_, _, links, halves) = products.find(|(name, n, _, _)| *name == product && *n == count)?;
    let mut graph = Graph::new(count, Vec::new());
    let all: Vec<usize> = (0..count).collect();
    match links {
        Links::Switched(gbs) => graph.nvswitch(&all, *gbs),
        Links::Paired(gbs) => {
            let pairs = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
            pairs.for_each(|(a, b)| graph.link(a, b, *gbs));
        }
        Links::CubeMesh => {
            SINGLE.iter().for_each(|(a, b)| graph.link(*a, *b, 50));
            DOUBLE.iter().for_each(|(a, b)| graph.link(*a, *b, 100));
        }
    }
    if *halves {
        let (first, second) = all.split_at(count / 2);
        graph.cell(0, first);
        graph.cell(1, second);
    }
    Some(graph)
}
