//! Flags on what a user may ask of the HTTPS server.
//!
//! Source: `apiserver/pkg/server/options/authorization.go` 0.37.

use berth_core::types::Span;

use super::authentication::given;
use super::values::{Shown, duration, shown_duration, shown_list, shown_option, strings};

const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Authorization flags")]
pub struct AuthorizationFlags {
    /// Paths for which nobody is asked [default: /healthz,/readyz,/livez]; `/*` at the end means
    /// all below
    #[arg(long, value_name = "PATHS")]
    authorization_always_allow_paths: Vec<String>,
    /// The kubeconfig with which access is reviewed; without it nothing else is allowed
    #[arg(long, value_name = "FILE")]
    authorization_kubeconfig: Option<String>,
    /// How long a yes is remembered
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Span,
    /// How long a no is remembered
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Span,
}

/// How requests to the HTTPS server are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationOptions {
    pub kubeconfig: Option<String>,
    pub always_allow_paths: Vec<String>,
    pub allowed_cache_ttl: Span,
    pub denied_cache_ttl: Span,
}

impl AuthorizationFlags {
    pub(super) fn resolve(&self) -> AuthorizationOptions {
        AuthorizationOptions {
            kubeconfig: given(&self.authorization_kubeconfig),
            always_allow_paths: self.paths(),
            allowed_cache_ttl: self.authorization_webhook_cache_authorized_ttl,
            denied_cache_ttl: self.authorization_webhook_cache_unauthorized_ttl,
        }
    }

    fn paths(&self) -> Vec<String> {
        strings(&self.authorization_always_allow_paths, &ALWAYS_ALLOWED)
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let allowed = shown_duration(self.authorization_webhook_cache_authorized_ttl);
        let denied = shown_duration(self.authorization_webhook_cache_unauthorized_ttl);
        vec![
            ("authorization-always-allow-paths", shown_list(&self.paths())),
            ("authorization-kubeconfig", shown_option(self.authorization_kubeconfig.as_ref())),
            ("authorization-webhook-cache-authorized-ttl", allowed),
            ("authorization-webhook-cache-unauthorized-ttl", denied),
        ]
    }
}
