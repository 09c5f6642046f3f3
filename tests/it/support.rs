//! What the tests of the running binary share: the child process, objects, and who it talks to.

pub(crate) mod berth;
pub(crate) mod https;
pub(crate) mod objects;
pub(crate) mod tunnel;

use std::time::Duration;

/// Long beside what anything here takes, also on a machine full of other tests.
pub(crate) const SOON: Duration = Duration::from_secs(60);
