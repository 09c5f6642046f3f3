//! Flags on the HTTPS server.
//!
//! Source: `apiserver/pkg/server/options/serving.go` 0.37.

use std::net::{IpAddr, Ipv4Addr};

use clap::ArgAction;

use super::values::{Shown, SniCertificate, go_bool, ip, shown_list, shown_option, strings};

/// kube-scheduler's port.
pub const DEFAULT_PORT: u16 = 10259;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Secure serving flags")]
pub struct ServingFlags {
    /// The IP address on which to listen for the --secure-port port
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", value_parser = ip)]
    bind_address: IpAddr,
    /// The directory of the TLS certificate kube-scheduler.crt and its key; ignored if
    /// --tls-cert-file and --tls-private-key-file are given
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<String>,
    /// If true, HTTP/2 is not served
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = go_bool,
        action = ArgAction::Set
    )]
    disable_http2_serving: bool,
    /// Streams that a client may have in one HTTP/2 connection; 0 leaves it to the server
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    http2_max_streams_per_connection: i64,
    /// If true, SO_REUSEADDR is used when binding the port
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = go_bool,
        action = ArgAction::Set
    )]
    permit_address_sharing: bool,
    /// If true, SO_REUSEPORT is used when binding the port
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = go_bool,
        action = ArgAction::Set
    )]
    permit_port_sharing: bool,
    /// The port on which to serve HTTPS [default: 10259]; 0 serves nothing
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    secure_port: Option<i64>,
    /// The x509 certificate for HTTPS, followed by those of its CA
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<String>,
    /// Comma-separated list of cipher suites
    #[arg(long, value_name = "NAMES")]
    tls_cipher_suites: Vec<String>,
    /// Comma-separated list of Go's numbers of key exchanges
    #[arg(long, value_name = "IDS")]
    tls_curve_preferences: Vec<String>,
    /// The lowest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "NAME", default_value = "")]
    tls_min_version: String,
    /// The private key of --tls-cert-file
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<String>,
    /// Certificate and key files for some names: `cert,key[:pattern,…]`; may be repeated
    #[arg(long, value_name = "CERT,KEY[:NAMES]")]
    tls_sni_cert_key: Vec<SniCertificate>,
}

/// Lowest TLS version that is served; older ones than 1.2 are not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    V12,
    V13,
}

/// What the HTTPS server is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    pub bind_address: IpAddr,
    /// 0: nothing is served.
    pub secure_port: u16,
    /// Whether the command line names the port.
    pub port_given: bool,
    /// Where `kube-scheduler.crt` and `.key` are; with no files at all, a certificate is made in
    /// memory.
    pub cert_dir: Option<String>,
    pub cert_file: Option<String>,
    pub key_file: Option<String>,
    pub sni: Vec<SniCertificate>,
    pub min_version: TlsVersion,
    /// Go's names; empty means the default ones.
    pub cipher_suites: Vec<String>,
    /// Go's `CurveID`s; empty means the default ones.
    pub curve_preferences: Vec<i32>,
    pub disable_http2: bool,
    /// 0 leaves it to the server.
    pub http2_max_streams: i64,
    pub permit_address_sharing: bool,
    pub permit_port_sharing: bool,
}

impl ServingFlags {
    pub(super) fn resolve(&self, notes: &mut Vec<String>) -> Result<ServingOptions, String> {
        let cipher_suites = cipher_suites(&strings(&self.tls_cipher_suites, &[]), notes)?;
        let file = |file: &Option<String>| file.clone().filter(|file| !file.is_empty());
        let options = ServingOptions {
            bind_address: self.bind_address,
            secure_port: self.port()?,
            port_given: self.secure_port.is_some(),
            cert_dir: file(&self.cert_dir),
            cert_file: file(&self.tls_cert_file),
            key_file: file(&self.tls_private_key_file),
            sni: self.tls_sni_cert_key.clone(),
            min_version: min_version(&self.tls_min_version, notes)?,
            cipher_suites,
            curve_preferences: curves(&strings(&self.tls_curve_preferences, &[]))?,
            disable_http2: self.disable_http2_serving,
            http2_max_streams: self.http2_max_streams_per_connection,
            permit_address_sharing: self.permit_address_sharing,
            permit_port_sharing: self.permit_port_sharing,
        };
        if options.cert_file.is_some() != options.key_file.is_some() {
            return Err("--tls-cert-file and --tls-private-key-file must be given together".into());
        }
        Ok(options)
    }

    fn port(&self) -> Result<u16, String> {
        let Some(port) = self.secure_port else { return Ok(DEFAULT_PORT) };
        u16::try_from(port).map_err(|_| {
            format!(
                "--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off \
                 secure port"
            )
        })
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let port = self.secure_port.unwrap_or(i64::from(DEFAULT_PORT));
        let curves = strings(&self.tls_curve_preferences, &[]);
        vec![
            ("bind-address", self.bind_address.to_string()),
            ("cert-dir", shown_option(self.cert_dir.as_ref())),
            ("disable-http2-serving", self.disable_http2_serving.to_string()),
            ("http2-max-streams-per-connection", self.http2_max_streams_per_connection.to_string()),
            ("permit-address-sharing", self.permit_address_sharing.to_string()),
            ("permit-port-sharing", self.permit_port_sharing.to_string()),
            ("secure-port", port.to_string()),
            ("tls-cert-file", shown_option(self.tls_cert_file.as_ref())),
            ("tls-cipher-suites", shown_list(&strings(&self.tls_cipher_suites, &[]))),
            ("tls-curve-preferences", shown_list(&curves)),
            ("tls-min-version", self.tls_min_version.clone()),
            ("tls-private-key-file", shown_option(self.tls_private_key_file.as_ref())),
            ("tls-sni-cert-key", shown_list(&self.tls_sni_cert_key)),
        ]
    }
}

impl Default for ServingOptions {
    fn default() -> ServingOptions {
        ServingOptions {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            secure_port: DEFAULT_PORT,
            port_given: false,
            cert_dir: None,
            cert_file: None,
            key_file: None,
            sni: Vec::new(),
            min_version: TlsVersion::V12,
            cipher_suites: Vec::new(),
            curve_preferences: Vec::new(),
            disable_http2: false,
            http2_max_streams: 0,
            permit_address_sharing: false,
            permit_port_sharing: false,
        }
    }
}

fn min_version(name: &str, notes: &mut Vec<String>) -> Result<TlsVersion, String> {
    match name {
        "" | "VersionTLS12" => Ok(TlsVersion::V12),
        "VersionTLS13" => Ok(TlsVersion::V13),
        "VersionTLS10" | "VersionTLS11" => {
            notes.push(format!("--tls-min-version={name}: nothing below TLS 1.2 is served"));
            Ok(TlsVersion::V12)
        }
        other => Err(format!("--tls-min-version: unknown tls version {other:?}")),
    }
}

/// Go's suites that rustls has too, and the two names that Go kept from before.
pub const CIPHERS_SERVED: [&str; 11] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Go's other suites: CBC, RC4, 3DES, and RSA without forward secrecy.
const CIPHERS_NOT_SERVED: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Returns the suites that can be served; what is known but can't be is noted.
fn cipher_suites(names: &[String], notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let known = |name: &&String| CIPHERS_NOT_SERVED.contains(&name.as_str());
    let served = |name: &&String| CIPHERS_SERVED.contains(&name.as_str());
    if let Some(odd) = names.iter().find(|name| !known(name) && !served(name)) {
        return Err(format!("Cipher suite {odd} not supported or doesn't exist"));
    }
    let weak: Vec<&str> = names.iter().filter(known).map(String::as_str).collect();
    let strong: Vec<String> = names.iter().filter(served).cloned().collect();
    if weak.is_empty() {
        return Ok(strong);
    }
    let weak = weak.join(", ");
    if strong.is_empty() {
        return Err(format!("--tls-cipher-suites: none of them is served: {weak}"));
    }
    notes.push(format!("--tls-cipher-suites: not served: {weak}"));
    Ok(strong)
}

/// Go's numbers of P-256, P-384, P-521, X25519 and X25519MLKEM768.
const CURVES: [i32; 5] = [23, 24, 25, 29, 4588];

fn curves(ids: &[String]) -> Result<Vec<i32>, String> {
    let mut curves = Vec::new();
    for id in ids {
        let curve: i32 = id
            .trim()
            .parse()
            .map_err(|_| format!("--tls-curve-preferences: {id:?} is no number"))?;
        if !CURVES.contains(&curve) {
            return Err(format!("curve preference {curve} is not supported"));
        }
        if curves.contains(&curve) {
            return Err(format!("duplicate curve preference {curve}"));
        }
        curves.push(curve);
    }
    Ok(curves)
}
