//! The proxy's faults, as a client sees them, on a real API server.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_faults::objects::{gpu_node, gpu_pod};
use berth_faults::proxy::{Edit, Ending, Fault, Proxy, Requests, Rule, Told};
use berth_stand::{ADMIN, ApiClient, Options, Stand, wait_for};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_rustls::TlsConnector;

const SOON: Duration = Duration::from_secs(60);
const NODES: &str = "/api/v1/nodes";

struct Scene {
    stand: Stand,
    proxy: Proxy,
    /// Past the proxy.
    direct: ApiClient,
    /// Through it.
    through: ApiClient,
    address: String,
    ca: String,
}

#[test]
fn faults_are_made_and_only_those_that_take_effect_are_counted() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let proxy = Proxy::start(&stand).expect("a proxy");
    let kubeconfig = proxy.kubeconfig(&stand, ADMIN).expect("a kubeconfig");
    let kubeconfig = std::fs::read_to_string(kubeconfig).expect("its text");
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).expect("JSON");
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let ca = cluster["certificate-authority"].as_str().expect("a file");
    let ca = std::fs::read_to_string(ca).expect("a certificate");
    let url = cluster["server"].as_str().expect("an address");
    let through = ApiClient::new(url, &ca, &stand.token(ADMIN)).expect("a client");
    let address = url.trim_start_matches("https://").to_owned();
    let mut scene = Scene { direct: stand.client(), stand, proxy, through, address, ca };

    requests_pass_and_are_noted(&scene);
    a_cut_request_never_arrives(&scene);
    a_cut_answer_counts_only_if_the_server_said_yes(&scene);
    statuses_are_made_up(&scene);
    a_held_request_waits_for_its_release(&scene);
    bodies_are_cut_and_slowed(&scene);
    watches_are_late_doubled_emptied_silenced_and_ended(&scene);
    a_dead_server_looks_dead(&mut scene);
}

impl Scene {
    fn create(&self, name: &str) -> Result<Value, berth_stand::ApiError> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.through.create(NODES, &node)
    }

    fn exists(&self, name: &str) -> bool {
        self.direct.find(&format!("{NODES}/{name}")).expect("an answer").is_some()
    }
}

fn requests_pass_and_are_noted(scene: &Scene) {
    scene.create("passes").expect("it is created");
    scene.through.create_object(&gpu_pod("a", 1)).expect("a pod");
    scene.through.create_object(&gpu_node("n-1", 8)).expect("a node");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n-1"},
    });
    let path = "/api/v1/namespaces/default/pods/a/binding";
    scene.through.create(path, &binding).expect("it is bound");
    let exchanges = scene.proxy.exchanges(0);
    let bind = exchanges.iter().find(|e| e.asked.is_bind()).expect("the bind");
    assert_eq!((bind.asked.user.as_str(), bind.asked.name.as_str()), (ADMIN, "a"));
    assert_eq!(bind.asked.target().as_deref(), Some("n-1"));
    assert_eq!((bind.server, bind.told), (Some(201), Told::Status(201)));
}

fn a_cut_request_never_arrives(scene: &Scene) {
    for ending in [Ending::Close, Ending::Alert] {
        let name = format!("lost-{ending:?}").to_lowercase();
        let writes = Requests::writes().first();
        let cut = scene.proxy.inject(Rule::on(writes).then(Fault::CutRequest(ending)));
        let error = scene.create(&name).expect_err("no answer");
        assert_eq!(error.status(), None, "{error}");
        assert_eq!((cut.effective(), scene.exists(&name)), (1, false));
        scene.create(&name).expect("only the first is cut");
    }
}

fn a_cut_answer_counts_only_if_the_server_said_yes(scene: &Scene) {
    let writes = Requests::writes().resource("nodes");
    let cut = scene.proxy.inject(Rule::on(writes).then(Fault::CutAnswer(Ending::Close)));
    assert_eq!(scene.create("unheard").expect_err("no answer").status(), None);
    assert_eq!((cut.effective(), scene.exists("unheard")), (1, true));
    assert_eq!(scene.create("unheard").expect_err("no answer").status(), None);
    assert_eq!((cut.chosen(), cut.effective()), (2, 1), "the second was a 409");
    let last = scene.proxy.exchanges(0).pop().expect("an exchange");
    assert_eq!((last.server, last.told), (Some(409), Told::Cut));
}

fn statuses_are_made_up(scene: &Scene) {
    let refuse = Fault::Refuse { status: 429, retry_after_s: Some(1) };
    let refused = scene.proxy.inject(Rule::on(Requests::writes().nth(2)).then(refuse));
    scene.create("first").expect("the first passes");
    assert_eq!(scene.create("second").expect_err("refused").status(), Some(429));
    assert_eq!((refused.effective(), scene.exists("second")), (1, false));
    drop(refused);
    let replaced = Rule::on(Requests::writes()).then(Fault::ReplaceStatus(500));
    let replaced = scene.proxy.inject(replaced);
    assert_eq!(scene.create("done").expect_err("replaced").status(), Some(500));
    assert_eq!((replaced.effective(), scene.exists("done")), (1, true));
}

fn a_held_request_waits_for_its_release(scene: &Scene) {
    let held = scene.proxy.inject(Rule::on(Requests::writes()).hold());
    std::thread::scope(|scope| {
        let creating = scope.spawn(|| scene.create("held"));
        held.wait_held(SOON).expect("it is held");
        assert!(!scene.exists("held"));
        held.release();
        creating.join().expect("no panic").expect("it is created");
    });
    assert!(scene.exists("held"));
}

fn bodies_are_cut_and_slowed(scene: &Scene) {
    let cut = scene.proxy.inject(Rule::on(Requests::lists("nodes")).then(Fault::Truncate(100)));
    let error = scene.through.get(NODES).expect_err("half a body");
    assert_eq!((error.status(), cut.effective()), (None, 1), "{error}");
    drop(cut);
    let pause = Duration::from_millis(50);
    let slow = Rule::on(Requests::lists("nodes")).then(Fault::Slow { bytes: 400, pause });
    let slow = scene.proxy.inject(slow);
    let begun = Instant::now();
    let listed = scene.through.list(NODES).expect("a whole body").len();
    assert_eq!((listed, slow.effective()), (scene.direct.list(NODES).expect("nodes").len(), 1));
    assert!(begun.elapsed() >= 2 * pause);
}

/// A watch of nodes through the proxy, on a thread that ends when the stream does.
struct Watch {
    text: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl Watch {
    fn open(scene: &Scene) -> Watch {
        let version = scene.direct.get(NODES).expect("nodes");
        let version = version["metadata"]["resourceVersion"].as_str().expect("a version");
        let request = Request::get(format!("{NODES}?watch=true&resourceVersion={version}"))
            .header("host", "proxy")
            .header("authorization", format!("Bearer {}", scene.stand.token(ADMIN)))
            .body(Empty::<Bytes>::new())
            .expect("a request");
        let (address, ca) = (scene.address.clone(), scene.ca.clone());
        let text = Arc::default();
        let written = Arc::clone(&text);
        let before = scene.proxy.watches("nodes").n_open();
        let reading = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(read(&address, &ca, request, &written));
        });
        let open = || (scene.proxy.watches("nodes").n_open() > before).then_some(());
        wait_for(SOON, "the watch is open", open);
        Watch { text, reading }
    }

    fn names(&self) -> Vec<String> {
        let text = self.text.lock().expect("the text");
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let name = |e: Value| e["object"]["metadata"]["name"].as_str().map(str::to_owned);
        events.filter_map(name).collect()
    }

    fn brings(&self, name: &str) {
        wait_for(SOON, name, || self.names().iter().any(|seen| seen == name).then_some(()));
    }

    /// Waits for its end.
    fn ended(self) -> Vec<String> {
        wait_for(SOON, "the watch ends", || self.reading.is_finished().then_some(()));
        self.names()
    }
}

async fn read(address: &str, ca: &str, request: Request<Empty<Bytes>>, text: &Mutex<String>) {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(ca.as_bytes()).expect("a certificate");
    roots.add(certificate).expect("a CA");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await.expect("the proxy");
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let tls = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.expect("TLS");
    let (mut sender, connection) = handshake(TokioIo::new(tls)).await.expect("HTTP");
    tokio::spawn(connection);
    let mut body = sender.send_request(request).await.expect("an answer").into_body();
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().expect("data");
        text.lock().expect("the text").push_str(&String::from_utf8_lossy(&data));
    }
}

fn watches_are_late_doubled_emptied_silenced_and_ended(scene: &Scene) {
    let nodes = scene.proxy.watches("nodes");
    let watch = Watch::open(scene);
    let edits = nodes.edit(|event| match event["object"]["metadata"]["name"].as_str() {
        Some("swallowed") => Edit::Swallow,
        Some("doubled") => Edit::Duplicate,
        _ => Edit::Pass,
    });
    for name in ["swallowed", "doubled", "plain"] {
        scene.create(name).expect("a node");
    }
    watch.brings("plain");
    assert_eq!((watch.names(), edits.effective()), (vec_of(&["doubled", "doubled", "plain"]), 2));

    let by = Duration::from_millis(700);
    let late = nodes.late(by);
    let begun = Instant::now();
    scene.create("late").expect("a node");
    watch.brings("late");
    assert!(begun.elapsed() >= by);
    assert_eq!(late.effective(), 1);
    drop(late);

    let silent = nodes.black_hole();
    let created = scene.create("unseen").expect("a node");
    silent.wait_effective(1, SOON).expect("a stream fell silent");
    let version: u64 = created["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a version");
    assert!(nodes.delivered() < version);
    drop(silent);
    watch.brings("unseen");
    assert_eq!(nodes.delivered(), version);
    assert_eq!(nodes.end(), 1);
    let all = watch.ended();
    assert_eq!(all, vec_of(&["doubled", "doubled", "plain", "late", "unseen"]));
    let closed = || (nodes.n_open() == 0).then_some(());
    wait_for(SOON, "the watch is closed", closed);
}

fn vec_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn a_dead_server_looks_dead(scene: &mut Scene) {
    let watch = Watch::open(scene);
    scene.stand.kill_apiserver();
    watch.ended();
    assert_eq!(scene.through.get(NODES).expect_err("nobody there").status(), None);
    scene.stand.restart_apiserver().expect("the server comes back");
    wait_for(SOON, "it answers again", || scene.through.get(NODES).ok());
}
