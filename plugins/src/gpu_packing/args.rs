//! GpuPackingArgs (berth.dev/v1alpha1): what counts as a GPU, and what pods are expected.

use std::sync::Arc;

use berth_core::framework::Args;
use berth_core::snapshot::PackingRules;
use berth_core::snapshot::packing::demand::{Admits, Demand};
use berth_core::snapshot::packing::gpu::Want;
use berth_core::types::{Text, Value};

/// Bounds: a million pods of each are as good as any number.
const PODS_MAX: i64 = 1_000_000;
const GPUS_MAX: i64 = 64;
const CPU_MILLI_MAX: i64 = 1_000_000;
const MIB_MAX: i64 = 1 << 30;

/// Reads the rules; what is wrong with them is noted in `args`.
pub(super) fn read(args: &Args) -> PackingRules {
    let default = PackingRules::default();
    let names = |key: &str, default: std::collections::BTreeSet<Text>| match args.has(key) {
        true => args.texts(key).into_iter().collect(),
        false => default,
    };
    let number = |key: &str, default: i64| args.int_in(key, default, 0..=PODS_MAX);
    PackingRules {
        resources: names("resources", default.resources),
        drivers: names("drivers", default.drivers),
        device_classes: names("deviceClasses", default.device_classes),
        prior: args.objects("expectedPods").iter().filter_map(expected).collect(),
        prior_pods: number("expectedPodsCountAs", i64::from(default.prior_pods)) as u32,
        half_life: number("halfLifePods", default.half_life as i64) as u64,
        solve_every: number("solveEveryPods", i64::from(default.solve_every)) as u32,
        room_for_named: args.bool("roomForNamedModels", default.room_for_named),
    }
}

/// Reads what pods are expected, and how often.
fn expected(args: &Args) -> Option<(Demand, u32)> {
    let share = args.int_in("share", 1, 1..=PODS_MAX);
    let gpus = args.int_in("gpus", 0, 0..=GPUS_MAX);
    let milli = args.int_in("gpuMilli", 1000, 1..=1000);
    let selector = args.raw("nodeSelector").cloned();
    let demand = Demand {
        cpu_milli: args.int_in("cpuMilli", 0, 0..=CPU_MILLI_MAX),
        memory_mib: args.int_in("memoryMiB", 0, 0..=MIB_MAX),
        want: match gpus {
            0 => Want::Nothing,
            gpus => Want::Gpus { count: gpus as u16, milli: milli as u16 },
        },
        admits: Arc::new(Admits { node_selector: selected(args, selector), ..Admits::default() }),
    };
    args.finish();
    Some((demand, share as u32))
}

fn selected(args: &Args, selector: Option<Value>) -> Vec<(Text, Text)> {
    let map = match selector {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Map(map)) => map,
        Some(other) => {
            args.error("nodeSelector", format!("must be an object, not {}", other.shape()));
            return Vec::new();
        }
    };
    let mut pairs = Vec::new();
    for (key, value) in map {
        match value {
            Value::Text(value) => pairs.push((key, value)),
            other => {
                let at = format!("nodeSelector.{key}");
                args.error(&at, format!("must be a string, not {}", other.shape()));
            }
        }
    }
    pairs
}
