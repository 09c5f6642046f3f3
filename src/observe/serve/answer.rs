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
    // By hand, since the order of the fields is the API server's too.
    let (message, reason) = (json!(message), json!(reason));
    let details = if status == StatusCode::FORBIDDEN { "\"details\":{}," } else { "" };
    let body = format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\
         \"message\":{message},\"reason\":{reason},{details}\"code\":{}}}\n",
        status.as_u16()
    );
    answer(status, JSON, body)
}

pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Takes the signs away from which a browser would make HTML.
pub(super) fn harmless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
