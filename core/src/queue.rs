//! The scheduling queue: who is next, who backs off, who waits for a change.
//!
//! An entry is a group of 1 to n pods with one backoff. Windows and rules are kube-scheduler's
//! (`pkg/scheduler/backend/queue`): active, two backoff queues, unschedulable, gated, and the
//! changes that happen while an entry is being looked at.

mod backoff;
mod counting;
mod entry;
mod hinting;
mod in_flight;
mod scheduling_queue;
mod waiting;
mod waking;

pub use backoff::BackoffPolicy;
pub use counting::Arrivals;
pub use entry::{Entry, EntryId, Rejection, Station};
pub use hinting::Asked;
pub use scheduling_queue::{QueueCounts, SchedulingQueue};
