//! The engine's stories, told with fake plugins and a tiny fake API server.

mod build;
mod claims;
mod classes;
mod conditions;
mod crowds;
mod device_plugins;
mod device_properties;
mod faults;
mod gangs;
mod gates;
mod group_claims;
mod groups;
mod harness;
mod measures;
mod nominations;
mod plans;
mod plugins;
mod preemption;
mod properties;
mod questions;
mod queue;
mod refusals;
mod searches;
mod server;
mod settlement;
