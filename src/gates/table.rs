//! Every feature gate of kube-scheduler 1.37.2 with its stage, its default, and what Berth does
//! with it.
//!
//! Source: names, stages and defaults of the metric `kubernetes_feature_enabled` on kube-scheduler
//! 1.37.2; which ones are locked was asked of the same binary, one by one. Which ones scheduling
//! reads: `pkg/scheduler` of the same version.

mod a_to_h;
mod i_to_z;

use super::{Gate, Kind, Stage};

/// Returns all gates, by name.
pub fn all() -> impl Iterator<Item = &'static Gate> {
    a_to_h::A_TO_H.iter().chain(&i_to_z::I_TO_Z)
}

/// Returns the gate of that name.
pub fn find(name: &str) -> Option<&'static Gate> {
    all().find(|gate| gate.name == name)
}

const fn gate(name: &'static str, stage: Stage, default: bool, kind: Kind) -> Gate {
    Gate { name, stage, default, locked: false, kind }
}

/// A gate that kube-scheduler refuses to move too.
const fn locked(name: &'static str, stage: Stage, default: bool, kind: Kind) -> Gate {
    Gate { name, stage, default, locked: true, kind }
}
