//! From the command line's words to what the secure port is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use berth_core::types::Span;

use super::{
    AuthenticationOptions, AuthorizationOptions, Http2Options, RequestHeaderOptions, ServeOptions,
    Serving, TlsOptions, delegate_target,
};
use crate::config;
use crate::flags;
use crate::flags::serving::TlsVersion;

/// --emulated-version refuses any other.
const EMULATED: &str = "1.37";

impl Serving {
    /// Returns what to serve beside a run; None if --secure-port is 0.
    pub fn of_flags(options: &flags::Options) -> Option<Serving> {
        let serving = &options.serving;
        Some(Serving {
            options: ServeOptions::of_flags(
                serving,
                &options.authentication,
                &options.authorization,
            )?,
            configuration: config::completed(&options.configuration),
            flags: options
                .flagz()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            emulation_version: EMULATED.to_owned(),
            flagz: options.gates.enabled("ComponentFlagz"),
            statusz: options.gates.enabled("ComponentStatusz"),
        })
    }
}

impl ServeOptions {
    /// Returns what to serve; None if --secure-port is 0.
    pub fn of_flags(
        serving: &flags::ServingOptions,
        authentication: &flags::AuthenticationOptions,
        authorization: &flags::AuthorizationOptions,
    ) -> Option<ServeOptions> {
        if serving.secure_port == 0 {
            return None;
        }
        Some(ServeOptions {
            bind: SocketAddr::new(serving.bind_address, serving.secure_port),
            permit_port_sharing: serving.permit_port_sharing,
            tls: tls(serving),
            http2: Http2Options {
                disabled: serving.disable_http2,
                max_streams_per_connection: u32::try_from(serving.http2_max_streams).unwrap_or(0),
            },
            authentication: authentication_of(authentication),
            authorization: AuthorizationOptions {
                target: delegate_target(path(&authorization.kubeconfig)),
                always_allow_paths: authorization.always_allow_paths.clone(),
                authorized_ttl: duration(authorization.allowed_cache_ttl),
                unauthorized_ttl: duration(authorization.denied_cache_ttl),
            },
            ..ServeOptions::default()
        })
    }
}

fn tls(serving: &flags::ServingOptions) -> TlsOptions {
    let min_version = match serving.min_version {
        TlsVersion::V12 => "VersionTLS12",
        TlsVersion::V13 => "VersionTLS13",
    };
    TlsOptions {
        cert_file: path(&serving.cert_file),
        private_key_file: path(&serving.key_file),
        cert_dir: path(&serving.cert_dir),
        sni_cert_keys: serving.sni.iter().map(ToString::to_string).collect(),
        min_version: min_version.to_owned(),
        cipher_suites: serving.cipher_suites.clone(),
        curve_preferences: serving.curve_preferences.clone(),
        ..TlsOptions::default()
    }
}

fn authentication_of(flags: &flags::AuthenticationOptions) -> AuthenticationOptions {
    let proxy = &flags.request_header;
    AuthenticationOptions {
        target: delegate_target(path(&flags.kubeconfig)),
        skip_lookup: flags.skip_lookup,
        tolerate_lookup_failure: flags.tolerate_lookup_failure,
        token_ttl: duration(flags.token_cache_ttl),
        client_ca_file: path(&flags.client_ca_file),
        request_header: RequestHeaderOptions {
            client_ca_file: path(&proxy.client_ca_file),
            allowed_names: proxy.allowed_names.clone(),
            username_headers: proxy.username_headers.clone(),
            uid_headers: proxy.uid_headers.clone(),
            group_headers: proxy.group_headers.clone(),
            extra_headers_prefix: proxy.extra_header_prefixes.clone(),
        },
        ..AuthenticationOptions::default()
    }
}

fn path(given: &Option<String>) -> Option<PathBuf> {
    given.as_ref().map(PathBuf::from)
}

fn duration(span: Span) -> Duration {
    Duration::from_millis(span.as_millis())
}
