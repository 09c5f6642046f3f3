//! The connection to the API server: where it is, who we are, and requests without retries.
//!
//! kube's own client stack would send a POST again by itself, open connections without a limit and
//! name no User-Agent; so the stack is put together here.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use tower::{BoxError, ServiceExt};

use super::lease::Leadership;
use super::lease::gate::{Closed, Gated, Pass};
use crate::observe::metrics::{Metrics, Requested};

/// Bytes that stay unacknowledged so long end the connection, also one that was closed meanwhile:
/// a request must not reach the server long after its fate was settled.
const TCP_GIVE_UP: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// Idle connections kept for the next burst.
const POOL_IDLE_MAX: usize = 64;

/// Where the API server is and who we are there.
#[derive(Clone, Debug, Default)]
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
    #[error("proxy-url {0:?} is not supported")]
    Proxy(String),
    #[error("credentials for {server}: {problem}")]
    Credentials { server: String, problem: String },
    #[error("the API server at {server} can't be reached: {problem}")]
    Unreachable { server: String, problem: String },
    #[error("the API server at {server} refuses us: {problem}")]
    Refused { server: String, problem: String },
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
    pub body: Vec<u8>,
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
    client: kube::Client,
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
        let config = config(target).await?;
        let server = server_name(&config.cluster_url);
        let client = stack(&config).map_err(|problem| ConnectError::Credentials {
            server: server.clone(),
            problem: with_sources(&problem),
        })?;
        Ok(Api { client, server, gate: None, metrics: Metrics::default() })
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
    pub async fn stream(&self, call: &Call) -> Result<Response<Body>, SendError> {
        self.send(call, None).await
    }

    async fn send(&self, call: &Call, pass: Option<Pass>) -> Result<Response<Body>, SendError> {
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
        let answer = self.client.send(request).await;
        let status = answer.as_ref().ok().map(Response::status);
        self.metrics.answered(self.host(), call.method.as_str(), status);
        answer.map_err(|error| match pass {
            Some(pass) if pass.held_back() => SendError::NotSent(Closed.to_string()),
            Some(_) | None => send_error(&error),
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
            let body = body.to_bytes().to_vec();
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

/// Reads the kubeconfig, or the pod's environment.
async fn config(target: &Target) -> Result<kube::Config, ConnectError> {
    let mut config = match (&target.kubeconfig, &target.master) {
        (Some(path), _) => {
            let wrong = |problem: kube::config::KubeconfigError| ConnectError::Kubeconfig {
                path: path.display().to_string(),
                problem: first_line(&problem.to_string()),
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
            let options = KubeConfigOptions::default();
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?
        }
        (None, Some(_)) => kube::Config::new(http::Uri::from_static("http://localhost")),
        (None, None) => kube::Config::incluster_env()
            .map_err(|problem| ConnectError::NotInCluster(with_sources(&problem)))?,
    };
    if let Some(master) = &target.master {
        config.cluster_url = address(master)?;
    }
    let url = config.cluster_url.to_string();
    if !matches!(config.cluster_url.scheme_str(), Some("http" | "https")) {
        let problem = "must begin with https:// or http://".to_owned();
        return Err(ConnectError::Address { url, problem });
    }
    if let Some(proxy) = &config.proxy_url {
        return Err(ConnectError::Proxy(server_name(proxy)));
    }
    config.headers.push((header::USER_AGENT, user_agent()));
    Ok(config)
}

/// A YAML error goes on with the file's text, which may hold a token.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn address(url: &str) -> Result<http::Uri, ConnectError> {
    url.parse().map_err(|problem: http::uri::InvalidUri| ConnectError::Address {
        url: url.to_owned(),
        problem: problem.to_string(),
    })
}

/// Returns the address without what may be secret in it.
fn server_name(url: &http::Uri) -> String {
    let host = url.host().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}", url.scheme_str().unwrap_or("https"))
}

fn user_agent() -> HeaderValue {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = format!("berth/{} ({os}/{arch}) scheduler", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("berth"))
}

fn stack(config: &kube::Config) -> Result<kube::Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(CONNECT));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(TCP_GIVE_UP));
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(POOL_IDLE_MAX)
        .build::<_, Gated>(connector);
    let http = http.map_request(Gated::wrap).map_err(BoxError::from);
    let builder = ClientBuilder::new(http, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?);
    let base = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => builder.with_layer(&auth).with_layer(&base).build(),
        None => builder.with_layer(&base).build(),
    })
}

fn send_error(error: &kube::Error) -> SendError {
    let message = with_sources(error);
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(http) = current.downcast_ref::<hyper_util::client::legacy::Error>()
            && http.is_connect()
        {
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
