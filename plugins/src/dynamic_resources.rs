//! DynamicResources: not built yet. Its arguments are checked; pods with resource claims wait
//! outside the queue ([`crate::unbuilt`]).
//!
//! Source of the rules: `ValidateDynamicResourcesArgs` of kube-scheduler 1.37, whose gates for
//! both fields are on by default.

use berth_core::framework::{Args, PluginDef};

use crate::shared::field::invalid_text;

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "DynamicResources",
    summary: "allocates devices to resource claims (not built yet)",
    missing: Some("pods with resource claims wait"),
    build: |args, _points| check_args(args),
};

/// Lowest `bindingTimeout`. Unit: milliseconds.
const BINDING_TIMEOUT_MS_MIN: i64 = 1_000;

fn check_args(args: &Args) {
    at_least(args, "filterTimeout", 0, "must be zero or positive");
    at_least(args, "bindingTimeout", BINDING_TIMEOUT_MS_MIN, "must be at least 1 second");
}

fn at_least(args: &Args, key: &str, ms_min: i64, detail: &str) {
    if args.duration_ms(key).is_some_and(|ms| ms < ms_min) {
        args.error(key, invalid_text(&args.text(key).unwrap_or_default(), detail));
    }
}
