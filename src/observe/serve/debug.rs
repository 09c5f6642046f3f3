//! `/debug/flags/v`: PUT a level, and the log follows. Served while profiling is enabled, as
//! upstream; there is no profiler at /debug/pprof.
//!
//! Source: apiserver/pkg/server/routes/flags.go 0.37.

use axum::extract::Request;
use http::{Method, StatusCode};
use tracing::info;

use super::answer::{Answer, answer, no_sniff};
use crate::logging;

/// Bytes of a level.
const LEVEL_MAX: usize = 64;

pub(super) async fn verbosity(request: Request) -> Answer {
    if request.method() != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned());
    }
    let body = axum::body::to_bytes(request.into_body(), LEVEL_MAX).await.unwrap_or_default();
    let given = String::from_utf8_lossy(&body).into_owned();
    let Ok(level) = given.parse::<u32>() else {
        let problem = format!("strconv.ParseUint: parsing {given:?}: invalid syntax");
        return plain(StatusCode::BAD_REQUEST, problem);
    };
    if !logging::set_verbosity(level) {
        return plain(StatusCode::BAD_REQUEST, "the log belongs to another program".to_owned());
    }
    info!(level, "log level set");
    plain(StatusCode::OK, format!("successfully set klog.logging.verbosity to {given}"))
}

fn plain(status: StatusCode, text: String) -> Answer {
    no_sniff(answer(status, "text/plain", text + "\n"))
}
