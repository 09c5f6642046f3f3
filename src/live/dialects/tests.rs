//! Kinds that come and go, and who else writes, against a server that is played.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_core::engine::Input;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKey, GroupKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::peers::Holder;
use super::{Dialects, NotTold};
use crate::live::client::{Api, Target};
use crate::live::lease::moment::Moment;
use crate::live::lease::record::Record;
use crate::live::rate::TokenBucket;
use crate::live::watch::{Pace, Reporter, Source};
use crate::wire::dialect::DialectDef;

/// What the server answers to a GET of a path, without its query. What isn't there is 404.
type Answers = Arc<Mutex<BTreeMap<&'static str, (u16, Value)>>>;

const GROUP: &str = "/apis/scheduling.volcano.sh/v1beta1";
const OBJECTS: &str = "/apis/scheduling.volcano.sh/v1beta1/podgroups";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano";

async fn serve(listener: TcpListener, answers: Answers) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        tokio::spawn(answer(stream, Arc::clone(&answers)));
    }
}

async fn answer(mut stream: TcpStream, answers: Answers) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split([' ', '?']).nth(1).unwrap().to_owned();
    if head.contains("watch=true") {
        // A watch that has nothing to say, and stays open for as long as the other end is.
        let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let _ = stream.write_all(text.as_bytes()).await;
        let _ = stream.read_u8().await;
        return;
    }
    let found = answers.lock().unwrap().get(path.as_str()).cloned();
    let (code, body) = found.unwrap_or((404, json!({"kind": "Status", "message": "none"})));
    let (body, length) = (body.to_string(), body.to_string().len());
    let head =
        format!("HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

fn resources(names: &[&str]) -> (u16, Value) {
    let resource = |name: &&str| json!({"name": name});
    (200, json!({"resources": names.iter().map(resource).collect::<Vec<_>>()}))
}

fn list(names: &[&str]) -> (u16, Value) {
    let item = |name: &&str| {
        let metadata = json!({"namespace": "ns", "name": name, "uid": format!("u-{name}")});
        json!({"metadata": metadata, "spec": {"minMember": 2}})
    };
    let items: Vec<Value> = names.iter().map(item).collect();
    (200, json!({"metadata": {"resourceVersion": "5"}, "items": items}))
}

fn lease(holder: &str, renewed: u32) -> (u16, Value) {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
    (200, json!({"metadata": {"resourceVersion": renewed.to_string()}, "spec": spec}))
}

/// Volcano's groups, followed.
struct Play {
    inputs: Receiver<Input>,
    answers: Answers,
    dialects: Dialects,
    _runtime: tokio::runtime::Runtime,
}

impl Play {
    fn of(answers: &[(&'static str, (u16, Value))]) -> Play {
        let answers: Answers = Arc::new(Mutex::new(answers.iter().cloned().collect()));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(serve(listener, Arc::clone(&answers)));
        let target = Target { kubeconfig: None, master: Some(url) };
        let api = runtime.block_on(Api::new(&target)).unwrap();
        let (sink, inputs) = channel();
        let pace = Pace {
            pause_min: Duration::from_millis(1),
            pause_max: Duration::from_millis(5),
            look_again: Duration::from_millis(20),
            ..Pace::default()
        };
        let rate = Arc::new(TokenBucket::new(-1.0, 1));
        let led = tokio::sync::watch::channel(true).1;
        let dialects = Dialects::new(vec![DialectDef::named("volcano").unwrap()], None);
        dialects.announce(&sink);
        let reporter = Reporter::default();
        let source = Source { api, rate, tables: Arc::default(), sink, pace, led, reporter };
        runtime.spawn(dialects.clone().run(source));
        Play { inputs, answers, dialects, _runtime: runtime }
    }

    fn set(&self, path: &'static str, answer: Option<(u16, Value)>) {
        let mut answers = self.answers.lock().unwrap();
        match answer {
            Some(answer) => drop(answers.insert(path, answer)),
            None => drop(answers.remove(path)),
        }
    }

    /// Returns the next `n` things that the engine heard of groups.
    fn hears(&self, n: usize) -> Vec<String> {
        self.hears_of(n, |input| !of_trees(input))
    }

    fn hears_of(&self, n: usize, of: impl Fn(&Input) -> bool) -> Vec<String> {
        let next = || self.inputs.recv_timeout(Duration::from_secs(10)).expect("an input");
        let heard = std::iter::repeat_with(next).filter(of);
        heard.take(n).map(|input| shown(&input)).collect()
    }

    /// Waits until it is so.
    fn until(&self, what: &str, is: impl Fn(&Result<String, NotTold>) -> bool) {
        let begun = std::time::Instant::now();
        loop {
            let path = self.dialects.status_at(&key()).map(|at| at.path);
            if is(&path) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{what}: {path:?}");
            std::thread::yield_now();
        }
    }
}

/// Tells whether it is about HyperNodes.
fn of_trees(input: &Input) -> bool {
    use GroupEvent::{TopologyApplied, TopologyDeleted};
    match input {
        Input::Watch { kind, .. } => kind.starts_with("hypernodes"),
        Input::Cluster(ClusterEvent::Groups(event)) => {
            matches!(event, TopologyApplied(_) | TopologyDeleted { .. })
        }
        _ => false,
    }
}

fn shown(input: &Input) -> String {
    match input {
        Input::Cluster(ClusterEvent::Groups(event)) => match event {
            GroupEvent::Applied(group) => format!("+{}", group.key),
            GroupEvent::Deleted { key, .. } => format!("-{key}"),
            GroupEvent::TopologyApplied(object) => format!("+{}", object.key),
            GroupEvent::TopologyDeleted { key, .. } => format!("-{key}"),
            GroupEvent::Served { dialect, served } => format!("{dialect} {served}"),
        },
        Input::Watch { synced, .. } => format!("synced {synced}"),
        other => format!("{other:?}"),
    }
}

fn key() -> GroupKey {
    let dialect = DialectDef::named("volcano").unwrap().dialect;
    GroupKey { dialect, kind: GroupKind::Pods, namespace: "ns".into(), name: "a".into() }
}

#[test]
fn a_kind_that_is_there_is_watched() {
    let play = Play::of(&[(GROUP, resources(&["podgroups"])), (OBJECTS, list(&["a"]))]);
    assert_eq!(play.hears(4), ["synced false", "volcano true", "+ns/a", "synced true"]);
    assert_eq!(play.dialects.watched().len(), 1);
}

#[test]
fn a_kind_comes_and_goes_while_we_run() {
    let play = Play::of(&[]);
    assert_eq!(play.hears(3), ["synced false", "synced true", "volcano false"]);
    assert_eq!(play.dialects.watched(), []);
    play.set(OBJECTS, Some(list(&["a", "b"])));
    play.set(GROUP, Some(resources(&["podgroups", "podgroups/status"])));
    let heard = ["volcano true", "synced false", "+ns/a", "+ns/b", "synced true"];
    assert_eq!(play.hears(5), heard);
    play.set(GROUP, None);
    assert_eq!(play.hears(4), ["-ns/a", "-ns/b", "synced true", "volcano false"]);
    assert_eq!(play.dialects.watched(), []);
    play.set(GROUP, Some(resources(&["podgroups"])));
    assert_eq!(play.hears(5), heard);
}

#[test]
fn a_server_in_trouble_takes_nothing_away() {
    let play = Play::of(&[(GROUP, (503, json!({}))), (OBJECTS, list(&["a"]))]);
    assert_eq!(play.hears(1), ["synced false"]);
    play.set(GROUP, Some(resources(&["podgroups"])));
    assert_eq!(play.hears(3), ["volcano true", "+ns/a", "synced true"]);
    play.set(GROUP, Some((503, json!({}))));
    play.set(GROUP, Some((500, json!({}))));
    // Other resources of the group only: now it is known to be gone.
    play.set(GROUP, Some(resources(&["queues"])));
    assert_eq!(play.hears(3), ["-ns/a", "synced true", "volcano false"]);
}

#[test]
fn topologies_come_and_go_and_hold_nobody_when_they_cannot_be_listed() {
    const TREES: &str = "/apis/topology.volcano.sh/v1alpha1";
    const ALL: &str = "/apis/topology.volcano.sh/v1alpha1/hypernodes";
    let play = Play::of(&[]);
    let hears = |n| play.hears_of(n, of_trees);
    assert_eq!(hears(2), ["synced false", "synced true"]);
    play.set(ALL, Some((403, json!({"message": "no"}))));
    play.set(TREES, Some(resources(&["hypernodes"])));
    // Nobody waits for what may not be read.
    assert_eq!(hears(2), ["synced false", "synced true"]);
    play.set(ALL, Some(list(&["s0"])));
    let listed = std::iter::repeat_with(|| hears(1).remove(0)).find(|heard| heard != "synced true");
    assert_eq!(listed.as_deref(), Some("+volcano/s0"));
    play.set(TREES, None);
    let heard = hears(3);
    assert_eq!(heard, ["synced true", "-volcano/s0", "synced true"]);
}

#[test]
fn the_status_is_where_the_server_has_it_and_ours_while_nobody_else_leads() {
    let held = [(GROUP, resources(&["podgroups"])), (OBJECTS, list(&[])), (LEASE, lease("v", 1))];
    let play = Play::of(&held);
    let foreign = |path: &Result<String, NotTold>| matches!(path, Err(NotTold::Foreign { .. }));
    play.until("it is served, and not ours", foreign);
    let free = Play::of(&held[..2]);
    let path = format!("{GROUP}/namespaces/ns/podgroups/a");
    free.until("there is no such Lease", |at| at.as_ref().is_ok_and(|at| *at == path));
    free.set(GROUP, Some(resources(&["podgroups", "podgroups/status"])));
    let path = format!("{path}/status");
    free.until("the status has a path of its own", |at| at.as_ref().is_ok_and(|at| *at == path));
    // Watched anew, and waited for meanwhile.
    let heard = ["synced false", "volcano true", "synced true", "synced false", "synced true"];
    assert_eq!(free.hears(5), heard);
}

#[test]
fn what_cannot_be_read_is_not_ours() {
    let refused = (403, json!({"message": "no"}));
    let answers = [(GROUP, resources(&["podgroups"])), (OBJECTS, list(&["a"])), (LEASE, refused)];
    let play = Play::of(&answers);
    assert_eq!(play.hears(4), ["synced false", "volcano true", "+ns/a", "synced true"]);
    let foreign = |path: &Result<String, NotTold>| matches!(path, Err(NotTold::Foreign { .. }));
    play.until("not ours", foreign);
}

/// A holder counts by what was seen of his renewals; his clock says nothing.
#[test]
fn a_holder_counts_as_long_as_he_renews() {
    let at = |seconds| {
        let passed = Duration::from_secs(seconds);
        Moment { monotonic: passed, boottime: passed }
    };
    let record = |holder: &str, renewed| Record::read(lease(holder, renewed).1);
    let mut holder = Holder::default();
    assert_eq!(holder.see(None, at(1)), None);
    assert_eq!(holder.see(record("v", 1), at(100)), Some(Duration::from_secs(15)));
    assert_eq!(holder.see(record("v", 1), at(110)), Some(Duration::from_secs(5)));
    assert!(holder.holds(at(114)) && !holder.holds(at(115)));
    assert_eq!(holder.see(record("v", 2), at(114)), Some(Duration::from_secs(15)));
    assert_eq!(holder.see(record("", 3), at(115)), None);
    assert!(!holder.holds(at(115)));
}
