//! What evaluating and compiling typical selectors takes.

use std::hint::black_box;

use berth_cel::{Budget, OwnedAttribute, OwnedDevice, Quantity, Semver, compile};
use criterion::{Criterion, criterion_group, criterion_main};

/// The selectors that drivers' manuals show, by what they exercise.
const SELECTORS: [(&str, &str); 7] = [
    (
        "class",
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    ),
    ("memory", "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"),
    ("regex", "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$')"),
    ("domain", "'gpu.nvidia.com' in device.attributes"),
    ("optional", "device.attributes['gpu.nvidia.com'].?architecture.orValue('') == 'Hopper'"),
    (
        "semver",
        "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('550.0.0')) >= 0",
    ),
    ("exists", "device.attributes['gpu.nvidia.com'].exists(k, k.startsWith('cuda'))"),
];

fn h100() -> OwnedDevice {
    let mut gpu = OwnedDevice::new("gpu.nvidia.com");
    let text = |text: &str| OwnedAttribute::String(text.to_owned());
    let version = |text: &str| OwnedAttribute::Version(Semver::parse(text).expect("a version"));
    gpu.set_attribute("type", text("gpu"));
    gpu.set_attribute("productName", text("NVIDIA H100 80GB HBM3"));
    gpu.set_attribute("brand", text("Nvidia"));
    gpu.set_attribute("architecture", text("Hopper"));
    gpu.set_attribute("driverVersion", version("565.57.1"));
    gpu.set_attribute("cudaComputeCapability", version("9.0.0"));
    gpu.set_attribute("index", OwnedAttribute::Int(2));
    gpu.set_attribute("resource.kubernetes.io/pcieRoot", text("pci0000:17"));
    gpu.set_capacity("memory", Quantity::parse("80Gi").expect("a quantity"));
    gpu.set_capacity("multiprocessors", Quantity::parse("132").expect("a quantity"));
    gpu
}

fn selectors(criterion: &mut Criterion) {
    let gpu = h100();
    for (name, text) in SELECTORS {
        let program = compile(text).expect("a selector");
        criterion.bench_function(&format!("matches/{name}"), |bencher| {
            bencher.iter(|| program.matches(black_box(&gpu), &mut Budget::default()));
        });
    }
    criterion.bench_function("compile/class", |bencher| {
        bencher.iter(|| compile(black_box(SELECTORS[0].1)));
    });
}

criterion_group!(benches, selectors);
criterion_main!(benches);
