//! Makes an instance smaller for as long as it shows the same.

use std::sync::Arc;

use berth_core::types::claim::{ClaimSpec, DeviceDemand, DeviceRequest};
use berth_core::types::{Device, ResourceSlice};

use super::instance::Instance;

/// Returns an instance of which nothing can be left out without `shows` saying no.
pub(crate) fn smallest(
    instance: &Instance,
    shows: &mut dyn FnMut(&[Instance]) -> Vec<bool>,
) -> Instance {
    let mut best = instance.clone();
    loop {
        let tried = smaller(&best);
        let shown = shows(&tried);
        let Some(at) = shown.iter().position(|shown| *shown) else { return best };
        best = tried.into_iter().nth(at).expect("one of those tried");
    }
}

/// Returns the instances with one thing left out.
fn smaller(of: &Instance) -> Vec<Instance> {
    let mut made = Vec::new();
    let mut with = |change: &dyn Fn(&mut Instance)| {
        let mut changed = of.clone();
        change(&mut changed);
        made.push(changed);
    };
    for at in 0..of.claims.len() {
        with(&|i| drop(i.claims.remove(at)));
    }
    for at in 0..of.slices.len() {
        with(&|i| drop(i.slices.remove(at)));
        with(&|i| {
            let gone = i.slices.remove(at);
            let same = |s: &&mut ResourceSlice| s.driver == gone.driver && s.pool == gone.pool;
            i.slices.iter_mut().filter(same).for_each(|slice| slice.slice_count -= 1);
        });
        for device in 0..of.slices[at].devices.len() {
            with(&|i| drop(i.slices[at].devices.remove(device)));
        }
    }
    for at in 0..of.held.len() {
        with(&|i| drop(i.held.remove(at)));
    }
    for at in 0..of.before.len() {
        with(&|i| drop(i.before.remove(at)));
    }
    for at in 0..of.rules.len() {
        with(&|i| drop(i.rules.remove(at)));
    }
    for at in 0..of.classes.len() {
        let used = of.requests().any(|(_, request)| request.class == of.classes[at].name);
        if !used {
            with(&|i| drop(i.classes.remove(at)));
        }
    }
    made.extend(smaller_claims(of));
    made.extend(smaller_devices(of));
    made
}

fn smaller_claims(of: &Instance) -> Vec<Instance> {
    let mut made = Vec::new();
    for (at, claim) in of.claims.iter().enumerate() {
        for demand in smaller_demands(&claim.demand) {
            let mut changed = of.clone();
            changed.claims[at] =
                ClaimSpec { demand: Arc::new(demand), config: claim.config.clone() };
            made.push(changed);
        }
        if !claim.config.is_empty() {
            let mut changed = of.clone();
            changed.claims[at].config.clear();
            made.push(changed);
        }
    }
    made
}

fn smaller_demands(of: &DeviceDemand) -> Vec<DeviceDemand> {
    let mut made = Vec::new();
    for at in 0..of.constraints.len() {
        let mut changed = of.clone();
        changed.constraints.remove(at);
        made.push(changed);
    }
    for (at, request) in of.requests.iter().enumerate() {
        let mut changed = of.clone();
        changed.requests.remove(at);
        made.push(changed);
        for (alternative, one) in request.alternatives.iter().enumerate() {
            if request.alternatives.len() > 1 {
                let mut changed = of.clone();
                changed.requests[at].alternatives.remove(alternative);
                made.push(changed);
            }
            for plainer in plainer_requests(one) {
                let mut changed = of.clone();
                changed.requests[at].alternatives[alternative] = plainer;
                made.push(changed);
            }
        }
    }
    made
}

fn plainer_requests(of: &DeviceRequest) -> Vec<DeviceRequest> {
    let plain = DeviceRequest { class: "any".into(), ..of.clone() };
    let made = [
        DeviceRequest { selectors: Vec::new(), ..of.clone() },
        DeviceRequest { tolerations: Vec::new(), ..of.clone() },
        DeviceRequest { capacity: Vec::new(), ..of.clone() },
        DeviceRequest { admin: false, ..of.clone() },
        plain,
    ];
    made.into_iter().filter(|request| request != of).collect()
}

fn smaller_devices(of: &Instance) -> Vec<Instance> {
    let mut made = Vec::new();
    for (slice, known) in of.slices.iter().enumerate() {
        for (at, device) in known.devices.iter().enumerate() {
            for plainer in plainer_devices(device) {
                let mut changed = of.clone();
                changed.slices[slice].devices[at] = plainer;
                made.push(changed);
            }
        }
    }
    made
}

fn plainer_devices(of: &Device) -> Vec<Device> {
    let mut made = vec![Device { own: Arc::default(), ..of.clone() }];
    made.push(Device { consumes: Box::default(), ..of.clone() });
    let mut with = |change: &dyn Fn(&mut berth_core::types::device::DeviceModel)| {
        let mut changed = of.clone();
        change(Arc::make_mut(&mut changed.model));
        made.push(changed);
    };
    with(&|model| model.taints = Box::default());
    with(&|model| model.capacity = Arc::default());
    with(&|model| model.attributes = Box::default());
    with(&|model| model.binding_conditions = Box::default());
    with(&|model| model.binding_failure_conditions = Box::default());
    with(&|model| model.binds_to_node = false);
    made.into_iter().filter(|device| device != of).collect()
}
