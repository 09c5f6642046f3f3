//! The devices of a slice, with what several of them have in common kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::types::Text;
use berth_core::types::device::{AttributeValue, Attributes, Consumption, Device, DeviceModel};

use super::attributes::{self, interned};
use super::{SPEC, capacity, is_set, placement, taint};
use crate::wire::k8s::device as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

/// A device before its attributes are parted.
struct Draft {
    name: Text,
    attributes: Vec<(Text, AttributeValue)>,
    /// Without attributes.
    model: DeviceModel,
    consumes: Vec<Consumption>,
}

/// Returns the devices; `placed`: each says for which nodes it is.
pub(super) fn devices(
    reading: &mut Reading<'_>,
    spec: &k8s::SliceSpec,
    placed: bool,
) -> Vec<Device> {
    let mut drafts = Vec::new();
    reading.each(&SPEC.field("devices"), &spec.devices, |reading, at, device| {
        drafts.push(draft(reading, at, device, placed));
    });
    let ids = identities(&drafts);
    // Made to measure: a slice has few devices, and a cluster many slices.
    let mut devices = Vec::with_capacity(drafts.len());
    let mut known = BTreeSet::new();
    for (draft, ids) in drafts.into_iter().zip(ids) {
        devices.push(device(reading, draft, &ids, &mut known));
    }
    devices
}

fn draft(reading: &mut Reading<'_>, at: &Path<'_>, device: &k8s::Device, placed: bool) -> Draft {
    let name = reading.required_text(&at.field("name"), &device.name);
    let (attributes, unknown) =
        attributes::read(reading, &at.field("attributes"), &device.attributes);
    let capacity = capacity::capacities(reading, &at.field("capacity"), &device.capacity);
    let mut unsupported: Vec<String> =
        unknown.iter().map(|name| format!("attributes[{name}]")).collect();
    let consumes = consumptions(reading, at, device, &mut unsupported);
    for (name, field) in [
        ("nodeAllocatableResources", &device.node_allocatable_resources),
        ("nodeAllocatableResourceMappings", &device.node_allocatable_resource_mappings),
    ] {
        unsupported.extend(is_set(field).then(|| name.to_owned()));
    }
    let (conditions_at, failures_at) =
        (at.field("bindingConditions"), at.field("bindingFailureConditions"));
    let mut model = DeviceModel {
        capacity,
        binds_to_node: reading.flag(&at.field("bindsToNode"), &device.binds_to_node),
        binding_conditions: reading.texts(&conditions_at, &device.binding_conditions).into(),
        binding_failure_conditions: reading
            .texts(&failures_at, &device.binding_failure_conditions)
            .into(),
        multi_allocatable: reading
            .flag(&at.field("allowMultipleAllocations"), &device.allow_multiple_allocations),
        unsupported: (!unsupported.is_empty()).then(|| unsupported.join(", ").into()),
        ..DeviceModel::default()
    };
    let mut taints = Vec::new();
    reading.each(&at.field("taints"), &device.taints, |reading, at, wire| {
        taints.push(taint(reading, at, wire));
    });
    model.taints = taints.into();
    if placed {
        let fields = (&device.node_name, &device.node_selector, &device.all_nodes);
        model.placement = Some(placement(reading, at, fields));
    }
    Draft { name, attributes, model, consumes }
}

fn consumptions(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    device: &k8s::Device,
    unsupported: &mut Vec<String>,
) -> Vec<Consumption> {
    let mut consumes = Vec::new();
    reading.each(&at.field("consumesCounters"), &device.consumes_counters, |reading, at, wire| {
        let set = reading.required_text(&at.field("counterSet"), &wire.counter_set);
        let counters = capacity::counters(reading, &at.field("counters"), &wire.counters);
        consumes.push(Consumption { set, counters });
        if is_set(&wire.compatibility_groups) {
            unsupported.push("consumesCounters.compatibilityGroups".to_owned());
        }
    });
    consumes
}

/// Attributes that say where a device sits: `pciBusID`, `pcieRoot`, `numaNode`. They are the same on
/// all nodes of a kind, so they make a model.
const PLACES: &str = "resource.kubernetes.io/";
/// Ends of names of attributes that say which one it is, in lower case.
const IDS: [&str; 2] = ["uuid", "serial"];

/// Tells of each attribute of each device whether it says which one it is, rather than what it is.
/// That depends on the slice alone, so that a slice is always read into the same.
fn identities(drafts: &[Draft]) -> Vec<Vec<bool>> {
    let mut counts: BTreeMap<&(Text, AttributeValue), u32> = BTreeMap::new();
    for attribute in drafts.iter().flat_map(|draft| &draft.attributes) {
        *counts.entry(attribute).or_default() += 1;
    }
    let is_id = |attribute: &(Text, AttributeValue)| {
        let name = attribute.0.to_ascii_lowercase();
        let by_name = IDS.iter().any(|end| name.ends_with(end));
        // Of a device that is alone nothing can be said by its values.
        let unique = drafts.len() > 1 && counts.get(attribute) == Some(&1);
        by_name || (unique && !name.starts_with(PLACES))
    };
    drafts.iter().map(|draft| draft.attributes.iter().map(is_id).collect()).collect()
}

fn device(
    reading: &mut Reading<'_>,
    draft: Draft,
    ids: &[bool],
    known: &mut BTreeSet<Arc<Attributes>>,
) -> Device {
    let Draft { name, attributes, mut model, consumes } = draft;
    let (mut own, mut common) = (Vec::new(), Vec::new());
    for ((name, value), is_id) in attributes.into_iter().zip(ids) {
        match is_id {
            true => own.push((name, value)),
            false => common.push((name, interned(reading.tables, value))),
        }
    }
    model.attributes = common.into();
    let own = match known.get(&own[..]) {
        Some(known) => Arc::clone(known),
        None => {
            let own: Arc<Attributes> = own.into();
            known.insert(Arc::clone(&own));
            own
        }
    };
    Device { name, model: reading.tables.model(model), own, consumes: consumes.into() }
}
