//! Flags that upstream calls deprecated. All but the last are ignored where there is a
//! configuration file.

use berth_core::types::Span;
use clap::ArgAction;

use crate::config::{ClientConnection, Configuration};

use super::values::{Shown, duration, go_bool, shown_duration};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Deprecated flags")]
pub struct DeprecatedFlags {
    /// Block profiling, if profiling is enabled; ignored with --config
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set
    )]
    contention_profiling: Option<bool>,
    /// Requests that may come at once; ignored with --config [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    kube_api_burst: Option<i32>,
    /// Content type of requests; ignored with --config
    #[arg(long, value_name = "TYPE")]
    kube_api_content_type: Option<String>,
    /// Requests a second; ignored with --config [default: 50]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    kube_api_qps: Option<f32>,
    /// How to reach the cluster, without it by this pod's service account; ignored with --config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// How long a pod that fits nowhere waits for a helpful change before it is tried anyway
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pod_max_in_unschedulable_pods_duration: Span,
    /// Profiling at /debug/pprof; ignored with --config
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set
    )]
    profiling: Option<bool>,
}

/// client-go's rates where none are set.
const QPS_UNSET: f64 = 5.0;
const BURST_UNSET: i32 = 10;

impl DeprecatedFlags {
    /// How long an unschedulable pod waits for a helpful change.
    pub fn leftover(&self) -> Span {
        self.pod_max_in_unschedulable_pods_duration
    }

    /// Applies the flags where no file was given.
    ///
    /// # Errors
    /// A burst below zero.
    pub(super) fn apply(
        &self,
        configuration: &mut Configuration,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let client = &mut configuration.client_connection;
        if let Some(kubeconfig) = &self.kubeconfig {
            client.kubeconfig.clone_from(kubeconfig);
        }
        if let Some(content_type) = &self.kube_api_content_type {
            client.content_type.clone_from(content_type);
        }
        self.apply_rates(client)?;
        if let Some(profiling) = self.profiling {
            configuration.enable_profiling = profiling;
        }
        if let Some(contention) = self.contention_profiling {
            configuration.enable_contention_profiling = contention;
        }
        if let Some(content_type) = &self.kube_api_content_type
            && !content_type.contains("json")
        {
            notes.push("--kube-api-content-type: no effect, Berth always sends JSON".to_owned());
        }
        if self.profiling == Some(true) || self.contention_profiling == Some(true) {
            notes.push(
                "--profiling, --contention-profiling: no profiler is built in, /debug/pprof is \
                 not served (use perf); --profiling serves /debug/flags/v"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn apply_rates(&self, client: &mut ClientConnection) -> Result<(), String> {
        if let Some(qps) = self.kube_api_qps {
            if !qps.is_finite() {
                return Err(format!("--kube-api-qps {qps} is no rate"));
            }
            // Through text, so that 0.1 stays 0.1.
            let wide = qps.to_string().parse().unwrap_or(f64::from(qps));
            client.qps = if qps == 0.0 { QPS_UNSET } else { wide };
        }
        match self.kube_api_burst {
            Some(burst) if burst < 0 => {
                return Err(format!("--kube-api-burst {burst} must be non-negative"));
            }
            Some(0) => client.burst = BURST_UNSET,
            Some(burst) => client.burst = burst,
            None => {}
        }
        Ok(())
    }

    /// Returns the line that names the flags which a configuration file makes ignored.
    pub(super) fn ignored_with_file(&self) -> Option<String> {
        let given = [
            ("--profiling", self.profiling.is_some()),
            ("--contention-profiling", self.contention_profiling.is_some()),
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--kube-api-content-type", self.kube_api_content_type.is_some()),
            ("--kube-api-qps", self.kube_api_qps.is_some()),
            ("--kube-api-burst", self.kube_api_burst.is_some()),
        ];
        let names: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(n, _)| *n).collect();
        let line = || format!("ignored, since --config is given: {}", names.join(", "));
        (!names.is_empty()).then(line)
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let default = ClientConnection::default();
        let content_type = self.kube_api_content_type.clone().unwrap_or(default.content_type);
        let qps = self.kube_api_qps.map_or(default.qps.to_string(), |qps| qps.to_string());
        vec![
            ("contention-profiling", self.contention_profiling.unwrap_or(true).to_string()),
            ("kube-api-burst", self.kube_api_burst.unwrap_or(default.burst).to_string()),
            ("kube-api-content-type", content_type),
            ("kube-api-qps", qps),
            ("kubeconfig", self.kubeconfig.clone().unwrap_or_default()),
            ("pod-max-in-unschedulable-pods-duration", shown_duration(self.leftover())),
            ("profiling", self.profiling.unwrap_or(true).to_string()),
        ]
    }
}
