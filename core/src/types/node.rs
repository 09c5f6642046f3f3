//! A node as scheduling reads it.

use std::sync::Arc;

use super::{Labels, NodeTopology, Resources, Text};

/// The content hash (FNV-1a, 64 bit) of a normalised image name.
///
/// Image names are three quarters of a node object; only equality matters to ImageLocality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(pub u64);

impl ImageId {
    /// Returns the id of `image`, with `:latest` added when it has neither tag nor digest.
    ///
    /// Source: `normalizedImageName` of upstream's image_locality.go: a colon after the last slash
    /// is a tag.
    pub fn of(image: &str) -> ImageId {
        let after_slash = image.rfind('/').map_or(0, |at| at + 1);
        if image[after_slash..].contains(':') {
            ImageId(fnv1a(image.as_bytes(), FNV_OFFSET))
        } else {
            ImageId(fnv1a(b":latest", fnv1a(image.as_bytes(), FNV_OFFSET)))
        }
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv1a(bytes: &[u8], start: u64) -> u64 {
    bytes
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    pub effect: TaintEffect,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Text,
    pub uid: Text,
    /// 0 where unknown (tests). Comparable as integers since Kubernetes 1.35.
    pub resource_version: u64,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub pods_max: i64,
    /// Image and its size in bytes, sorted by id, one entry an id.
    pub images: Vec<(ImageId, i64)>,
    /// `status.declaredFeatures`, sorted.
    pub declared_features: Vec<Text>,
    /// How its GPUs are linked, as far as the object tells.
    pub topology: Option<Arc<NodeTopology>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_mean_latest() {
        assert_eq!(ImageId::of("a/b"), ImageId::of("a/b:latest"));
        assert_ne!(ImageId::of("host:5000/b"), ImageId::of("host:5000/b:v1"));
        assert_eq!(ImageId::of("host:5000/b"), ImageId::of("host:5000/b:latest"));
    }
}
