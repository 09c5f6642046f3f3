//! GPUs that can be partitioned, as the NVIDIA driver publishes them with dynamic MIG: each legal
//! placement is a device that takes its share of the GPU's counters. Figures of an H100 with 80 GB.

use serde_json::{Map, Value, json};

const GPUS: u32 = 8;
/// Devices with counters that a slice may have. Source: validation of resource.k8s.io/v1.
const A_SLICE: usize = 64;
const MEMORY_SLICES: u32 = 8;
const MULTIPROCESSORS: u32 = 132;
const MEMORY_MIB: u32 = 81_152;

/// A kind of partition.
struct Profile {
    name: &'static str,
    starts: &'static [u32],
    memory_slices: u32,
    multiprocessors: u32,
    memory_mib: u32,
    /// Of which a GPU has one.
    engines: u32,
}

const fn profile(
    name: &'static str,
    starts: &'static [u32],
    (memory_slices, multiprocessors, memory_mib): (u32, u32, u32),
) -> Profile {
    Profile { name, starts, memory_slices, multiprocessors, memory_mib, engines: 0 }
}

const SMALLEST: &str = "1g.10gb";
const SEVEN: &[u32] = &[0, 1, 2, 3, 4, 5, 6];
const PROFILES: [Profile; 7] = [
    profile(SMALLEST, SEVEN, (1, 16, 9_984)),
    Profile { engines: 1, ..profile("1g.10gb.me", SEVEN, (1, 16, 9_984)) },
    profile("1g.20gb", &[0, 2, 4, 6], (2, 26, 20_096)),
    profile("2g.20gb", &[0, 2, 4], (2, 32, 20_096)),
    profile("3g.40gb", &[0, 4], (4, 60, 40_448)),
    profile("4g.40gb", &[0], (4, 64, 40_448)),
    Profile { engines: 1, ..profile("7g.80gb", &[0], (8, MULTIPROCESSORS, MEMORY_MIB)) },
];

/// Returns what stands in the slices of a node besides its pool.
pub(crate) fn slices(node: &str) -> Vec<Value> {
    let whole = |gpu: u32| {
        let all = (0..MEMORY_SLICES, MULTIPROCESSORS, MEMORY_MIB, 1);
        json!({"name": counter_set(gpu), "counters": counters(all)})
    };
    let sets: Vec<Value> = (0..GPUS).map(whole).collect();
    let placements = |gpu: u32| {
        let of = move |profile: &'static Profile| {
            profile.starts.iter().map(move |start| device(node, gpu, profile, *start))
        };
        PROFILES.iter().flat_map(of)
    };
    let devices: Vec<Value> = (0..GPUS).flat_map(placements).collect();
    let parts = devices.chunks(A_SLICE).map(|devices| json!({"devices": devices}));
    std::iter::once(json!({"sharedCounters": sets})).chain(parts).collect()
}

fn device(node: &str, gpu: u32, profile: &Profile, start: u32) -> Value {
    let Profile { memory_slices, multiprocessors, memory_mib, engines, .. } = *profile;
    let share = (start..start + memory_slices, multiprocessors, memory_mib, engines);
    json!({
        "name": name(gpu, profile.name, start),
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": profile.name},
            "parentUUID": {"string": format!("GPU-{node}-{gpu}")},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
        },
        "capacity": {"memory": {"value": format!("{memory_mib}Mi")}},
        "consumesCounters": [{"counterSet": counter_set(gpu), "counters": counters(share)}],
    })
}

/// Shape: memory slices by number, multiprocessors, MiB, engines.
fn counters(
    (slices, multiprocessors, memory_mib, engines): (std::ops::Range<u32>, u32, u32, u32),
) -> Value {
    let amount = |value: String| json!({"value": value});
    let mut counters: Map<String, Value> =
        slices.map(|i| (format!("memory-slice-{i}"), amount("1".to_owned()))).collect();
    counters.insert("multiprocessors".to_owned(), amount(multiprocessors.to_string()));
    counters.insert("memory".to_owned(), amount(format!("{memory_mib}Mi")));
    if engines > 0 {
        counters.insert("ofa-engines".to_owned(), amount(engines.to_string()));
    }
    Value::Object(counters)
}

fn counter_set(gpu: u32) -> String {
    format!("gpu-{gpu}-counter-set")
}

fn name(gpu: u32, profile: &str, start: u32) -> String {
    format!("gpu-{gpu}-mig-{}-{start}", profile.replace('.', "-"))
}

/// Returns the profile that the `i`-th pod wants.
pub(crate) fn wanted(i: u32) -> &'static str {
    ["1g.10gb", "2g.20gb", "1g.10gb", "3g.40gb", "1g.10gb"][i as usize % 5]
}

/// Returns the name of the `n`-th of the smallest partitions of a node.
pub(crate) fn nth_smallest(n: u32) -> String {
    name(n % GPUS, SMALLEST, n / GPUS)
}
