//! A real Prometheus scrapes Berth, and promtool reads what is served.

mod server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use berth_stand::{ADMIN, Authorization, Options, Stand, User, wait_for};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::https::{Ask, free_port};
use crate::support::objects::{bound, create, gpu_node, gpu_pod};

use server::Prometheus;

const SCRAPER: &str = "scraper";

/// Returns the folder of the extracted package, or says why there is none.
fn package() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../prometheus");
    let script = root.join("tests/tools/prometheus.sh");
    let fetched = Command::new(script).arg(&folder).output().expect("the script runs");
    match fetched.status.code() {
        Some(0) => Some(folder.join("usr/bin")),
        Some(3) => {
            let thread = std::thread::current();
            let why = String::from_utf8_lossy(&fetched.stderr);
            eprintln!("skipped {}: {}", thread.name().unwrap_or("test"), why.trim());
            None
        }
        _ => panic!("{}", String::from_utf8_lossy(&fetched.stderr)),
    }
}

/// Lets the user `scraper` read /metrics and nothing else.
fn allow(api: &berth_stand::ApiClient) {
    let name = json!({"name": "scrapes-metrics"});
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    create(
        api,
        &json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": name,
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        }),
    );
    create(
        api,
        &json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": name,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "scrapes-metrics"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": SCRAPER}],
        }),
    );
}

#[test]
fn prometheus_scrapes_and_promtool_has_nothing_to_say() {
    let Some(programs) = package() else { return };
    let options = Options {
        authorization: Authorization::Rbac,
        users: vec![User { name: SCRAPER.to_owned(), groups: Vec::new() }],
        ..Options::default()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    allow(&api);
    let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let address = free_port();
    let flags = [
        format!("--secure-port={}", address.port()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--authentication-kubeconfig={}", kubeconfig.display()),
        format!("--authorization-kubeconfig={}", kubeconfig.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let berth = Berth::start_with(stand.folder(), &kubeconfig, FAST, &flags);
    create(&api, &gpu_node("n-1", 8));
    create(&api, &gpu_pod("p", 1));
    bound(&api, "p");

    let token = stand.token(SCRAPER);
    let prometheus = Prometheus::start(&programs, stand.folder(), address, &token);
    let berths = |query: &str| prometheus.value(query);
    wait_for(SOON, "up == 1", || berths("up{job=\"berth\"}").filter(|up| *up == 1.0));
    let counted = "sum(scheduler_schedule_attempts_total{result=\"scheduled\"})";
    wait_for(SOON, "the bind is scraped", || berths(counted).filter(|count| *count == 1.0));
    for query in [
        "histogram_quantile(0.99, sum by (le) (scheduler_scheduling_attempt_duration_seconds_bucket))",
        "histogram_quantile(0.99, sum by (le) \
         (scheduler_framework_extension_point_duration_seconds_bucket{extension_point=\"Filter\"}))",
        "sum(scheduler_pending_pods)",
        "berth_ledger_objects{kind=\"nodes\"} == 1",
        "berth_engine_busy_ratio",
        "sum(rest_client_requests_total{code=\"201\"})",
        "process_resident_memory_bytes",
    ] {
        let value = wait_for(SOON, query, || berths(query));
        assert!(value.is_finite(), "{query}: {value}");
    }
    // It asks for gzip by itself.
    assert!(prometheus.value("scrape_samples_scraped{job=\"berth\"}") > Some(100.0));

    let runtime = Runtime::new().expect("a runtime");
    let page = runtime.block_on(Ask::token(&token).get(address, "/metrics"));
    assert_eq!(page.0, 200);
    let said = promtool(&programs, &page.1);
    let words =
        [said.stdout, said.stderr].map(|words| String::from_utf8_lossy(&words).into_owned());
    assert!(said.status.success() && words.concat().is_empty(), "{words:?}");
    assert_eq!(berth.terminate(), Some(0));
}

fn promtool(programs: &Path, page: &str) -> Output {
    let mut child = Command::new(programs.join("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = child.stdin.take().expect("its stdin");
    stdin.write_all(page.as_bytes()).expect("it listens");
    drop(stdin);
    child.wait_with_output().expect("its end")
}

/// Writes Prometheus' configuration, and returns its path.
fn configuration(folder: &Path, target: std::net::SocketAddr, token: &str) -> PathBuf {
    let config = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{
            "job_name": "berth",
            "scheme": "https",
            "authorization": {"credentials": token},
            "tls_config": {"insecure_skip_verify": true},
            "static_configs": [{"targets": [target.to_string()]}],
        }],
    });
    let path = folder.join("prometheus.yaml");
    // JSON is YAML.
    fs::write(&path, format!("{config:#}\n")).expect("a written file");
    path
}
