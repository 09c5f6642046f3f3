//! A running etcd and kube-apiserver.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::binaries::{Binaries, stand_folder};
use crate::client::ApiClient;
use crate::error::{StandError, with_sources};
use crate::folder::Folder;
use crate::options::{ADMIN, Options, User};
use crate::server::{Server, start_on_free_ports};
use crate::wait::try_wait_for;
use crate::{apiserver, etcd};

/// The server makes its own namespaces at its leisure once it is ready.
const NAMESPACE_DEADLINE: Duration = Duration::from_secs(30);

/// An etcd and a kube-apiserver of their own on free loopback ports, with their data in a folder of
/// their own.
///
/// Dropping it kills both and removes the folder. Cost: about 2 s and 300 MB.
pub struct Stand {
    // In the order in which they are to end.
    apiserver: Server,
    etcd: Server,
    folder: Folder,
    binaries: Binaries,
    feature_gates: String,
    url: String,
    etcd_url: String,
    ca_pem: String,
    client: ApiClient,
}

impl Stand {
    /// Builds the programs if need be, starts both servers and waits until the namespace `default`
    /// is there.
    ///
    /// # Errors
    /// [`StandError::NoGo`] if the programs can be neither found nor built; the others say what
    /// failed, with the end of the log.
    pub fn start(options: &Options) -> Result<Self, StandError> {
        let binaries = Binaries::locate()?;
        let folder = Folder::create(&stand_folder().join("run"))?;
        let path = folder.path();
        apiserver::write_files(path, options)?;

        let (etcd, [etcd_port, _]) =
            start_on_free_ports(|ports| etcd::server(&binaries.etcd, path, ports))?;
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let (apiserver, [port]) = start_on_free_ports(|[port]| {
            apiserver::server(&binaries.kube_apiserver, path, options, &etcd_url, port)
        })?;

        let url = apiserver::url(port);
        let ca_file = apiserver::ca_file(path);
        let ca_pem = fs::read_to_string(&ca_file).map_err(StandError::at(&ca_file))?;
        let client = ApiClient::new(&url, &ca_pem, &User::token(ADMIN))?;
        let stand = Self {
            apiserver,
            etcd,
            folder,
            binaries,
            feature_gates: options.feature_gates.clone(),
            url,
            etcd_url,
            ca_pem,
            client,
        };
        stand.wait_for_default_namespace()?;
        Ok(stand)
    }

    /// Starts a stand for a test, or says on stderr why the test is skipped: neither Go nor
    /// `KUBEBUILDER_ASSETS`.
    ///
    /// # Panics
    /// When the stand cannot be started for any other reason.
    #[track_caller]
    pub fn start_or_skip(options: &Options) -> Option<Self> {
        match Self::start(options) {
            Ok(stand) => Some(stand),
            Err(error @ StandError::NoGo) => {
                let thread = std::thread::current();
                eprintln!("skipped {}: {error}", thread.name().unwrap_or("test"));
                None
            }
            Err(error) => panic!("the stand does not start: {}", with_sources(&error)),
        }
    }

    /// Returns the address of the API server, such as `https://127.0.0.1:41234`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address of etcd, which asks for no credentials. Kubernetes' keys begin with
    /// `/registry/`.
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// Returns the certificates that the API server's is to be judged by.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns the API server's certificate for 127.0.0.1 and its key, for others that serve there.
    pub fn serving_files(&self) -> (PathBuf, PathBuf) {
        let certificate = apiserver::ca_file(self.folder());
        let key = certificate.with_extension("key");
        (certificate, key)
    }

    pub fn admin_token(&self) -> String {
        User::token(ADMIN)
    }

    /// Returns the token of a user named in the options. The server answers 401 to any other.
    pub fn token(&self, user: &str) -> String {
        User::token(user)
    }

    /// Writes a kubeconfig of [`ADMIN`] or a user named in the options, and returns its path. It is
    /// gone with the stand.
    ///
    /// # Errors
    /// [`StandError::File`].
    pub fn kubeconfig_path(&self, user: &str) -> Result<PathBuf, StandError> {
        self.write_kubeconfig(user, &self.token(user))
    }

    /// Writes a kubeconfig with this token, named after the user.
    pub(crate) fn write_kubeconfig(&self, user: &str, token: &str) -> Result<PathBuf, StandError> {
        let path = self.folder().join(format!("kubeconfig-{user}"));
        let cluster = json!({
            "server": self.url,
            "certificate-authority": apiserver::ca_file(self.folder()),
        });
        // JSON is YAML.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stand", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "stand", "context": {"cluster": "stand", "user": user}}],
            "current-context": "stand",
        });
        fs::write(&path, format!("{config:#}\n")).map_err(StandError::at(&path))?;
        Ok(path)
    }

    /// Returns a client that is [`ADMIN`].
    pub fn client(&self) -> ApiClient {
        self.client.clone()
    }

    /// Returns a client that is a user named in the options.
    ///
    /// # Errors
    /// [`StandError::Certificate`] never in practice: the server has started with it.
    pub fn client_as(&self, user: &str) -> Result<ApiClient, StandError> {
        ApiClient::new(&self.url, &self.ca_pem, &self.token(user))
    }

    /// Returns the folder of logs, keys and data. A test may put files of its own there; all is
    /// gone with the stand.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process ids of what runs: etcd, then kube-apiserver.
    pub fn pids(&self) -> Vec<u32> {
        let servers = [&self.etcd, &self.apiserver];
        servers.into_iter().filter_map(Server::pid).collect()
    }

    /// Kills the API server without warning.
    pub fn kill_apiserver(&mut self) {
        self.apiserver.kill();
    }

    /// Kills the API server if it runs, starts it on the same port with the same data, and waits
    /// until it is ready.
    ///
    /// # Errors
    /// As [`Stand::start`]; [`StandError::PortTaken`] if the port is no longer free.
    pub fn restart_apiserver(&mut self) -> Result<(), StandError> {
        self.apiserver.kill();
        self.apiserver.start()
    }

    /// Kills etcd without warning.
    pub fn kill_etcd(&mut self) {
        self.etcd.kill();
    }

    /// Kills etcd if it runs, starts it on the same ports with the same data, and waits until it is
    /// ready.
    ///
    /// The API server needs a moment to find it again: ask until it answers.
    ///
    /// # Errors
    /// As [`Stand::restart_apiserver`].
    pub fn restart_etcd(&mut self) -> Result<(), StandError> {
        self.etcd.kill();
        self.etcd.start()
    }

    /// Sends the API server a signal such as `STOP`; nothing happens if it does not run.
    ///
    /// # Errors
    /// As [`crate::Process::signal`].
    pub fn signal_apiserver(&self, signal: &'static str) -> Result<(), StandError> {
        self.apiserver.signal(signal)
    }

    /// The same for etcd.
    ///
    /// # Errors
    /// As [`Stand::signal_apiserver`].
    pub fn signal_etcd(&self, signal: &'static str) -> Result<(), StandError> {
        self.etcd.signal(signal)
    }

    /// Lets etcd forget what was before this revision, on disk too. A watch from there is 410 once
    /// the API server has to ask etcd for it: its own cache outlives this, but not a restart.
    ///
    /// # Errors
    /// [`StandError::Api`] if the revision is compacted already, or does not exist yet.
    pub fn compact(&self, revision: i64) -> Result<(), StandError> {
        let request = json!({"revision": revision.to_string(), "physical": true});
        ApiClient::plain(&self.etcd_url)?.create("/v3/kv/compaction", &request)?;
        Ok(())
    }

    /// Ends both servers and removes the folder, as dropping does.
    pub fn stop(self) {}

    /// Returns the programs that this stand was started from.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Returns the feature gates that it was started with; a kube-scheduler wants the same.
    pub fn feature_gates(&self) -> &str {
        &self.feature_gates
    }

    /// Returns the server's audit log, which is there if the options asked for one.
    pub fn audit_log(&self) -> PathBuf {
        apiserver::audit_log(self.folder())
    }

    fn wait_for_default_namespace(&self) -> Result<(), StandError> {
        let path = "/api/v1/namespaces/default";
        let found = try_wait_for(NAMESPACE_DEADLINE, path, || self.client.get(path).ok());
        match found {
            Ok(_) => Ok(()),
            // The last answer says more than that time is up.
            Err(_) => Ok(self.client.get(path).map(drop)?),
        }
    }
}
