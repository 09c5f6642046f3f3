//! All IO of Berth, and the border between Kubernetes and the part that decides.

pub mod config;
pub mod wire;
