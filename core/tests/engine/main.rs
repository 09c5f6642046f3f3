//! The engine's stories, told with fake plugins and a tiny fake API server.

mod build;
mod classes;
mod conditions;
mod faults;
mod gates;
mod groups;
mod harness;
mod nominations;
mod plans;
mod plugins;
mod preemption;
mod properties;
mod queue;
mod questions;
mod searches;
mod server;
mod settlement;
