//! The border between Kubernetes' wire format and core's types.
//!
//! Watched objects are decoded into slim types ([`k8s`]) that keep what scheduling reads, then
//! converted once. Both steps are total: a field that can't be understood is a [`Problem`] of that
//! object and of nobody else, so one odd object never ends a watch or a LIST.
//!
//! Reading order: [`field`] (decoding that can't fail), [`problem`], [`meta`], [`quantity`],
//! [`selector`], then one module a family: [`pod`], [`node`], [`volume`], [`workload`], [`device`],
//! [`claim`], [`numa`] for NUMA cells, [`topology`] for the links of a node's GPUs, and [`dialect`] for groups; [`object`] puts them behind one `decode`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod claim;
pub mod device;
pub mod dialect;
pub mod field;
pub mod k8s;
pub mod meta;
pub mod node;
pub mod numa;
pub mod object;
pub mod pod;
pub mod problem;
pub mod quantity;
mod reading;
pub mod selector;
pub mod tables;
pub mod topology;
pub mod volume;
pub mod workload;

#[cfg(test)]
mod hostile;

pub use object::{Decoded, Kind, Object, WireError, decode};
pub use problem::Problem;
pub use tables::Tables;
