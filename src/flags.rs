//! The flags of `berth run`: kube-scheduler's, in its sections, with its precedence over the
//! configuration file.
//!
//! Reading order: [`Options::resolve`], then the sections, [`values`] last.
//!
//! Source of names, defaults and meaning: `kube-scheduler --help` 1.37.2 and
//! `cmd/kube-scheduler/app/options` of the same version.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod authentication;
pub mod authorization;
pub mod deprecated;
pub mod election;
pub mod gate;
pub mod logs;
pub mod metrics;
pub mod misc;
pub mod options;
pub mod serving;
#[cfg(test)]
mod tests;
pub mod values;

use std::ffi::OsString;

pub use authentication::AuthenticationOptions;
pub use authorization::AuthorizationOptions;
pub use logs::{LogFormat, LogOptions};
pub use metrics::MetricsOptions;
pub use options::{ConfigFile, Options};
pub use serving::{ServingOptions, TlsVersion};
use values::Shown;
pub use values::SniCertificate;

/// All flags, as they stand on the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    pub misc: misc::MiscFlags,
    #[command(flatten)]
    serving: serving::ServingFlags,
    #[command(flatten)]
    authentication: authentication::AuthenticationFlags,
    #[command(flatten)]
    authorization: authorization::AuthorizationFlags,
    #[command(flatten)]
    deprecated: deprecated::DeprecatedFlags,
    #[command(flatten)]
    election: election::ElectionFlags,
    #[command(flatten)]
    gate: gate::GateFlags,
    #[command(flatten)]
    metrics: metrics::MetricsFlags,
    #[command(flatten)]
    logs: logs::LogFlags,
}

impl Flags {
    /// Returns each flag's name and value, by name.
    fn shown(&self) -> Vec<Shown> {
        let mut shown = self.misc.shown();
        shown.extend(self.serving.shown());
        shown.extend(self.authentication.shown());
        shown.extend(self.authorization.shown());
        shown.extend(self.deprecated.shown());
        shown.extend(self.election.shown());
        shown.extend(self.gate.shown());
        shown.extend(self.metrics.shown());
        shown.extend(self.logs.shown());
        shown.sort();
        shown
    }
}

/// Writes flag names with dashes, as kube-scheduler takes `--leader_elect` for `--leader-elect`.
pub fn with_dashes(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let dashed = |arg: OsString| -> OsString {
        let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
        match text.split_once('=') {
            Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
            None => text.replace('_', "-").into(),
        }
    };
    args.into_iter().map(dashed).collect()
}
