//! What Berth shows of itself: metrics, and the port on which they are read.

pub mod metrics;
pub mod serve;
