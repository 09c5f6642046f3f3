//! Flags on who may ask the HTTPS server.
//!
//! Source: `apiserver/pkg/server/options/{authentication,authorization}.go` 0.37.

use berth_core::types::Span;
use clap::ArgAction;

use crate::gates::Gates;

use super::values::{Shown, duration, go_bool, shown_duration, shown_list, shown_option, strings};

const USERNAME_HEADERS: [&str; 1] = ["x-remote-user"];
const GROUP_HEADERS: [&str; 1] = ["x-remote-group"];
const EXTRA_PREFIXES: [&str; 1] = ["x-remote-extra-"];

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Authentication flags")]
pub struct AuthenticationFlags {
    /// The kubeconfig with which tokens are reviewed; without it every token is anonymous
    #[arg(long, value_name = "FILE")]
    authentication_kubeconfig: Option<String>,
    /// If false, what is missing of the authentication's configuration is looked up in the cluster
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = go_bool,
        action = ArgAction::Set
    )]
    authentication_skip_lookup: bool,
    /// How long a token's review is remembered
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Span,
    /// If true, a lookup in the cluster that fails is not fatal
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "true", value_parser = go_bool,
        action = ArgAction::Set
    )]
    authentication_tolerate_lookup_failure: bool,
    /// The CA whose client certificates name their user
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<String>,
    /// Common names of the proxies that may name a user in headers; none means all of the CA
    #[arg(long, value_name = "NAMES")]
    requestheader_allowed_names: Vec<String>,
    /// The CA of the proxies that may name a user in headers
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<String>,
    /// Prefixes of headers with a user's extra attributes [default: x-remote-extra-]
    #[arg(long, value_name = "PREFIXES")]
    requestheader_extra_headers_prefix: Vec<String>,
    /// Headers with a user's groups [default: x-remote-group]
    #[arg(long, value_name = "NAMES")]
    requestheader_group_headers: Vec<String>,
    /// Headers with a user's uid
    #[arg(long, value_name = "NAMES")]
    requestheader_uid_headers: Vec<String>,
    /// Headers with a user's name [default: x-remote-user]
    #[arg(long, value_name = "NAMES")]
    requestheader_username_headers: Vec<String>,
}

/// How requests to the HTTPS server are given a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationOptions {
    pub kubeconfig: Option<String>,
    pub skip_lookup: bool,
    pub token_cache_ttl: Span,
    pub tolerate_lookup_failure: bool,
    pub client_ca_file: Option<String>,
    pub request_header: RequestHeaderOptions,
}

/// Users named by a proxy in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaderOptions {
    /// Without it no header counts.
    pub client_ca_file: Option<String>,
    /// Empty: any certificate of the CA.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub extra_header_prefixes: Vec<String>,
}

impl AuthenticationFlags {
    pub(super) fn resolve(
        &self,
        gates: &Gates,
        notes: &mut Vec<String>,
    ) -> Result<AuthenticationOptions, String> {
        let request_header = RequestHeaderOptions {
            client_ca_file: given(&self.requestheader_client_ca_file),
            allowed_names: strings(&self.requestheader_allowed_names, &[]),
            username_headers: strings(&self.requestheader_username_headers, &USERNAME_HEADERS),
            group_headers: strings(&self.requestheader_group_headers, &GROUP_HEADERS),
            uid_headers: strings(&self.requestheader_uid_headers, &[]),
            extra_header_prefixes: strings(
                &self.requestheader_extra_headers_prefix,
                &EXTRA_PREFIXES,
            ),
        };
        request_header.check(gates, notes)?;
        Ok(AuthenticationOptions {
            kubeconfig: given(&self.authentication_kubeconfig),
            skip_lookup: self.authentication_skip_lookup,
            token_cache_ttl: self.authentication_token_webhook_cache_ttl,
            tolerate_lookup_failure: self.authentication_tolerate_lookup_failure,
            client_ca_file: given(&self.client_ca_file),
            request_header,
        })
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let ttl = self.authentication_token_webhook_cache_ttl;
        let tolerates = self.authentication_tolerate_lookup_failure;
        let list = |given: &[String], default: &[&str]| shown_list(&strings(given, default));
        let extra = list(&self.requestheader_extra_headers_prefix, &EXTRA_PREFIXES);
        let groups = list(&self.requestheader_group_headers, &GROUP_HEADERS);
        let users = list(&self.requestheader_username_headers, &USERNAME_HEADERS);
        let ca = shown_option(self.requestheader_client_ca_file.as_ref());
        vec![
            ("authentication-kubeconfig", shown_option(self.authentication_kubeconfig.as_ref())),
            ("authentication-skip-lookup", self.authentication_skip_lookup.to_string()),
            ("authentication-token-webhook-cache-ttl", shown_duration(ttl)),
            ("authentication-tolerate-lookup-failure", tolerates.to_string()),
            ("client-ca-file", shown_option(self.client_ca_file.as_ref())),
            ("requestheader-allowed-names", list(&self.requestheader_allowed_names, &[])),
            ("requestheader-client-ca-file", ca),
            ("requestheader-extra-headers-prefix", extra),
            ("requestheader-group-headers", groups),
            ("requestheader-uid-headers", list(&self.requestheader_uid_headers, &[])),
            ("requestheader-username-headers", users),
        ]
    }
}

impl RequestHeaderOptions {
    fn check(&self, gates: &Gates, notes: &mut Vec<String>) -> Result<(), String> {
        let has = |headers: &[String], name: &str| {
            headers.is_empty() || headers.iter().any(|header| header.eq_ignore_ascii_case(name))
        };
        let headers = [
            ("requestheader-username-headers", &self.username_headers, "X-Remote-User header"),
            ("requestheader-group-headers", &self.group_headers, "X-Remote-Group header"),
            (
                "requestheader-extra-headers-prefix",
                &self.extra_header_prefixes,
                "X-Remote-Extra- header prefix",
            ),
        ];
        let lacks = |what: &str| {
            format!("is set without specifying the standard {what} - API aggregation will not work")
        };
        for (flag, headers, what) in headers {
            blank(flag, headers)?;
            if !has(headers, what.split(' ').next().unwrap_or_default()) {
                notes.push(format!("--{flag} {}", lacks(what)));
            }
        }
        let flag = "requestheader-uid-headers";
        blank(flag, &self.uid_headers)?;
        if !self.uid_headers.is_empty() && !gates.enabled("RemoteRequestHeaderUID") {
            return Err(format!(
                "--{flag} requires the \"RemoteRequestHeaderUID\" feature to be enabled"
            ));
        }
        if !has(&self.uid_headers, "X-Remote-Uid") {
            return Err(format!("--{flag} {}", lacks("X-Remote-Uid header")));
        }
        Ok(())
    }
}

fn blank(flag: &str, headers: &[String]) -> Result<(), String> {
    match headers.iter().find(|header| header.trim().is_empty()) {
        Some(_) => Err(format!("empty value in {flag:?}")),
        None => Ok(()),
    }
}

/// Takes an empty name for none.
pub(super) fn given(file: &Option<String>) -> Option<String> {
    file.clone().filter(|file| !file.is_empty())
}
