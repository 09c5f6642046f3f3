//! The few forms in which the secure port answers.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) type Answer = Response<Body>;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// Returns an answer with a body of this content type.
pub(super) fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Answer {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(super) fn text(body: impl Into<Body>) -> Answer {
    answer(StatusCode::OK, TEXT, body)
}

/// Forbids browsers to guess a content type.
pub(super) fn no_sniff(mut response: Answer) -> Answer {
    let value = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, value);
    response
}

/// Returns what Go's http.Error writes.
pub(super) fn error(status: StatusCode, message: &str) -> Answer {
    no_sniff(answer(status, TEXT, format!("{message}\n")))
}

/// Returns a Status object, as the API server answers.
pub(super) fn failure(status: StatusCode, reason: &str, message: &str) -> Answer {
    let mut body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status.as_u16(),
    });
    if status == StatusCode::FORBIDDEN {
        body["details"] = json!({});
    }
    no_sniff(answer(status, JSON, pretty(&body)))
}

pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Takes the signs away from which a browser would make HTML.
pub(super) fn harmless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
