//! Faults on the real control plane: a proxy that makes them, schedulers as processes, and rows
//! that are repeated, judged and counted.
//!
//! How a row is written stands at the top of [`rows`].

pub mod campaign;
mod failed;
pub mod objects;
pub mod planted;
pub mod proxy;
pub mod report;
pub mod rows;
pub mod scene;
pub mod scheduler;
mod stage;
pub mod table;

use std::time::Duration;

pub use failed::{Failed, Outcome};
pub use stage::{ELECTION, Setting};

/// Long beside what anything here takes, also on a machine full of other work.
pub const SOON: Duration = Duration::from_secs(60);
