//! Flags on feature gates and the version that is emulated.
//!
//! Source: `component-base/compatibility/registry.go` 0.37.

use crate::gates::Gates;

use super::misc::COMPATIBLE;
use super::values::{Shown, shown_list, strings};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Feature gate flags")]
pub struct GateFlags {
    /// Which version's behaviour to show: `[kube=]1.37` only
    #[arg(long, value_name = "VERSIONS")]
    emulated_version: Vec<String>,
    /// Comma-separated list of `[kube:]name=true|false`; may be repeated
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,
    /// The lowest version of control plane components to get on with: `[kube=]1.34` to `1.37`
    #[arg(long, value_name = "VERSIONS")]
    min_compatibility_version: Vec<String>,
}

/// The lowest minor version that may be named.
const MINOR_MIN: u32 = 34;

impl GateFlags {
    /// Reads gates and versions.
    ///
    /// # Errors
    /// One line about the first flag that is wrong.
    pub(super) fn resolve(&self, notes: &mut Vec<String>) -> Result<Gates, String> {
        let (major, newest) = COMPATIBLE;
        if let Some((_, minor)) = version_of(&strings(&self.emulated_version, &[]))?
            && minor != newest
        {
            return Err(format!(
                "--emulated-version: {major}.{minor} is not supported, Berth decides as \
                 {major}.{newest} does"
            ));
        }
        if let Some((_, minor)) = version_of(&strings(&self.min_compatibility_version, &[]))? {
            if !(MINOR_MIN..=newest).contains(&minor) {
                return Err(format!(
                    "minCompatibilityVersion version {major}.{minor} is not between \
                     [{major}.{MINOR_MIN}, {major}.{newest}]"
                ));
            }
            notes.push("--min-compatibility-version: no effect in a scheduler".to_owned());
        }
        let gates = Gates::parse(&self.feature_gates)?;
        notes.extend(gates.notes());
        Ok(gates)
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        vec![
            ("emulated-version", shown_list(&strings(&self.emulated_version, &[]))),
            ("feature-gates", self.feature_gates.join(",")),
            (
                "min-compatibility-version",
                shown_list(&strings(&self.min_compatibility_version, &[])),
            ),
        ]
    }
}

/// Reads the one `[kube=]major.minor` of a list.
fn version_of(entries: &[String]) -> Result<Option<(u32, u32)>, String> {
    let mut found = None;
    for entry in entries {
        let (component, text) = entry.split_once('=').unwrap_or(("kube", entry));
        if component != "kube" {
            return Err(format!("component not registered: {component}"));
        }
        let parts: Vec<Option<u32>> =
            text.trim_start_matches('v').split('.').map(|part| part.parse().ok()).collect();
        let version = match parts[..] {
            [Some(major), Some(minor)] => (major, minor),
            [Some(_), Some(_), Some(_)] => {
                return Err(format!("patch version not allowed, got: kube={text}"));
            }
            _ => return Err(format!("could not parse {text:?} as version")),
        };
        if version.0 != COMPATIBLE.0 {
            return Err(format!("version {text} is not known"));
        }
        if found.replace(version).is_some() {
            return Err(format!("duplicate version flag, kube={text}"));
        }
    }
    Ok(found)
}
