//! The secure port without an API server: pages, certificates, protocols and what a client may cost.

use std::time::Duration;

use berth_stand::wait_for;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Folder, Port, options};
use crate::support::SOON;
use crate::support::https::{Ask, Ca};

const SHORT: Duration = Duration::from_millis(300);

/// Options under which everybody may see everything.
fn open() -> berth::observe::serve::ServeOptions {
    let mut options = options();
    options.authorization.always_allow_paths = vec!["/*".to_owned()];
    options
}

#[test]
fn pages_look_like_those_of_kube_scheduler() {
    let port = Port::open(open());
    for ask in [Ask::default(), Ask::over_http2()] {
        assert_eq!(port.get(&ask, "/livez?verbose").1, "[+]ping ok\nlivez check passed\n");
        assert_eq!(port.get(&ask, "/metrics"), (200, "a_total 1\n".to_owned()));
    }
    let ask = Ask::default();
    let ready = "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n";
    assert_eq!(port.get(&ask, "/readyz?verbose").1, ready);
    let config = "{\"componentconfig\":{\"kind\":\"KubeSchedulerConfiguration\"}}";
    assert_eq!(port.get(&ask, "/configz").1, config);
    assert_eq!(port.get(&ask, "/nowhere"), (404, "404 page not found\n".to_owned()));
    let slis = port.get(&ask, "/metrics/slis").1;
    assert!(slis.contains("kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1\n"), "{slis}");

    let flags = port.get(&ask, "/flagz").1;
    assert!(flags.starts_with("\nberth flagz\nWarning: This endpoint is not meant"), "{flags}");
    assert!(flags.ends_with("purposes only.\nsecure-port=10259\n"), "{flags}");
    let status = port.get(&ask, "/statusz").1;
    assert!(status.contains("\nEmulation version: 1.37\n"), "{status}");
    assert!(
        status.ends_with("\nPaths: /configz /flagz /healthz /livez /metrics /readyz\n"),
        "{status}"
    );
    let json = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    let status: Value =
        serde_json::from_str(&port.get(&Ask::default().with("accept", json), "/statusz").1)
            .expect("JSON");
    assert_eq!(status["apiVersion"], "config.k8s.io/v1beta1");
    port.check(&Ask::default().with("accept", "application/json"), "/statusz", 406);
}

#[test]
fn without_anybody_to_ask_only_health_is_seen() {
    let port = Port::open(options());
    port.check(&Ask::default(), "/healthz", 200);
    port.check(&Ask::default(), "/metrics", 403);
    port.check(&Ask::token("ignored"), "/metrics", 403);
    port.check(&Ask::over_http2(), "/metrics", 403);
}

#[test]
fn http2_can_be_turned_off() {
    let mut options = open();
    options.http2.disabled = true;
    let port = Port::open(options);
    port.check(&Ask::default(), "/healthz", 200);
    let refused = port.runtime.block_on(Ask::over_http2().connect(port.address));
    assert!(refused.is_err());
}

#[test]
fn certificates_are_reloaded_when_their_files_change() {
    let (folder, ca) = (Folder::new("rotation"), Ca::new("servers"));
    let (one, two) = (ca.sign("one", "o"), ca.sign("two", "o"));
    let mut options = open();
    options.tls.cert_file = Some(folder.write("tls.crt", &one.chain));
    options.tls.private_key_file = Some(folder.write("tls.key", &one.key));
    options.tls.reload_every = Duration::from_millis(20);
    let port = Port::open(options);
    let served = || {
        let stream = port.runtime.block_on(Ask::default().connect(port.address)).expect("TLS");
        stream.get_ref().1.peer_certificates().expect("a chain")[0].clone().into_owned()
    };
    let first = served();
    // A chain that doesn't fit its key yet leaves the old pair.
    folder.write("tls.crt", &two.chain);
    std::thread::sleep(SHORT);
    assert_eq!(served(), first);
    folder.write("tls.key", &two.key);
    wait_for(SOON, "the new certificate", || (served() != first).then_some(()));
}

#[test]
fn client_cas_are_reloaded_when_their_file_changes() {
    let (folder, old, new) = (Folder::new("ca-rotation"), Ca::new("old"), Ca::new("new"));
    let mut options = options();
    options.authentication.client_ca_file = Some(folder.write("ca.crt", &old.pem()));
    options.authentication.reload_every = Duration::from_millis(20);
    let port = Port::open(options);
    let ask = |ca: &Ca| Ask::certificate(&ca.sign("root", "system:masters"));
    port.check(&ask(&old), "/metrics", 200);
    port.check(&ask(&new), "/metrics", 401);
    folder.write("ca.crt", &new.pem());
    let new_counts = || (port.get(&ask(&new), "/metrics").0 == 200).then_some(());
    wait_for(SOON, "the new CA counts", new_counts);
    port.check(&ask(&old), "/metrics", 401);
}

#[test]
fn slow_clients_are_cut_off() {
    let mut options = open();
    options.limits.handshake = SHORT;
    options.limits.header_read = SHORT;
    options.limits.idle = SHORT;
    let port = Port::open(options);
    port.runtime.block_on(async {
        let silent = TcpStream::connect(port.address).await.expect("a connection");
        ends(silent, "no handshake").await;
        let mut half = Ask::default().connect(port.address).await.expect("TLS");
        half.write_all(b"GET /healthz HTTP/1.1\r\nhost: a").await.expect("half a header");
        ends(half, "half a header").await;
        let idle = Ask::default().connect(port.address).await.expect("TLS");
        ends(idle, "no request").await;
        let mut idle = Ask::over_http2().connect(port.address).await.expect("TLS");
        idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("a preface");
        ends(idle, "no HTTP/2 request").await;
    });
}

/// Reads until the other side closes.
async fn ends(mut stream: impl AsyncReadExt + Unpin, what: &str) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "{what}: the connection stays open");
}

#[test]
fn headers_and_bodies_have_a_limit() {
    let port = Port::open(open());
    let long = Ask::default().with("x-long", &"a".repeat(900_000));
    port.check(&long, "/healthz", 200);
    let get = |ask: Ask| port.runtime.block_on(ask.try_get(port.address, "/healthz"));
    for ask in [Ask::default(), Ask::over_http2()] {
        let answer = get(ask.with("x-long", &"a".repeat(1_200_000)));
        assert!(answer.as_ref().map_or(true, |(status, _)| *status == 431), "{answer:?}");
    }
    let answer = get(Ask { body: 4 << 20, ..Ask::default() });
    assert!(answer.as_ref().map_or(true, |(status, _)| *status == 413), "{answer:?}");
    port.check(&Ask::default(), "/healthz", 200);
}

#[test]
fn connections_have_a_limit_and_come_free_again() {
    let mut options = open();
    options.limits.connections_max = 1;
    let port = Port::open(options);
    port.runtime.block_on(async {
        let held = Ask::default().connect(port.address).await.expect("TLS");
        let ask = Ask::default();
        let waits = tokio::time::timeout(SHORT, ask.try_get(port.address, "/healthz")).await;
        assert!(waits.is_err(), "a second connection was served");
        drop(held);
        let (status, _) = tokio::time::timeout(SOON, ask.get(port.address, "/healthz"))
            .await
            .expect("the slot is free again");
        assert_eq!(status, 200);
    });
}

#[test]
fn a_port_that_is_taken_is_told_in_one_line() {
    let port = Port::open(open());
    let mut options = open();
    options.bind = port.address;
    let problem = Port::try_open(options).map(|_| ()).expect_err("a taken port").to_string();
    assert!(problem.starts_with(&format!("listening on {}: ", port.address)), "{problem}");
    assert_eq!(problem.lines().count(), 1);
}

#[test]
fn the_end_closes_the_port() {
    let mut port = Port::open(open());
    port.check(&Ask::default(), "/healthz", 200);
    port.shutdown.send(true).expect("somebody listens");
    let bound = port.bound.take().expect("a bound port");
    port.runtime.block_on(bound.ended());
    let refused = port.runtime.block_on(TcpStream::connect(port.address));
    assert!(refused.is_err());
}
