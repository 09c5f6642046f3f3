//! The pages of the secure port.

mod streamed;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware;
use axum::routing::any;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use tracing::warn;

use super::answer::{Answer, JSON, answer, error, failure, no_sniff, pretty, text};
use super::debug;
use super::gate::{self, Gate};
use super::health::Health;

/// Source: kube-scheduler 1.37.2.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
const NAME: &str = "berth";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";

/// What /metrics and /metrics/resources show, in Prometheus' text format. Called on a thread that
/// may block.
pub trait Pages: Send + Sync {
    fn metrics(&self) -> Vec<u8>;
    /// Writes nothing while another replica leads.
    ///
    /// # Errors
    /// The engine is gone or too busy, or `out` is closed.
    fn resources(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// What the pages show.
pub struct ServeState {
    pub pages: Arc<dyn Pages>,
    pub health: Health,
    /// The completed configuration: a KubeSchedulerConfiguration.
    pub configuration: Value,
    /// Name without dashes and value of every flag, as it counts.
    pub flags: BTreeMap<String, String>,
    /// The Kubernetes version that is behaved like, such as `1.37`.
    pub emulation_version: String,
    /// The gates ComponentFlagz and ComponentStatusz.
    pub flagz: bool,
    pub statusz: bool,
}

struct Shown {
    state: ServeState,
    started: jiff::Timestamp,
    /// First segments of all paths.
    folders: Vec<String>,
}

/// Returns the routes, behind the gate.
pub(super) fn router(state: ServeState, gate: Arc<Gate>) -> Router {
    let health_paths = state.health.paths();
    let own = ["/configz", "/flagz", "/metrics"].map(str::to_owned);
    let folder = |path: &String| path.split('/').nth(1).map(|first| format!("/{first}"));
    let folders: BTreeSet<String> = health_paths.iter().chain(&own).filter_map(folder).collect();
    let folders = folders.into_iter().collect();
    let shown = Arc::new(Shown { state, started: jiff::Timestamp::now(), folders });
    let mut router = Router::new();
    for path in health_paths {
        router = router.route(&path, any(health));
    }
    if shown.state.flagz {
        router = router.route("/flagz", any(flagz));
    }
    if shown.state.statusz {
        router = router.route("/statusz", any(statusz));
    }
    if shown.state.configuration["enableProfiling"] == true {
        router = router.route("/debug/flags/v", any(debug::verbosity));
    }
    router
        .route("/metrics", any(metrics))
        .route("/metrics/resources", any(resources))
        .route("/metrics/slis", any(slis))
        .route("/configz", any(configz))
        .fallback(not_found)
        .with_state(shown)
        .layer(middleware::from_fn_with_state(gate, gate::pass))
}

async fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

async fn health(State(shown): State<Arc<Shown>>, request: Request) -> Answer {
    shown.state.health.answer(request.uri().path(), request.uri().query().unwrap_or_default())
}

/// Answers with a page that is written while it is sent, packed if the client understands that.
async fn made(
    shown: Arc<Shown>,
    headers: &HeaderMap,
    write: impl FnOnce(&Shown, &mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Answer {
    let packed = streamed::takes_gzip(headers);
    match streamed::body(packed, move |out| write(&shown, out)).await {
        Ok(body) => {
            let mut response = answer(StatusCode::OK, METRICS, body);
            if packed {
                let gzip = HeaderValue::from_static("gzip");
                response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
            }
            response
        }
        Err(problem) => {
            warn!(%problem, "the page can't be made");
            error(StatusCode::INTERNAL_SERVER_ERROR, "the page can't be made")
        }
    }
}

async fn metrics(State(shown): State<Arc<Shown>>, request: Request) -> Answer {
    if request.method() == Method::DELETE {
        // Upstream forgets its counts; a counter that starts over by request misleads whoever scrapes.
        return error(StatusCode::METHOD_NOT_ALLOWED, "metrics are not reset");
    }
    let write = |shown: &Shown, out: &mut dyn Write| out.write_all(&shown.state.pages.metrics());
    made(shown, request.headers(), write).await
}

async fn resources(State(shown): State<Arc<Shown>>, request: Request) -> Answer {
    if request.method() == Method::DELETE {
        // Nothing is counted here that could be forgotten.
        return text("metrics reset\n");
    }
    made(shown, request.headers(), |shown, out| shown.state.pages.resources(out)).await
}

async fn slis(State(shown): State<Arc<Shown>>, request: Request) -> Answer {
    if request.method() == Method::DELETE {
        shown.state.health.reset();
        return text("metrics reset\n");
    }
    let mut page = shown.state.health.metrics();
    let started = shown.started.as_millisecond();
    page += "# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch \
             in seconds.\n# TYPE process_start_time_seconds gauge\n";
    page += &format!("process_start_time_seconds {}.{:03}\n", started / 1000, started % 1000);
    answer(StatusCode::OK, METRICS, page)
}

async fn configz(State(shown): State<Arc<Shown>>) -> Answer {
    let page = json!({"componentconfig": shown.state.configuration});
    no_sniff(answer(StatusCode::OK, JSON, page.to_string()))
}

/// What a z-page is asked for as.
enum Form {
    Text,
    /// The version of config.k8s.io.
    Structured(&'static str),
    Neither,
}

/// Reads Accept as upstream does: text, or JSON of a named kind and version.
fn form(headers: &HeaderMap, kind: &str) -> Form {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Form::Text;
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: BTreeMap<&str, &str> =
            parts.filter_map(|parameter| parameter.split_once('=')).collect();
        let named = |key: &str, value: &str| parameters.get(key).is_some_and(|v| *v == value);
        match media {
            "text/plain" | "text/*" | "*/*" => return Form::Text,
            "application/json" if named("g", "config.k8s.io") && named("as", kind) => {
                for version in ["v1beta1", "v1alpha1"] {
                    if named("v", version) {
                        return Form::Structured(version);
                    }
                }
            }
            _ => {}
        }
    }
    Form::Neither
}

/// Puts a z-page into the form that is asked for.
fn z_page(headers: &HeaderMap, kind: &str, plain: String, content: Value) -> Answer {
    let version = match form(headers, kind) {
        Form::Text => return text(plain),
        Form::Structured(version) => version,
        Form::Neither => {
            let message = "only the following media types are accepted: application/json, \
                           text/plain";
            return failure(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message);
        }
    };
    let mut page = json!({
        "kind": kind,
        "apiVersion": format!("config.k8s.io/{version}"),
        "metadata": {"name": NAME},
    });
    if let (Some(page), Value::Object(content)) = (page.as_object_mut(), content) {
        page.extend(content);
    }
    let mut response = answer(StatusCode::OK, JSON, pretty(&page));
    let content_type = format!("application/json;g=config.k8s.io;v={version};as={kind}");
    if let Ok(value) = HeaderValue::from_str(&content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

async fn statusz(State(shown): State<Arc<Shown>>, headers: HeaderMap) -> Answer {
    let up = jiff::Timestamp::now().duration_since(shown.started).as_secs().max(0);
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let (own, emulated) = (env!("CARGO_PKG_VERSION"), &shown.state.emulation_version);
    let plain = format!(
        "\n{NAME} statusz\n{WARNING}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} \
         sec\nBinary version: {own}\nEmulation version: {emulated}\nPaths: {}\n",
        shown.started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        shown.folders.join(" "),
    );
    let content = json!({
        "startTime": shown.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "uptimeSeconds": up,
        "binaryVersion": own,
        "emulationVersion": emulated,
        "paths": shown.folders,
    });
    z_page(&headers, "Statusz", plain, content)
}

async fn flagz(State(shown): State<Arc<Shown>>, headers: HeaderMap) -> Answer {
    let mut plain = format!("\n{NAME} flagz\n{WARNING}\n");
    for (name, value) in &shown.state.flags {
        plain += &format!("{name}={value}\n");
    }
    z_page(&headers, "Flagz", plain, json!({"flags": shown.state.flags}))
}
