//! What the serving, authentication and authorization flags say; the defaults are upstream's.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::live::client::Target;

const REVIEW_TTL: Duration = Duration::from_secs(10);

/// Everything that the secure port is told by flags.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// --bind-address and --secure-port.
    pub bind: SocketAddr,
    pub permit_port_sharing: bool,
    pub tls: TlsOptions,
    pub http2: Http2Options,
    pub authentication: AuthenticationOptions,
    pub authorization: AuthorizationOptions,
    pub limits: Limits,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 10259)),
            permit_port_sharing: false,
            tls: TlsOptions::default(),
            http2: Http2Options::default(),
            authentication: AuthenticationOptions::default(),
            authorization: AuthorizationOptions::default(),
            limits: Limits::default(),
        }
    }
}

/// Certificates and what is spoken with them. Texts are as in the flags.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    pub cert_file: Option<PathBuf>,
    pub private_key_file: Option<PathBuf>,
    /// Where a self-signed pair is looked for (kube-scheduler.crt and .key, then berth.crt and .key)
    /// and kept; None: in memory.
    pub cert_dir: Option<PathBuf>,
    /// `cert,key` or `cert,key:domain,domain`.
    pub sni_cert_keys: Vec<String>,
    /// `VersionTLS12` or `VersionTLS13`; older ones mean 1.2; empty is 1.2.
    pub min_version: String,
    /// IANA names; empty for all.
    pub cipher_suites: Vec<String>,
    /// Go's CurveIDs; empty for all.
    pub curve_preferences: Vec<i32>,
    /// How often files are looked at.
    pub reload_every: Duration,
}

impl Default for TlsOptions {
    fn default() -> Self {
        TlsOptions {
            cert_file: None,
            private_key_file: None,
            cert_dir: None,
            sni_cert_keys: Vec::new(),
            min_version: String::new(),
            cipher_suites: Vec::new(),
            curve_preferences: Vec::new(),
            reload_every: Duration::from_secs(5),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Http2Options {
    /// --disable-http2-serving.
    pub disabled: bool,
    /// --http2-max-streams-per-connection; 0 for the default.
    pub max_streams_per_connection: u32,
}

impl Http2Options {
    /// Source: apiserver/pkg/server/secure_serving.go, 100 by default.
    pub(super) fn streams_max(&self) -> u32 {
        match self.max_streams_per_connection {
            0 => 100,
            streams => streams,
        }
    }
}

/// Who is believed to be whom.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// Where tokens are reviewed and the ConfigMap is read, see [`delegate_target`]. None: a token
    /// is ignored.
    pub target: Option<Target>,
    pub skip_lookup: bool,
    pub tolerate_lookup_failure: bool,
    pub token_ttl: Duration,
    pub client_ca_file: Option<PathBuf>,
    pub request_header: RequestHeaderOptions,
    /// How often the ConfigMap is read again.
    pub lookup_every: Duration,
    /// How often files are looked at.
    pub reload_every: Duration,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        AuthenticationOptions {
            target: None,
            skip_lookup: false,
            tolerate_lookup_failure: true,
            token_ttl: REVIEW_TTL,
            client_ca_file: None,
            request_header: RequestHeaderOptions::default(),
            lookup_every: Duration::from_secs(60),
            reload_every: Duration::from_secs(5),
        }
    }
}

/// The front proxy; counts only with a CA file, otherwise the ConfigMap says all of it.
#[derive(Clone, Debug)]
pub struct RequestHeaderOptions {
    pub client_ca_file: Option<PathBuf>,
    /// Common names; empty for any.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_headers_prefix: Vec<String>,
}

impl Default for RequestHeaderOptions {
    fn default() -> Self {
        RequestHeaderOptions {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: vec!["x-remote-user".to_owned()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".to_owned()],
            extra_headers_prefix: vec!["x-remote-extra-".to_owned()],
        }
    }
}

/// Who may read what.
#[derive(Clone, Debug)]
pub struct AuthorizationOptions {
    /// Where access is reviewed, see [`delegate_target`]. None: all but the allowed paths is
    /// forbidden.
    pub target: Option<Target>,
    /// Whole paths, or beginnings that end in `*`.
    pub always_allow_paths: Vec<String>,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        AuthorizationOptions {
            target: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            authorized_ttl: REVIEW_TTL,
            unauthorized_ttl: REVIEW_TTL,
        }
    }
}

/// What one client may cost. Headers and idle time are Go's (secure_serving.go).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections_max: usize,
    /// Bytes.
    pub header_max: usize,
    /// Bytes; no page reads a body.
    pub body_max: u64,
    pub handshake: Duration,
    /// From the first moment a header can be sent until it is whole; HTTP/1.1 waits no longer
    /// between requests either.
    pub header_read: Duration,
    /// Without a request; an answer must be taken within it too.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 400,
            header_max: 1 << 20,
            body_max: 3 << 20,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(32),
            idle: Duration::from_secs(90),
        }
    }
}

/// Returns where reviews go: the kubeconfig of the flag, else the pod's own service account, else
/// nowhere.
///
/// Source: apiserver/pkg/server/options/authentication.go, getClient with
/// RemoteKubeConfigFileOptional.
pub fn delegate_target(kubeconfig: Option<PathBuf>) -> Option<Target> {
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty());
    match kubeconfig {
        Some(path) => Some(Target { kubeconfig: Some(path), master: None }),
        None => in_pod.then(Target::default),
    }
}
