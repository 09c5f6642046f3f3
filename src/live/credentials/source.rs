//! Where credentials come from: the kubeconfig with the files that it names, or the pod's own
//! service account.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use secrecy::{ExposeSecret, SecretString};

use super::exec::{self, Issued};
use super::proxy::Proxy;
use crate::live::client::{ConnectError, Target, with_sources};

/// Everything that a connection is made of, read at one moment.
pub(super) struct Loaded {
    /// With the contents of all certificate files, without tokens.
    pub(super) config: kube::Config,
    pub(super) proxy: Option<Proxy>,
    pub(super) authorization: Option<HeaderValue>,
    /// What a plugin has issued, if there is one.
    pub(super) issued: Option<Issued>,
}

impl Loaded {
    /// Reads everything anew; `issued` is used as long as it holds.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, the address or the credentials.
    pub(super) async fn read(
        target: &Target,
        issued: Option<Issued>,
    ) -> Result<Loaded, ConnectError> {
        let (mut config, proxy) = config(target).await?;
        let server = server_name(&config.cluster_url);
        let wrong = |problem| ConnectError::Credentials { server: server.clone(), problem };
        let auth = &mut config.auth_info;
        if auth.auth_provider.is_some() {
            return Ok(Loaded { config, proxy, authorization: None, issued: None });
        }
        let issued = match auth.exec.take() {
            None => None,
            Some(_) if issued.as_ref().is_some_and(|issued| issued.lasts() != ZERO) => issued,
            Some(plugin) => Some(exec::run(plugin).await.map_err(wrong)?),
        };
        if let Some((certificate, key)) = issued.as_ref().and_then(|it| it.identity.as_ref()) {
            auth.client_certificate_data = Some(encoded(certificate));
            auth.client_key_data = Some(encoded(key.expose_secret()).into());
        }
        inline_files(auth).map_err(wrong)?;
        let authorization = authorization(auth, issued.as_ref()).map_err(wrong)?;
        Ok(Loaded { config, proxy, authorization, issued })
    }

    /// Returns what a pool is made of; another one means another pool.
    pub(super) fn place(&self) -> Place {
        let config = &self.config;
        let auth = &config.auth_info;
        let key = auth.client_key_data.as_ref().map(|key| key.expose_secret().to_owned());
        Place {
            url: config.cluster_url.clone(),
            root_cert: config.root_cert.clone(),
            insecure: config.accept_invalid_certs,
            server_name: config.tls_server_name.clone(),
            proxy: self.proxy.as_ref().map(Proxy::identity),
            identity: (auth.client_certificate_data.clone(), key),
        }
    }
}

const ZERO: Option<std::time::Duration> = Some(std::time::Duration::ZERO);

/// See [`Loaded::place`].
#[derive(Clone, PartialEq)]
pub(super) struct Place {
    url: Uri,
    root_cert: Option<Vec<Vec<u8>>>,
    insecure: bool,
    server_name: Option<String>,
    proxy: Option<String>,
    identity: (Option<String>, Option<String>),
}

/// Reads the kubeconfig, or the pod's environment.
async fn config(target: &Target) -> Result<(kube::Config, Option<Proxy>), ConnectError> {
    let mut named_proxy = None;
    let mut config = match (&target.kubeconfig, &target.master) {
        (Some(path), _) => {
            let wrong = |problem: kube::config::KubeconfigError| ConnectError::Kubeconfig {
                path: path.display().to_string(),
                problem: first_line(&problem.to_string()),
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
            named_proxy = proxy_of(&kubeconfig);
            let options = KubeConfigOptions::default();
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?
        }
        (None, Some(_)) => kube::Config::new(Uri::from_static("http://localhost")),
        (None, None) => kube::Config::incluster_env()
            .map_err(|problem| ConnectError::NotInCluster(with_sources(&problem)))?,
    };
    if let Some(master) = &target.master {
        config.cluster_url = address(master)?;
    }
    let url = config.cluster_url.to_string();
    if !matches!(config.cluster_url.scheme_str(), Some("http" | "https")) {
        let problem = "must begin with https:// or http://".to_owned();
        return Err(ConnectError::Address { url, problem });
    }
    let proxy = Proxy::choose(named_proxy.as_deref(), &config.cluster_url)?;
    Ok((config, proxy))
}

/// Returns the `proxy-url` of the cluster that the current context names.
fn proxy_of(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    let cluster = &context.context.as_ref()?.cluster;
    let named = kubeconfig.clusters.iter().find(|named| named.name == *cluster)?;
    named.cluster.as_ref()?.proxy_url.clone()
}

/// Reads certificate and key now, so that a later reading can be compared. Contents count before
/// files, as in client-go.
fn inline_files(auth: &mut AuthInfo) -> Result<(), String> {
    let read = |path: &String| fs::read(path).map_err(|error| format!("{path}: {error}"));
    if let Some(path) = auth.client_certificate.take()
        && auth.client_certificate_data.is_none()
    {
        auth.client_certificate_data = Some(encoded(&read(&path)?));
    }
    if let Some(path) = auth.client_key.take()
        && auth.client_key_data.is_none()
    {
        auth.client_key_data = Some(encoded(&read(&path)?).into());
    }
    Ok(())
}

/// Returns the Authorization header, and takes what it is made of. A token file counts before a
/// token, as in client-go.
fn authorization(
    auth: &mut AuthInfo,
    issued: Option<&Issued>,
) -> Result<Option<HeaderValue>, String> {
    let inline = auth.token.take();
    let token = match auth.token_file.take() {
        Some(path) => Some(token_in(&path)?),
        None => inline.or_else(|| issued.and_then(|issued| issued.token.clone())),
    };
    let text = match (token, auth.username.take(), auth.password.take()) {
        (Some(token), _, _) => format!("Bearer {}", token.expose_secret()),
        (None, Some(user), Some(password)) => {
            format!("Basic {}", encoded(format!("{user}:{}", password.expose_secret())))
        }
        (None, _, _) => return Ok(None),
    };
    let value = HeaderValue::from_str(&text);
    let mut value = value.map_err(|_| "the token has characters that none can have".to_owned())?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn token_in(path: &str) -> Result<SecretString, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("token file {path}: {error}"))?;
    match text.trim() {
        "" => Err(format!("token file {path} is empty")),
        token => Ok(token.into()),
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// A YAML error goes on with the file's text, which may hold a token.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn address(url: &str) -> Result<Uri, ConnectError> {
    url.parse().map_err(|problem: http::uri::InvalidUri| ConnectError::Address {
        url: url.to_owned(),
        problem: problem.to_string(),
    })
}

/// Returns the address without what may be secret in it.
pub(super) fn server_name(url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}", url.scheme_str().unwrap_or("https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(auth: &mut AuthInfo) -> String {
        let value = authorization(auth, None).unwrap();
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[test]
    fn a_token_file_counts_before_a_token_and_that_before_a_password() {
        let path = std::env::temp_dir().join(format!("berth-token-{}", std::process::id()));
        fs::write(&path, "from-file\n").unwrap();
        let mut auth = AuthInfo {
            username: Some("u".into()),
            password: Some("p".to_owned().into()),
            token: Some("inline".to_owned().into()),
            token_file: Some(path.display().to_string()),
            ..AuthInfo::default()
        };
        assert_eq!(header(&mut auth.clone()), "Bearer from-file");
        fs::write(&path, " \n").unwrap();
        assert!(authorization(&mut auth.clone(), None).unwrap_err().ends_with("is empty"));
        fs::remove_file(&path).unwrap();
        auth.token_file = None;
        assert_eq!(header(&mut auth.clone()), "Bearer inline");
        auth.token = None;
        assert_eq!(header(&mut auth), "Basic dTpw");
    }

    #[tokio::test]
    async fn what_a_kubeconfig_says_of_tls_and_proxy_is_taken() {
        let path = std::env::temp_dir().join(format!("berth-kubeconfig-{}", std::process::id()));
        let text = "
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
clusters:
- name: c
  cluster:
    server: https://10.0.0.1:6443
    proxy-url: http://user:pw@10.0.0.2:3128
    tls-server-name: kubernetes.default
    insecure-skip-tls-verify: true
users: [{name: c, user: {token: t}}]
";
        fs::write(&path, text).unwrap();
        let target = Target { kubeconfig: Some(path.clone()), master: None };
        let loaded = Loaded::read(&target, None).await.unwrap();
        assert_eq!(loaded.config.tls_server_name.as_deref(), Some("kubernetes.default"));
        assert!(loaded.config.accept_invalid_certs && loaded.config.auth_info.token.is_none());
        assert!(matches!(loaded.proxy, Some(Proxy::Http(_))));
        let before = loaded.place();
        fs::write(&path, text.replace("10.0.0.2", "10.0.0.3")).unwrap();
        assert!(Loaded::read(&target, None).await.unwrap().place() != before);
        fs::remove_file(&path).unwrap();
    }
}
