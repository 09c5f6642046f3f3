//! What can go wrong while the stand is built or started.

use std::path::{Path, PathBuf};

use crate::client::ApiError;
use crate::wait::TimedOut;

/// A stand that could not be built, started or asked. Texts of failed processes carry the last
/// lines of their log.
#[derive(Debug, thiserror::Error)]
pub enum StandError {
    #[error(
        "Go 1.26 or newer is needed to build the test control plane: install it or set KUBEBUILDER_ASSETS"
    )]
    NoGo,
    #[error("building the test control plane failed:\n{output}")]
    Build { output: String },
    #[error("{} is missing", path.display())]
    MissingBinary { path: PathBuf },
    #[error("starting {name}")]
    Spawn {
        name: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("SIG{signal} can't be sent to process {pid}: it is gone")]
    NotSignalled { signal: &'static str, pid: u32 },
    #[error("{name} found its port taken:\n{log}")]
    PortTaken { name: &'static str, log: String },
    #[error("{name} ended ({status}) before it was ready:\n{log}")]
    Ended { name: &'static str, status: String, log: String },
    #[error("{name} was not ready within {seconds} s; the end of its log:\n{log}")]
    NotReady { name: &'static str, seconds: u64, log: String },
    #[error("{}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("no free loopback port")]
    NoPort(#[source] std::io::Error),
    #[error("making the service account key")]
    Key(#[source] rcgen::Error),
    #[error("reading the certificate of the API server")]
    Certificate(#[source] ureq::Error),
    #[error("{} is no scheduler configuration", path.display())]
    SchedulerConfig {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{} is no YAML", path.display())]
    Manifest {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{user:?} is not of the form system:serviceaccount:NAMESPACE:NAME")]
    NoServiceAccount { user: String },
    #[error(transparent)]
    NotYet(#[from] TimedOut),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl StandError {
    /// Returns a function that names the file at which an IO error happened.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_path_buf(), source }
    }
}

/// Returns the text of an error with those of what caused it, on one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}
