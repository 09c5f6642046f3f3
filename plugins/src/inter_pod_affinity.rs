//! InterPodAffinity: not built yet. Its arguments are checked; pods that need it wait outside the
//! queue ([`crate::unbuilt`]), whether or not a profile has the plugin.
//!
//! Source of the rules: `ValidateInterPodAffinityArgs` of kube-scheduler 1.37.

use berth_core::framework::{Args, PluginDef};

use crate::shared::field::{int32, invalid};

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "InterPodAffinity",
    summary: "places pods near to or away from other pods (not built yet)",
    missing: Some(
        "pods with required inter-pod terms wait; preferred terms are left out of the score",
    ),
    build: |args, _points| check_args(args),
};

fn check_args(args: &Args) {
    let weight = int32(args, "hardPodAffinityWeight").unwrap_or(1);
    if !(0..=100).contains(&weight) {
        args.error("hardPodAffinityWeight", invalid(weight, "not in valid range [0, 100]"));
    }
    args.bool("ignorePreferredTermsOfExistingPods", false);
}
