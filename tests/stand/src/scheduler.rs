//! The real kube-scheduler, beside which ours is measured and compared.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::StandError;
use crate::options::ADMIN;
use crate::process::Process;
use crate::stand::Stand;

/// A running kube-scheduler without a port. Dropping it kills it.
pub struct KubeScheduler {
    process: Process,
}

impl KubeScheduler {
    /// Starts it as [`ADMIN`] with the feature gates of the stand and without leader election.
    ///
    /// Of a configuration file (YAML or JSON), clientConnection.kubeconfig and
    /// leaderElection.leaderElect are replaced. Returns before the first pod is looked at: it has
    /// no port to ask. Its output is `kube-scheduler.log` in the stand's folder.
    ///
    /// # Errors
    /// [`StandError::MissingBinary`], [`StandError::SchedulerConfig`], [`StandError::File`],
    /// [`StandError::Spawn`].
    pub fn start(stand: &Stand, config: Option<&Path>) -> Result<Self, StandError> {
        Self::start_with(stand, config, false, vec!["--secure-port=0".to_owned()])
    }

    /// As [`KubeScheduler::start`], but it runs for the Lease that the configuration names, and serves
    /// what `serving` says; with nothing there, on its own port.
    ///
    /// # Errors
    /// As [`KubeScheduler::start`].
    pub fn start_electing(
        stand: &Stand,
        config: Option<&Path>,
        serving: Vec<String>,
    ) -> Result<Self, StandError> {
        Self::start_with(stand, config, true, serving)
    }

    fn start_with(
        stand: &Stand,
        config: Option<&Path>,
        elect: bool,
        serving: Vec<String>,
    ) -> Result<Self, StandError> {
        let binary = &stand.binaries().kube_scheduler;
        if !binary.is_file() {
            return Err(StandError::MissingBinary { path: binary.clone() });
        }
        let config = completed(stand, config, elect)?;
        let mut args = vec![format!("--config={}", config.display())];
        args.extend(serving);
        if !stand.feature_gates().is_empty() {
            args.push(format!("--feature-gates={}", stand.feature_gates()));
        }
        let log = stand.folder().join("kube-scheduler.log");
        let process = Process::start("kube-scheduler", binary, &args, &log)?;
        Ok(Self { process })
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Tells whether it has ended, in whatever way.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// Returns the last lines of its log and, if it has ended, how.
    pub fn last_words(&mut self) -> String {
        let log = self.process.log_tail();
        match self.process.ended() {
            Some(status) => format!("{log}\n{status}"),
            None => log,
        }
    }
}

/// Writes the configuration that the scheduler is started with.
fn completed(stand: &Stand, config: Option<&Path>, elect: bool) -> Result<PathBuf, StandError> {
    let mut value = match config {
        Some(path) => read(path)?,
        None => json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }),
    };
    let kubeconfig = stand.kubeconfig_path(ADMIN)?;
    value["clientConnection"]["kubeconfig"] = json!(kubeconfig);
    value["leaderElection"]["leaderElect"] = json!(elect);
    let path = stand.folder().join("kube-scheduler.config");
    fs::write(&path, format!("{value:#}\n")).map_err(StandError::at(&path))?;
    Ok(path)
}

fn read(path: &Path) -> Result<Value, StandError> {
    let text = fs::read_to_string(path).map_err(StandError::at(path))?;
    let no_config = |source| StandError::SchedulerConfig { path: path.to_path_buf(), source };
    let value: Value = serde_saphyr::from_str(&text).map_err(|e| no_config(Box::new(e)))?;
    let is_section = |key: &str| value[key].is_null() || value[key].is_object();
    if value.is_object() && is_section("clientConnection") && is_section("leaderElection") {
        return Ok(value);
    }
    Err(no_config("it is no mapping of mappings".into()))
}
