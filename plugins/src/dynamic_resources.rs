//! DynamicResources: allocates devices to resource claims, and writes what it allocated.
//!
//! Which devices is decided in [`allocate`]; here are the phases around it: a pod waits for its
//! claims ([`gate`]), each node is searched ([`filter`]), the best choice is held by the ledger
//! ([`reserve`]) and written before the pod is bound ([`writes`]); an allocation that keeps the pod
//! from every node is taken back ([`stale`]). Extended resources that a class backs become a claim
//! of the pod's own ([`extended`]).
//!
//! Source of the rules: `plugins/dynamicresources` of kube-scheduler 1.37. Two differences. A
//! selector that has no value for a device turns away that device's node only, and only if there
//! is no solution without the device. And an allocation whose pod could not be bound is taken back
//! at once, not by the next attempt.

pub mod allocate;
mod explain;
mod extended;
mod filter;
mod gate;
mod hints;
mod lookup;
mod others;
mod reserve;
mod score;
mod stale;
mod writes;

use std::sync::Arc;

use berth_core::framework::{Args, PluginDef, Points};

use crate::shared::field::invalid_text;

const NAME: &str = "DynamicResources";

pub(crate) const PLUGIN: PluginDef =
    PluginDef { name: NAME, summary: "allocates devices to resource claims", missing: None, build };

/// Lowest `bindingTimeout`. Unit: milliseconds.
const BINDING_TIMEOUT_MS_MIN: i64 = 1_000;
const BINDING_TIMEOUT_MS: i64 = 600_000;
const FILTER_TIMEOUT_MS: i64 = 10_000;
/// Steps of the engine that take a millisecond: they are measured at 40 ns each.
const STEPS_A_MS: u64 = 25_000;

struct DynamicResources {
    search: allocate::Options,
    binding_timeout_ms: u64,
    /// Nodes that are left with few free devices of a claim's class come first.
    pack_claims: bool,
}

fn build(args: &Args, points: &mut Points) {
    check_args(args);
    let positive = |ms: i64| u64::try_from(ms).unwrap_or(0);
    let filter_ms = args.duration_ms("filterTimeout").unwrap_or(FILTER_TIMEOUT_MS);
    let binding_ms = args.duration_ms("bindingTimeout").unwrap_or(BINDING_TIMEOUT_MS);
    let steps_max = match positive(filter_ms) {
        0 => u64::MAX,
        ms => ms.saturating_mul(STEPS_A_MS),
    };
    let first_fit = args.bool("firstFit", false);
    let plugin = Arc::new(DynamicResources {
        search: allocate::Options { first_fit, steps_max },
        binding_timeout_ms: positive(binding_ms),
        pack_claims: args.bool("packClaims", false),
    });
    points.pre_enqueue(plugin.clone());
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.post_filter(plugin.clone());
    points.pre_score(plugin.clone());
    points.score(plugin.clone());
    points.reserve(plugin.clone());
    points.pre_bind(plugin.clone());
    points.interest(plugin.clone());
    points.classify(plugin.clone());
    points.explain(plugin);
}

/// Source: `ValidateDynamicResourcesArgs` of kube-scheduler 1.37, whose gates for both fields are
/// on by default. The other fields are Berth's own.
fn check_args(args: &Args) {
    at_least(args, "filterTimeout", 0, "must be zero or positive");
    at_least(args, "bindingTimeout", BINDING_TIMEOUT_MS_MIN, "must be at least 1 second");
}

fn at_least(args: &Args, key: &str, ms_min: i64, detail: &str) {
    if args.duration_ms(key).is_some_and(|ms| ms < ms_min) {
        args.error(key, invalid_text(&args.text(key).unwrap_or_default(), detail));
    }
}
