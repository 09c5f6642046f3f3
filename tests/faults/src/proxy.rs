//! A TLS proxy in front of a stand's API server that holds, cuts, delays, refuses and falsifies
//! what rules choose, and counts what of it took effect.
//!
//! Each connection of a client has one of its own to the server, both HTTP/1.1; one ends when the
//! other does, so a server that dies looks dead through the proxy too. The caller's token is passed
//! on, and names the caller.

mod answer;
mod connection;
mod exchange;
mod request;
mod rule;
mod tls;
mod watches;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use berth_stand::Stand;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

pub use exchange::{Exchange, Told};
pub use request::{Asked, Requests};
pub use rule::{Ending, Fault, Injection, Rule};
pub use watches::{Edit, WatchInjection, Watches};

use exchange::Log;
use rule::Rules;
use tls::Tls;
use watches::Streams;

/// Enough for a scheduler's connections on a machine of two cores.
const THREADS: usize = 2;

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("making the proxy's certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS of the proxy")]
    Tls(#[from] rustls::Error),
    #[error("the API server's address {0:?} is none")]
    Address(String),
    #[error("starting the proxy")]
    Io(#[from] std::io::Error),
}

/// A running proxy. Dropping it cuts every connection.
///
/// Cost: a few milliseconds to start, two threads.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    folder: PathBuf,
    runtime: Option<Runtime>,
}

/// What all connections share.
struct Shared {
    server: SocketAddr,
    tls: Tls,
    users: Mutex<Vec<User>>,
    rules: Arc<Rules>,
    streams: Arc<Streams>,
    log: Arc<Log>,
}

struct User {
    name: String,
    token: String,
}

impl Proxy {
    /// Starts it in front of the stand's API server, on a free loopback port. The stand may restart
    /// its server: it comes back on the same port.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub fn start(stand: &Stand) -> Result<Proxy, ProxyError> {
        let no_address = || ProxyError::Address(stand.url().to_owned());
        let server = stand.url().strip_prefix("https://").ok_or_else(no_address)?;
        let server = server.parse().map_err(|_| no_address())?;
        let tls = Tls::new(stand.ca_pem())?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let folder = stand.folder().join(format!("proxy-{}", address.port()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("ca.crt"), &tls.ca_pem)?;
        let log = Arc::new(Log::default());
        let shared = Arc::new(Shared {
            server,
            tls,
            users: Mutex::default(),
            rules: Arc::default(),
            streams: Arc::new(Streams::new(Arc::clone(&log))),
            log,
        });
        runtime.spawn(connection::accept(listener, Arc::clone(&shared)));
        Ok(Proxy { shared, address, folder, runtime: Some(runtime) })
    }

    /// Writes a kubeconfig with which a user of the stand comes through the proxy, and returns its
    /// path. It is gone with the stand.
    ///
    /// # Errors
    /// [`ProxyError::Io`].
    pub fn kubeconfig(&self, stand: &Stand, user: &str) -> Result<PathBuf, ProxyError> {
        let token = stand.token(user);
        let path = self.folder.join(format!("kubeconfig-{user}"));
        let cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority": self.folder.join("ca.crt"),
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": user}}],
            "current-context": "proxy",
        });
        std::fs::write(&path, format!("{config:#}\n"))?;
        let mut users = self.shared.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.push(User { name: user.to_owned(), token });
        Ok(path)
    }

    /// Returns the folder of its kubeconfigs and of `ca.crt`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies a rule to the requests that come from now on, until the injection is dropped. Of
    /// several rules that match, the oldest acts.
    pub fn inject(&self, rule: Rule) -> Injection {
        Rules::add(&self.shared.rules, rule)
    }

    /// Returns the watches of a resource such as `pods`, of all users; an empty name is every
    /// resource.
    pub fn watches(&self, resource: &str) -> Watches {
        Watches::new(Arc::clone(&self.shared.streams), resource)
    }

    /// Returns what was asked so far, in order of arrival, from number `from` on.
    pub fn exchanges(&self, from: usize) -> Vec<Exchange> {
        self.shared.log.since(from)
    }

    /// Returns how many requests were asked so far.
    pub fn n_exchanges(&self) -> usize {
        self.shared.log.len()
    }

    /// Counts what was asked from number `from` on.
    pub fn count(&self, from: usize, counts: impl Fn(&Exchange) -> bool) -> usize {
        self.shared.log.count(from, counts)
    }

    /// Calls `observer` with each request, as soon as it is known what its sender was told. It
    /// must not block. Replaces the one before.
    pub fn observe(&self, observer: impl Fn(&Exchange) + Send + Sync + 'static) {
        self.shared.log.observe(Box::new(observer));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    /// Returns whose token this is; empty for an unknown one.
    fn user_of(&self, authorization: &str) -> String {
        let token = authorization.strip_prefix("Bearer ").unwrap_or_default();
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let user = users.iter().find(|user| user.token == token);
        user.map(|user| user.name.clone()).unwrap_or_default()
    }
}
