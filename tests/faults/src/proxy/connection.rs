//! One connection of a client and its counterpart to the server.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use http::request::Parts;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::Shared;
use super::answer;
use super::exchange::{Entry, Told};
use super::request::Asked;
use super::rule::{Active, Ending, Fault};

/// Why a connection ends before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cut, as a rule wants it")]
    Cut,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Answer(#[from] http::Error),
    #[error(transparent)]
    Body(#[from] Box<dyn std::error::Error + Send + Sync>),
}

pub(super) type Body = UnsyncBoxBody<Bytes, Error>;
type Answer = Response<Body>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

/// The server takes no more than 3 MiB.
const BODY_MAX: usize = 16 << 20;

/// A fatal alert (internal error) as it stands on the wire before keys are agreed on; after that no
/// peer takes it for an ordinary end.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// How the client's connection is to end, once something has decided that it is to be cut.
pub(super) type Verdict = Arc<StdMutex<Ending>>;

struct Link {
    shared: Arc<Shared>,
    server: Mutex<SendRequest<Full<Bytes>>>,
    verdict: Verdict,
}

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // Fails only while there are no file descriptors left.
        let Ok((client, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A connection that fails is what this proxy is for.
            let _ = serve(client, shared).await;
        });
    }
}

/// Serves a client until either side ends. A server that can't be reached costs the client its
/// connection before it could send anything.
async fn serve(client: TcpStream, shared: Arc<Shared>) -> Result<(), Error> {
    let server = TcpStream::connect(shared.server).await?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let server = shared.tls.connector.connect(shared.tls.server_name.clone(), server).await?;
    let (sender, upstream) = handshake(TokioIo::new(server)).await?;
    let mut upstream = tokio::spawn(upstream);
    let client = shared.tls.acceptor.accept(client).await?;

    let verdict = Verdict::default();
    let server = Mutex::new(sender);
    let link = Arc::new(Link { shared, server, verdict: Arc::clone(&verdict) });
    let service = service_fn(move |request| -> Answering {
        let link = Arc::clone(&link);
        Box::pin(async move { link.pass(request).await })
    });
    let mut http = Builder::new().serve_connection(TokioIo::new(client), service);
    let mut server_is_there = true;
    let outcome = loop {
        tokio::select! {
            outcome = poll_fn(|cx| http.poll_without_shutdown(cx)) => break outcome,
            _ = &mut upstream, if server_is_there => {
                server_is_there = false;
                Pin::new(&mut http).graceful_shutdown();
            }
        }
    };
    let mut client = http.into_parts().io.into_inner();
    if outcome.is_err() && *verdict.lock().unwrap_or_else(PoisonError::into_inner) == Ending::Alert
    {
        client.get_mut().0.write_all(&ALERT).await?;
    }
    Ok(())
}

impl Link {
    async fn pass(&self, request: Request<Incoming>) -> Result<Answer, Error> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_MAX).collect().await?.to_bytes();
        let authorization = head.headers.get(header::AUTHORIZATION);
        let authorization = authorization.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let asked = Asked::new(self.shared.user_of(authorization), &head, body.clone());
        let rule = self.shared.rules.choose(&asked);
        let mut entry = Entry::begin(&self.shared.log, asked.clone());
        if let Some(rule) = &rule
            && let Some(answer) = self.before(rule, &mut entry).await?
        {
            return Ok(answer);
        }
        entry.forwarded();
        let answer = match self.ask(head, body).await {
            Ok(answer) => answer,
            Err(problem) => {
                entry.told(Told::Broken);
                return Err(problem);
            }
        };
        let status = answer.status();
        entry.answered(status.as_u16());
        if status.as_u16() == 410 {
            self.shared.log.expired(&asked.user, &asked.resource);
        }
        match &rule {
            Some(rule) => self.after(rule, &mut entry, &asked, answer).await,
            None => Ok(self.passed_on(&mut entry, &asked, answer)),
        }
    }

    /// Does what a rule wants before the server sees the request. An answer is the server's stead.
    async fn before(&self, rule: &Active, entry: &mut Entry) -> Result<Option<Answer>, Error> {
        if !rule.rule.delay.is_zero() {
            tokio::time::sleep(rule.rule.delay).await;
        }
        if rule.rule.hold {
            rule.hold().await;
        }
        match rule.rule.fault {
            Fault::CutRequest(ending) => {
                rule.took_effect();
                Err(self.cut(entry, ending))
            }
            Fault::DropRequest => {
                rule.took_effect();
                entry.told(Told::Cut);
                pending().await
            }
            Fault::Refuse { status, retry_after_s } => {
                rule.took_effect();
                entry.told(Told::Status(status));
                Ok(Some(stated(status, retry_after_s)?))
            }
            Fault::Pass => {
                rule.took_effect();
                Ok(None)
            }
            Fault::CutAnswer(_)
            | Fault::DropAnswer
            | Fault::ReplaceStatus(_)
            | Fault::Truncate(_)
            | Fault::Slow { .. } => Ok(None),
        }
    }

    /// Does what a rule wants with the server's answer.
    async fn after(
        &self,
        rule: &Arc<Active>,
        entry: &mut Entry,
        asked: &Asked,
        answer: Response<Incoming>,
    ) -> Result<Answer, Error> {
        if rule.rule.hold_answer {
            rule.hold().await;
        }
        let said_yes = answer.status().is_success();
        let counted = || {
            if said_yes {
                rule.took_effect()
            }
        };
        match rule.rule.fault {
            Fault::CutAnswer(ending) => {
                counted();
                Err(self.cut(entry, ending))
            }
            Fault::DropAnswer => {
                counted();
                entry.told(Told::Cut);
                pending().await
            }
            Fault::ReplaceStatus(status) => {
                counted();
                entry.told(Told::Status(status));
                stated(status, None)
            }
            Fault::Truncate(bytes) => {
                entry.told(Told::Status(answer.status().as_u16()));
                let body = |body| answer::truncated(body, bytes, Arc::clone(rule));
                Ok(with_body(answer, body))
            }
            Fault::Slow { bytes, pause } => {
                entry.told(Told::Status(answer.status().as_u16()));
                let body = |body| answer::slow(body, bytes, pause, Arc::clone(rule));
                Ok(with_body(answer, body))
            }
            Fault::Pass | Fault::CutRequest(_) | Fault::DropRequest | Fault::Refuse { .. } => {
                Ok(self.passed_on(entry, asked, answer))
            }
        }
    }

    fn passed_on(&self, entry: &mut Entry, asked: &Asked, answer: Response<Incoming>) -> Answer {
        entry.told(Told::Status(answer.status().as_u16()));
        if !asked.is_watch() || !answer.status().is_success() {
            return with_body(answer, |body| body.map_err(Error::from).boxed_unsync());
        }
        let json = answer.headers().get(header::CONTENT_TYPE);
        let is_json = json.is_some_and(|json| json.as_bytes().starts_with(b"application/json"));
        let verdict = Arc::clone(&self.verdict);
        with_body(answer, |body| self.shared.streams.forward(asked, body, is_json, verdict))
    }

    /// Sends the request on. The answer's body streams.
    async fn ask(&self, mut head: Parts, body: Bytes) -> Result<Response<Incoming>, Error> {
        head.headers.remove(header::CONNECTION);
        head.headers.remove(header::TRANSFER_ENCODING);
        let mut server = self.server.lock().await;
        server.ready().await?;
        Ok(server.send_request(Request::from_parts(head, Full::new(body))).await?)
    }

    /// Notes that nobody is told, and returns the error that ends the connection.
    fn cut(&self, entry: &mut Entry, ending: Ending) -> Error {
        entry.told(Told::Cut);
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = ending;
        Error::Cut
    }
}

/// Keeps status and headers, but for those of the connection.
fn with_body(answer: Response<Incoming>, body: impl FnOnce(Incoming) -> Body) -> Answer {
    let mut answer = answer.map(body);
    answer.headers_mut().remove(header::CONNECTION);
    answer.headers_mut().remove(header::TRANSFER_ENCODING);
    answer
}

/// An answer that is not the server's.
fn stated(status: u16, retry_after_s: Option<u32>) -> Result<Answer, Error> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "code": status, "message": "as the test wants it",
        "status": if status < 400 { "Success" } else { "Failure" },
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {});
    let mut answer = Response::builder().status(status).header("content-type", "application/json");
    if let Some(seconds) = retry_after_s {
        answer = answer.header(header::RETRY_AFTER, seconds);
    }
    Ok(answer.body(body.boxed_unsync())?)
}
