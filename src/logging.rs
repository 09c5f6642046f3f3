//! The log: text or JSON, and how much of it.

use std::io;

use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::flags::{LogFormat, LogOptions};

/// Begins to log. A logger that was set before stays.
pub fn start(options: &LogOptions) {
    if options.split_stream {
        let errors = io::stderr.with_max_level(Level::WARN);
        start_with(options, errors.or_else(io::stdout));
    } else {
        start_with(options, io::stderr);
    }
}

fn start_with<W>(options: &LogOptions, writer: W)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter(options.verbosity)))
        .with_writer(writer)
        .with_ansi(false);
    // Fails only if a logger was set before, which then serves as well.
    let _ = match options.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// Maps klog's levels: 0–2 what an operator needs, 3 what becomes of each pod, 4 and 5 how, 6 and
/// 7 requests and their outcomes, from 8 on everything of Berth.
fn filter(verbosity: u32) -> &'static str {
    match verbosity {
        0..=2 => "warn,berth=info",
        3 => "warn,berth=info,berth::live::driver=debug",
        4 | 5 => "warn,berth=debug",
        6 | 7 => "warn,berth=debug,berth::live=trace",
        // Not deeper in the client library: its traces may show headers.
        8.. => "info,berth=trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_a_valid_filter() {
        for verbosity in 0..=10 {
            let text = filter(verbosity);
            assert!(EnvFilter::try_new(text).is_ok(), "{verbosity}: {text}");
        }
    }
}
