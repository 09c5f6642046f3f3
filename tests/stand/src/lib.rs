//! The real etcd, kube-apiserver and kube-scheduler on loopback, for tests and the demo.
//!
//! ```no_run
//! use berth_stand::{ApiClient, FakeKubelet, Options, Stand};
//!
//! let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
//! let api = stand.client();
//! let _kubelet = FakeKubelet::start(api.clone());
//! let nodes = api.list("/api/v1/nodes").expect("the server answers");
//! ```
//!
//! Nothing here knows Berth or the `kube` crate: what judges the scheduler shares no code with it.

mod apiserver;
mod binaries;
mod claims;
mod client;
mod discovery;
mod error;
mod etcd;
mod folder;
mod http;
mod kubelet;
mod options;
mod process;
mod program;
mod rights;
mod scheduler;
mod server;
mod stand;
mod wait;

pub use binaries::Binaries;
pub use client::{ApiClient, ApiError, Patch};
pub use error::{StandError, with_sources};
pub use kubelet::FakeKubelet;
pub use options::{ADMIN, Authorization, Options, User};
pub use process::Process;
pub use program::Oracle;
pub use rights::{AuditedRequest, manifests};
pub use scheduler::KubeScheduler;
pub use stand::Stand;
pub use wait::{TimedOut, try_wait_for, wait_for};
