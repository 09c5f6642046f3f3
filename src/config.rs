//! The configuration file: KubeSchedulerConfiguration v1, read strictly, completed with
//! kube-scheduler's defaults and checked by its rules.
//!
//! Reading order: [`check`], then `document` (text to tree), `decode` (tree to
//! [`Configuration`]), `connection`, `profile`, `extender`, `message`; `completed` is the way back.
//!
//! Source of rules and messages: kube-scheduler 1.37, `apis/config/{v1,validation}`.

mod check;
mod completed;
mod connection;
mod decode;
mod document;
mod extender;
mod message;
mod profile;
#[cfg(test)]
mod tests;

use berth_core::framework::args::ArgError;
use berth_core::framework::profile_spec::ProfileSpec;
use berth_core::types::Span;

pub use check::{CheckReport, check};
pub use completed::completed;
pub(crate) use message::go_duration;

/// The one version that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
pub const KIND: &str = "KubeSchedulerConfiguration";
/// The version of what is Berth's own, such as the arguments of its plugins.
pub const OWN_API_VERSION: &str = "berth.dev/v1alpha1";

/// A completed configuration: every default is filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// How many threads may work on one decision.
    pub parallelism: i32,
    pub leader_election: LeaderElection,
    pub client_connection: ClientConnection,
    pub enable_profiling: bool,
    pub enable_contention_profiling: bool,
    /// Percent; 0 leaves it to the scheduler. A profile's own value counts first.
    pub percentage_of_nodes_to_score: i32,
    pub pod_initial_backoff: Span,
    pub pod_max_backoff: Span,
    /// At least one, with distinct names.
    pub profiles: Vec<ProfileSpec>,
    /// Watch only once the lease is won.
    pub delay_cache_until_active: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    pub leader_elect: bool,
    pub lease_duration: Span,
    pub renew_deadline: Span,
    pub retry_period: Span,
    pub resource_lock: String,
    pub resource_name: String,
    pub resource_namespace: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// Path of the kubeconfig file; empty means the pod's own service account.
    pub kubeconfig: String,
    pub accept_content_types: String,
    pub content_type: String,
    /// Requests a second; below zero means no limit.
    pub qps: f64,
    pub burst: i32,
}

/// Why a text gives no configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// It is neither YAML nor JSON.
    #[error("not readable as YAML: {0}")]
    Unreadable(String),
    #[error("{}", joined(.0))]
    Invalid(Vec<ArgError>),
}

fn joined(errors: &[ArgError]) -> String {
    let lines: Vec<String> = errors.iter().map(ArgError::to_string).collect();
    lines.join("; ")
}

impl Configuration {
    /// Returns what an empty configuration file means.
    pub fn defaults() -> Configuration {
        Configuration {
            profiles: vec![ProfileSpec::default_named("default-scheduler")],
            ..decode::defaults()
        }
    }
}

/// Returns the `clientConnection.contentType` that a configuration file names itself; none where the
/// default stands.
pub fn named_content_type(text: &str) -> Option<String> {
    decode::named(text, "clientConnection", "contentType")
}

/// Reads the text of a configuration file, YAML or JSON. Of several documents it takes the one of
/// kind KubeSchedulerConfiguration; [`check`] is the one that minds the others.
///
/// # Errors
/// [`LoadError`], with every problem in the order of the file.
pub fn load(text: &str) -> Result<Configuration, LoadError> {
    let reading = decode::read(text).map_err(LoadError::Unreadable)?;
    if reading.errors.is_empty() {
        Ok(reading.configuration)
    } else {
        Err(LoadError::Invalid(reading.root.in_document_order(reading.errors)))
    }
}
