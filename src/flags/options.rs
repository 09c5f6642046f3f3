//! What the flags and the configuration file come to together.

use std::path::PathBuf;

use berth_core::types::Span;

use crate::config::{self, Configuration};
use crate::gates::Gates;

use super::values::Shown;
use super::{
    AuthenticationOptions, AuthorizationOptions, Flags, LogOptions, MetricsOptions, ServingOptions,
};

/// The configuration file that `--config` names, as it was read.
pub struct ConfigFile {
    /// How errors name it.
    pub label: String,
    pub text: String,
}

/// Everything that a run is told from outside.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file's, or the defaults with the deprecated flags; leader election with its flags.
    pub configuration: Configuration,
    /// Counts before the address in the kubeconfig.
    pub master: Option<String>,
    /// Where the completed configuration goes, instead of a run.
    pub write_config_to: Option<PathBuf>,
    pub serving: ServingOptions,
    pub authentication: AuthenticationOptions,
    pub authorization: AuthorizationOptions,
    pub gates: Gates,
    pub metrics: MetricsOptions,
    pub logs: LogOptions,
    /// How long an unschedulable pod waits for a helpful change before it is tried anyway.
    pub leftover: Span,
    /// What to log: flags that are ignored or have no effect, each in one line.
    pub notes: Vec<String>,
    shown: Vec<Shown>,
}

impl Options {
    /// Reads the flags together with the file that `--config` names.
    ///
    /// # Errors
    /// One line that names the flag, or the file, and what is wrong with it.
    pub fn resolve(flags: &Flags, file: Option<&ConfigFile>) -> Result<Options, String> {
        let mut notes = Vec::new();
        let gates = flags.gate.resolve(&mut notes)?;
        let logs = flags.logs.resolve(&gates, &mut notes)?;
        let configuration = configuration(flags, file, &mut notes)?;
        let serving = flags.serving.resolve(&mut notes)?;
        let options = Options {
            configuration,
            master: flags.misc.master.clone().filter(|master| !master.is_empty()),
            write_config_to: flags
                .misc
                .write_config_to
                .clone()
                .filter(|p| !p.as_os_str().is_empty()),
            authentication: flags.authentication.resolve(&gates, &mut notes)?,
            authorization: flags.authorization.resolve(),
            metrics: flags.metrics.resolve()?,
            leftover: flags.deprecated.leftover(),
            shown: flags.shown(),
            serving,
            gates,
            logs,
            notes: Vec::new(),
        };
        let content_type = file.and_then(|file| config::named_content_type(&file.text));
        options.note_what_has_no_effect(content_type.as_deref(), &mut notes);
        Ok(Options { notes, ..options })
    }

    /// Returns every flag's name and value, by name, as `/flagz` prints them.
    pub fn flagz(&self) -> Vec<(&'static str, String)> {
        self.shown.clone()
    }

    /// Says of each setting that Berth can't follow, where it is not the default, why not.
    /// `content_type` is the one that the file names: the default would be protobuf.
    fn note_what_has_no_effect(&self, content_type: Option<&str>, notes: &mut Vec<String>) {
        let client = &self.configuration.client_connection;
        let is_json = |list: &str| list.is_empty() || list.contains("json");
        let content = content_type.is_some_and(|named| !is_json(named));
        let labels = !self.metrics.allow_labels.is_empty();
        let manifest = self.metrics.allow_labels_manifest.is_some();
        let served = "labels are served as they are; how many values they have is bounded";
        let idle = [
            (
                "--permit-address-sharing",
                self.serving.permit_address_sharing,
                "SO_REUSEADDR is always set, as Go does",
            ),
            ("--show-hidden-metrics-for-version", self.metrics.show_hidden, "no metric is hidden"),
            ("--allow-metric-labels", labels, served),
            ("--allow-metric-labels-manifest", manifest, served),
            ("clientConnection.contentType", content, "Berth always sends JSON"),
            (
                "clientConnection.acceptContentTypes",
                !is_json(&client.accept_content_types),
                "Berth always asks for JSON",
            ),
        ];
        for (setting, _, why) in idle.iter().filter(|(_, given, _)| *given) {
            notes.push(format!("{setting}: no effect, {why}"));
        }
    }
}

/// Reads the configuration; the deprecated flags count only where there is no file.
fn configuration(
    flags: &Flags,
    file: Option<&ConfigFile>,
    notes: &mut Vec<String>,
) -> Result<Configuration, String> {
    let Some(ConfigFile { label, text }) = file else {
        let mut configuration = Configuration::defaults();
        flags.deprecated.apply(&mut configuration, notes)?;
        flags.election.apply(&mut configuration.leader_election)?;
        return Ok(configuration);
    };
    notes.extend(flags.deprecated.ignored_with_file());
    let loaded = config::load(text);
    let mut configuration = loaded.map_err(|error| format!("{label}: {error}"))?;
    flags.election.apply(&mut configuration.leader_election)?;
    Ok(configuration)
}
