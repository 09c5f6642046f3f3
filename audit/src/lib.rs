//! Judges what a scheduler did to a real control plane, from etcd's whole history, the API server's
//! audit log and what a proxy saw on the wire.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use berth_audit::{Auditor, Replica, Sources};
//!
//! let auditor = Auditor::start(Sources {
//!     etcd_url: "http://127.0.0.1:2379".to_owned(),
//!     audit_log: Some("audit.log".into()),
//!     replicas: vec![Replica {
//!         user: "system:kube-scheduler".to_owned(),
//!         scheduler_names: vec!["default-scheduler".to_owned()],
//!         lease: None,
//!     }],
//! })?;
//! // Faults come and go.
//! auditor.faults_ended(Instant::now());
//! auditor.caught_up(Duration::from_secs(10))?;
//! print!("{}", auditor.judge());
//! # Ok::<(), berth_audit::AuditError>(())
//! ```
//!
//! Nothing here is shared with the scheduler that is judged: objects, quantities and effective
//! requests are read by code of this crate alone.

mod auditor;
mod decode;
mod etcd;
mod history;
mod judge;
mod log;
mod moment;
mod objects;
mod quantity;
mod report;
mod requests;
mod wire;
mod world;

#[cfg(test)]
mod builder;

pub use auditor::{AuditError, Auditor, LeaseRule, Observer, Replica, Sources};
pub use judge::Limits;
pub use report::{Invariant, Report, Violation};
pub use wire::{WireAnswer, WireBody, WireWrite};
