//! Flags on logs.
//!
//! Source: `component-base/logs/api/v1` 0.37.

use berth_core::types::Span;
use clap::ArgAction;

use crate::gates::Gates;
use crate::wire::quantity::Quantity;

use super::values::{Shown, duration, go_bool, shown_duration};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Logs flags")]
pub struct LogFlags {
    /// The longest time between flushes
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    log_flush_frequency: Span,
    /// In JSON format with split streams, how much may be buffered
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = quantity)]
    log_json_info_buffer_size: String,
    /// In JSON format, write errors to stderr and the rest to stdout
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = go_bool,
        action = ArgAction::Set
    )]
    log_json_split_stream: bool,
    /// In text format with split streams, how much may be buffered
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = quantity)]
    log_text_info_buffer_size: String,
    /// In text format, write errors to stderr and the rest to stdout
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = go_bool,
        action = ArgAction::Set
    )]
    log_text_split_stream: bool,
    /// text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    logging_format: String,
    /// How much is logged: 0 what an operator needs, 4 each decision's course, 6 requests, 8 all
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u32,
    /// Levels by file: `pattern=N,…`; text format only
    #[arg(long, value_name = "PATTERNS", default_value = "")]
    vmodule: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How and how much is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub format: LogFormat,
    /// Errors and warnings to stderr, the rest to stdout; else all to stderr.
    pub split_stream: bool,
    /// klog's level.
    pub verbosity: u32,
}

impl LogFlags {
    pub(super) fn resolve(
        &self,
        gates: &Gates,
        notes: &mut Vec<String>,
    ) -> Result<LogOptions, String> {
        let format = self.format(gates)?;
        if self.log_flush_frequency == Span::ZERO {
            return Err("--log-flush-frequency: must be greater than zero".to_owned());
        }
        if self.log_flush_frequency != Span::from_secs(5) || self.buffers() {
            notes.push(
                "--log-flush-frequency, --log-*-info-buffer-size: no effect, each line is written \
                 at once"
                    .to_owned(),
            );
        }
        self.check_alpha(gates)?;
        self.check_vmodule(format, notes)?;
        let split_stream = match format {
            LogFormat::Text => self.log_text_split_stream,
            LogFormat::Json => self.log_json_split_stream,
        };
        Ok(LogOptions { format, split_stream, verbosity: self.verbosity })
    }

    fn format(&self, gates: &Gates) -> Result<LogFormat, String> {
        match self.logging_format.as_str() {
            "text" => Ok(LogFormat::Text),
            "json" if gates.enabled("LoggingBetaOptions") => Ok(LogFormat::Json),
            "json" => Err("--logging-format: Feature LoggingBetaOptions is disabled".to_owned()),
            other => {
                Err(format!("--logging-format: Invalid value: {other:?}: Unsupported log format"))
            }
        }
    }

    fn buffers(&self) -> bool {
        [&self.log_json_info_buffer_size, &self.log_text_info_buffer_size]
            .iter()
            .any(|size| size.as_str() != "0")
    }

    fn check_alpha(&self, gates: &Gates) -> Result<(), String> {
        let alpha = self.buffers() || self.log_json_split_stream || self.log_text_split_stream;
        if alpha && !gates.enabled("LoggingAlphaOptions") {
            return Err("--log-json-*, --log-text-*: Forbidden: Feature LoggingAlphaOptions is \
                        disabled"
                .to_owned());
        }
        Ok(())
    }

    fn check_vmodule(&self, format: LogFormat, notes: &mut Vec<String>) -> Result<(), String> {
        if self.vmodule.is_empty() {
            return Ok(());
        }
        let level = |pair: &str| {
            pair.split_once('=')
                .is_some_and(|(name, level)| !name.is_empty() && level.parse::<u32>().is_ok())
        };
        if let Some(odd) = self.vmodule.split(',').find(|pair| !pair.is_empty() && !level(pair)) {
            return Err(format!("--vmodule: {odd:?} does not have the pattern=N format"));
        }
        if format == LogFormat::Json {
            return Err("--vmodule: Forbidden: Only supported for text log format".to_owned());
        }
        notes.push("--vmodule: no effect, it names files of kube-scheduler; use -v".to_owned());
        Ok(())
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        vec![
            ("log-flush-frequency", shown_duration(self.log_flush_frequency)),
            ("log-json-info-buffer-size", self.log_json_info_buffer_size.clone()),
            ("log-json-split-stream", self.log_json_split_stream.to_string()),
            ("log-text-info-buffer-size", self.log_text_info_buffer_size.clone()),
            ("log-text-split-stream", self.log_text_split_stream.to_string()),
            ("logging-format", self.logging_format.clone()),
            ("v", self.verbosity.to_string()),
            ("vmodule", self.vmodule.clone()),
        ]
    }
}

/// Checks a size such as `512`, `64Ki` or `1M`.
fn quantity(text: &str) -> Result<String, String> {
    match Quantity::parse(text).value() {
        Ok(0..) => Ok(text.to_owned()),
        _ => Err(format!("unable to parse quantity {text:?}")),
    }
}
