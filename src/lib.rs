//! All IO of Berth, and the border between Kubernetes and the part that decides.

pub mod assemble;
pub mod cli;
pub mod config;
pub mod flags;
pub mod gates;
pub mod live;
pub mod logging;
pub mod observe;
pub mod simulate;
pub mod wire;
