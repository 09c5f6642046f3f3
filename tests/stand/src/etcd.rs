//! How etcd is started.

use std::path::Path;

use crate::error::StandError;
use crate::http::Transport;
use crate::server::Server;

/// 8 GiB: a long test keeps its whole history.
const QUOTA_BYTES: u64 = 8 << 30;

/// Describes an etcd of one member with its data in `folder`. It does not sync to disk: a killed
/// process loses nothing, a killed machine may.
///
/// # Errors
/// [`StandError::Certificate`] never in practice: there is no TLS here.
pub(crate) fn server(
    binary: &Path,
    folder: &Path,
    [client, peer]: [u16; 2],
) -> Result<Server, StandError> {
    let client_url = format!("http://127.0.0.1:{client}");
    let peer_url = format!("http://127.0.0.1:{peer}");
    let http = Transport::new(None)?;
    let ready_url = format!("{client_url}/readyz");
    Ok(Server {
        name: "etcd",
        binary: binary.to_path_buf(),
        args: vec![
            // A folder for each port: the member writes its peer address into its data.
            format!("--data-dir={}", folder.join(format!("etcd-{peer}")).display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--unsafe-no-fsync".to_owned(),
            format!("--quota-backend-bytes={QUOTA_BYTES}"),
            "--log-level=warn".to_owned(),
        ],
        log: folder.join("etcd.log"),
        is_ready: Box::new(move || http.answers_ok(&ready_url, None)),
        process: None,
    })
}
