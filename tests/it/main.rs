//! The integration tests: one binary, so that they link once.

mod cli;
mod live_bind;
mod live_faults;
mod live_watch;
mod scenarios;
mod simulate;
mod support;
mod tidy;
