//! Objects that tell which pods belong together.

use super::{LabelSelector, Labels, Text};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    pub name: Text,
    pub labels: Labels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorKind {
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl SelectorKind {
    /// The kind as it stands in an owner reference.
    pub fn as_str(self) -> &'static str {
        match self {
            SelectorKind::Service => "Service",
            SelectorKind::ReplicationController => "ReplicationController",
            SelectorKind::ReplicaSet => "ReplicaSet",
            SelectorKind::StatefulSet => "StatefulSet",
        }
    }
}

/// A service or controller with a selector over pods; system spread defaults are derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSelectorOwner {
    pub kind: SelectorKind,
    pub namespace: Text,
    pub name: Text,
    pub selector: LabelSelector,
}
