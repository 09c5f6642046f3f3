//! The secure port: HTTPS with health, metrics and status pages, for whom the API server allows.
//!
//! A request goes through [`accept`] (TLS, limits), `gate` (who is it, may they) and `pages`.
//! Reading order: `tls`, `certificate`, `accept`, `x509`, `delegation`, `review`, `authn`, `authz`,
//! `gate`, [`health`], [`pages`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod accept;
mod answer;
mod authn;
mod authz;
mod cache;
mod certificate;
mod debug;
mod delegation;
mod flags;
mod gate;
pub mod health;
mod options;
pub mod pages;
mod review;
mod self_signed;
mod tls;
mod wiring;
mod x509;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::live::client::{Api, ConnectError, Target};

pub use options::{
    AuthenticationOptions, AuthorizationOptions, Http2Options, Limits, RequestHeaderOptions,
    ServeOptions, TlsOptions, delegate_target,
};
pub use pages::{Pages, ServeState};
pub use wiring::{Served, Serving};

use authn::Authenticator;
use authz::Authorizer;
use delegation::{Delegation, TrustStore};
use gate::Gate;
use review::Reviews;

/// Why the secure port can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("listening on {address}: {source}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("--{flag}: {problem}")]
    Flag { flag: &'static str, problem: String },
    #[error("{what}: {problem}")]
    File { what: String, problem: String },
    #[error("--{flag}: {source}")]
    Delegate {
        flag: &'static str,
        #[source]
        source: ConnectError,
    },
    #[error(
        "reading kube-system/extension-apiserver-authentication: {0} \
         (--authentication-tolerate-lookup-failure=false)"
    )]
    Lookup(String),
}

/// A port that is served.
#[derive(Debug)]
pub struct Bound {
    /// With the port that the system chose, if 0 was asked for.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Bound {
    /// Waits until the last connection is closed, at most 5 s after `shutdown` was told.
    pub async fn ended(self) {
        if let Err(problem) = self.task.await {
            warn!(%problem, "the secure port ended badly");
        }
    }
}

/// Opens the port and serves it until `shutdown` holds true or its sender is gone.
///
/// Returns when connections are accepted. Port 0 means any free one: whoever reads the flag, where
/// 0 is off, doesn't call this.
///
/// # Errors
/// [`ServeError`], one line that names the flag, file or address.
pub async fn serve(
    options: ServeOptions,
    state: ServeState,
    shutdown: watch::Receiver<bool>,
) -> Result<Bound, ServeError> {
    let certificates = certificate::Store::load(&options.tls, options.bind.ip())?;
    let tls = tls::server_config(&options.tls, &options.http2)?;
    let authentication_api =
        connect("authentication-kubeconfig", &options.authentication.target).await?;
    let authorization_api =
        connect("authorization-kubeconfig", &options.authorization.target).await?;

    let trust = Arc::new(TrustStore::default());
    let delegation =
        Delegation::new(&options.authentication, authentication_api.clone(), Arc::clone(&trust));
    let delegation = delegation.begin().await?;
    let tokens = authentication_api.map(Reviews::new);
    let authenticator = Authenticator::new(trust, tokens, options.authentication.token_ttl);
    let reviews = authorization_api.map(Reviews::new);
    let authorizer = Authorizer::new(&options.authorization, reviews)?;

    let listener = accept::listen(&options)?;
    let address = listener
        .local_addr()
        .map_err(|source| ServeError::Listen { address: options.bind, source })?;
    let gate = Arc::new(Gate { authenticator, authorizer });
    let server = accept::Server {
        listener,
        tls,
        certificates: Arc::clone(&certificates),
        router: pages::router(state, gate),
        limits: options.limits,
        http2_streams_max: options.http2.streams_max(),
        shutdown: shutdown.clone(),
    };
    info!(%address, "serving");
    let task = tokio::spawn(async move {
        tokio::select! {
            () = server.run() => {}
            () = certificates.follow(options.tls.reload_every) => {}
            () = delegation.follow() => {}
        }
    });
    Ok(Bound { address, task })
}

async fn connect(flag: &'static str, target: &Option<Target>) -> Result<Option<Api>, ServeError> {
    let Some(target) = target else {
        warn!("--{flag} is not given and this is not a pod: nobody can be asked");
        return Ok(None);
    };
    let api = Api::new(target).await;
    api.map(Some).map_err(|source| ServeError::Delegate { flag, source })
}
