//! The integration tests: one binary, so that they link once.

mod cli;
mod dialects;
mod docs;
mod flags;
mod installed;
mod live_bind;
mod live_compare;
mod live_credentials;
mod live_devices;
mod live_dialects;
mod live_discovery;
mod live_faults;
mod live_lease;
mod live_preflight;
mod live_serving;
mod live_start;
mod live_topology;
mod live_watch;
mod metrics;
mod prometheus;
mod scenarios;
mod serving;
mod side_by_side;
mod simulate;
mod support;
mod tidy;
