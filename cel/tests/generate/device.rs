//! Devices as drivers publish them, with gaps.

use serde_json::{Map, Value, json};

use super::Random;

pub const DOMAINS: [&str; 3] = ["gpu.nvidia.com", "resource.kubernetes.io", "x.example.com"];

/// Attributes with their kind, for expressions that know what to expect.
pub const ATTRIBUTES: [(&str, &str); 14] = [
    ("type", "string"),
    ("productName", "string"),
    ("architecture", "string"),
    ("pcieRoot", "string"),
    ("endpoint", "string"),
    ("index", "int"),
    ("numaNode", "int"),
    ("ready", "bool"),
    ("driverVersion", "version"),
    ("cudaComputeCapability", "version"),
    ("models", "strings"),
    ("links", "ints"),
    ("flags", "bools"),
    ("firmwares", "versions"),
];

pub const CAPACITIES: [&str; 3] = ["memory", "multiprocessors", "encoders"];

const TEXTS: [&str; 12] = [
    "gpu",
    "mig",
    "NVIDIA H100 80GB HBM3",
    "Hopper",
    "pci0000:17",
    "http://10.0.0.1:80/a?b=c",
    "",
    "a",
    "b",
    "Ünïcödé ✌",
    "10.0.0.1",
    "my-name",
];
const VERSIONS: [&str; 6] =
    ["565.57.1", "550.0.0", "9.0.0", "8.9.0-rc.1+build.5", "1.0.0-alpha", "0.0.1"];
const AMOUNTS: [&str; 9] =
    ["80Gi", "40Gi", "132", "0", "500m", "1e30", "-5", "1.5Gi", "12345678901234567890"];

pub fn device(random: &mut Random) -> Value {
    let driver = *random.pick(&["gpu.nvidia.com", "x.example.com"]);
    let mut attributes = Map::new();
    for (name, kind) in ATTRIBUTES {
        if random.chance(70) {
            let domain = *random.pick(&[
                "",
                "gpu.nvidia.com/",
                "gpu.nvidia.com/",
                "resource.kubernetes.io/",
            ]);
            let bare_taken = domain.is_empty() || domain.trim_end_matches('/') == driver;
            let name = if bare_taken { name.to_owned() } else { format!("{domain}{name}") };
            attributes.insert(name, attribute(random, kind));
        }
    }
    let mut capacity = Map::new();
    for name in CAPACITIES {
        if random.chance(75) {
            capacity.insert(name.to_owned(), json!({"value": random.pick(&AMOUNTS)}));
        }
    }
    json!({
        "driver": driver,
        "allowMultipleAllocations": random.chance(30),
        "attributes": attributes,
        "capacity": capacity,
    })
}

fn attribute(random: &mut Random, kind: &str) -> Value {
    // A driver may well publish another type than the selector expects.
    let kind =
        if random.chance(6) { *random.pick(&["string", "int", "bool", "version"]) } else { kind };
    let count = random.below(4);
    let int = |random: &mut Random| *random.pick(&[0_i64, 1, 2, 3, -1, 7, i64::MAX]);
    match kind {
        "string" => json!({"string": random.pick(&TEXTS)}),
        "int" => json!({"int": int(random)}),
        "bool" => json!({"bool": random.chance(50)}),
        "version" => json!({"version": random.pick(&VERSIONS)}),
        "strings" => {
            json!({"strings": (0..count).map(|_| *random.pick(&TEXTS)).collect::<Vec<_>>()})
        }
        "ints" => json!({"ints": (0..count).map(|_| int(random)).collect::<Vec<_>>()}),
        "bools" => json!({"bools": (0..count).map(|_| random.chance(50)).collect::<Vec<_>>()}),
        _ => json!({"versions": (0..count).map(|_| *random.pick(&VERSIONS)).collect::<Vec<_>>()}),
    }
}
