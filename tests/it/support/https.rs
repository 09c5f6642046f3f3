//! An HTTPS client for the secure port: HTTP/1.1 or 2, a client certificate, no trust needed.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Returns a free port of loopback. Somebody else may take it before Berth does; then Berth says so
/// and the test fails.
pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("its address")
}

/// A certificate authority for clients.
pub(crate) struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A client certificate with its key, PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Ca {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Ca(CertifiedIssuer::self_signed(params, key).expect("a CA"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate that serves clients and servers alike.
    pub(crate) fn sign(&self, common_name: &str, organization: &str) -> Identity {
        self.sign_for(common_name, organization, Duration::from_secs(86400))
    }

    /// As [`Ca::sign`]; the certificate expires after so long.
    pub(crate) fn sign_for(
        &self,
        common_name: &str,
        organization: &str,
        life: Duration,
    ) -> Identity {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
        params.not_after = (SystemTime::now() + life).into();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().expect("a key");
        let chain = params.signed_by(&key, &self.0).expect("a certificate").pem();
        Identity { chain, key: key.serialize_pem() }
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns a header's value; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A GET, by default without credentials over HTTP/1.1.
#[derive(Clone, Default)]
pub(crate) struct Ask {
    pub(crate) http2: bool,
    pub(crate) method: Method,
    pub(crate) identity: Option<Identity>,
    pub(crate) headers: Vec<(String, String)>,
    /// Bytes of a body of zeros, if there is no text.
    pub(crate) body: usize,
    pub(crate) text: String,
}

impl Ask {
    pub(crate) fn token(token: &str) -> Ask {
        Ask::default().with("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn certificate(identity: &Identity) -> Ask {
        Ask { identity: Some(identity.clone()), ..Ask::default() }
    }

    pub(crate) fn over_http2() -> Ask {
        Ask { http2: true, ..Ask::default() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A PUT of a text.
    pub(crate) fn put(self, text: &str) -> Ask {
        Ask { method: Method::PUT, text: text.to_owned(), ..self }
    }

    /// Opens a connection of its own, and returns status and body.
    pub(crate) async fn get(&self, to: SocketAddr, path: &str) -> (u16, String) {
        self.try_get(to, path).await.expect("an answer")
    }

    pub(crate) async fn try_get(
        &self,
        to: SocketAddr,
        path: &str,
    ) -> Result<(u16, String), Box<dyn std::error::Error>> {
        let answer = self.ask(to, path).await?;
        Ok((answer.status, answer.text()))
    }

    /// Opens a connection of its own and sends the request.
    pub(crate) async fn ask(
        &self,
        to: SocketAddr,
        path: &str,
    ) -> Result<Answer, Box<dyn std::error::Error>> {
        let stream = self.connect(to).await?;
        let negotiated = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        assert_eq!(negotiated, self.http2, "ALPN");
        let io = TokioIo::new(stream);
        let uri = if self.http2 { format!("https://localhost{path}") } else { path.to_owned() };
        let mut request = Request::builder().method(self.method.clone()).uri(uri);
        if !self.http2 {
            request = request.header("host", "localhost");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = if !self.text.is_empty() {
            Full::new(Bytes::from(self.text.clone())).boxed()
        } else if self.body == 0 {
            Empty::<Bytes>::new().boxed()
        } else {
            Full::new(Bytes::from(vec![0; self.body])).boxed()
        };
        let request = request.body(body)?;
        let response = if self.http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// Returns the stream after the handshake.
    pub(crate) async fn connect(&self, to: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("what the test itself has made")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes());
                let chain = chain.map(|certificate| certificate.expect("a certificate")).collect();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .expect("what the test itself has made");
                builder.with_client_auth_cert(chain, key).expect("what the test itself has made")
            }
        };
        let protocol: &[u8] = if self.http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(to).await?;
        let name = ServerName::try_from("localhost").expect("what the test itself has made");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
