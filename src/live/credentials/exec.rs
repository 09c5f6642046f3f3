//! Credential plugins: a program that prints an ExecCredential.
//!
//! Source: client-go 0.37, plugin/pkg/client/auth/exec.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

/// A plugin that takes longer is ended. client-go waits for ever.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
const LEEWAY: Duration = Duration::from_secs(10);

/// What a plugin has issued.
#[derive(Clone)]
pub(super) struct Issued {
    pub(super) token: Option<SecretString>,
    /// Certificate and key, PEM.
    pub(super) identity: Option<(String, SecretString)>,
    /// None: it holds until the server refuses it.
    expires: Option<Timestamp>,
    at: Timestamp,
}

impl Issued {
    pub(super) fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| Timestamp::now() >= expires)
    }

    /// Returns how long until it should be replaced: a little before it expires.
    pub(super) fn lasts(&self) -> Option<Duration> {
        let expires = self.expires?;
        let life = Duration::try_from(expires.duration_since(self.at)).unwrap_or_default();
        let left = Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default();
        Some(left.saturating_sub(LEEWAY.min(life / 10)))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs the plugin.
///
/// # Errors
/// What is wrong with it, without anything that it has printed to stdout.
pub(super) async fn run(config: ExecConfig) -> Result<Issued, String> {
    let name = config.command.clone().unwrap_or_default();
    let ran = tokio::task::spawn_blocking(move || issue(&config)).await;
    ran.map_err(|panic| panic.to_string()).flatten().map_err(|p| format!("exec plugin {name}: {p}"))
}

fn issue(config: &ExecConfig) -> Result<Issued, String> {
    if config.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err("interactiveMode Always: standard input is not a terminal".to_owned());
    }
    let printed = output(command(config)?.spawn().map_err(|error| error.to_string())?)?;
    // Plugins may print YAML, and JSON is YAML.
    let credential: ExecCredential = serde_saphyr::from_slice(&printed)
        .map_err(|_| "what it printed is no ExecCredential".to_owned())?;
    let expected = config.api_version.as_deref().unwrap_or_default();
    if credential.api_version != expected {
        let printed = credential.api_version;
        return Err(format!("configured for {expected}, but it printed {printed:?}"));
    }
    issued(credential.status.ok_or("it printed no status")?)
}

fn issued(status: Status) -> Result<Issued, String> {
    let nonempty = |text: Option<String>| text.filter(|text| !text.is_empty());
    let certificate = nonempty(status.client_certificate_data);
    let identity = match (certificate, nonempty(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some((certificate, SecretString::from(key))),
        (None, None) => None,
        _ => return Err("it printed only one of certificate and key".to_owned()),
    };
    let token = nonempty(status.token).map(SecretString::from);
    if identity.is_none() && token.is_none() {
        return Err("it printed neither a token nor a certificate with its key".to_owned());
    }
    let expires = nonempty(status.expiration_timestamp).map(|text| text.parse()).transpose();
    let expires = expires.map_err(|error| format!("expirationTimestamp: {error}"))?;
    Ok(Issued { token, identity, expires, at: Timestamp::now() })
}

fn command(config: &ExecConfig) -> Result<Command, String> {
    let mut command = Command::new(config.command.as_ref().ok_or("it has no command")?);
    command.args(config.args.iter().flatten());
    for variable in config.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let mut info = json!({
        "apiVersion": config.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": false},
    });
    if config.provide_cluster_info {
        info["spec"]["cluster"] = json!(config.cluster);
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    // Its complaints belong in our log.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    Ok(command)
}

fn output(mut child: Child) -> Result<Vec<u8>, String> {
    let stdout = child.stdout.take();
    let read = std::thread::spawn(move || {
        let mut printed = Vec::new();
        stdout.map(|mut stdout| stdout.read_to_end(&mut printed));
        printed
    });
    let ends = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() < ends => std::thread::sleep(LOOK),
            None => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no end after {} s", PATIENCE.as_secs()));
            }
        }
    };
    if !status.success() {
        return Err(status.to_string());
    }
    read.join().map_err(|_| "its output can't be read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn plugin(script: &str) -> Result<Issued, String> {
        issue(&ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("/bin/sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            env: Some(vec![
                [("name", "WHO"), ("value", "me")].map(|(k, v)| (k.into(), v.into())).into(),
            ]),
            drop_env: None,
            install_hint: None,
            interactive_mode: None,
            provide_cluster_info: false,
            cluster: None,
            other: Default::default(),
        })
    }

    fn printing(status: &str) -> Result<Issued, String> {
        plugin(&format!(
            "echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{status}}}'"
        ))
    }

    #[test]
    fn it_is_told_what_is_wanted_and_issues_a_token() {
        let script = r#"echo "$KUBERNETES_EXEC_INFO" | grep -q '"interactive":false' || exit 3
            echo "{apiVersion: client.authentication.k8s.io/v1, status: {token: of-$WHO}}""#;
        let issued = plugin(script).unwrap();
        assert_eq!(issued.token.unwrap().expose_secret(), "of-me");
        assert_eq!(issued.expires, None);
    }

    #[test]
    fn one_that_expires_is_replaced_before() {
        let issued = printing(r#"{"token":"t","expirationTimestamp":"2100-01-01T00:00:00Z"}"#);
        let issued = issued.unwrap();
        assert!(!issued.has_expired() && issued.lasts() > Some(Duration::from_secs(3600)));
        let issued = printing(r#"{"token":"t","expirationTimestamp":"2000-01-01T00:00:00Z"}"#);
        let issued = issued.unwrap();
        assert!(issued.has_expired() && issued.lasts() == Some(Duration::ZERO));
    }

    #[test]
    fn what_goes_wrong_is_said_without_secrets() {
        let problem = |issued: Result<Issued, String>| issued.err().unwrap();
        assert!(problem(printing("null")).contains("no status"));
        assert!(problem(printing("{}")).contains("neither a token"));
        assert!(problem(printing(r#"{"clientKeyData":"secret"}"#)).contains("only one of"));
        let odd = problem(plugin("echo 'apiVersion: other/v1'"));
        assert!(odd.contains("other/v1"), "{odd}");
        assert!(
            problem(plugin("echo secret: [; exit 0")) == "what it printed is no ExecCredential"
        );
        assert!(problem(plugin("exit 7")).contains('7'));
    }
}
