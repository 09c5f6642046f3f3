//! How TLS is spoken: versions, suites, curves, and client certificates that are asked for, not
//! demanded.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ResolvesServerCertUsingSni;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, NamedGroup, ServerConfig, SignatureScheme,
    SupportedProtocolVersion, version,
};
use tracing::warn;

use super::{Http2Options, ServeError, TlsOptions};

/// What Go knows and ring doesn't: RSA key exchange and CBC.
const WEAK: [&str; 14] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
];
const WEAK_TOO: [&str; 2] =
    ["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"];

/// Returns the configuration without certificates: each connection brings its resolver.
///
/// # Errors
/// [`ServeError::Flag`] for a version, suite or curve that isn't one, or when nothing is left.
pub(super) fn server_config(
    options: &TlsOptions,
    http2: &Http2Options,
) -> Result<ServerConfig, ServeError> {
    let provider = Arc::new(provider(options)?);
    let verifier = Arc::new(AnyClient { algorithms: provider.signature_verification_algorithms });
    let versions = versions(&options.min_version)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|problem| flag("tls-cipher-suites", problem.to_string()))?;
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if !http2.disabled {
        config.alpn_protocols.insert(0, b"h2".to_vec());
    }
    Ok(config)
}

fn flag(flag: &'static str, problem: String) -> ServeError {
    ServeError::Flag { flag, problem }
}

fn versions(min: &str) -> Result<Vec<&'static SupportedProtocolVersion>, ServeError> {
    match min {
        "" | "VersionTLS12" => Ok(vec![&version::TLS13, &version::TLS12]),
        "VersionTLS13" => Ok(vec![&version::TLS13]),
        "VersionTLS10" | "VersionTLS11" => {
            warn!(asked = min, "--tls-min-version: TLS before 1.2 is not spoken; 1.2 it is");
            Ok(vec![&version::TLS13, &version::TLS12])
        }
        other => Err(flag(
            "tls-min-version",
            format!("{other:?} is none of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"),
        )),
    }
}

fn provider(options: &TlsOptions) -> Result<CryptoProvider, ServeError> {
    let mut provider = ring::default_provider();
    restrict_suites(&mut provider, &options.cipher_suites)?;
    restrict_curves(&mut provider, &options.curve_preferences)?;
    Ok(provider)
}

/// As in Go, the suites of TLS 1.3 can't be chosen: all stay.
fn restrict_suites(provider: &mut CryptoProvider, names: &[String]) -> Result<(), ServeError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut known: Vec<String> = Vec::new();
    for suite in &provider.cipher_suites {
        known.push(iana(suite.suite()));
    }
    for name in names {
        // Go kept an old name for these two.
        let asked = full_name(name);
        if known.contains(&asked) {
            continue;
        }
        if !WEAK.contains(&name.as_str()) && !WEAK_TOO.contains(&name.as_str()) {
            return Err(flag("tls-cipher-suites", format!("{name:?} is no cipher suite")));
        }
        warn!(suite = name, "--tls-cipher-suites: not supported, left out");
    }
    let asked: Vec<String> = names.iter().map(|name| full_name(name)).collect();
    provider
        .cipher_suites
        .retain(|suite| suite.tls13().is_some() || asked.contains(&iana(suite.suite())));
    Ok(())
}

/// rustls writes TLS13_AES_128_GCM_SHA256 for what IANA and Go call TLS_AES_128_GCM_SHA256.
fn iana(suite: rustls::CipherSuite) -> String {
    format!("{suite:?}").replace("TLS13_", "TLS_")
}

fn full_name(name: &str) -> String {
    match name {
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => {
            format!("{name}_SHA256")
        }
        _ => name.to_owned(),
    }
}

fn restrict_curves(provider: &mut CryptoProvider, ids: &[i32]) -> Result<(), ServeError> {
    if ids.is_empty() {
        return Ok(());
    }
    let supported: Vec<NamedGroup> = provider.kx_groups.iter().map(|group| group.name()).collect();
    let mut asked = Vec::new();
    for id in ids {
        let group = u16::try_from(*id).map(NamedGroup::from);
        match group {
            Ok(group) if supported.contains(&group) => asked.push(group),
            Ok(_) => warn!(curve = id, "--tls-curve-preferences: not supported, left out"),
            Err(_) => return Err(flag("tls-curve-preferences", format!("{id} is no CurveID"))),
        }
    }
    provider.kx_groups.retain(|group| asked.contains(&group.name()));
    if provider.kx_groups.is_empty() {
        let problem = format!("none of {ids:?} is supported: 23, 24 and 29 are");
        return Err(flag("tls-curve-preferences", problem));
    }
    Ok(())
}

/// Lets every client in that holds the key of its certificate. Whom it names is judged for each
/// request, by the CAs of that moment.
#[derive(Debug)]
struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(options: TlsOptions) -> String {
        let config = server_config(&options, &Http2Options::default());
        config.map(|_| String::new()).unwrap_or_else(|problem| problem.to_string())
    }

    #[test]
    fn flags_that_mean_nothing_are_named() {
        let suites = |name: &str| TlsOptions {
            cipher_suites: vec![name.to_owned()],
            ..TlsOptions::default()
        };
        assert_eq!(problem(suites("TLS_NO")), "--tls-cipher-suites: \"TLS_NO\" is no cipher suite");
        assert_eq!(problem(suites("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")), "");
        assert_eq!(problem(suites("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305")), "");
        assert_eq!(problem(suites("TLS_RSA_WITH_AES_128_CBC_SHA")), "");
        assert_eq!(problem(suites("TLS_AES_128_GCM_SHA256")), "");
        let version = TlsOptions { min_version: "TLS1".to_owned(), ..TlsOptions::default() };
        assert!(problem(version).starts_with("--tls-min-version: \"TLS1\" is none of"));
        let curves = TlsOptions { curve_preferences: vec![25], ..TlsOptions::default() };
        assert!(problem(curves).starts_with("--tls-curve-preferences: none of [25]"));
    }

    #[test]
    fn named_suites_leave_those_of_tls_1_3() {
        let options = TlsOptions {
            cipher_suites: vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned()],
            ..TlsOptions::default()
        };
        let suites = provider(&options).unwrap().cipher_suites;
        let old = suites.iter().filter(|suite| suite.tls13().is_none());
        assert_eq!(old.count(), 1);
        assert_eq!(suites.len(), 4);
    }
}
