//! Pods on the wire.

use super::selector::{LabelSelector, NodeSelector, NodeSelectorTerm};
use super::volume::{CsiVolume, GceDisk, VolumeId};
use super::{resource, wire};
use crate::wire::field::{Field, List, Map};
use crate::wire::meta::{Meta, Stamp};
use crate::wire::quantity::Quantity;

wire! {
    pub struct Pod {
        metadata: Meta,
        spec: Field<PodSpec>,
        status: Field<PodStatus>,
    }

    pub struct PodSpec {
        scheduler_name: Field<String>,
        node_name: Field<String>,
        priority: Field<i64>,
        preemption_policy: Field<String>,
        scheduling_gates: Field<List<Named>>,
        scheduling_group: Field<SchedulingGroup>,
        containers: Field<List<Container>>,
        init_containers: Field<List<Container>>,
        ephemeral_containers: Field<List<Container>>,
        resources: Field<ResourceRequirements>,
        overhead: Field<Map<Quantity>>,
        node_selector: Field<Map<String>>,
        affinity: Field<Affinity>,
        tolerations: Field<List<Toleration>>,
        topology_spread_constraints: Field<List<SpreadConstraint>>,
        host_network: Field<bool>,
        host_users: Field<bool>,
        volumes: Field<List<Volume>>,
        resource_claims: Field<List<PodResourceClaim>>,
    }

    pub struct Named {
        name: Field<String>,
    }

    pub struct SchedulingGroup {
        pod_group_name: Field<String>,
    }

    /// A container, init container or ephemeral container.
    pub struct Container {
        name: Field<String>,
        image: Field<String>,
        resources: Field<ResourceRequirements>,
        ports: Field<List<ContainerPort>>,
        restart_policy: Field<String>,
        restart_policy_rules: Field<List<RestartRule>>,
        volume_mounts: Field<List<VolumeMount>>,
    }

    pub struct ResourceRequirements {
        requests: Field<Map<Quantity>>,
        limits: Field<Map<Quantity>>,
    }

    pub struct ContainerPort {
        container_port: Field<i64>,
        host_port: Field<i64>,
        #[serde(rename = "hostIP")]
        host_ip: Field<String>,
        protocol: Field<String>,
    }

    pub struct RestartRule {
        action: Field<String>,
    }

    pub struct VolumeMount {
        bind_mount_options: Field<List<String>>,
    }

    pub struct Affinity {
        node_affinity: Field<NodeAffinity>,
        pod_affinity: Field<PodAffinity>,
        pod_anti_affinity: Field<PodAffinity>,
    }

    pub struct NodeAffinity {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Field<NodeSelector>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Field<List<PreferredNodeTerm>>,
    }

    pub struct PreferredNodeTerm {
        weight: Field<i64>,
        preference: Field<NodeSelectorTerm>,
    }

    /// Affinity or anti-affinity. Preferred terms are only counted.
    pub struct PodAffinity {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Field<List<PodAffinityTerm>>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Field<List<WeightedPodAffinityTerm>>,
    }

    pub struct WeightedPodAffinityTerm {
        weight: Field<i64>,
    }

    pub struct PodAffinityTerm {
        topology_key: Field<String>,
        label_selector: Field<LabelSelector>,
        namespaces: Field<List<String>>,
        namespace_selector: Field<LabelSelector>,
        match_label_keys: Field<List<String>>,
        mismatch_label_keys: Field<List<String>>,
    }

    pub struct Toleration {
        key: Field<String>,
        operator: Field<String>,
        value: Field<String>,
        effect: Field<String>,
    }

    pub struct SpreadConstraint {
        max_skew: Field<i64>,
        topology_key: Field<String>,
        when_unsatisfiable: Field<String>,
        label_selector: Field<LabelSelector>,
        min_domains: Field<i64>,
        node_affinity_policy: Field<String>,
        node_taints_policy: Field<String>,
        match_label_keys: Field<List<String>>,
    }

    pub struct Volume {
        name: Field<String>,
        persistent_volume_claim: Field<ClaimVolume>,
        ephemeral: Field<EphemeralVolume>,
        gce_persistent_disk: Field<GceDisk>,
        aws_elastic_block_store: Field<VolumeId>,
        iscsi: Field<IscsiVolume>,
        rbd: Field<RbdVolume>,
        csi: Field<CsiVolume>,
        image: Field<ImageVolume>,
    }

    pub struct ClaimVolume {
        claim_name: Field<String>,
    }

    pub struct EphemeralVolume {}

    pub struct IscsiVolume {
        iqn: Field<String>,
        read_only: Field<bool>,
    }

    pub struct RbdVolume {
        monitors: Field<List<String>>,
        image: Field<String>,
        pool: Field<String>,
        read_only: Field<bool>,
    }

    pub struct ImageVolume {
        reference: Field<String>,
    }

    pub struct PodResourceClaim {
        name: Field<String>,
        resource_claim_name: Field<String>,
        resource_claim_template_name: Field<String>,
    }

    pub struct PodStatus {
        phase: Field<String>,
        reason: Field<String>,
        start_time: Field<String>,
        nominated_node_name: Field<String>,
        conditions: Field<List<PodCondition>>,
        container_statuses: Field<List<ContainerStatus>>,
        init_container_statuses: Field<List<ContainerStatus>>,
        resources: Field<ResourceRequirements>,
        allocated_resources: Field<Map<Quantity>>,
        resource_claim_statuses: Field<List<PodResourceClaimStatus>>,
    }

    pub struct PodResourceClaimStatus {
        name: Field<String>,
        resource_claim_name: Field<String>,
    }

    pub struct PodCondition {
        r#type: Field<String>,
        status: Field<String>,
        reason: Field<String>,
        message: Field<String>,
        last_transition_time: Field<Stamp>,
    }

    pub struct ContainerStatus {
        name: Field<String>,
        state: Field<ContainerState>,
        restart_count: Field<i64>,
        allocated_resources: Field<Map<Quantity>>,
        resources: Field<ResourceRequirements>,
    }
}

wire! {
    pub struct ContainerState {
        running: Field<StartedState>,
        terminated: Field<StartedState>,
    }

    pub struct StartedState {
        started_at: Field<Stamp>,
    }
}

resource!(Pod, NamespaceResourceScope, "", "Pod", "pods");
