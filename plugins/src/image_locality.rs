//! ImageLocality: prefers nodes that already have the pod's images.

use std::sync::Arc;

use berth_core::framework::{Args, Cycle, CycleState, PluginDef, Points, Reads, Score};
use berth_core::snapshot::{Cluster, IndexRef, NodeIdx};
use berth_core::types::{ImageId, Node};

const NAME: &str = "ImageLocality";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "prefers nodes that already have the pod's images",
    missing: None,
    build,
};

const MIB: i64 = 1024 * 1024;
/// Images of less in all are not worth a detour. Source: upstream's image_locality.go.
const BYTES_MIN: i64 = 23 * MIB;
/// What one image counts for at most, on average. Source: likewise.
const BYTES_MAX_PER_IMAGE: i64 = 1000 * MIB;

fn build(_args: &Args, points: &mut Points) {
    points.score(Arc::new(ImageLocality));
}

struct ImageLocality;

impl Score for ImageLocality {
    fn score(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> i64 {
        let Some(node) = cycle.cluster.nodes().node(node) else { return 0 };
        let spec = &cycle.pod.spec;
        let images = spec.images.iter().chain(&spec.image_volumes);
        let sum = images
            .map(|image| bytes_here(cycle.cluster, node, *image))
            .fold(0i64, i64::saturating_add);
        rated(sum, spec.images.len() + spec.image_volumes.len())
    }

    /// The number of nodes with an image, and that of all nodes: both move this index.
    fn reads(&self, _cycle: Cycle<'_>) -> Reads {
        Reads { indexes: vec![IndexRef::Images] }
    }
}

/// Returns what `image` counts for on `node`: its size, scaled by the share of nodes that have it,
/// lest all pods flock to the one node where it was pulled first. Unit: bytes.
///
/// The product is taken in floating point since upstream takes it so; the result is the same to
/// the last bit on every machine.
fn bytes_here(cluster: &Cluster, node: &Node, image: ImageId) -> i64 {
    let Ok(at) = node.images.binary_search_by_key(&image, |(id, _)| *id) else { return 0 };
    let spread = f64::from(cluster.images().nodes_with(image)) / cluster.nodes().len() as f64;
    (node.images[at].1 as f64 * spread) as i64
}

/// Scales a sum of bytes to 0 to 100. Source: `calculatePriority` of upstream's image_locality.go.
fn rated(sum: i64, images: usize) -> i64 {
    let max = BYTES_MAX_PER_IMAGE.saturating_mul(images as i64);
    if max <= BYTES_MIN {
        return 0;
    }
    let excess = i128::from(sum.clamp(BYTES_MIN, max) - BYTES_MIN);
    (100 * excess / i128::from(max - BYTES_MIN)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_cut_at_both_ends() {
        assert_eq!(rated(BYTES_MIN - 1, 1), 0);
        assert_eq!(rated(BYTES_MAX_PER_IMAGE, 1), 100);
        assert_eq!(rated(i64::MAX, 2), 100);
        assert_eq!(rated(BYTES_MAX_PER_IMAGE, 2), 49);
        assert_eq!(rated(i64::MAX, 0), 0);
    }
}
