//! Who we are at the API server, kept up to date: tokens, certificates and plugins are read again
//! without a restart.
//!
//! Everything is read again once a minute, when what a plugin issued expires, and after the server
//! has answered 401. As in client-go, the request that was refused is not repeated: the next one
//! goes out with what was read then. What can't be read changes nothing; the last good reading
//! stays. A certificate that has changed means new connections; old ones end with their requests.
//!
//! Source: client-go 0.37, transport/token_source.go and cert_rotation.go. What differs: the
//! kubeconfig itself is read again too, and certificates once a minute instead of every five.

mod exec;
pub mod proxy;
mod source;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, Response, StatusCode, header};
use kube::client::Body;
use tower::{BoxError, ServiceExt};
use tracing::{info, warn};

use super::client::{ConnectError, Stack, Target, stack, user_agent, with_sources};
use super::pool::Answered;
use exec::Issued;
use source::{Loaded, Place, server_name};

/// Source: client-go reads a token file again after 60 s less 10.
const READ_AGAIN: Duration = Duration::from_secs(50);
/// Between two readings, however often the server says 401.
const PAUSE: Duration = Duration::from_secs(1);
/// After one that failed.
const PAUSE_FAILED: Duration = Duration::from_secs(5);

/// One pool of connections, with credentials that others may share.
#[derive(Clone)]
pub struct Connection {
    credentials: Arc<Credentials>,
    agent: HeaderValue,
    /// The pool, and the number of the place that it leads to.
    pool: Arc<Mutex<(u64, Stack)>>,
}

struct Credentials {
    target: Target,
    server: String,
    current: RwLock<Arc<Current>>,
    /// The server has refused what is current.
    refused: AtomicBool,
    /// Held while somebody reads.
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct Current {
    config: kube::Config,
    proxy: Option<proxy::Proxy>,
    authorization: Option<HeaderValue>,
    issued: Option<Issued>,
    place: Place,
    /// Moves with the place.
    number: u64,
    read: Instant,
    again: Instant,
}

impl Connection {
    /// Reads the credentials and makes a pool; nothing is sent yet.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, the address or the credentials.
    pub async fn new(target: &Target) -> Result<Connection, ConnectError> {
        let loaded = Loaded::read(target, None).await?;
        let current = Current::of(loaded, 0);
        let credentials = Credentials {
            target: target.clone(),
            server: server_name(&current.config.cluster_url),
            current: RwLock::new(Arc::new(current)),
            refused: AtomicBool::new(false),
            turn: Arc::default(),
        };
        Connection::with(Arc::new(credentials), user_agent("scheduler"))
    }

    /// Returns a pool of its own with the same credentials.
    ///
    /// # Errors
    /// As [`Connection::new`].
    pub fn another(&self, part: &str) -> Result<Connection, ConnectError> {
        Connection::with(Arc::clone(&self.credentials), user_agent(part))
    }

    fn with(credentials: Arc<Credentials>, agent: HeaderValue) -> Result<Connection, ConnectError> {
        let current = credentials.current();
        let pool = Arc::new(Mutex::new((current.number, current.pool(&agent)?)));
        Ok(Connection { credentials, agent, pool })
    }

    /// Returns the server's address, without what may be secret in it.
    pub fn server(&self) -> &str {
        &self.credentials.server
    }

    /// Sends with the credentials of this moment.
    ///
    /// # Errors
    /// Whatever happened to the request.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Answered>, BoxError> {
        let current = self.credentials.fresh().await;
        if let Some(value) = &current.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, value.clone());
        }
        let answer = self.stack(&current).oneshot(request).await;
        if answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED) {
            self.credentials.refused(&current);
        }
        answer
    }

    fn stack(&self, current: &Current) -> Stack {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.0 != current.number {
            match current.pool(&self.agent) {
                Ok(stack) => *pool = (current.number, stack),
                // A reading is taken only if a pool can be made of it.
                Err(problem) => warn!("connections stay as they were: {problem}"),
            }
        }
        pool.1.clone()
    }
}

impl Current {
    fn of(loaded: Loaded, number: u64) -> Current {
        let (place, read) = (loaded.place(), Instant::now());
        let lasts = loaded.issued.as_ref().and_then(Issued::lasts);
        let pause = lasts.map_or(READ_AGAIN, |lasts| lasts.clamp(PAUSE, READ_AGAIN));
        let Loaded { config, proxy, authorization, issued } = loaded;
        Current { config, proxy, authorization, issued, place, number, read, again: read + pause }
    }

    fn pool(&self, agent: &HeaderValue) -> Result<Stack, ConnectError> {
        let mut config = self.config.clone();
        config.headers.push((header::USER_AGENT, agent.clone()));
        stack(&config, self.proxy.as_ref()).map_err(|problem| ConnectError::Credentials {
            server: server_name(&config.cluster_url),
            problem: with_sources(&problem),
        })
    }

    fn has_expired(&self) -> bool {
        self.issued.as_ref().is_some_and(Issued::has_expired)
    }
}

impl Credentials {
    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what is current, after a new reading if one is due. Who has something that may
    /// still do doesn't wait for it.
    async fn fresh(self: &Arc<Self>) -> Arc<Current> {
        let current = self.current();
        let refused = self.refused.load(Ordering::Relaxed) && current.read.elapsed() >= PAUSE;
        if !refused && Instant::now() < current.again {
            return current;
        }
        if let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() {
            let credentials = Arc::clone(self);
            // Apart, so that a request that is given up doesn't end it.
            tokio::spawn(async move {
                credentials.renew().await;
                drop(turn);
            });
        }
        if refused || current.has_expired() {
            drop(self.turn.lock().await);
        }
        self.current()
    }

    /// Notes that the server refuses what was current when the request was sent.
    fn refused(&self, sent_with: &Arc<Current>) {
        if sent_with.read == self.current().read {
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    async fn renew(&self) {
        let before = self.current();
        let refused = self.refused.swap(false, Ordering::Relaxed);
        let issued = before.issued.clone().filter(|_| !refused);
        let renewed = self.read_again(&before, issued).await.unwrap_or_else(|problem| {
            warn!("the credentials that were read last are used on: {problem}");
            before.for_now()
        });
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed);
    }

    async fn read_again(
        &self,
        before: &Current,
        issued: Option<Issued>,
    ) -> Result<Current, ConnectError> {
        let loaded = Loaded::read(&self.target, issued).await?;
        let moved = loaded.place() != before.place;
        let current = Current::of(loaded, before.number + u64::from(moved));
        if moved {
            current.pool(&HeaderValue::from_static("berth"))?;
        }
        if moved || current.authorization != before.authorization {
            info!(server = %self.server, "credentials have changed");
        }
        Ok(current)
    }
}

impl Current {
    /// The same, to be read again soon.
    fn for_now(&self) -> Current {
        let read = Instant::now();
        Current {
            config: self.config.clone(),
            proxy: self.proxy.clone(),
            authorization: self.authorization.clone(),
            issued: self.issued.clone(),
            place: self.place.clone(),
            number: self.number,
            read,
            again: read + PAUSE_FAILED,
        }
    }
}
