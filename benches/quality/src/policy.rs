//! The policies that are compared, each as a profile of the engine.

mod best_fit;
mod fgd;
mod fullest;
mod random;

use berth_core::framework::profile_spec::{Enabled, Point};
use berth_core::framework::{PluginDef, Profile, ProfileSpec, Registry};
use berth_core::snapshot::NodeIdx;
use berth_core::types::{Text, Value};

use crate::stage::{DRIVER, GPU_MILLI, SCHEDULER};
use crate::trace::TracePod;

pub(crate) use fgd::expect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Random,
    /// kube-scheduler's default scores.
    Kube,
    /// NodeResourcesFit with MostAllocated over CPU, memory and GPUs.
    MostAllocated,
    BestFit,
    Fgd,
    Berth,
    /// The first node, and there the first devices.
    FirstFit,
    /// The node with least of its GPUs left, whatever else it has.
    Fullest,
}

impl Policy {
    pub(crate) const ALL: [Policy; 6] = [
        Policy::Random,
        Policy::Kube,
        Policy::MostAllocated,
        Policy::BestFit,
        Policy::Fgd,
        Policy::Berth,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::Random => "random",
            Policy::Kube => "kube",
            Policy::MostAllocated => "most",
            Policy::BestFit => "bestfit",
            Policy::Fgd => "fgd",
            Policy::Berth => "berth",
            Policy::FirstFit => "firstfit",
            Policy::Fullest => "fullest",
        }
    }

    /// Builds the profile. `prior`: what Berth is told of the mix.
    pub(crate) fn profile(self, prior: &[TracePod], options: &Options) -> Profile {
        let mut spec = ProfileSpec::default_named(SCHEDULER);
        // Nobody has a priority here: nothing is to be had by preemption.
        spec.plugins.at_mut(Point::PostFilter).disabled.push("*".into());
        let score = spec.plugins.at_mut(Point::Score);
        if self != Policy::Kube {
            score.disabled.push("*".into());
        }
        let name = match self {
            Policy::Kube => None,
            Policy::Random => Some(random::PLUGIN.name),
            Policy::MostAllocated => Some("NodeResourcesFit"),
            Policy::BestFit => Some(best_fit::PLUGIN.name),
            Policy::Fgd => Some(fgd::PLUGIN.name),
            Policy::Berth => Some("GpuPacking"),
            Policy::FirstFit => Some(fullest::FIRST.name),
            Policy::Fullest => Some(fullest::FULLEST.name),
        };
        if let Some(name) = name {
            score.enabled.push(Enabled::new(name, 1));
            // These have a word about devices, which is said before any node is looked at.
            if matches!(self, Policy::Random | Policy::Fgd | Policy::Berth) {
                spec.plugins.at_mut(Point::PreFilter).enabled.push(Enabled::new(name, 0));
            }
        }
        match self {
            Policy::MostAllocated => {
                spec.args.insert("NodeResourcesFit".into(), most_allocated());
            }
            Policy::Berth => {
                spec.args.insert("GpuPacking".into(), packing(prior, options));
            }
            Policy::FirstFit => {
                let first = Value::map([("firstFit", Value::Bool(true))]);
                spec.args.insert("DynamicResources".into(), first);
            }
            Policy::Random | Policy::Kube | Policy::BestFit | Policy::Fgd | Policy::Fullest => {}
        }
        Profile::build(&spec, registry()).unwrap_or_else(|error| panic!("{:?}", error.errors))
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let more = [Policy::FirstFit, Policy::Fullest];
        let known = Policy::ALL.into_iter().chain(more).find(|policy| policy.name() == text);
        known.ok_or_else(|| format!("no policy is called {text:?}"))
    }
}

/// Arguments of Berth's own that are varied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) room_for_named: bool,
    pub(crate) half_life: Option<i64>,
    pub(crate) solve_every: Option<i64>,
}

fn registry() -> Registry {
    static ALL: std::sync::OnceLock<Vec<&'static PluginDef>> = std::sync::OnceLock::new();
    let own =
        [&random::PLUGIN, &best_fit::PLUGIN, &fgd::PLUGIN, &fullest::FIRST, &fullest::FULLEST];
    Registry(ALL.get_or_init(|| berth_plugins::ALL.iter().copied().chain(own).collect()))
}

fn texts(all: &[&str]) -> Value {
    Value::List(all.iter().map(|text| Value::text(*text)).collect())
}

fn most_allocated() -> Value {
    let of = |name: &str| Value::map([("name", Value::text(name)), ("weight", Value::Int(1))]);
    let resources = Value::List(vec![of("cpu"), of("memory"), of(GPU_MILLI)]);
    let strategy = [("type", Value::text("MostAllocated")), ("resources", resources)];
    Value::map([("scoringStrategy", Value::map(strategy))])
}

fn packing(prior: &[TracePod], options: &Options) -> Value {
    let mut args = vec![
        ("drivers", texts(&[DRIVER])),
        ("deviceClasses", texts(&[DRIVER])),
        ("roomForNamedModels", Value::Bool(options.room_for_named)),
    ];
    let varied =
        [("halfLifePods", options.half_life), ("solveEveryPods", options.solve_every)].into_iter();
    args.extend(varied.filter_map(|(name, value)| Some((name, Value::Int(value?)))));
    if !prior.is_empty() {
        args.push(("expectedPods", Value::List(expected(prior))));
    }
    Value::Map(args.into_iter().map(|(key, value)| (Text::from(key), value)).collect())
}

/// One entry a kind of pod. Those that name models are left out: a list of models is no node selector.
fn expected(pods: &[TracePod]) -> Vec<Value> {
    let entry = |(pod, count): (&TracePod, i64)| {
        Value::map([
            ("cpuMilli", Value::Int(pod.cpu_milli)),
            ("memoryMiB", Value::Int(pod.memory_mib)),
            ("gpus", Value::Int(pod.gpus)),
            ("gpuMilli", Value::Int(pod.gpu_milli.max(1))),
            ("share", Value::Int(count)),
        ])
    };
    let kinds = kinds(pods);
    kinds.iter().filter(|(pod, _)| pod.models.is_empty()).map(|(p, n)| entry((p, *n))).collect()
}

/// Counts pods that ask for the same.
pub(crate) fn kinds(pods: &[TracePod]) -> Vec<(TracePod, i64)> {
    let mut kinds = std::collections::BTreeMap::new();
    for pod in pods {
        *kinds.entry(TracePod { seconds: 0, ..pod.clone() }).or_insert(0) += 1;
    }
    kinds.into_iter().collect()
}

/// Gives 100 to the first of the best, and 99 to the others that are as good.
fn first_of_best(scores: &mut [(NodeIdx, i64)]) {
    let best = scores.iter().map(|(_, raw)| *raw).max().unwrap_or(0);
    let mut first = true;
    for (_, raw) in scores {
        *raw = match *raw == best {
            true if std::mem::take(&mut first) => 100,
            true => 99,
            false => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_a_profile_that_scores() {
        for policy in Policy::ALL.into_iter().chain([Policy::FirstFit, Policy::Fullest]) {
            let profile = policy.profile(&[], &Options::default());
            assert_eq!(profile.score.len() == 1, policy != Policy::Kube, "{policy:?}");
            assert_eq!(policy.name().parse(), Ok(policy));
        }
    }
}
