//! Partitioned GPUs: 125 nodes of 8, and five invented mixes of profiles, with one in two hundred
//! requests for eight whole GPUs.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::device::{
    AttributeValue, Consumption, CounterSet, DeviceModel, Placement, Quantity,
};
use berth_core::types::{Device, ResourceSlice, Text};

use crate::stage::{DRIVER, gpu_name, milli};
use crate::trace::{TraceNode, TracePod};

/// Tells nodes with partitioned GPUs from others.
pub(crate) const MODEL: &str = "MIG";
const NODES: usize = 125;
const GPUS: i64 = 8;
/// Pods of which a mix is made.
const PODS: usize = 2_000;

/// Name, places of the first memory slice, memory slices, compute slices. Source: NVIDIA's table for
/// GPUs with 80 GB; `1g+` is 1g.20gb.
const PROFILES: [(&str, &[u32], u32, i64); 6] = [
    ("1g", &[0, 1, 2, 3, 4, 5, 6], 1, 1),
    ("1g+", &[0, 2, 4, 6], 2, 1),
    ("2g", &[0, 2, 4], 2, 2),
    ("3g", &[0, 4], 4, 3),
    ("4g", &[0], 4, 4),
    ("7g", &[0], 8, 7),
];

/// Share of each profile, in percent.
const MIXES: [(&str, [u64; 6]); 5] = [
    ("1", [30, 10, 20, 20, 5, 15]),
    ("2", [50, 15, 20, 10, 2, 3]),
    ("3", [15, 10, 15, 30, 20, 10]),
    ("4", [40, 0, 30, 15, 0, 15]),
    ("5", [20, 20, 20, 20, 10, 10]),
];

pub(crate) fn nodes() -> Vec<TraceNode> {
    let node = |at| TraceNode {
        name: format!("node-{at:03}"),
        cpu_milli: 1_000_000,
        memory_mib: 4 << 20,
        gpus: GPUS,
        model: MODEL.to_owned(),
    };
    (0..NODES).map(node).collect()
}

pub(crate) fn pods(mix: &str) -> Result<Vec<TracePod>, String> {
    let found = MIXES.iter().find(|(name, _)| *name == mix);
    let (_, shares) = found.ok_or_else(|| format!("no mix of partitions is called {mix:?}"))?;
    let mut rng = Rng::stream(1, "mig", mix, 0);
    let pod = |at: usize| {
        if at.is_multiple_of(200) {
            return request("7g", GPUS, 8);
        }
        let mut draw = rng.below(100);
        let profile = PROFILES.iter().zip(shares).find(|(_, share)| {
            let found = draw < **share;
            draw = draw.saturating_sub(**share);
            found
        });
        let (name, _, slices, _) = profile.map_or(PROFILES[0], |(profile, _)| *profile);
        request(name, 1, slices)
    };
    Ok((0..PODS).map(pod).collect())
}

fn request(profile: &'static str, gpus: i64, slices: u32) -> TracePod {
    TracePod {
        cpu_milli: 1_000,
        memory_mib: 1_024,
        gpus,
        gpu_milli: 125 * i64::from(slices),
        models: Vec::new(),
        profile,
        seconds: 0,
    }
}

pub(crate) fn selector(profile: &str) -> Text {
    format!("device.attributes['{DRIVER}'].profile == '{profile}'").into()
}

/// Returns the GPU of a device, and what taking it takes: of a partition its slices, else `share`.
pub(crate) fn taken_of(device: &Text, share: i64) -> (Text, i64) {
    let Some((gpu, part)) = device.split_once("-mig-") else { return (device.clone(), share) };
    let (profile, start) = part.rsplit_once('-').expect("profile and start");
    let same = |known: &&(&str, &[u32], u32, i64)| known.0.replace('+', "-plus") == profile;
    let (_, _, slices, _) = PROFILES.iter().find(same).expect("a known profile");
    let start: u32 = start.parse().expect("a start");
    (gpu.into(), ((1i64 << slices) - 1) << start)
}

/// Returns the slices of a node: one with the counters, one a GPU with its partitions.
pub(crate) fn slices(node: &TraceNode) -> Vec<ResourceSlice> {
    let name = Text::from(node.name.as_str());
    let slice = |part: String| ResourceSlice {
        name: format!("{name}-{part}").into(),
        uid: format!("{name}-{part}").into(),
        resource_version: 1,
        driver: DRIVER.into(),
        pool: name.clone(),
        generation: 1,
        slice_count: node.gpus + 1,
        placement: Placement::Node(name.clone()),
        devices: Vec::new(),
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    };
    let set = |gpu| CounterSet { name: set_name(gpu), counters: counters(0..8, 7) };
    let mut slices = vec![ResourceSlice {
        counter_sets: (0..node.gpus).map(set).collect(),
        ..slice("counters".to_owned())
    }];
    let of_gpu = |gpu| ResourceSlice { devices: partitions(gpu), ..slice(format!("gpu-{gpu}")) };
    slices.extend((0..node.gpus).map(of_gpu));
    slices
}

fn set_name(gpu: i64) -> Text {
    format!("gpu-{gpu}-counters").into()
}

fn partitions(gpu: i64) -> Vec<Device> {
    let mut devices = Vec::new();
    for (profile, starts, slices, compute) in PROFILES {
        for start in starts {
            let name = format!("{}-mig-{}-{start}", gpu_name(gpu), profile.replace('+', "-plus"));
            let attributes = [
                (Text::from("profile"), AttributeValue::String(profile.into())),
                (Text::from("type"), AttributeValue::String("mig".into())),
            ];
            let model = DeviceModel { attributes: attributes.into(), ..DeviceModel::default() };
            let counters = shared(counters(*start..*start + slices, compute));
            devices.push(Device {
                name: name.into(),
                model: Arc::new(model),
                consumes: [Consumption { set: set_name(gpu), counters }].into(),
                ..Device::default()
            });
        }
    }
    devices
}

type Counters = Arc<[(Text, Quantity)]>;

fn counters(memory: Range<u32>, compute: i64) -> Counters {
    let mut counters: Vec<(Text, Quantity)> =
        memory.map(|at| (format!("memory-slice-{at}").into(), milli(1))).collect();
    counters.push(("multiprocessors".into(), milli(compute * 16)));
    counters.sort();
    counters.into()
}

/// As the decoder does: equal lists of counters are one allocation.
fn shared(list: Counters) -> Counters {
    use std::sync::Mutex;
    static KNOWN: Mutex<BTreeSet<Counters>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().expect("nobody panicked");
    if let Some(same) = known.get(&list) {
        return Arc::clone(same);
    }
    known.insert(Arc::clone(&list));
    list
}
