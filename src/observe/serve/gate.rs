//! What every request passes before its page: who, may they, and no large body.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use http::{HeaderValue, StatusCode, Version, header};
use hyper::body::Body as _;
use tracing::{debug, info};

use super::accept::Peer;
use super::answer::{Answer, error, failure, harmless, no_sniff};
use super::authn::{Authenticator, User};
use super::authz::{Authorizer, Verdict};

pub(super) struct Gate {
    pub(super) authenticator: Authenticator,
    pub(super) authorizer: Authorizer,
}

/// Lets a request through to its page, or answers it.
pub(super) async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Answer {
    let Some(peer) = request.extensions().get::<Peer>().cloned() else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "no connection");
    };
    if request.body().size_hint().lower() > peer.body_max {
        return error(StatusCode::PAYLOAD_TOO_LARGE, "request body too large");
    }
    let http2 = request.version() == Version::HTTP_2;
    let user = gate.authenticator.authenticate(&peer.chain, request.headers()).await;
    let unknown = user.as_ref().map_or(true, User::is_anonymous);
    let mut response = match user {
        Ok(user) => gate.judged(&user, request, next).await,
        Err(problem) => {
            info!(problem, path = request.uri().path(), "request not authenticated");
            failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
        }
    };
    // HTTP/2 is cheap to abuse: whoever isn't known gets one answer a connection.
    // Source: apiserver/pkg/endpoints/filters/authentication.go, CVE-2023-44487.
    if http2 && unknown {
        peer.close_after_this();
    }
    // Source: apiserver/pkg/endpoints/filters/cachecontrol.go.
    let control = HeaderValue::from_static("no-cache, private");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(control);
    response
}

impl Gate {
    async fn judged(&self, user: &User, request: Request, next: Next) -> Answer {
        let verb = request.method().as_str().to_ascii_lowercase();
        let path = request.uri().path().to_owned();
        let verdict = self.authorizer.decide(user, &verb, &path).await;
        debug!(user = user.name, verb, path, ?verdict, "request");
        match verdict {
            // No page needs credentials.
            Verdict::Allowed => next.run(stripped(request)).await,
            Verdict::Forbidden(reason) => forbidden(&user.name, &verb, &path, &reason),
            Verdict::Unknown(_) => {
                let message = harmless(&format!(
                    "Internal Server Error: {path:?}: the SubjectAccessReview has no answer"
                ));
                error(StatusCode::INTERNAL_SERVER_ERROR, &message)
            }
        }
    }
}

fn stripped(mut request: Request) -> Request {
    request.headers_mut().remove(header::AUTHORIZATION);
    request
}

/// Source: apiserver/pkg/endpoints/handlers/responsewriters/errors.go.
fn forbidden(user: &str, verb: &str, path: &str, reason: &str) -> Answer {
    let mut message = harmless(&format!("User {user:?} cannot {verb} path {path:?}"));
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    no_sniff(failure(StatusCode::FORBIDDEN, "Forbidden", &format!("forbidden: {message}")))
}
