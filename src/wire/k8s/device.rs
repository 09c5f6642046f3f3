//! Devices on the wire: slices, classes and taint rules of resource.k8s.io.

use berth_core::types::Value;

use super::selector::NodeSelector;
use super::{resource, wire};
use crate::wire::field::{Field, List, Map};
use crate::wire::meta::Meta;
use crate::wire::quantity::Exact;

wire! {
    pub struct ResourceSlice {
        metadata: Meta,
        spec: Field<SliceSpec>,
    }

    pub struct SliceSpec {
        driver: Field<String>,
        pool: Field<ResourcePool>,
        node_name: Field<String>,
        node_selector: Field<NodeSelector>,
        all_nodes: Field<bool>,
        per_device_node_selection: Field<bool>,
        devices: Field<List<Device>>,
        shared_counters: Field<List<CounterSet>>,
        skip_node_operations: Field<List<String>>,
    }

    pub struct ResourcePool {
        name: Field<String>,
        generation: Field<i64>,
        resource_slice_count: Field<i64>,
    }

    pub struct Device {
        name: Field<String>,
        attributes: Field<Map<DeviceAttribute>>,
        capacity: Field<Map<DeviceCapacity>>,
        consumes_counters: Field<List<CounterConsumption>>,
        node_name: Field<String>,
        node_selector: Field<NodeSelector>,
        all_nodes: Field<bool>,
        taints: Field<List<DeviceTaint>>,
        binds_to_node: Field<bool>,
        binding_conditions: Field<List<String>>,
        binding_failure_conditions: Field<List<String>>,
        allow_multiple_allocations: Field<bool>,
        node_allocatable_resources: Field<Value>,
        node_allocatable_resource_mappings: Field<Value>,
    }

    /// One of these is set.
    pub struct DeviceAttribute {
        int: Field<i64>,
        bool: Field<bool>,
        string: Field<String>,
        version: Field<String>,
        ints: Field<List<i64>>,
        bools: Field<List<bool>>,
        strings: Field<List<String>>,
        versions: Field<List<String>>,
    }

    pub struct DeviceCapacity {
        value: Field<Exact>,
        request_policy: Field<RequestPolicy>,
    }

    pub struct RequestPolicy {
        default: Field<Exact>,
        valid_values: Field<List<Exact>>,
        valid_range: Field<ValidRange>,
    }

    pub struct ValidRange {
        min: Field<Exact>,
        max: Field<Exact>,
        step: Field<Exact>,
    }

    pub struct CounterSet {
        name: Field<String>,
        counters: Field<Map<Counter>>,
    }

    pub struct CounterConsumption {
        counter_set: Field<String>,
        counters: Field<Map<Counter>>,
        compatibility_groups: Field<Value>,
    }

    pub struct Counter {
        value: Field<Exact>,
    }

    pub struct DeviceTaint {
        key: Field<String>,
        value: Field<String>,
        effect: Field<String>,
    }

    pub struct DeviceClass {
        metadata: Meta,
        spec: Field<ClassSpec>,
    }

    pub struct ClassSpec {
        selectors: Field<List<DeviceSelector>>,
        config: Field<List<DeviceConfig>>,
        extended_resource_name: Field<String>,
    }

    pub struct DeviceSelector {
        cel: Field<CelSelector>,
    }

    pub struct CelSelector {
        expression: Field<String>,
    }

    /// Of a class, of a claim, and of what is allocated to one.
    pub struct DeviceConfig {
        source: Field<String>,
        requests: Field<List<String>>,
        opaque: Field<OpaqueConfig>,
    }

    pub struct OpaqueConfig {
        driver: Field<String>,
        parameters: Field<Value>,
    }

    /// The same in all versions, apart from what [`TaintSelector`] says.
    pub struct DeviceTaintRule {
        metadata: Meta,
        spec: Field<TaintRuleSpec>,
    }

    pub struct TaintRuleSpec {
        device_selector: Field<TaintSelector>,
        taint: Field<DeviceTaint>,
    }

    /// The last two were in v1alpha3 before Kubernetes 1.35.
    pub struct TaintSelector {
        driver: Field<String>,
        pool: Field<String>,
        device: Field<String>,
        device_class_name: Field<Value>,
        selectors: Field<Value>,
    }
}

resource!(
    ResourceSlice,
    ClusterResourceScope,
    "resource.k8s.io",
    "ResourceSlice",
    "resourceslices"
);
resource!(DeviceClass, ClusterResourceScope, "resource.k8s.io", "DeviceClass", "deviceclasses");
resource!(
    DeviceTaintRule,
    ClusterResourceScope,
    "resource.k8s.io",
    "DeviceTaintRule",
    "devicetaintrules"
);
