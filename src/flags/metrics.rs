//! Flags on metrics.
//!
//! Source: `component-base/metrics/options.go` 0.37.

use std::collections::BTreeMap;

use super::authentication::given;
use super::misc::COMPATIBLE;
use super::values::{Shown, pairs, shown_list, shown_option, strings};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Metrics flags")]
pub struct MetricsFlags {
    /// Values that a label may have, others become `unexpected`: `metric,label=value,value`
    #[arg(long, value_name = "LISTS")]
    allow_metric_labels: Vec<String>,
    /// A file with `allowListMapping`; --allow-metric-labels counts before it
    #[arg(long, value_name = "FILE")]
    allow_metric_labels_manifest: Option<String>,
    /// Metrics that are not served, by their full names
    #[arg(long, value_name = "NAMES")]
    disabled_metrics: Vec<String>,
    /// Serve metrics that were hidden since this version; only the previous minor one is allowed
    #[arg(long, value_name = "VERSION")]
    show_hidden_metrics_for_version: Option<String>,
}

/// Which metrics are served, and with which labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Values that count as themselves, by metric and label.
    pub allow_labels: BTreeMap<(String, String), Vec<String>>,
    pub allow_labels_manifest: Option<String>,
    pub disabled: Vec<String>,
    pub show_hidden: bool,
}

impl MetricsFlags {
    pub(super) fn resolve(&self) -> Result<MetricsOptions, String> {
        let mut allow_labels = BTreeMap::new();
        let lists = pairs(&self.allow_metric_labels)
            .map_err(|error| format!("--allow-metric-labels: {error}"))?;
        for (key, values) in lists {
            let Some((metric, label)) = key.split_once(',') else {
                return Err(format!("--allow-metric-labels: {key:?} is not <metric>,<label>"));
            };
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            allow_labels.insert((metric.trim().to_owned(), label.trim().to_owned()), values);
        }
        Ok(MetricsOptions {
            allow_labels,
            allow_labels_manifest: given(&self.allow_metric_labels_manifest),
            disabled: strings(&self.disabled_metrics, &[]),
            show_hidden: self.show_hidden()?,
        })
    }

    fn show_hidden(&self) -> Result<bool, String> {
        let (major, minor) = COMPATIBLE;
        let previous = format!("{major}.{}", minor - 1);
        match self.show_hidden_metrics_for_version.as_deref() {
            None | Some("") => Ok(false),
            Some(version) if version == previous => Ok(true),
            Some(other) => Err(format!(
                "--show-hidden-metrics-for-version: Invalid value: {other:?}: must be omitted or \
                 have the value '{previous}'; only the previous minor version is allowed"
            )),
        }
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let manifest = shown_option(self.allow_metric_labels_manifest.as_ref());
        let hidden = shown_option(self.show_hidden_metrics_for_version.as_ref());
        vec![
            ("allow-metric-labels", shown_list(&self.allow_metric_labels)),
            ("allow-metric-labels-manifest", manifest),
            ("disabled-metrics", shown_list(&strings(&self.disabled_metrics, &[]))),
            ("show-hidden-metrics-for-version", hidden),
        ]
    }
}
