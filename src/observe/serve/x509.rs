//! What client certificates say, and whether a CA vouches for it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The attribute in which a user's UID may stand.
/// Source: apimachinery/pkg/util/asn1, X509UID.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// Certificates that others are judged by.
#[derive(Clone)]
pub(super) struct ClientCa {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCa")
    }
}

impl ClientCa {
    /// Reads a PEM bundle.
    ///
    /// # Errors
    /// The text of what is wrong: broken PEM, or no certificate that can be used.
    pub(super) fn from_pem(pem: &[u8]) -> Result<ClientCa, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = certificates.map_err(|problem| problem.to_string())?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|problem| problem.to_string())?;
        Ok(ClientCa { verifier })
    }

    /// Checks signatures, dates and that the certificate is one for clients.
    ///
    /// # Errors
    /// The text of what is wrong.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let (first, intermediates) = chain.split_first().ok_or("no certificate")?;
        let verified = self.verifier.verify_client_cert(first, intermediates, UnixTime::now());
        verified.map(drop).map_err(|problem| problem.to_string())
    }
}

/// Whom a certificate names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// Empty if it has none.
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
    pub(super) uid: String,
}

/// Reads the subject; of several common names the last one counts, as in Go.
///
/// # Errors
/// The text of what can't be read: a name that is left out could be the one that matters.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> Result<Subject, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|e| e.to_string())?;
    let unreadable = |_| "a subject that is no text".to_owned();
    let mut subject = Subject::default();
    for name in certificate.subject().iter_common_name() {
        subject.common_name = name.as_str().map_err(unreadable)?.to_owned();
    }
    for name in certificate.subject().iter_organization() {
        subject.organizations.push(name.as_str().map_err(unreadable)?.to_owned());
    }
    for attribute in certificate.subject().iter_attributes() {
        if attribute.attr_type().to_id_string() == UID_OID {
            if !subject.uid.is_empty() {
                return Err("more than one UID".to_owned());
            }
            subject.uid = attribute.as_str().map_err(unreadable)?.to_owned();
        }
    }
    Ok(subject)
}

/// Returns the DNS names and addresses that a server's certificate is for.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common.map(str::to_owned).collect();
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else { return names };
    for name in &alternatives.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => names.extend(address(bytes)),
            _ => {}
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6()).ok().map(|address| address.to_string())
}
