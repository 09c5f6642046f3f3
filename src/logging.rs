//! The log: text or JSON, and how much of it.

use std::io;
use std::sync::OnceLock;

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
    let filter = EnvFilter::new(filter(options.verbosity));
    let builder = tracing_subscriber::fmt().with_writer(writer).with_ansi(false);
    // Both fail only if a logger was set before, which then serves as well.
    match options.format {
        LogFormat::Text => {
            let builder = builder.with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                let _ = RELOAD.set(Box::new(move |filter| handle.reload(filter).is_ok()));
            }
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            let builder = builder.with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                let _ = RELOAD.set(Box::new(move |filter| handle.reload(filter).is_ok()));
            }
        }
    }
}

/// Puts another filter in place, and tells whether that was possible.
type Reload = dyn Fn(EnvFilter) -> bool + Send + Sync;

static RELOAD: OnceLock<Box<Reload>> = OnceLock::new();

/// Sets klog's level while running; tells whether there is a log that it could be set of.
pub fn set_verbosity(verbosity: u32) -> bool {
    RELOAD.get().is_some_and(|reload| reload(EnvFilter::new(filter(verbosity))))
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
