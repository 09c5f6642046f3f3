//! DefaultPreemption: not built yet. Its arguments are checked; a pod that fits nowhere evicts
//! nobody.
//!
//! Source of the rules: `ValidateDefaultPreemptionArgs` of kube-scheduler 1.37.

use berth_core::framework::{Args, PluginDef};

use crate::shared::field::{int32, invalid};

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "DefaultPreemption",
    summary: "makes room by evicting pods of lower priority (not built yet)",
    missing: Some("no pod is evicted for another"),
    build: |args, _points| check_args(args),
};

const PERCENTAGE: &str = "minCandidateNodesPercentage";
const ABSOLUTE: &str = "minCandidateNodesAbsolute";

fn check_args(args: &Args) {
    let percentage = int32(args, PERCENTAGE).unwrap_or(10);
    let absolute = int32(args, ABSOLUTE).unwrap_or(100);
    if !(0..=100).contains(&percentage) {
        args.error(PERCENTAGE, invalid(percentage, "not in valid range [0, 100]"));
    }
    if absolute < 0 {
        args.error(ABSOLUTE, invalid(absolute, "not in valid range [0, inf)"));
    }
    if percentage == 0 && absolute == 0 {
        for (key, other) in [(PERCENTAGE, ABSOLUTE), (ABSOLUTE, PERCENTAGE)] {
            let detail = format!("cannot be zero at the same time as {other}");
            args.error(key, invalid(0, detail));
        }
    }
}
