//! The barest client: one HTTP/1.1 connection over TLS, JSON bodies, nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Outcome;

const MERGE: &str = "application/merge-patch+json";

/// Where the server is, and who we are there.
#[derive(Clone)]
pub(crate) struct Server {
    address: SocketAddr,
    tls: TlsConnector,
    bearer: String,
}

impl Server {
    /// `url` is `https://` and an IP address with its port.
    pub(crate) fn new(url: &str, ca_pem: &str, token: &str) -> Outcome<Server> {
        let address = url.trim_start_matches("https://").trim_end_matches('/').parse()?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Server { address, tls, bearer: format!("Bearer {token}") })
    }

    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let tls = self.tls.connect(name, tcp).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        let (host, bearer) = (self.address.to_string(), self.bearer.clone());
        Ok(Connection { sender, host, bearer })
    }
}

/// A connection for one request at a time.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: String,
}

impl Connection {
    /// Sends and returns the head; the body streams.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Outcome<(StatusCode, Incoming)> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, &self.bearer)
            .header(header::ACCEPT, "application/json, text/plain")
            .header(header::USER_AGENT, "berth-bench-live");
        let request = match (&body, &method) {
            (Some(_), &Method::PATCH) => request.header(header::CONTENT_TYPE, MERGE),
            (Some(_), _) => request.header(header::CONTENT_TYPE, "application/json"),
            (None, _) => request,
        };
        let body = body.map(Bytes::from).unwrap_or_default();
        self.sender.ready().await?;
        let answer = self.sender.send_request(request.body(Full::new(body))?).await?;
        let (head, body) = answer.into_parts();
        Ok((head.status, body))
    }

    /// Creates an object, or a subresource such as a binding.
    pub(crate) async fn post(&mut self, path: &str, body: Vec<u8>) -> Outcome<()> {
        self.write(Method::POST, path, body).await
    }

    /// Sends a write and reads its answer to the end.
    async fn write(&mut self, method: Method, path: &str, body: Vec<u8>) -> Outcome<()> {
        let (status, mut body) = self.send(method.clone(), path, Some(body)).await?;
        if status.is_success() {
            while let Some(frame) = body.frame().await {
                drop(frame?);
            }
            return Ok(());
        }
        let body = body.collect().await?.to_bytes();
        Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body)).into())
    }

    pub(crate) async fn get(&mut self, path: &str) -> Outcome<Value> {
        Ok(serde_json::from_slice(&self.get_bytes(path).await?)?)
    }

    pub(crate) async fn get_bytes(&mut self, path: &str) -> Outcome<Bytes> {
        let (status, body) = self.send(Method::GET, path, None).await?;
        let body = body.collect().await?.to_bytes();
        match status.is_success() {
            true => Ok(body),
            false => {
                Err(format!("GET {path}: {status}: {}", String::from_utf8_lossy(&body)).into())
            }
        }
    }
}

/// One write. Patches are merge patches.
pub(crate) struct Sending {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// Posts all bodies to their paths, over so many connections.
pub(crate) async fn post_all(
    server: &Server,
    connections: usize,
    posts: Vec<(String, Vec<u8>)>,
) -> Outcome<()> {
    let post = |(path, body)| vec![Sending { method: Method::POST, path, body }];
    send_all(server, connections, posts.into_iter().map(post).collect()).await
}

/// Sends writes over so many connections: those of a job one after the other.
pub(crate) async fn send_all(
    server: &Server,
    connections: usize,
    jobs: Vec<Vec<Sending>>,
) -> Outcome<()> {
    let jobs = Arc::new(std::sync::Mutex::new(jobs.into_iter()));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (server, jobs) = (server.clone(), Arc::clone(&jobs));
        tasks.spawn(async move {
            let mut connection = server.connect().await?;
            let next = || jobs.lock().ok().and_then(|mut jobs| jobs.next());
            while let Some(job) = next() {
                for Sending { method, path, body } in job {
                    connection.write(method, &path, body).await?;
                }
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
