//! Connections: accepted, secured and limited, so that no client holds the port for itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::certificate::Store;
use super::{Limits, ServeError, ServeOptions};

const BACKLOG: u32 = 1024;
/// Out of file descriptors, most likely.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// What is under way at the end gets so long.
const DRAIN: Duration = Duration::from_secs(5);
/// A front proxy sends a header for each of a user's groups.
const HEADERS_MAX: usize = 1000;

/// Binds the address. As in Go, SO_REUSEADDR is always set.
///
/// # Errors
/// [`ServeError::Listen`].
pub(super) fn listen(options: &ServeOptions) -> Result<TcpListener, ServeError> {
    let address = options.bind;
    let listener = || -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(options.permit_port_sharing)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listener().map_err(|source| ServeError::Listen { address, source })
}

/// A listener and what its connections need.
pub(super) struct Server {
    pub(super) listener: TcpListener,
    pub(super) tls: ServerConfig,
    pub(super) certificates: Arc<Store>,
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) http2_streams_max: u32,
    pub(super) shutdown: watch::Receiver<bool>,
}

/// The other end of a connection, as a request finds it.
#[derive(Clone)]
pub(super) struct Peer {
    /// What the client showed; nothing has been verified but that it holds the first one's key.
    pub(super) chain: Arc<[CertificateDer<'static>]>,
    /// Bytes.
    pub(super) body_max: u64,
    activity: Arc<Activity>,
}

impl Peer {
    /// Ends the connection once this request is answered.
    pub(super) fn close_after_this(&self) {
        self.activity.close.notify_one();
    }
}

/// When a connection has been of no use for too long.
struct Activity {
    deadline: Mutex<Instant>,
    close: Notify,
}

impl Activity {
    fn postpone(&self, by: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + by;
    }

    /// Returns when the connection is to end.
    async fn over(&self) {
        let idle = async {
            loop {
                let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
                if deadline <= Instant::now() {
                    return;
                }
                tokio::time::sleep_until(deadline).await;
            }
        };
        tokio::select! {
            () = idle => {}
            () = self.close.notified() => {}
        }
    }
}

impl Server {
    /// Accepts until the shutdown, then waits for what is under way.
    pub(super) async fn run(self) {
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let mut shutdown = self.shutdown.clone();
        let ending = pin!(told(&mut shutdown));
        tokio::select! {
            () = ending => {}
            () = self.accept_all(&slots) => {}
        }
        drop(self.listener);
        let all = u32::try_from(self.limits.connections_max).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(DRAIN, slots.acquire_many(all)).await;
    }

    async fn accept_all(&self, slots: &Arc<Semaphore>) {
        // Whoever comes when all slots are taken waits in the system's queue.
        while let Ok(slot) = Arc::clone(slots).acquire_owned().await {
            let accepted = self.listener.accept().await;
            match accepted {
                Ok((stream, from)) => self.begin(stream, from, slot),
                Err(problem) => {
                    warn!(%problem, "accepting a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, from: SocketAddr, slot: OwnedSemaphorePermit) {
        let Ok(local) = stream.local_addr() else { return };
        let _ = stream.set_nodelay(true);
        let mut tls = self.tls.clone();
        tls.cert_resolver = self.certificates.resolver(local.ip());
        let connection = Connection {
            router: self.router.clone(),
            limits: self.limits,
            http2_streams_max: self.http2_streams_max,
            shutdown: self.shutdown.clone(),
        };
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn(async move {
            let handshake = acceptor.accept(stream);
            match tokio::time::timeout(connection.limits.handshake, handshake).await {
                Ok(Ok(stream)) => connection.run(stream).await,
                Ok(Err(problem)) => debug!(%from, %problem, "TLS handshake"),
                Err(_) => debug!(%from, "TLS handshake: too slow"),
            }
            drop(slot);
        });
    }
}

/// Returns when `shutdown` is true or its sender is gone.
async fn told(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|told| *told).await;
}

struct Connection {
    router: Router,
    limits: Limits,
    http2_streams_max: u32,
    shutdown: watch::Receiver<bool>,
}

impl Connection {
    async fn run(self, stream: TlsStream<TcpStream>) {
        let (_, session) = stream.get_ref();
        let chain: Vec<_> = session.peer_certificates().unwrap_or_default().to_vec();
        let http2 = session.alpn_protocol() == Some(b"h2");
        // The first request must come sooner than later ones.
        let deadline = Mutex::new(Instant::now() + self.limits.header_read);
        let activity = Arc::new(Activity { deadline, close: Notify::new() });
        let peer = Peer {
            chain: chain.into(),
            body_max: self.limits.body_max,
            activity: Arc::clone(&activity),
        };
        let (router, idle) = (self.router.clone(), self.limits.idle);
        let service =
            service_fn(move |request| answer(router.clone(), peer.clone(), idle, request));
        let io = TokioIo::new(stream);
        if http2 {
            let connection = self.http2().serve_connection(io, service);
            supervise(connection, &activity, self.shutdown).await;
        } else {
            let connection = self.http1().serve_connection(io, service);
            supervise(connection, &activity, self.shutdown).await;
        }
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_read)
            .max_headers(HEADERS_MAX)
            // The buffer alone lets a last large read go past its limit.
            .max_header_size(self.limits.header_max)
            .max_buf_size(self.limits.header_max);
        builder
    }

    fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let header_max = u32::try_from(self.limits.header_max).unwrap_or(u32::MAX);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.http2_streams_max)
            .max_header_list_size(header_max);
        builder
    }
}

async fn answer(
    router: Router,
    peer: Peer,
    idle: Duration,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let activity = Arc::clone(&peer.activity);
    activity.postpone(idle);
    request.extensions_mut().insert(peer);
    let response = router.oneshot(request.map(Body::new)).await;
    activity.postpone(idle);
    response
}

/// What HTTP/1.1 and HTTP/2 connections have in common.
trait Graceful: Future<Output = hyper::Result<()>> {
    /// Takes no further request.
    fn end(self: Pin<&mut Self>);
}

type Io = TokioIo<TlsStream<TcpStream>>;

impl<S> Graceful for http1::Connection<Io, S>
where
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<tower::BoxError>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S> Graceful for http2::Connection<Io, S, TokioExecutor>
where
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<tower::BoxError>,
    S::Future: Send + 'static,
    TokioExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, Body>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Serves a connection until it ends, is idle for too long, or all do.
async fn supervise(
    connection: impl Graceful,
    activity: &Activity,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        outcome = &mut connection => {
            if let Err(problem) = outcome {
                debug!(%problem, "connection");
            }
            return;
        }
        () = activity.over() => {}
        () = told(&mut shutdown) => {}
    }
    connection.as_mut().end();
    let _ = tokio::time::timeout(DRAIN, connection).await;
}
