//! A cluster without machines: a virtual API server, kubelets, faults between them and the engine,
//! and an auditor that judges what happened.
//!
//! Two uses. `berth simulate` hands in objects and lets a [`Simulation`] run until nothing more
//! would happen. The seed runner ([`seed`]) puts a network full of faults in between, and an
//! auditor convicts an engine that breaks an invariant. Nothing here reads a clock or a random
//! source: a seed repeats a run to the letter.
//!
//! ```text
//! let mut world = World::default();
//! for event in objects { world.apply(event, start); }
//! let mut simulation = Simulation::new(Engine::new(profiles, setup), world, start);
//! let quiet = simulation.run_until_quiet(&Patience::default());
//! for pod in simulation.world().pods() { … }          // the final state
//! simulation.take_reports(), simulation.take_notices() // how it came about
//! // A second phase: apply more objects to simulation.world_mut(), run again.
//! ```
//!
//! Reading order: [`world`], [`kubelet`], [`claim_controller`], [`jobs`], [`simulation`]; then [`drivers`], [`fault`], [`workload`], `watch`,
//! `trial`, `auditor`, [`seed`], [`sweep`].
#![forbid(unsafe_code)]

mod auditor;
pub mod claim_controller;
pub mod drivers;
pub mod fault;
mod history;
pub mod jobs;
pub mod kubelet;
pub mod seed;
pub mod simulation;
pub mod sweep;
mod trial;
mod watch;
pub mod workload;
pub mod world;

pub use auditor::{HOLD_SLOTS, Violation};
pub use claim_controller::ClaimController;
pub use seed::{Options, SeedReport, run_seed};
pub use sweep::{Crash, Phase, Story, Successor, SweepReport, run_sweep};
pub use trial::MakeEngine;

pub use kubelet::Kubelet;
pub use simulation::{Patience, Quiet, Simulation};
pub use world::{Denial, Kind, Logged, World};
