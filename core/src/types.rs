//! Values that scheduling reads, in units, without Kubernetes' wire format.
//!
//! Reading order: [`text`], [`time`], [`resources`], [`requests`], [`selector`], [`pod`], [`node`],
//! [`volume`], [`workload`], [`device`], [`claim`], [`gpu_share`], [`group`], [`topology`], [`tree`], [`numa`],
//! [`value`].

pub mod claim;
pub mod device;
pub mod gpu_share;
pub mod group;
pub mod node;
pub mod numa;
pub mod pod;
pub mod requests;
pub mod resources;
pub mod selector;
pub mod text;
pub mod time;
pub mod topology;
pub mod tree;
pub mod value;
pub mod volume;
pub mod workload;

pub use claim::{Allocation, ClaimKey, ClaimRef, DeviceId, ResourceClaim};
pub use device::{Device, DeviceClass, DeviceTaintRule, ResourceSlice};
pub use gpu_share::{GpuNumbers, GpuShare, NotShared, ShareSize, SharingNode};
pub use group::{GroupHint, GroupKey, PlanNote, PodGroup};
pub use node::{ImageId, Node, Taint, TaintEffect};
pub use numa::{Alignment, NumaReport};
pub use pod::{
    Condition, ContainerExtended, ExtendedAmount, GangFacts, HostPort, NodeAffinity, Owner, Phase,
    Pod, PodAffinityTerm, PodClaim, PodRef, PodSpec, PodUid, PreemptionPolicy, PreferredTerm,
    Protocol, SpreadConstraint, Toleration, VolumeSource,
};
pub use requests::{ContainerRequests, PodRequests, Resize};
pub use resources::Resources;
pub use selector::{LabelSelector, Labels, NodeSelector, NodeTerm, Operator, Requirement};
pub use text::{Interner, Text};
pub use time::{Span, Timestamp};
pub use topology::{GpuSet, NodeTopology};
pub use tree::{HyperNode, TopologyKey, TopologyObject};
pub use value::Value;
