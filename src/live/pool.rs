//! Connections to one server, and requests on them: HTTP/1.1, one request at a time on each.
//!
//! Own instead of hyper-util's client, which wakes two further tasks for each request and can't say
//! afterwards that a request never left. A connection is idle again when an answer's body has been
//! read to its end; one whose answer is given up is closed. The most recently used one goes first,
//! so that those of a burst grow old and are dropped.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use tokio::sync::{Notify, Semaphore};
use tower::{BoxError, Service, ServiceExt};

use super::lease::gate::Gated;

/// Idle connections kept for the next burst.
const IDLE_MAX: usize = 64;
/// Connections that are made at a time. A handshake costs as much as ten writes on either side, so a
/// burst had better wait for the first answers than open one for each of its requests.
const MAKING_MAX: usize = 4;
/// Servers and what stands between close what is idle for longer. Source: Go's IdleConnTimeout.
const IDLE: Duration = Duration::from_secs(90);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error("no connection: {0}")]
    Connect(#[source] BoxError),
    #[error("the connection was closed before the request was sent: {0}")]
    NotSent(#[source] hyper::Error),
    #[error("no answer: {0}")]
    NoAnswer(#[source] hyper::Error),
    #[error("{0} is no address of a server")]
    Address(Uri),
}

impl PoolError {
    /// Tells whether the server can't have seen the request.
    pub fn never_sent(&self) -> bool {
        match self {
            PoolError::Connect(_) | PoolError::NotSent(_) | PoolError::Address(_) => true,
            PoolError::NoAnswer(_) => false,
        }
    }
}

/// A pool of connections to whatever server the first request names. Clones share it.
#[derive(Clone)]
pub struct Pool<C> {
    connector: C,
    idle: Arc<Idle>,
}

/// Idle connections, the most recently used one last.
struct Idle {
    connections: Mutex<Vec<(Instant, SendRequest<Gated>)>>,
    /// Somebody has put one back.
    returned: Notify,
    /// A place for each connection that is being made.
    making: Semaphore,
}

impl Default for Idle {
    fn default() -> Idle {
        let (connections, returned) = (Mutex::default(), Notify::new());
        Idle { connections, returned, making: Semaphore::new(MAKING_MAX) }
    }
}

impl Idle {
    fn take(&self) -> Option<SendRequest<Gated>> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((since, sender)) = connections.pop() {
            if since.elapsed() < IDLE && !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn put(&self, sender: SendRequest<Gated>) {
        let now = Instant::now();
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.push((now, sender));
        let oldest = connections.first().map(|(since, _)| now.saturating_duration_since(*since));
        if connections.len() > IDLE_MAX || oldest.is_some_and(|oldest| oldest >= IDLE) {
            connections.remove(0);
        }
        drop(connections);
        self.returned.notify_one();
    }
}

impl<C> Pool<C>
where
    C: Service<Uri> + Clone,
    C::Response: Read + Write + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    /// Makes a pool; nothing is connected yet.
    pub fn new(connector: C) -> Pool<C> {
        Pool { connector, idle: Arc::default() }
    }

    async fn send(self, mut request: Request<Gated>) -> Result<Response<Answered>, PoolError> {
        let server = direct(&mut request)?;
        loop {
            let (mut sender, fresh) = self.connection(&server).await?;
            let was_closed = match sender.ready().await {
                Err(_) if !fresh => continue,
                Err(problem) => return Err(PoolError::NotSent(problem)),
                Ok(()) => sender.try_send_request(request).await,
            };
            let mut failure = match was_closed {
                Ok(response) => {
                    return Ok(response.map(|body| Answered::new(body, sender, self.idle)));
                }
                Err(failure) => failure,
            };
            // hyper hands back only what it has not begun to write.
            match failure.take_message() {
                Some(unsent) if !fresh => request = unsent,
                Some(_) => return Err(PoolError::NotSent(failure.into_error())),
                None => return Err(PoolError::NoAnswer(failure.into_error())),
            }
        }
    }

    /// Returns an idle connection or a new one, whichever is there first, and whether it is new.
    async fn connection(&self, server: &Uri) -> Result<(SendRequest<Gated>, bool), PoolError> {
        loop {
            if let Some(sender) = self.idle.take() {
                return Ok((sender, false));
            }
            tokio::select! {
                place = self.idle.making.acquire() => {
                    // One may have come back while we waited for the place.
                    if let Some(sender) = self.idle.take() {
                        return Ok((sender, false));
                    }
                    let made = self.connect(server).await;
                    drop(place);
                    return Ok((made?, true));
                }
                () = self.idle.returned.notified() => {}
            }
        }
    }

    async fn connect(&self, server: &Uri) -> Result<SendRequest<Gated>, PoolError> {
        let connected = self.connector.clone().oneshot(server.clone()).await;
        let stream = connected.map_err(|problem| PoolError::Connect(problem.into()))?;
        let (sender, connection) =
            http1::handshake(stream).await.map_err(|problem| PoolError::Connect(problem.into()))?;
        // Whatever ends it, the request that waits for its answer hears of it.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Turns the address of a request into the form that goes to the server itself, and returns the
/// server's.
fn direct(request: &mut Request<Gated>) -> Result<Uri, PoolError> {
    let mut server = request.uri().clone().into_parts();
    let path = server.path_and_query.replace(PathAndQuery::from_static("/"));
    let named =
        server.authority.as_ref().and_then(|a| HeaderValue::from_str(host(a.as_str())).ok());
    let (Some(host), Ok(server)) = (named, Uri::from_parts(server)) else {
        return Err(PoolError::Address(request.uri().clone()));
    };
    request.headers_mut().entry(header::HOST).or_insert(host);
    *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
    Ok(server)
}

/// Leaves out who asks, which some addresses hold.
fn host(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

impl<C> Service<Request<Gated>> for Pool<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response<Answered>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answered>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Gated>) -> Self::Future {
        let pool = self.clone();
        Box::pin(async move { pool.send(request).await.map_err(BoxError::from) })
    }
}

/// An answer's body, which gives its connection back at its end.
pub struct Answered {
    body: Incoming,
    connection: Option<(SendRequest<Gated>, Arc<Idle>)>,
}

impl Answered {
    fn new(body: Incoming, sender: SendRequest<Gated>, idle: Arc<Idle>) -> Answered {
        let mut answered = Answered { body, connection: Some((sender, idle)) };
        if answered.body.is_end_stream() {
            answered.give_back();
        }
        answered
    }

    fn give_back(&mut self) {
        if let Some((sender, idle)) = self.connection.take() {
            idle.put(sender);
        }
    }
}

impl Body for Answered {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            None => self.give_back(),
            Some(Ok(_)) if self.body.is_end_stream() => self.give_back(),
            Some(Ok(_)) => {}
            Some(Err(_)) => self.connection = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;
    use hyper_util::client::legacy::connect::HttpConnector;
    use kube::client::Body as Sent;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    /// A server that answers so many requests on each connection before it closes it, and says
    /// whether it reads one more then.
    struct Server {
        address: std::net::SocketAddr,
        connections: Arc<AtomicUsize>,
        requests: Arc<AtomicUsize>,
    }

    impl Server {
        async fn start(answers: usize, reads_on: bool) -> Server {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::default());
            let server = Server { address, connections, requests };
            let (accepted, heard) = (Arc::clone(&server.connections), Arc::clone(&server.requests));
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    accepted.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream, answers, reads_on, Arc::clone(&heard)));
                }
            });
            server
        }

        fn counts(&self) -> (usize, usize) {
            (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
        }

        fn request(&self) -> Request<Gated> {
            let uri = format!("http://{}/path?q=1", self.address);
            Gated::wrap(Request::get(uri).body(Sent::empty()).unwrap())
        }
    }

    async fn heard(stream: &mut TcpStream) -> Option<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        assert!(head.starts_with(b"GET /path?q=1 HTTP/1.1\r\n"));
        Some(())
    }

    async fn serve(mut stream: TcpStream, answers: usize, reads_on: bool, count: Arc<AtomicUsize>) {
        for _ in 0..answers {
            let Some(()) = heard(&mut stream).await else { return };
            count.fetch_add(1, Ordering::SeqCst);
            stream.write_all(ANSWER).await.unwrap();
        }
        if reads_on && heard(&mut stream).await.is_some() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn ask(pool: &Pool<HttpConnector>, server: &Server) -> Result<Bytes, PoolError> {
        let answer = pool.clone().send(server.request()).await?;
        Ok(answer.into_body().collect().await.unwrap().to_bytes())
    }

    /// Waits until the pool's connections have heard that the server closed them.
    async fn all_closed(pool: &Pool<HttpConnector>) {
        let closed = || {
            let idle = pool.idle.connections.lock().unwrap();
            idle.iter().all(|(_, sender)| sender.is_closed())
        };
        while !closed() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_again() {
        let server = Server::start(usize::MAX, false).await;
        let pool = Pool::new(HttpConnector::new());
        for _ in 0..5 {
            assert_eq!(ask(&pool, &server).await.unwrap(), "ok");
        }
        assert_eq!(server.counts(), (1, 5));
    }

    #[tokio::test]
    async fn an_idle_connection_that_was_closed_costs_no_request() {
        let server = Server::start(1, false).await;
        let pool = Pool::new(HttpConnector::new());
        for _ in 0..20 {
            assert_eq!(ask(&pool, &server).await.unwrap(), "ok");
            // A close that comes while the next request is on its way would leave that one open.
            all_closed(&pool).await;
        }
        assert_eq!(server.counts(), (20, 20));
    }

    #[tokio::test]
    async fn what_was_sent_and_not_answered_is_not_sent_again() {
        let server = Server::start(1, true).await;
        let pool = Pool::new(HttpConnector::new());
        assert_eq!(ask(&pool, &server).await.unwrap(), "ok");
        let lost = ask(&pool, &server).await.unwrap_err();
        assert!(!lost.never_sent(), "{lost}");
        assert_eq!(server.counts(), (1, 2));
    }

    #[tokio::test]
    async fn where_nobody_listens_nothing_is_sent() {
        let server = Server::start(0, false).await;
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let nobody = Server { address, ..server };
        let problem = ask(&Pool::new(HttpConnector::new()), &nobody).await.unwrap_err();
        assert!(problem.never_sent(), "{problem}");
    }

    #[tokio::test]
    async fn a_burst_shares_connections_and_all_get_their_answers() {
        let server = Server::start(usize::MAX, false).await;
        let pool = Pool::new(HttpConnector::new());
        let asks = (0..200).map(|_| ask(&pool, &server));
        let answers = futures::future::join_all(asks).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|body| body == "ok")));
        let (connections, requests) = server.counts();
        assert!(connections < 200 && requests == 200, "{connections} {requests}");
    }
}
