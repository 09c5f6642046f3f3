//! The ledger of devices: rules of pools and claims, and random histories.

mod claims;
mod history;
mod model;
mod pools;
mod properties;
