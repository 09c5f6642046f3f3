//! The secure port: who sees what, by the real API server's word.

mod limits;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth::live::client::Target;
use berth::observe::serve::health::{Health, Probes};
use berth::observe::serve::{Bound, Pages, ServeError, ServeOptions, ServeState, serve};
use berth_stand::{ApiClient, Authorization, Options, Stand, User};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::support::https::{Ask, Ca};

/// Lines of /metrics/resources: several pieces of the stream.
const RESOURCES: usize = 20_000;

struct Plain;

impl Pages for Plain {
    fn metrics(&self) -> Vec<u8> {
        b"a_total 1\n".to_vec()
    }

    fn resources(&self, out: &mut dyn Write) -> std::io::Result<()> {
        for at in 0..RESOURCES {
            writeln!(out, "b{{at=\"{at}\"}} 1")?;
        }
        Ok(())
    }
}

fn state() -> ServeState {
    let (ending, synced) = (Arc::new(|| false), Arc::new(|| Ok(())));
    ServeState {
        pages: Arc::new(Plain),
        health: Health::new(Probes { leader_election: None, ending, synced }),
        configuration: json!({"kind": "KubeSchedulerConfiguration"}),
        flags: BTreeMap::from([("secure-port".to_owned(), "10259".to_owned())]),
        emulation_version: "1.37".to_owned(),
        flagz: true,
        statusz: true,
    }
}

/// Options that ask nobody, on a free port of loopback.
fn options() -> ServeOptions {
    ServeOptions { bind: SocketAddr::from(([127, 0, 0, 1], 0)), ..ServeOptions::default() }
}

/// A served port and the runtime that serves it.
struct Port {
    runtime: Runtime,
    address: SocketAddr,
    bound: Option<Bound>,
    shutdown: watch::Sender<bool>,
}

impl Port {
    fn open(options: ServeOptions) -> Port {
        Port::try_open(options).expect("a served port")
    }

    fn try_open(options: ServeOptions) -> Result<Port, ServeError> {
        let runtime = Runtime::new().expect("a runtime");
        let (shutdown, told) = watch::channel(false);
        let bound = runtime.block_on(serve(options, state(), told))?;
        Ok(Port { runtime, address: bound.address, bound: Some(bound), shutdown })
    }

    fn get(&self, ask: &Ask, path: &str) -> (u16, String) {
        self.runtime.block_on(ask.get(self.address, path))
    }

    #[track_caller]
    fn check(&self, ask: &Ask, path: &str, status: u16) {
        let (found, body) = self.get(ask, path);
        assert_eq!(found, status, "{path}: {body}");
    }
}

fn target(stand: &Stand, user: &str) -> Option<Target> {
    let kubeconfig = stand.kubeconfig_path(user).expect("a kubeconfig");
    Some(Target { kubeconfig: Some(kubeconfig), master: None })
}

/// Asks the stand as kube-scheduler would.
fn delegating(stand: &Stand) -> ServeOptions {
    let mut options = options();
    options.authentication.target = target(stand, "system:kube-scheduler");
    options.authorization.target = target(stand, "system:kube-scheduler");
    options
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), groups: Vec::new() }
}

/// Lets the user `scraper` get /metrics, and nothing else.
fn allow_metrics(api: &ApiClient) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "scraper"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "scraper"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "scraper",
        }],
    });
    for object in [role, binding] {
        api.create_object(&object).expect("an RBAC object");
    }
}

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a written file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_api_server_says_who_sees_what() {
    let (folder, client_ca, proxy_ca) =
        (Folder::new("cas"), Ca::new("clients"), Ca::new("proxies"));
    let options = Options {
        authorization: Authorization::Rbac,
        users: ["system:kube-scheduler", "scraper", "nobody"].map(user).to_vec(),
        apiserver_flags: vec![
            format!("--client-ca-file={}", folder.write("c.crt", &client_ca.pem()).display()),
            format!(
                "--requestheader-client-ca-file={}",
                folder.write("p.crt", &proxy_ca.pem()).display()
            ),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-allowed-names=front-proxy".to_owned(),
        ],
        ..Options::default()
    };
    let Some(mut stand) = Stand::start_or_skip(&options) else { return };
    allow_metrics(&stand.client());
    wait_for_config_map(&stand.client());
    let port = Port::open(delegating(&stand));

    tokens_are_reviewed(&port, &stand);
    client_certificates_name_users(&port, &client_ca, &proxy_ca);
    a_front_proxy_speaks_for_others(&port, &client_ca, &proxy_ca);
    a_lookup_that_fails_leaves_callers_anonymous(&stand);

    let fresh = Port::open(delegating(&stand));
    fresh.check(&Ask::token(&stand.token("nobody")), "/configz", 403);
    stand.kill_apiserver();
    without_a_server_nobody_new_gets_in(&fresh, &stand, &client_ca);
}

fn wait_for_config_map(api: &ApiClient) {
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    berth_stand::wait_for(crate::support::SOON, "the CAs are published", || {
        let map: Value = api.get(path).ok()?;
        let both = ["client-ca-file", "requestheader-client-ca-file"];
        both.iter().all(|key| map["data"][key].is_string()).then_some(())
    });
}

fn tokens_are_reviewed(port: &Port, stand: &Stand) {
    let anonymous = Ask::default();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(port.get(&anonymous, path), (200, "ok".to_owned()), "{path}");
    }
    let (status, body) = port.get(&anonymous, "/metrics");
    assert_eq!(status, 403);
    let said: Value = serde_json::from_str(&body).expect("a Status");
    assert_eq!(
        said["message"],
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
    );
    assert_eq!(said["reason"], "Forbidden");
    port.check(&anonymous, "/livez/ping", 403);
    port.check(&anonymous, "/nowhere", 403);

    let scraper = Ask::token(&stand.token("scraper"));
    assert_eq!(port.get(&scraper, "/metrics"), (200, "a_total 1\n".to_owned()));
    assert_eq!(port.get(&scraper, "/metrics"), (200, "a_total 1\n".to_owned()));
    port.check(&scraper, "/metrics/slis", 403);
    port.check(&Ask::token(&stand.token("nobody")), "/metrics", 403);

    let (status, body) = port.get(&Ask::token("of-nobody-at-all"), "/metrics");
    assert_eq!(status, 401, "{body}");
    assert!(!body.contains("of-nobody-at-all"), "{body}");
    port.check(&Ask::token("of-nobody-at-all"), "/healthz", 401);

    let admin = Ask::token(&stand.admin_token());
    for path in ["/metrics/slis", "/metrics/resources", "/configz", "/statusz", "/flagz"] {
        port.check(&admin, path, 200);
    }
    port.check(&admin, "/nowhere", 404);
}

fn client_certificates_name_users(port: &Port, client_ca: &Ca, proxy_ca: &Ca) {
    let scraper = client_ca.sign("scraper", "team");
    port.check(&Ask::certificate(&scraper), "/metrics", 200);
    port.check(&Ask { http2: true, ..Ask::certificate(&scraper) }, "/metrics", 200);
    port.check(&Ask::certificate(&client_ca.sign("nobody", "team")), "/metrics", 403);
    port.check(&Ask::certificate(&client_ca.sign("root", "system:masters")), "/configz", 200);
    port.check(&Ask::certificate(&Ca::new("else").sign("scraper", "team")), "/metrics", 401);
    port.check(&Ask::certificate(&proxy_ca.sign("scraper", "team")), "/metrics", 401);
}

fn a_front_proxy_speaks_for_others(port: &Port, client_ca: &Ca, proxy_ca: &Ca) {
    let proxy = Ask::certificate(&proxy_ca.sign("front-proxy", "proxies"));
    port.check(&proxy.clone().with("x-remote-user", "scraper"), "/metrics", 200);
    port.check(&proxy.clone().with("x-remote-user", "nobody"), "/metrics", 403);
    let masters = proxy.clone().with("x-remote-user", "a").with("x-remote-group", "system:masters");
    port.check(&masters, "/configz", 200);
    port.check(&proxy, "/metrics", 401);

    let other_name = Ask::certificate(&proxy_ca.sign("other", "proxies"));
    port.check(&other_name.with("x-remote-user", "scraper"), "/metrics", 401);
    let client = Ask::certificate(&client_ca.sign("front-proxy", "proxies"));
    port.check(&client.with("x-remote-user", "scraper"), "/metrics", 403);
    port.check(&Ask::default().with("x-remote-user", "scraper"), "/metrics", 403);
}

fn a_lookup_that_fails_leaves_callers_anonymous(stand: &Stand) {
    let mut options = delegating(stand);
    options.authentication.target = target(stand, "nobody");
    let port = Port::open(options.clone());
    port.check(&Ask::default(), "/metrics", 403);
    port.check(&Ask::default(), "/healthz", 200);
    // Nobody may create TokenReviews.
    port.check(&Ask::token(&stand.token("scraper")), "/metrics", 401);
    let stranger = Ca::new("else").sign("scraper", "system:masters");
    port.check(&Ask::certificate(&stranger), "/metrics", 403);

    options.authentication.tolerate_lookup_failure = false;
    let problem = Port::try_open(options).map(|_| ()).expect_err("a failed lookup");
    assert!(problem.to_string().contains("extension-apiserver-authentication"), "{problem}");
}

fn without_a_server_nobody_new_gets_in(port: &Port, stand: &Stand, client_ca: &Ca) {
    let anonymous = Ask::default();
    port.check(&anonymous, "/healthz", 200);
    port.check(&anonymous, "/metrics", 500);
    // Its token is known, its access to this path isn't.
    port.check(&Ask::token(&stand.token("nobody")), "/metrics", 500);
    port.check(&Ask::token(&stand.token("scraper")), "/metrics", 401);
    port.check(&Ask::certificate(&client_ca.sign("scraper", "team")), "/metrics", 500);
    let (_, body) = port.get(&anonymous, "/metrics");
    assert!(!body.contains("127.0.0.1"), "{body}");
}

#[test]
fn long_pages_are_streamed_and_packed_for_whom_understands_that() {
    let users = vec![user("system:kube-scheduler")];
    let options = Options { users, ..Options::default() };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let port = Port::open(delegating(&stand));
    let admin = Ask::token(&stand.admin_token());
    let get = |ask: &Ask| {
        let answer = port.runtime.block_on(ask.ask(port.address, "/metrics/resources"));
        answer.expect("an answer")
    };
    let plain = get(&admin);
    assert_eq!(plain.text().lines().count(), RESOURCES);
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(plain.header("content-length"), "", "its length is not known when it begins");
    for http2 in [false, true] {
        let packed = get(&Ask { http2, ..admin.clone() }.with("accept-encoding", "br, gzip;q=0.5"));
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert!(packed.body.len() < plain.body.len() / 5, "{} bytes", packed.body.len());
        let mut text = String::new();
        GzDecoder::new(&packed.body[..]).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, plain.text());
    }
}
