//! The ledger: what the cluster looks like, folded from events by one writer.
//!
//! [`cluster::Cluster`] is the only thing that counts capacity. [`overlay::Overlay`] is a what-if
//! change of it that is taken back unless committed. What cluster-wide plugins need counted is an
//! index kept here ([`counts`], [`images`], [`storage`], [`devices`], [`topologies`], [`packing`], [`fabric`], [`gpu_shares`]), folded
//! on every change, on overlays too.

pub mod changes;
pub mod cluster;
pub mod counts;
pub mod devices;
pub mod domains;
pub mod event;
pub mod fabric;
mod folding;
mod gone;
pub mod gpu_shares;
pub mod groups;
pub mod holds;
pub mod images;
mod labels;
mod node_set;
pub mod nodes;
pub mod numa;
pub mod overlay;
pub mod packing;
pub mod pods;
mod refusals;
mod sets;
pub mod sizes;
pub mod storage;
mod telling;
pub mod topologies;
mod within;

pub use changes::Version;
pub use cluster::{Cluster, IndexRef};
pub use counts::{CountColumn, CountQuery};
pub use devices::Devices;
pub use devices::selections::{DeviceSelector, Evaluation, SelectorCompiler};
pub use domains::Domains;
pub use event::{
    Change, ClusterEvent, DeviceChange, DeviceEvent, GroupChange, GroupEvent, NodeAspects,
    PodAspects, StorageKind,
};
pub use fabric::{Fabric, FabricRules};
pub use gpu_shares::{ShareWay, SharedGpus};
pub use groups::{GroupView, Groups, Lack, Membership};
pub use holds::{Hold, Holds};
pub use node_set::NodeSet;
pub use nodes::{NodeIdx, NodeSlot, ResourceId};
pub use overlay::{Mark, Overlay};
pub use packing::{Packing, PackingRules};
pub use pods::{Place, PodRecord};
pub use sizes::LedgerSizes;
pub use topologies::{Contradiction, Topologies};
