//! Which CAs vouch for clients and front proxies: files, or the ConfigMap that the API server
//! publishes.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::x509::ClientCa;
use super::{AuthenticationOptions, RequestHeaderOptions, ServeError};
use crate::live::client::{Api, Call};

const CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const LIMIT: Duration = Duration::from_secs(10);
/// A lookup that failed is tried again so soon.
const AGAIN: Duration = Duration::from_secs(10);

/// A front proxy: who may speak for others, and in which headers.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) ca: ClientCa,
    pub(super) allowed_names: Vec<String>,
    pub(super) username_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_headers_prefix: Vec<String>,
}

/// Who vouches at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    pub(super) client_ca: Option<ClientCa>,
    pub(super) proxy: Option<Proxy>,
}

#[derive(Debug, Default)]
pub(super) struct TrustStore(RwLock<Arc<Trust>>);

impl TrustStore {
    pub(super) fn current(&self) -> Arc<Trust> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Trust)) {
        let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut trust = Trust::clone(&place);
        change(&mut trust);
        *place = Arc::new(trust);
    }
}

/// Keeps a [`TrustStore`] up to date.
pub(super) struct Delegation {
    options: AuthenticationOptions,
    /// None: nothing is looked up.
    api: Option<Api>,
    trust: Arc<TrustStore>,
    /// What was read last, so that nothing is made anew without a change.
    client_ca_pem: Option<Vec<u8>>,
    proxy_ca_pem: Option<Vec<u8>>,
    config_map: Value,
    next_lookup: Instant,
    told: String,
}

impl Delegation {
    pub(super) fn new(
        options: &AuthenticationOptions,
        api: Option<Api>,
        trust: Arc<TrustStore>,
    ) -> Delegation {
        let given =
            options.client_ca_file.is_some() && options.request_header.client_ca_file.is_some();
        let api = api.filter(|_| !options.skip_lookup && !given);
        Delegation {
            options: options.clone(),
            api,
            trust,
            client_ca_pem: None,
            proxy_ca_pem: None,
            config_map: Value::Null,
            next_lookup: Instant::now(),
            told: String::new(),
        }
    }

    /// Reads everything once.
    ///
    /// # Errors
    /// A file that can't be used, always; a failed lookup, unless that is tolerated.
    pub(super) async fn begin(mut self) -> Result<Delegation, ServeError> {
        self.read_files()?;
        match self.look_up().await {
            Err(problem) if !self.options.tolerate_lookup_failure => {
                Err(ServeError::Lookup(problem))
            }
            outcome => {
                self.note(outcome);
                Ok(self)
            }
        }
    }

    /// Goes on reading; never returns. What can't be read leaves the last state.
    pub(super) async fn follow(mut self) {
        loop {
            tokio::time::sleep(self.options.reload_every.min(self.options.lookup_every)).await;
            if let Err(problem) = self.read_files() {
                self.tell(format!("{problem}"));
            }
            if Instant::now() >= self.next_lookup {
                let outcome = self.look_up().await;
                self.note(outcome);
            }
        }
    }

    fn note(&mut self, outcome: Result<(), String>) {
        let every = self.options.lookup_every;
        self.next_lookup = Instant::now() + if outcome.is_ok() { every } else { every.min(AGAIN) };
        match outcome {
            Ok(()) => self.told.clear(),
            Err(problem) => self.tell(format!(
                "kube-system/extension-apiserver-authentication: {problem}; client certificates \
                 and front proxies count as far as they are known"
            )),
        }
    }

    /// Says each problem once.
    fn tell(&mut self, problem: String) {
        if self.told != problem {
            warn!("{problem}");
            self.told = problem;
        }
    }

    fn read_files(&mut self) -> Result<(), ServeError> {
        if let Some(path) = &self.options.client_ca_file {
            let pem = read(path)?;
            if self.client_ca_pem.as_ref() != Some(&pem) {
                let ca = ClientCa::from_pem(&pem).map_err(|problem| file(path, problem))?;
                self.trust.change(|trust| trust.client_ca = Some(ca));
                self.client_ca_pem = Some(pem);
                info!(path = %path.display(), "client CA read");
            }
        }
        if let Some(path) = &self.options.request_header.client_ca_file {
            let pem = read(path)?;
            if self.proxy_ca_pem.as_ref() != Some(&pem) {
                let ca = ClientCa::from_pem(&pem).map_err(|problem| file(path, problem))?;
                let proxy = proxy_of_flags(ca, &self.options.request_header);
                self.trust.change(|trust| trust.proxy = Some(proxy));
                self.proxy_ca_pem = Some(pem);
                info!(path = %path.display(), "front proxy CA read");
            }
        }
        Ok(())
    }

    /// Reads the ConfigMap for what no file says.
    async fn look_up(&mut self) -> Result<(), String> {
        let Some(api) = &self.api else { return Ok(()) };
        let answer = api.call(&Call::get(CONFIG_MAP.to_owned()), LIMIT).await;
        let answer = answer.map_err(|problem| problem.message().to_owned())?;
        if !answer.status.is_success() {
            return Err(answer.failure().message);
        }
        let map: Value = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
        let data = &map["data"];
        if *data == self.config_map {
            return Ok(());
        }
        let found = read_config_map(data)?;
        self.trust.change(|trust| {
            if self.options.client_ca_file.is_none() && found.client_ca.is_some() {
                trust.client_ca = found.client_ca;
            }
            if self.options.request_header.client_ca_file.is_none() && found.proxy.is_some() {
                trust.proxy = found.proxy;
            }
        });
        self.config_map = data.clone();
        info!("client CAs read from kube-system/extension-apiserver-authentication");
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|problem| file(path, problem.to_string()))
}

fn file(path: &Path, problem: String) -> ServeError {
    ServeError::File { what: path.display().to_string(), problem }
}

fn proxy_of_flags(ca: ClientCa, options: &RequestHeaderOptions) -> Proxy {
    Proxy {
        ca,
        allowed_names: options.allowed_names.clone(),
        username_headers: options.username_headers.clone(),
        uid_headers: options.uid_headers.clone(),
        group_headers: options.group_headers.clone(),
        extra_headers_prefix: options.extra_headers_prefix.clone(),
    }
}

/// Reads the data; each CA is optional.
fn read_config_map(data: &Value) -> Result<Trust, String> {
    let ca = |key: &str| -> Result<Option<ClientCa>, String> {
        let pem = data[key].as_str().filter(|pem| !pem.is_empty());
        let ca = pem.map(|pem| ClientCa::from_pem(pem.as_bytes())).transpose();
        ca.map_err(|problem| format!("{key}: {problem}"))
    };
    let list = |key: &str| -> Result<Vec<String>, String> {
        let text = data[key].as_str().unwrap_or("[]");
        serde_json::from_str(text).map_err(|problem| format!("{key}: {problem}"))
    };
    let proxy = match ca("requestheader-client-ca-file")? {
        None => None,
        Some(ca) => Some(Proxy {
            ca,
            allowed_names: list("requestheader-allowed-names")?,
            username_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_headers_prefix: list("requestheader-extra-headers-prefix")?,
        }),
    };
    Ok(Trust { client_ca: ca("client-ca-file")?, proxy })
}
