//! Why a row does not hold, or could not be played.

use berth_audit::AuditError;
use berth_stand::{ApiError, StandError, TimedOut};

use crate::proxy::ProxyError;

pub type Outcome<T = ()> = Result<T, Failed>;

/// What ended a repeat.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Something that must happen did not.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// Something is not as it must be.
    #[error("{0}")]
    Wrong(String),
    #[error("asking the API server")]
    Api(#[from] ApiError),
    #[error("the stand")]
    Stand(#[from] StandError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("the auditor")]
    Audit(#[from] AuditError),
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
}

impl Failed {
    /// Returns a function that says what was done when an IO error happened.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failed {
        move |source| Failed::Io { what: what.into(), source }
    }
}
