//! The integration tests: one binary, so that they link once.

mod cli;
mod flags;
mod live_bind;
mod live_faults;
mod live_lease;
mod live_serving;
mod live_watch;
mod metrics;
mod scenarios;
mod serving;
mod simulate;
mod support;
mod tidy;
