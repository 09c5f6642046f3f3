//! The connection to the API server: where it is, who we are, and requests without retries.
//!
//! kube's own client stack would send a POST again by itself, open connections without a limit,
//! name no User-Agent and hand each request through two more tasks; so the stack is put together
//! here.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{Connection as Connected, HttpConnector};
use kube::client::{Body, ConfigExt};
use serde::Deserialize;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::credentials::Connection;
use super::credentials::proxy::Proxy;
use super::lease::Leadership;
use super::lease::gate::{Closed, Gated, Pass};
use super::pool::{Answered, Pool, PoolError};
use crate::observe::metrics::{Metrics, Requested};

/// Bytes that stay unacknowledged so long end the connection, also one that was closed meanwhile:
/// a request must not reach the server long after its fate was settled.
const TCP_GIVE_UP: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);

/// Where the API server is and who we are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// None: the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// Overrides the kubeconfig's server.
    pub master: Option<String>,
}

/// Why there is no connection to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("kubeconfig {path}: {problem}")]
    Kubeconfig { path: String, problem: String },
    #[error("neither --kubeconfig nor --master is given, and this is not a pod: {0}")]
    NotInCluster(String),
    #[error("server address {url:?}: {problem}")]
    Address { url: String, problem: String },
    #[error("proxy-url {0:?}: only http:// and socks5:// are supported")]
    Proxy(String),
    #[error("credentials for {server}: {problem}")]
    Credentials { server: String, problem: String },
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No connection: the server can't have seen it.
    NotSent(String),
    /// It was under way: the server may have carried it out.
    Lost(String),
}

impl SendError {
    pub fn message(&self) -> &str {
        match self {
            SendError::NotSent(message) | SendError::Lost(message) => message,
        }
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What the server says of a request that failed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Failure {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

impl Answer {
    /// Returns the Status object of the body, or one made of its text.
    pub fn failure(&self) -> Failure {
        let read: Option<Failure> = serde_json::from_slice(&self.body).ok();
        let mut failure = read.unwrap_or_default();
        if failure.message.is_empty() {
            let text = String::from_utf8_lossy(&self.body);
            failure.message = text.trim().chars().take(200).collect();
        }
        if failure.message.is_empty() {
            failure.message = self.status.to_string();
        }
        failure.code = self.status.as_u16();
        failure
    }

    /// Returns how long the server asks us to wait, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        text.trim().parse().ok().map(Duration::from_secs)
    }
}

/// A request: what is sent, apart from credentials and the server's address.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub method: Method,
    /// From the root, with its query.
    pub path: String,
    /// Content type and JSON.
    pub body: Option<(&'static str, Vec<u8>)>,
}

impl Call {
    pub fn get(path: String) -> Call {
        Call { method: Method::GET, path, body: None }
    }
}

/// A connection pool. Clones share it. Nothing is sent twice, and nobody waits for a rate limit.
#[derive(Clone)]
pub struct Api {
    connection: Connection,
    server: String,
    gate: Option<Leadership>,
    metrics: Metrics,
}

impl Api {
    /// Makes the pool; nothing is sent yet.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, the address or the credentials.
    pub async fn new(target: &Target) -> Result<Api, ConnectError> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Fails only if somebody installed one before, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let connection = Connection::new(target).await?;
        let server = connection.server().to_owned();
        Ok(Api { connection, server, gate: None, metrics: Metrics::default() })
    }

    /// Returns a pool of its own with the same credentials, for a client of this name.
    ///
    /// # Errors
    /// As [`Api::new`].
    pub fn another(&self, part: &str) -> Result<Api, ConnectError> {
        Ok(Api { connection: self.connection.another(part)?, ..self.clone() })
    }

    /// Returns the same pool, counting its requests there.
    pub fn measured(self, metrics: &Metrics) -> Api {
        Api { metrics: metrics.clone(), ..self }
    }

    /// Returns where requests are counted, and what else belongs to whoever makes them.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Notes how long a request that is about to be made had to wait for the rate limit.
    pub fn rate_limited(&self, method: &Method, waited: Duration) {
        self.metrics.rate_limited(self.host(), method.as_str(), waited);
    }

    /// The server without its scheme, as upstream's metrics have it.
    fn host(&self) -> &str {
        self.server.split_once("://").map_or(&self.server, |(_, host)| host)
    }

    /// Returns the same pool for one who may write only while leading.
    pub fn gated(&self, gate: Option<Leadership>) -> Api {
        Api { gate, ..self.clone() }
    }

    /// Returns the server's address, for messages.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends and returns as soon as the answer's head is there; the body streams.
    ///
    /// # Errors
    /// [`SendError`], by whether the server can have seen the request.
    pub async fn stream(&self, call: &Call) -> Result<Response<Answered>, SendError> {
        self.send(call, None).await
    }

    async fn send(&self, call: &Call, pass: Option<Pass>) -> Result<Response<Answered>, SendError> {
        let mut request = Request::builder()
            .method(&call.method)
            .uri(&call.path)
            .header(header::ACCEPT, "application/json");
        let body = call.body.as_ref().map_or_else(Body::empty, |(content_type, body)| {
            if let Some(headers) = request.headers_mut() {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            }
            Body::from(body.clone())
        });
        let mut request = request.body(body).map_err(|e| SendError::NotSent(e.to_string()))?;
        if let Some(pass) = &pass {
            request.extensions_mut().insert(pass.clone());
        }
        let answer = self.connection.send(request).await;
        let status = answer.as_ref().ok().map(Response::status);
        self.metrics.answered(self.host(), call.method.as_str(), status);
        answer.map_err(|error| match pass {
            Some(pass) if pass.held_back() => SendError::NotSent(Closed.to_string()),
            Some(_) | None => send_error(error.as_ref()),
        })
    }

    /// Sends and returns the whole answer.
    ///
    /// # Errors
    /// As [`Api::stream`]; no complete answer within `limit` is [`SendError::Lost`]. A write that
    /// is held back because we don't lead is [`SendError::NotSent`].
    pub async fn call(&self, call: &Call, limit: Duration) -> Result<Answer, SendError> {
        let writes = self.gate.as_ref().filter(|_| call.method != Method::GET);
        let asked = writes.map(Pass::ask).transpose();
        let asked = asked.map_err(|closed| SendError::NotSent(closed.to_string()))?;
        let (pass, _under_way) = asked.unzip();
        let whole = async {
            let response = self.send(call, pass).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await;
            let body = body.map_err(|e| SendError::Lost(with_sources(&e)))?;
            let body = body.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        let late = |_| SendError::Lost(format!("no answer within {} s", limit.as_secs()));
        let begun = Instant::now();
        let answer = tokio::time::timeout(limit, whole).await.map_err(late).flatten();
        self.metrics.requested(Requested {
            host: self.host(),
            method: call.method.as_str(),
            took: begun.elapsed(),
            sent_bytes: call.body.as_ref().map_or(0, |(_, body)| body.len()),
            received_bytes: answer.as_ref().ok().map(|answer| answer.body.len()),
        });
        answer
    }
}

/// Returns `berth/v0.1.0 (linux/amd64)/scheduler`, as client-go names its clients.
pub(super) fn user_agent(part: &str) -> HeaderValue {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (version, os) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let text = format!("berth/v{version} ({os}/{arch})/{part}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("berth"))
}

/// A pool, and what is added to each request on its way there.
pub(super) type Stack = BoxCloneSyncService<Request<Body>, Response<Answered>, BoxError>;

/// Makes a pool; nothing is connected yet.
pub(super) fn stack(config: &kube::Config, proxy: Option<&Proxy>) -> Result<Stack, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(CONNECT));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(TCP_GIVE_UP));
    match proxy {
        None => over(config, tcp),
        Some(Proxy::Http(proxy)) => over(config, proxy.tunnel(tcp)),
        Some(Proxy::Socks5(proxy)) => over(config, proxy.socks(tcp)),
    }
}

fn over<C>(config: &kube::Config, connector: C) -> Result<Stack, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connected + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http = Pool::new(connector).map_request(Gated::wrap);
    let http = config.extra_headers_layer()?.layer(http);
    let base = config.base_uri_layer();
    // Only what `credentials` leaves to kube: the authentication providers of old kubeconfigs.
    Ok(match config.auth_layer()? {
        Some(auth) => BoxCloneSyncService::new(base.layer(auth.layer(http))),
        None => BoxCloneSyncService::new(base.layer(http)),
    })
}

fn send_error(error: &(dyn Error + 'static)) -> SendError {
    let message = with_sources(error);
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if current.downcast_ref::<PoolError>().is_some_and(PoolError::never_sent) {
            return SendError::NotSent(message);
        }
        // The token could not be had; the request never left.
        if current.downcast_ref::<kube::client::AuthError>().is_some() {
            return SendError::NotSent(message);
        }
        cause = current.source();
    }
    SendError::Lost(message)
}

/// Returns the error's text with that of its causes, each said once.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
