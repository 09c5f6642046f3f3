//! Resource claims on the wire.

use berth_core::types::Value;

use super::device::{DeviceConfig, DeviceSelector};
use super::selector::NodeSelector;
use super::{resource, wire};
use crate::wire::field::{Field, List, Map};
use crate::wire::meta::Meta;
use crate::wire::quantity::Exact;

wire! {
    pub struct ResourceClaim {
        metadata: Meta,
        spec: Field<ClaimSpec>,
        status: Field<ClaimStatus>,
    }

    pub struct ClaimSpec {
        devices: Field<DeviceClaim>,
    }

    pub struct DeviceClaim {
        requests: Field<List<DeviceRequest>>,
        constraints: Field<List<DeviceConstraint>>,
        config: Field<List<DeviceConfig>>,
    }

    pub struct DeviceRequest {
        name: Field<String>,
        exactly: Field<WantedDevices>,
        first_available: Field<List<WantedDevices>>,
    }

    /// What `exactly` says, or one of `firstAvailable`; only the latter have a name.
    pub struct WantedDevices {
        name: Field<String>,
        device_class_name: Field<String>,
        selectors: Field<List<DeviceSelector>>,
        allocation_mode: Field<String>,
        count: Field<i64>,
        admin_access: Field<bool>,
        tolerations: Field<List<DeviceToleration>>,
        capacity: Field<CapacityRequirements>,
        derived_attributes: Field<Value>,
    }

    pub struct DeviceToleration {
        key: Field<String>,
        operator: Field<String>,
        value: Field<String>,
        effect: Field<String>,
        toleration_seconds: Field<i64>,
    }

    pub struct CapacityRequirements {
        requests: Field<Map<Exact>>,
    }

    pub struct DeviceConstraint {
        requests: Field<List<String>>,
        match_attribute: Field<String>,
        distinct_attribute: Field<String>,
    }

    pub struct ClaimStatus {
        allocation: Field<Allocation>,
        reserved_for: Field<List<Consumer>>,
        devices: Field<List<DeviceStatus>>,
    }

    pub struct Allocation {
        devices: Field<DeviceAllocation>,
        node_selector: Field<NodeSelector>,
        allocation_timestamp: Field<String>,
    }

    pub struct DeviceAllocation {
        results: Field<List<DeviceResult>>,
        config: Field<List<DeviceConfig>>,
    }

    pub struct DeviceResult {
        request: Field<String>,
        driver: Field<String>,
        pool: Field<String>,
        device: Field<String>,
        admin_access: Field<bool>,
        tolerations: Field<List<DeviceToleration>>,
        binding_conditions: Field<List<String>>,
        binding_failure_conditions: Field<List<String>>,
        #[serde(rename = "shareID")]
        share_id: Field<String>,
        consumed_capacity: Field<Map<Exact>>,
        skip_node_operations: Field<List<String>>,
    }

    pub struct Consumer {
        api_group: Field<String>,
        resource: Field<String>,
        name: Field<String>,
        uid: Field<String>,
    }

    pub struct DeviceStatus {
        driver: Field<String>,
        pool: Field<String>,
        device: Field<String>,
        #[serde(rename = "shareID")]
        share_id: Field<String>,
        conditions: Field<List<DeviceCondition>>,
    }

    pub struct DeviceCondition {
        r#type: Field<String>,
        status: Field<String>,
    }
}

resource!(
    ResourceClaim,
    NamespaceResourceScope,
    "resource.k8s.io",
    "ResourceClaim",
    "resourceclaims"
);
