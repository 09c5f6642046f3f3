//! All IO of Berth, and the border between Kubernetes and the part that decides.

pub mod assemble;
pub mod cli;
pub mod config;
pub mod live;
pub mod simulate;
pub mod wire;
