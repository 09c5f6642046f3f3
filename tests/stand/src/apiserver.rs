//! How kube-apiserver is started.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

use crate::error::StandError;
use crate::http::Transport;
use crate::options::{ADMIN, Options, User};
use crate::server::Server;

/// No controllers run: nobody would make service accounts, or take the not-ready taint off a new
/// node.
const DISABLED_ADMISSION: &str = "ServiceAccount,TaintNodesByCondition";

/// A request is noted when it has come in and when it was answered, so one that was cut off shows.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata}]
";

/// Returns where the server writes its certificate, followed by that of the CA that signed it, when
/// it starts.
pub(crate) fn ca_file(folder: &Path) -> PathBuf {
    folder.join("certs").join("apiserver.crt")
}

/// Writes the service account key and the token file.
///
/// # Errors
/// [`StandError::Key`], [`StandError::File`].
pub(crate) fn write_files(folder: &Path, options: &Options) -> Result<(), StandError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(StandError::Key)?;
    write(&key_file(folder), &key.serialize_pem())?;
    write(&public_key_file(folder), &key.public_key_pem())?;
    let admin = User { name: ADMIN.to_owned(), groups: vec!["system:masters".to_owned()] };
    let users = std::iter::once(&admin).chain(&options.users);
    write(&audit_policy(folder), AUDIT_POLICY)?;
    write(&tokens_file(folder), &users.map(token_line).collect::<String>())
}

/// Describes a server on `port` that keeps its objects in the etcd at `etcd_url` and its files in
/// `folder`.
///
/// # Errors
/// None of its own; the signature is that of all descriptions.
pub(crate) fn server(
    binary: &Path,
    folder: &Path,
    options: &Options,
    etcd_url: &str,
    port: u16,
) -> Result<Server, StandError> {
    let ca_file = ca_file(folder);
    let ready_url = format!("{}/readyz", url(port));
    Ok(Server {
        name: "kube-apiserver",
        binary: binary.to_path_buf(),
        args: args(folder, options, etcd_url, port),
        log: folder.join("kube-apiserver.log"),
        is_ready: Box::new(move || is_ready(&ca_file, &ready_url)),
        process: None,
    })
}

/// Returns the server's address.
pub(crate) fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn is_ready(ca_file: &Path, ready_url: &str) -> bool {
    let ca_pem = fs::read(ca_file).ok();
    let http = ca_pem.and_then(|ca_pem| Transport::new(Some(&ca_pem)).ok());
    http.is_some_and(|http| http.answers_ok(ready_url, Some(&User::token(ADMIN))))
}

fn args(folder: &Path, options: &Options, etcd_url: &str, port: u16) -> Vec<String> {
    let mut args = vec![
        format!("--etcd-servers={etcd_url}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--cert-dir={}", folder.join("certs").display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", public_key_file(folder).display()),
        format!("--service-account-signing-key-file={}", key_file(folder).display()),
        format!("--token-auth-file={}", tokens_file(folder).display()),
        format!("--authorization-mode={}", options.authorization.mode()),
        format!("--disable-admission-plugins={DISABLED_ADMISSION}"),
    ];
    if !options.feature_gates.is_empty() {
        args.push(format!("--feature-gates={}", options.feature_gates));
    }
    if !options.runtime_config.is_empty() {
        args.push(format!("--runtime-config={}", options.runtime_config));
    }
    if options.keep_history {
        args.push("--etcd-compaction-interval=0".to_owned());
    }
    if options.json_storage {
        args.push("--storage-media-type=application/json".to_owned());
    }
    if options.audit_log {
        args.push(format!("--audit-policy-file={}", audit_policy(folder).display()));
        args.push(format!("--audit-log-path={}", audit_log(folder).display()));
        // Each line is written before the request goes on. Files are put away at 100 GB.
        args.push("--audit-log-mode=blocking".to_owned());
        args.push("--audit-log-maxsize=100000".to_owned());
    }
    args.extend(options.apiserver_flags.iter().cloned());
    args
}

/// One line of the token file: token, user, uid, groups.
fn token_line(user: &User) -> String {
    let (name, token) = (&user.name, User::token(&user.name));
    format!("{token},{name},{name},\"{}\"\n", user.groups.join(","))
}

fn key_file(folder: &Path) -> PathBuf {
    folder.join("service-account.key")
}

fn public_key_file(folder: &Path) -> PathBuf {
    folder.join("service-account.pub")
}

pub(crate) fn audit_log(folder: &Path) -> PathBuf {
    folder.join("audit.log")
}

fn audit_policy(folder: &Path) -> PathBuf {
    folder.join("audit-policy.yaml")
}

fn tokens_file(folder: &Path) -> PathBuf {
    folder.join("tokens.csv")
}

fn write(path: &Path, text: &str) -> Result<(), StandError> {
    fs::write(path, text).map_err(StandError::at(path))
}
