//! A plain HTTP proxy in front of a stand's API server that can cut, replace and delay answers.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_stand::{ADMIN, Stand};
use futures::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Error>>;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// The server does it, nobody hears of it.
    CutAnswer,
    /// It never reaches the server, and nobody hears of that either.
    CutRequest,
    /// The server does it, and this status is told instead.
    ReplaceAnswer(u16),
    /// The server never sees it; this status is told.
    Refuse(u16),
}

/// Decides about a request by its line, such as `POST /api/v1/…/binding`. It may block:
/// other requests are decided about meanwhile.
pub(crate) type Rule = dyn Fn(&str) -> Fault + Send + Sync;

pub(crate) struct Proxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

struct Shared {
    client: kube::Client,
    rule: Box<Rule>,
    lines: Mutex<Vec<String>>,
    late: Arc<AtomicBool>,
}

/// How late watches of pods are while [`Proxy::late`] is set.
const LATE: Duration = Duration::from_secs(3);

impl Proxy {
    pub(crate) fn start(stand: &Stand, late: Arc<AtomicBool>, rule: Box<Rule>) -> Proxy {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let direct = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
        let client = runtime.block_on(connect(direct));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared { client, rule, lines: Mutex::default(), late });
        runtime.spawn(serve(listener, Arc::clone(&shared)));
        let kubeconfig = stand.folder().join("kubeconfig-proxy");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).expect("the kubeconfig is written");
        Proxy { shared, kubeconfig, _runtime: runtime }
    }

    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// Returns the lines of all writes so far.
    pub(crate) fn writes(&self) -> Vec<String> {
        let lines = self.shared.lines.lock().expect("the lines");
        lines.iter().filter(|line| !line.starts_with("GET")).cloned().collect()
    }

    /// Returns the lines of the writes and reads of single pods so far.
    pub(crate) fn lines_about(&self, pod: &str) -> Vec<String> {
        let lines = self.shared.lines.lock().expect("the lines");
        let about = format!("/pods/{pod}");
        lines.iter().filter(|line| line.contains(&about)).cloned().collect()
    }
}

async fn connect(kubeconfig: PathBuf) -> kube::Client {
    let read = kube::config::Kubeconfig::read_from(kubeconfig).expect("the kubeconfig");
    let options = Default::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    let mut config = config.expect("a configuration");
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| pass(request, Arc::clone(&shared)));
            let io = TokioIo::new(stream);
            // A cut answer ends the connection with an error, as it should.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        });
    }
}

async fn pass(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Answer, Error> {
    let (head, body) = request.into_parts();
    let line = format!("{} {}", head.method, head.uri);
    shared.lines.lock().expect("the lines").push(line.clone());
    let (asked, asking) = (Arc::clone(&shared), line.clone());
    let decide = move || (asked.rule)(&asking);
    let fault = tokio::task::spawn_blocking(decide).await?;
    match fault {
        Fault::CutRequest => return Err("cut".into()),
        Fault::Refuse(code) => return told(code),
        Fault::None | Fault::CutAnswer | Fault::ReplaceAnswer(_) => {}
    }
    let body = body.collect().await?.to_bytes().to_vec();
    let response = shared.client.send(Request::from_parts(head, Body::from(body))).await?;
    match fault {
        Fault::CutAnswer => Err("cut".into()),
        Fault::ReplaceAnswer(code) => told(code),
        Fault::None | Fault::CutRequest | Fault::Refuse(_) => {
            let is_watch = line.starts_with("GET /api/v1/pods?watch");
            Ok(forwarded(response, is_watch.then(|| Arc::clone(&shared.late))))
        }
    }
}

fn told(code: u16) -> Result<Answer, Error> {
    let body = json!({"kind": "Status", "code": code, "message": "as the test wants it"});
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {});
    let response = Response::builder().status(code).header("retry-after", "1");
    Ok(response.body(body.boxed_unsync())?)
}

/// Hands the answer on frame by frame, late where that is wanted.
fn forwarded(response: Response<Body>, late: Option<Arc<AtomicBool>>) -> Answer {
    response.map(|body| {
        let frames = stream::unfold((body, late), |(mut body, late)| async {
            let frame = body.frame().await?;
            if late.as_ref().is_some_and(|late| late.load(Ordering::SeqCst)) {
                tokio::time::sleep(LATE).await;
            }
            Some((frame.map_err(Error::from), (body, late)))
        });
        StreamBody::new(frames).boxed_unsync()
    })
}
