//! The proxy's certificate of its own CA, and whom it trusts upstream.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::ProxyError;

pub(super) struct Tls {
    /// What clients must trust.
    pub(super) ca_pem: String,
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
    pub(super) server_name: ServerName<'static>,
}

impl Tls {
    /// Makes a CA and a certificate for loopback, and trusts `server_ca_pem` upstream.
    ///
    /// # Errors
    /// [`ProxyError::Certificate`], [`ProxyError::Tls`].
    pub(super) fn new(server_ca_pem: &str) -> Result<Tls, ProxyError> {
        let provider = Arc::new(ring::default_provider());
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate()?;
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(ca, ca_key);
        let leaf_key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        let leaf = leaf.signed_by(&leaf_key, &issuer)?;
        let key = PrivateKeyDer::try_from(leaf_key.serialize_der())
            .map_err(|problem| rustls::Error::General(problem.to_owned()))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        Ok(Tls {
            ca_pem,
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: connector(provider, server_ca_pem)?,
            server_name: ServerName::from(std::net::IpAddr::from([127, 0, 0, 1])),
        })
    }
}

/// No ALPN is offered, so the server speaks HTTP/1.1.
fn connector(provider: Arc<CryptoProvider>, ca_pem: &str) -> Result<TlsConnector, ProxyError> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(ca_pem.as_bytes());
    roots.add_parsable_certificates(certificates.flatten());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(client)))
}
