//! Flags on files and the server's address, and the global ones.

use std::path::PathBuf;

use clap::ArgAction;

use super::values::{Shown, shown_option};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Misc flags")]
pub struct MiscFlags {
    /// The path to the configuration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address of the Kubernetes API server (overrides any value in kubeconfig)
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// If set, write the completed configuration to this file and exit
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,
    /// Print the version and quit; `--version=raw` prints its parts
    #[arg(
        long, value_name = "FORM", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = ArgAction::Set
    )]
    pub version: Option<String>,
}

impl MiscFlags {
    pub(super) fn shown(&self) -> Vec<Shown> {
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        };
        vec![
            ("config", path(&self.config)),
            ("help", "false".to_owned()),
            ("master", shown_option(self.master.as_ref())),
            ("version", self.version.clone().unwrap_or_else(|| "false".to_owned())),
            ("write-config-to", path(&self.write_config_to)),
        ]
    }

    /// Returns what `--version` prints, `None` if the process is to run.
    ///
    /// # Errors
    /// A form that is none of `true`, `false` and `raw`.
    pub fn version_text(&self) -> Result<Option<String>, String> {
        match self.version.as_deref() {
            None | Some("false") => Ok(None),
            Some("true") => Ok(Some(version())),
            Some("raw") => Ok(Some(raw_version())),
            Some(other) => Err(format!("--version: {other:?} is none of true, false, raw")),
        }
    }
}

/// The version of kube-scheduler whose flags, gates and configuration Berth takes.
pub const COMPATIBLE: (u32, u32) = (1, 37);

/// Returns the line of `--version`.
pub fn version() -> String {
    let (major, minor) = COMPATIBLE;
    let own = env!("CARGO_PKG_VERSION");
    format!("berth {own} (compatible with Kubernetes v{major}.{minor})")
}

fn raw_version() -> String {
    let (major, minor) = COMPATIBLE;
    let own = env!("CARGO_PKG_VERSION");
    format!(
        "version.Info{{Major:\"{major}\", Minor:\"{minor}\", GitVersion:\"v{major}.{minor}.0\", \
         Berth:\"{own}\", Platform:\"{}/{}\"}}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
