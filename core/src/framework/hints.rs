//! Queueing hints: which changes are worth another attempt for a pod that a plugin turned away.

use crate::snapshot::{Change, Cluster};
use crate::types::Pod;

/// A plugin's opinion on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The change may make the pod fit.
    Queue,
    Skip,
}

/// What a hint may read: the pod that waits, and the ledger after the change.
#[derive(Clone, Copy)]
pub struct HintContext<'a> {
    pub pod: &'a Pod,
    pub cluster: &'a Cluster,
}

/// Tells whether a change may help a pod that this plugin turned away.
///
/// It must answer [`Hint::Queue`] whenever it may: a pod that is not woken waits five minutes. An
/// answer that does not depend on the pod's name or labels is asked once per class.
pub trait Interest {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint;
}
