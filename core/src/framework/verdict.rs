//! The answers that plugins give. Not fitting is a value, never an error.

use std::sync::Arc;

use crate::snapshot::NodeIdx;
use crate::types::{PodUid, Text, Timestamp};

use super::plan::Op;

/// Why something does not fit, in kube-scheduler's words; one text per thing that is missing.
///
/// Cheap to clone: a plugin that turns away thousands of nodes makes it once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    pub texts: Arc<[Text]>,
}

impl Default for Reason {
    fn default() -> Reason {
        Reason { texts: Arc::from([]) }
    }
}

impl From<Vec<Text>> for Reason {
    fn from(texts: Vec<Text>) -> Reason {
        Reason { texts: Arc::from(texts) }
    }
}

impl From<Text> for Reason {
    fn from(text: Text) -> Reason {
        Reason { texts: Arc::from([text]) }
    }
}

impl Reason {
    pub fn of(text: &str) -> Reason {
        Reason::from(Text::from(text))
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Reason {
        Reason::of(text)
    }
}

/// Filter's answer about one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Fit,
    /// It does not fit; taking pods off the node might help.
    Unschedulable(Reason),
    /// It does not fit, whoever leaves the node.
    Unresolvable(Reason),
    /// The question can't be answered for this node: bad data, not a lack of room. It counts
    /// against this node only.
    Broken(Text),
}

impl Verdict {
    pub fn fits(&self) -> bool {
        matches!(self, Verdict::Fit)
    }
}

/// PreFilter's answer about the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilterAnswer {
    /// Filter decides, on every node.
    Continue,
    /// Filter decides, on these nodes only (sorted).
    Only(Vec<NodeIdx>),
    /// This plugin has nothing to say about the pod: its Filter is left out.
    Skip,
    /// No node fits; taking pods off nodes might help.
    Unschedulable(Reason),
    /// No node fits, whoever leaves.
    Unresolvable(Reason),
    /// Not now: something that will make it possible is in motion.
    Pending(Reason),
    /// The question can't be answered: bad data about this pod.
    Broken(Text),
}

/// PreScore's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScoreAnswer {
    Continue,
    /// This plugin's Score is left out of the sum.
    Skip,
}

/// PreEnqueue's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// The pod waits outside the queue. `told` says whether Berth writes the reason into the pod's
    /// condition; the API server does it itself for scheduling gates.
    Closed {
        message: Text,
        told: bool,
    },
}

/// PostFilter's answer: how room could be made.
#[derive(Clone, Debug, PartialEq)]
pub enum PostFilterAnswer {
    /// With these pods gone the pod fits on `node`.
    Evict { node: NodeIdx, victims: Vec<PodUid> },
    /// Nobody needs to go: these writes make room. The text goes after the message.
    Write(Vec<Op>, Text),
    /// Another PostFilter plugin may know better. The text goes after the message.
    Unschedulable(Text),
    /// Nothing helps.
    Unresolvable(Text),
}

/// Permit's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitAnswer {
    Allow,
    /// Hold the place until something allows it, at the longest until then.
    Wait {
        until: Timestamp,
        reason: Text,
    },
    Reject(Reason),
}
