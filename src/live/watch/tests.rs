//! The watch against a server that misbehaves: one test a trap.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_core::engine::Input;
use berth_core::snapshot::ClusterEvent;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Pace, Reporter, Source, Watch};
use crate::live::client::{Api, Target};
use crate::live::events::EventQueue;
use crate::live::rate::TokenBucket;
use crate::wire::{Kind, Tables};

/// What the server does about one request.
enum Reply {
    Json(u16, String),
    /// Lines of a stream, which then ends in good order.
    Stream(Vec<String>),
    /// Lines of a stream, which then breaks off in the middle of a line.
    BrokenStream(Vec<String>),
    /// Lines of a stream, which then says nothing more.
    SilentStream(Vec<String>),
    /// No answer at all.
    Hangup,
}
use Reply::{BrokenStream, Hangup, Json, SilentStream, Stream};

fn node(name: &str, uid: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"status":{{"allocatable":{{"cpu":"{version}"}}}}}}"#
    )
}

fn list(version: u64, next: &str, items: &[String]) -> Reply {
    let items = items.join(",");
    let meta = format!(r#"{{"resourceVersion":"{version}","continue":"{next}"}}"#);
    Json(200, format!(r#"{{"kind":"NodeList","metadata":{meta},"items":[{items}]}}"#))
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn status(code: u16, reason: &str) -> String {
    format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"no"}}"#)
}

/// Plays the replies in order, one connection a request, and keeps the request heads. When they
/// are used up it never answers again.
async fn serve(listener: TcpListener, replies: Vec<Reply>, seen: Arc<Mutex<Vec<String>>>) {
    let mut replies = replies.into_iter();
    let mut silent = Vec::new();
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { break };
            head.push(byte);
        }
        seen.lock().unwrap().push(String::from_utf8(head).unwrap());
        match replies.next() {
            Some(reply) => silent.extend(answer(stream, reply).await),
            None => silent.push(stream),
        }
    }
}

/// Returns the connection if it is to stay open.
async fn answer(mut stream: TcpStream, reply: Reply) -> Option<TcpStream> {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
    let (lines, end, stays) = match reply {
        Hangup => return None,
        Json(code, body) => {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            let _ = stream.write_all(text.as_bytes()).await;
            return None;
        }
        Stream(lines) => (lines, "0\r\n\r\n", false),
        BrokenStream(lines) => (lines, "20\r\n{\"type\":\"DEL", false),
        SilentStream(lines) => (lines, "", true),
    };
    let mut text = format!("{head}transfer-encoding: chunked\r\n\r\n");
    for line in lines {
        text += &format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
    }
    text += end;
    let _ = stream.write_all(text.as_bytes()).await;
    stays.then_some(stream)
}

/// A watch of nodes, what it told the engine, and what it asked the server.
struct Play {
    inputs: Receiver<Input>,
    seen: Arc<Mutex<Vec<String>>>,
    events: Arc<EventQueue>,
    _runtime: tokio::runtime::Runtime,
}

impl Play {
    fn of(replies: Vec<Reply>) -> Play {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (sink, inputs) = channel();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(serve(listener, replies, Arc::clone(&seen)));
        let target = Target { kubeconfig: None, master: Some(url) };
        let api = runtime.block_on(Api::new(&target)).unwrap();
        let pace = Pace {
            pause_min: Duration::from_millis(1),
            pause_max: Duration::from_millis(5),
            idle: Duration::from_secs(1),
            ..Pace::default()
        };
        let rate = Arc::new(TokenBucket::new(-1.0, 1));
        let led = tokio::sync::watch::channel(true).1;
        let reporter = Reporter::default();
        let events = Arc::clone(&reporter.events);
        let source = Source { api, rate, tables: Arc::default(), sink, pace, led, reporter };
        runtime.spawn(Watch::new(source, Kind::Node).run());
        Play { inputs, seen, events, _runtime: runtime }
    }

    /// Returns the next `n` things that the engine heard.
    fn hears(&self, n: usize) -> Vec<String> {
        let next = |_| self.inputs.recv_timeout(Duration::from_secs(10)).expect("an input");
        (0..n).map(|at| shown(&next(at))).collect()
    }

    /// Returns the first `n` requests: `list` or `watch` and what they continue from.
    fn asked(&self, n: usize) -> Vec<String> {
        let begun = std::time::Instant::now();
        while self.seen.lock().unwrap().len() < n && begun.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        let seen = self.seen.lock().unwrap();
        let query = |head: &str| {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let of = |key: &str| {
                path.split(['?', '&']).find_map(|p| p.strip_prefix(key)).unwrap_or("").to_owned()
            };
            match path.contains("watch=true") {
                true => format!("watch {}", of("resourceVersion=")),
                false if of("limit=") == "1" => "version".to_owned(),
                false => format!("list {}", of("continue=")).trim().to_owned(),
            }
        };
        seen.iter().take(n).map(|head| query(head)).collect()
    }
}

fn shown(input: &Input) -> String {
    match input {
        Input::Cluster(ClusterEvent::NodeApplied(node)) => format!("+{}", node.name),
        Input::Cluster(ClusterEvent::NodeDeleted { name, .. }) => format!("-{name}"),
        Input::Watch { kind, synced } => format!("{kind} {synced}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn pages_are_joined_before_the_watch_is_synced() {
    let play = Play::of(vec![
        list(5, "a b", &[node("a", "1", 1)]),
        list(5, "", &[node("b", "2", 2)]),
        Stream(vec![event("ADDED", &node("c", "3", 6))]),
    ]);
    assert_eq!(play.hears(4), ["+a", "+b", "nodes true", "+c"]);
    assert_eq!(play.asked(4), ["list", "list a%20b", "watch 5", "watch 6"]);
    let heads = play.seen.lock().unwrap();
    let agent = format!("user-agent: berth/v{} (", env!("CARGO_PKG_VERSION"));
    assert!(heads.iter().all(|head| head.contains(&agent)), "{heads:?}");
    assert!(heads[2].contains("allowWatchBookmarks=true"), "{}", heads[2]);
}

#[test]
fn a_410_that_answers_the_request_leads_to_a_new_list() {
    let play = Play::of(vec![
        list(5, "", &[node("a", "1", 1), node("b", "2", 2), node("c", "3", 3)]),
        Json(410, status(410, "Expired")),
        list(9, "", &[node("b", "2", 2), node("c", "33", 8)]),
    ]);
    assert_eq!(play.hears(5), ["+a", "+b", "+c", "nodes true", "nodes false"]);
    // What is gone and what was replaced while nobody looked is told.
    assert_eq!(play.hears(5), ["+b", "-c", "+c", "-a", "nodes true"]);
    assert_eq!(play.asked(4), ["list", "watch 5", "list", "watch 9"]);
}

#[test]
fn a_410_in_the_stream_leads_to_a_new_list() {
    let play = Play::of(vec![
        list(5, "", &[]),
        Stream(vec![event("ADDED", &node("a", "1", 6)), event("ERROR", &status(410, "Expired"))]),
        list(9, "", &[]),
    ]);
    let heard = ["nodes true", "+a", "nodes false", "-a", "nodes true"];
    assert_eq!(play.hears(5), heard);
    assert_eq!(play.asked(4), ["list", "watch 5", "list", "watch 9"]);
}

#[test]
fn a_410_between_pages_begins_the_list_anew() {
    let play = Play::of(vec![
        list(5, "more", &[node("a", "1", 1)]),
        Json(410, status(410, "Expired")),
        list(7, "", &[node("b", "2", 2)]),
    ]);
    assert_eq!(play.hears(4), ["+a", "+b", "-a", "nodes true"]);
    assert_eq!(play.asked(4), ["list", "list more", "list", "watch 7"]);
}

#[test]
fn streams_that_end_or_break_off_go_on_from_where_they_were() {
    let bookmark = event("BOOKMARK", r#"{"kind":"Node","metadata":{"resourceVersion":"8"}}"#);
    let play = Play::of(vec![
        list(5, "", &[]),
        Stream(vec![]),
        Stream(vec![event("ADDED", &node("a", "1", 6)), bookmark]),
        BrokenStream(vec![event("MODIFIED", &node("a", "1", 9))]),
        Hangup,
        Stream(vec![event("DELETED", &node("a", "1", 10))]),
    ]);
    assert_eq!(play.hears(4), ["nodes true", "+a", "+a", "-a"]);
    let asked = ["list", "watch 5", "watch 5", "watch 8", "watch 9", "watch 9", "watch 10"];
    assert_eq!(play.asked(7), asked);
}

#[test]
fn a_silent_stream_is_begun_anew() {
    let play = Play::of(vec![
        list(5, "", &[]),
        SilentStream(vec![event("ADDED", &node("a", "1", 6))]),
        list(7, "", &[node("a", "1", 6)]),
        Stream(vec![event("ADDED", &node("b", "2", 7))]),
    ]);
    assert_eq!(play.hears(3), ["nodes true", "+a", "+b"]);
    assert_eq!(play.asked(4), ["list", "watch 5", "version", "watch 6"]);
    let heads = play.seen.lock().unwrap();
    assert!(heads[3].contains("timeoutSeconds=6&"), "{}", heads[3]);
}

#[test]
fn a_server_that_says_nothing_twice_is_asked_for_a_new_list() {
    let silent = || SilentStream(Vec::new());
    let listed = || list(7, "", &[node("a", "1", 6)]);
    let play = Play::of(vec![list(5, "", &[]), silent(), listed(), silent(), listed()]);
    assert_eq!(play.hears(4), ["nodes true", "nodes false", "+a", "nodes true"]);
    assert_eq!(play.asked(6), ["list", "watch 5", "version", "watch 5", "list", "watch 7"]);
}

#[test]
fn a_server_on_which_nothing_is_written_may_say_nothing() {
    let (silent, still) = (|| SilentStream(Vec::new()), || list(5, "", &[]));
    let added = event("ADDED", &node("a", "1", 6));
    let replies = vec![still(), silent(), still(), silent(), still(), Stream(vec![added])];
    let play = Play::of(replies);
    assert_eq!(play.hears(2), ["nodes true", "+a"]);
    assert_eq!(play.asked(6), ["list", "watch 5", "version", "watch 5", "version", "watch 5"]);
    let heads = play.seen.lock().unwrap();
    assert!(!heads[5].contains("timeoutSeconds=6&"), "no short watch was needed: {}", heads[5]);
}

#[test]
fn errors_that_stay_lead_to_a_new_list() {
    let large = || Json(504, status(504, "Timeout"));
    let play = Play::of(vec![
        list(5, "", &[]),
        large(),
        large(),
        Stream(vec![event("ERROR", &status(500, "InternalError"))]),
        large(),
        Stream(vec!["no event".to_owned()]),
        list(3, "", &[]),
    ]);
    assert_eq!(play.hears(3), ["nodes true", "nodes false", "nodes true"]);
    assert_eq!(play.asked(8)[5..], ["watch 5", "list", "watch 3"]);
}

#[test]
fn a_watch_that_we_may_not_have_for_now_needs_no_new_list() {
    let unauthorized = || Json(401, status(401, "Unauthorized"));
    let play = Play::of(vec![
        list(5, "", &[]),
        unauthorized(),
        Json(403, status(403, "Forbidden")),
        unauthorized(),
        Json(429, status(429, "TooManyRequests")),
        unauthorized(),
        unauthorized(),
        Stream(vec![event("ADDED", &node("a", "1", 6))]),
    ]);
    assert_eq!(play.hears(2), ["nodes true", "+a"]);
    assert_eq!(
        play.asked(9)[1..],
        ["watch 5"; 7].into_iter().chain(["watch 6"]).collect::<Vec<_>>()
    );
}

#[test]
fn a_refused_list_is_tried_again_and_nothing_is_synced_meanwhile() {
    let forbidden = || Json(403, status(403, "Forbidden"));
    let play = Play::of(vec![forbidden(), Hangup, forbidden(), list(5, "", &[])]);
    assert_eq!(play.hears(1), ["nodes true"]);
    assert_eq!(play.asked(5), ["list", "list", "list", "list", "watch 5"]);
}

#[test]
fn odd_objects_and_events_leave_the_others_alone() {
    let play = Play::of(vec![
        list(5, "", &["7".to_owned(), "{}".to_owned(), node("a", "1", 1)]),
        Stream(vec![
            event("ADDED", r#"{"metadata":[],"spec":"x"}"#),
            event("RENAMED", &node("a", "1", 6)),
            event("ADDED", r#"{"metadata":{"name":"b","resourceVersion":"7"},"spec":[1]}"#),
            event("DELETED", "null"),
            // A late deletion of an earlier namesake.
            event("DELETED", &node("a", "0", 8)),
            event("ADDED", &node("c", "3", 9)),
        ]),
    ]);
    assert_eq!(play.hears(4), ["+a", "nodes true", "+b", "+c"]);
    assert_eq!(play.asked(3), ["list", "watch 5", "watch 9"]);
}

/// The interner is shared by all watches; one that panics must not take the others along.
#[test]
fn tables_survive_a_poisoned_lock() {
    let tables = Arc::new(Mutex::new(Tables::default()));
    let poisoned = Arc::clone(&tables);
    let _ = std::thread::spawn(move || {
        let _held = poisoned.lock().unwrap();
        panic!("on purpose");
    })
    .join();
    let seen = crate::live::kinds::read(Kind::Node, &node("a", "1", 1), &tables);
    assert_eq!(seen.unwrap().identity.key.to_string(), "a");
}

#[test]
fn what_a_node_says_of_its_gpus_and_is_not_understood_is_reported_once() {
    let linked = |links: &str, version: u64| {
        let annotations = format!(r#"{{"berth.dev/gpu-topology":"{links}"}}"#);
        let metadata = format!(
            r#"{{"name":"a","uid":"1","resourceVersion":"{version}","annotations":{annotations}}}"#
        );
        format!(r#"{{"metadata":{metadata}}}"#)
    };
    let changed = |links, version| event("MODIFIED", &linked(links, version));
    let play = Play::of(vec![
        list(5, "", &[linked("nvlink 0-1", 1), node("b", "2", 2)]),
        Stream(vec![changed("nvlink 0-1", 6), changed("numa 9-0", 7)]),
        Stream(vec![changed("nvlink 0-1:600", 8), changed("numa 9-0", 9)]),
    ]);
    assert_eq!(play.hears(7), ["+a", "+b", "nodes true", "+a", "+a", "+a", "+a"]);
    // Once for what was wrong first, once for the next thing, and again when it has come back.
    assert_eq!(play.events.counts().0, 3);
}
