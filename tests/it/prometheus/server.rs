//! A Prometheus of its own: loopback, own storage, killed on drop.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_stand::wait_for;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::configuration;
use crate::support::SOON;
use crate::support::https::free_port;

pub(super) struct Prometheus {
    child: Child,
    log: PathBuf,
    address: SocketAddr,
    runtime: Runtime,
}

impl Prometheus {
    /// Starts one that scrapes `target`, and waits until it answers.
    pub(super) fn start(
        programs: &Path,
        folder: &Path,
        target: SocketAddr,
        token: &str,
    ) -> Prometheus {
        let (address, log) = (free_port(), folder.join("prometheus.log"));
        let config = configuration(folder, target, token);
        let output = File::create(&log).expect("a log");
        let child = Command::new(programs.join("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--web.listen-address={address}"))
            .arg(format!("--storage.tsdb.path={}", folder.join("prometheus-data").display()))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("its log"))
            .stderr(output)
            .spawn()
            .expect("prometheus starts");
        let runtime = Runtime::new().expect("a runtime");
        let prometheus = Prometheus { child, log, address, runtime };
        wait_for(SOON, "prometheus answers", || prometheus.query("vector(1)"));
        prometheus
    }

    /// Returns the first value of the query's answer, if it has one.
    pub(super) fn value(&self, query: &str) -> Option<f64> {
        let answer = self.query(query).expect("prometheus answers");
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    fn query(&self, query: &str) -> Option<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/api/v1/query?query={encoded}");
        let body = self.runtime.block_on(get(self.address, &path)).ok()?;
        serde_json::from_slice(&body).ok()
    }
}

async fn get(to: SocketAddr, path: &str) -> Result<Bytes, Box<dyn std::error::Error>> {
    let io = TokioIo::new(TcpStream::connect(to).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    tokio::spawn(connection);
    let request = http::Request::get(path).header("host", to.to_string());
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("prometheus' log:\n{log}");
        }
    }
}
