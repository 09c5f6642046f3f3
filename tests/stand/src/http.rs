//! HTTP requests, with a CA of our choice and no proxy.

use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, http};

use crate::error::StandError;

/// The server gives up on a request after 60 s by itself.
const TIMEOUT: Duration = Duration::from_secs(65);

/// The verbs that a client of the API uses; those that carry a body carry it here.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    Get,
    Post(&'a [u8]),
    Put(&'a [u8]),
    Patch(&'static str, &'a [u8]),
    Delete(&'a [u8]),
}

impl Request<'_> {
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post(_) => "POST",
            Self::Put(_) => "PUT",
            Self::Patch(..) => "PATCH",
            Self::Delete(_) => "DELETE",
        }
    }
}

/// A pool of connections. Clones share it.
#[derive(Clone)]
pub(crate) struct Transport {
    agent: Agent,
}

impl Transport {
    /// Makes a pool that trusts the certificates of `ca_pem`, and nothing else.
    ///
    /// # Errors
    /// [`StandError::Certificate`] if there is no certificate in it.
    pub(crate) fn new(ca_pem: Option<&[u8]>) -> Result<Self, StandError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(TIMEOUT))
            .user_agent("berth-stand");
        let config = match ca_pem {
            Some(pem) => config.tls_config(trusting(pem).map_err(StandError::Certificate)?),
            None => config,
        };
        Ok(Self { agent: config.build().new_agent() })
    }

    /// Returns status and body of the answer, whatever the status.
    ///
    /// # Errors
    /// When there is no complete answer.
    pub(crate) fn send(
        &self,
        request: Request<'_>,
        url: &str,
        token: Option<&str>,
    ) -> Result<(u16, Vec<u8>), ureq::Error> {
        let agent = &self.agent;
        let (builder, body, content_type) = match request {
            Request::Get => return get(agent, url, token),
            Request::Post(body) => (agent.post(url), body, "application/json"),
            Request::Put(body) => (agent.put(url), body, "application/json"),
            Request::Patch(content_type, body) => (agent.patch(url), body, content_type),
            Request::Delete(body) => {
                (agent.delete(url).force_send_body(), body, "application/json")
            }
        };
        let builder = builder.header("Content-Type", content_type);
        let builder = match token {
            Some(token) => builder.header("Authorization", format!("Bearer {token}")),
            None => builder,
        };
        answer(builder.send(body)?)
    }

    /// Whether a GET is answered with 200.
    pub(crate) fn answers_ok(&self, url: &str, token: Option<&str>) -> bool {
        self.send(Request::Get, url, token).is_ok_and(|(status, _)| status == 200)
    }
}

fn get(agent: &Agent, url: &str, token: Option<&str>) -> Result<(u16, Vec<u8>), ureq::Error> {
    let builder = agent.get(url);
    let builder = match token {
        Some(token) => builder.header("Authorization", format!("Bearer {token}")),
        None => builder,
    };
    answer(builder.call()?)
}

fn answer(mut response: http::Response<ureq::Body>) -> Result<(u16, Vec<u8>), ureq::Error> {
    let status = response.status().as_u16();
    // A list of thousands of pods is larger than the default limit of 10 MB.
    let body = response.body_mut().with_config().limit(u64::MAX);
    Ok((status, body.read_to_vec()?))
}

fn trusting(pem: &[u8]) -> Result<TlsConfig, ureq::Error> {
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(ureq::Error::Tls("no certificate in the CA file"));
    }
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&certificates))
        .build())
}
