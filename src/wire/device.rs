//! Slices, classes and taint rules of resource.k8s.io.
//!
//! What can't be understood of a slice makes its pool invalid, and nothing else: the problem says
//! what to change. Parts of the API that aren't supported are no problem of the object; a pod that
//! would get such a device waits.

mod attributes;
mod capacity;
mod model;

use std::sync::Arc;

use berth_core::types::Text;
use berth_core::types::device::{
    CounterSet, DeviceClass, DeviceTaint, DeviceTaintEffect, DeviceTaintRule, OpaqueConfig,
    Placement, ResourceSlice, TaintedDevices,
};

use super::field::{Field, List};
use super::k8s::device as k8s;
use super::k8s::selector::NodeSelector;
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::tables::Tables;

pub(super) use capacity::amounts;

/// Source: `ResourceSliceMaxDevices`.
const DEVICES_MAX: usize = 128;
/// Source: `DeviceSelectorsMaxSize`.
pub(super) const SELECTORS_MAX: usize = 32;

const SPEC: Path<'static> = Path::Root("spec");

/// Returns the slice.
pub fn slice(slice: k8s::ResourceSlice, tables: &mut Tables) -> (ResourceSlice, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let meta = &slice.metadata;
    let absent = k8s::SliceSpec::default();
    let spec = reading.required(&SPEC, &slice.spec).unwrap_or(&absent);
    let absent_pool = k8s::ResourcePool::default();
    let pool_at = SPEC.field("pool");
    let pool = reading.required(&pool_at, &spec.pool).unwrap_or(&absent_pool);
    let slice_count = reading.opt(&pool_at.field("resourceSliceCount"), &pool.resource_slice_count);
    let placement = slice_placement(&mut reading, spec);
    let mut slice = ResourceSlice {
        name: reading.name(meta),
        uid: Text::from(meta.object.uid.as_deref().unwrap_or("")),
        resource_version: meta.resource_version(),
        driver: reading.required_text(&SPEC.field("driver"), &spec.driver),
        pool: reading.required_text(&pool_at.field("name"), &pool.name),
        generation: number(&mut reading, &pool_at.field("generation"), &pool.generation),
        slice_count: slice_count.copied().unwrap_or(0),
        devices: model::devices(&mut reading, spec, placement == Placement::PerDevice),
        counter_sets: counter_sets(&mut reading, spec),
        skip_node_operations: reading
            .texts(&SPEC.field("skipNodeOperations"), &spec.skip_node_operations),
        placement,
        problem: None,
    };
    at_most(&mut reading, &SPEC.field("devices"), slice.devices.len(), DEVICES_MAX);
    if slice.slice_count <= 0 {
        reading.problem(&pool_at.field("resourceSliceCount"), "must be greater than 0");
    }
    slice.problem = reading.problems.summary().map(Text::from);
    (slice, reading.finish())
}

pub(super) fn at_most(reading: &mut Reading<'_>, at: &Path<'_>, n: usize, max: usize) {
    if n > max {
        reading.problem(at, format_args!("has {n} items, at most {max} are allowed"));
    }
}

fn number(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<i64>) -> i64 {
    reading.opt(at, field).copied().unwrap_or(0)
}

fn slice_placement(reading: &mut Reading<'_>, spec: &k8s::SliceSpec) -> Placement {
    let of_devices = SPEC.field("perDeviceNodeSelection");
    let per_device = reading.flag(&of_devices, &spec.per_device_node_selection);
    let fields = (&spec.node_name, &spec.node_selector, &spec.all_nodes);
    let placement = placement(reading, &SPEC, fields);
    match placement {
        Placement::Unknown if per_device => Placement::PerDevice,
        _ if per_device => {
            reading.problem(&of_devices, "must not stand beside another choice of nodes");
            Placement::Unknown
        }
        placement => placement,
    }
}

/// Returns where a slice or a device can be used. A choice that isn't known is no problem: the
/// devices are left alone.
fn placement(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    (node, selector, all): (&Field<String>, &Field<NodeSelector>, &Field<bool>),
) -> Placement {
    let node = reading.opt_text(&at.field("nodeName"), node).map(Placement::Node);
    let selector_at = at.field("nodeSelector");
    let selector = reading.opt(&selector_at, selector);
    let selector = selector.map(|selector| {
        let selector = reading.node_selector(&selector_at, selector);
        Placement::Selector(Arc::new(selector))
    });
    let all = reading.flag(&at.field("allNodes"), all).then_some(Placement::AllNodes);
    let mut said = [node, selector, all].into_iter().flatten();
    match (said.next(), said.next()) {
        (Some(placement), None) => placement,
        (None, _) => Placement::Unknown,
        (Some(_), Some(_)) => {
            reading.problem(at, "must say only one of nodeName, nodeSelector and allNodes");
            Placement::Unknown
        }
    }
}

fn counter_sets(reading: &mut Reading<'_>, spec: &k8s::SliceSpec) -> Vec<CounterSet> {
    let at = SPEC.field("sharedCounters");
    let mut sets = Vec::new();
    reading.each(&at, &spec.shared_counters, |reading, at, set| {
        let name = reading.required_text(&at.field("name"), &set.name);
        let counters = capacity::counters(reading, &at.field("counters"), &set.counters);
        sets.push(CounterSet { name, counters });
    });
    sets
}

/// An effect that isn't known keeps nobody off. Source: `DeviceTaintEffect` of the API.
fn taint(reading: &mut Reading<'_>, at: &Path<'_>, taint: &k8s::DeviceTaint) -> DeviceTaint {
    let effect = reading.opt(&at.field("effect"), &taint.effect).map_or("", String::as_str);
    DeviceTaint {
        key: reading.required_text(&at.field("key"), &taint.key),
        value: reading.text(&at.field("value"), &taint.value),
        effect: taint_effect(effect).unwrap_or(DeviceTaintEffect::None),
    }
}

pub(super) fn taint_effect(effect: &str) -> Option<DeviceTaintEffect> {
    match effect {
        "None" => Some(DeviceTaintEffect::None),
        "NoSchedule" => Some(DeviceTaintEffect::NoSchedule),
        "NoExecute" => Some(DeviceTaintEffect::NoExecute),
        _ => None,
    }
}

/// Returns the class.
pub fn class(class: k8s::DeviceClass, tables: &mut Tables) -> (DeviceClass, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let meta = &class.metadata;
    let absent = k8s::ClassSpec::default();
    let spec = reading.opt(&SPEC, &class.spec).unwrap_or(&absent);
    let resource_at = SPEC.field("extendedResourceName");
    let mut class = DeviceClass {
        name: reading.name(meta),
        created: meta.created(),
        resource_version: meta.resource_version(),
        selectors: selectors(&mut reading, &SPEC.field("selectors"), &spec.selectors),
        config: Vec::new(),
        extended_resource: reading.opt_text(&resource_at, &spec.extended_resource_name),
        problem: None,
    };
    reading.each(&SPEC.field("config"), &spec.config, |reading, at, entry| {
        class.config.extend(config(reading, at, entry));
    });
    class.problem = reading.problems.summary().map(Text::from);
    (class, reading.finish())
}

/// Returns the expressions of selectors; one of another kind is a problem.
pub(super) fn selectors(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    list: &Field<List<k8s::DeviceSelector>>,
) -> Vec<Text> {
    let mut selectors = Vec::new();
    reading.each(at, list, |reading, at, selector| {
        let at = at.field("cel");
        if let Some(cel) = reading.required(&at, &selector.cel) {
            selectors.push(reading.required_text(&at.field("expression"), &cel.expression));
        }
    });
    at_most(reading, at, selectors.len(), SELECTORS_MAX);
    selectors
}

/// Returns parameters for a driver; none with a problem if they are of another kind.
pub(super) fn config(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    config: &k8s::DeviceConfig,
) -> Option<OpaqueConfig> {
    let requests = reading.texts(&at.field("requests"), &config.requests);
    let at = at.field("opaque");
    let opaque = reading.required(&at, &config.opaque)?;
    let driver = reading.required_text(&at.field("driver"), &opaque.driver);
    let parameters = opaque.parameters.value().cloned().unwrap_or_default();
    Some(OpaqueConfig { requests, driver, parameters })
}

/// Returns the rule. One that can't be understood taints nothing, rather than too much.
pub fn taint_rule(
    rule: k8s::DeviceTaintRule,
    tables: &mut Tables,
) -> (DeviceTaintRule, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let meta = &rule.metadata;
    let absent = k8s::TaintRuleSpec::default();
    let spec = reading.required(&SPEC, &rule.spec).unwrap_or(&absent);
    let (at, taint_at) = (SPEC.field("deviceSelector"), SPEC.field("taint"));
    let absent_taint = k8s::DeviceTaint::default();
    let wire_taint = reading.required(&taint_at, &spec.taint).unwrap_or(&absent_taint);
    let mut rule = DeviceTaintRule {
        name: reading.name(meta),
        resource_version: meta.resource_version(),
        selector: reading.opt(&at, &spec.device_selector).map(|s| tainted(&mut reading, &at, s)),
        taint: taint(&mut reading, &taint_at, wire_taint),
    };
    if reading.problems.count() > 0 {
        rule.selector = None;
    }
    (rule, reading.finish())
}

fn tainted(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    selector: &k8s::TaintSelector,
) -> TaintedDevices {
    for (name, field) in
        [("deviceClassName", &selector.device_class_name), ("selectors", &selector.selectors)]
    {
        if is_set(field) {
            reading.problem(&at.field(name), "is no longer part of the API: name the devices");
        }
    }
    TaintedDevices {
        driver: reading.opt_text(&at.field("driver"), &selector.driver),
        pool: reading.opt_text(&at.field("pool"), &selector.pool),
        device: reading.opt_text(&at.field("device"), &selector.device),
    }
}

/// Tells whether a field that isn't supported says anything.
pub(super) fn is_set(field: &Field<berth_core::types::Value>) -> bool {
    use berth_core::types::Value;
    match field.value() {
        None => false,
        Some(Value::List(items)) => !items.is_empty(),
        Some(Value::Map(entries)) => !entries.is_empty(),
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests;
