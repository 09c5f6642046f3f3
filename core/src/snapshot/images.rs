//! Index of images: on how many nodes each is present.

use std::collections::BTreeMap;

use crate::types::{ImageId, Node};

use super::changes::Version;

#[derive(Debug, Default)]
pub struct Images {
    nodes_with: BTreeMap<ImageId, u32>,
    version: Version,
}

impl Images {
    pub fn nodes_with(&self, image: ImageId) -> u32 {
        self.nodes_with.get(&image).copied().unwrap_or(0)
    }

    pub fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn replace(&mut self, old: Option<&Node>, new: Option<&Node>, version: Version) {
        for (image, _) in old.map_or(&[][..], |node| &node.images) {
            if let Some(count) = self.nodes_with.get_mut(image) {
                *count -= 1;
                if *count == 0 {
                    self.nodes_with.remove(image);
                }
            }
        }
        for (image, _) in new.map_or(&[][..], |node| &node.images) {
            *self.nodes_with.entry(*image).or_default() += 1;
        }
        self.version = version;
    }
}
