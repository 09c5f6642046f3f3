//! The part of Berth that decides: types, the ledger, the framework, the queue and the engine.
//!
//! One-way rule: `types → snapshot → framework → {queue, engine}`. Nothing here does IO, reads a
//! clock, draws randomness, depends on hash order or starts a thread. Time and events come in as
//! arguments ([`engine::Input`]), what is to be done goes out as data ([`engine::Decision`]).
#![forbid(unsafe_code)]

pub mod engine;
pub mod framework;
pub mod queue;
pub mod snapshot;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod types;
