//! Error texts in the form of Kubernetes' field errors, and readers for types that several objects
//! share.

use std::fmt::Display;

use berth_core::framework::args::Args;
use berth_core::types::Span;

/// Returns the message for a value that has the right type but isn't allowed.
pub(super) fn invalid(value: impl Display, detail: impl Display) -> String {
    format!("Invalid value: {value}: {detail}")
}

/// Returns the message for a string that isn't allowed.
pub(super) fn invalid_text(value: &str, detail: impl Display) -> String {
    format!("Invalid value: {value:?}: {detail}")
}

/// Writes a duration as Go does: `15s`, `1m30s`, `1h0m0s`, `1.5s`, `500ms`.
pub(crate) fn go_duration(span: Span) -> String {
    let Span(ms) = span;
    if ms > 0 && ms < 1000 {
        return format!("{ms}ms");
    }
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    // An f64 holds every thousandth below 60 exactly enough to print it back.
    let seconds = (ms % 60_000) as f64 / 1000.0;
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

pub(super) const REQUIRED: &str = "Required value";

/// Reads an integer of 32 bits.
pub(super) fn int32(args: &Args, key: &str) -> Option<i32> {
    let wide = args.int(key)?;
    let narrow = i32::try_from(wide).ok();
    if narrow.is_none() {
        args.error(key, invalid(wide, "must fit into 32 bits"));
    }
    narrow
}

/// Reads a string; absent is empty.
pub(super) fn string(args: &Args, key: &str) -> String {
    args.text(key).map(|text| text.as_str().to_owned()).unwrap_or_default()
}

/// Reads a string for which empty means `default`, as upstream's defaults do.
pub(super) fn string_or(args: &Args, key: &str, default: &str) -> String {
    let text = string(args, key);
    if text.is_empty() { default.to_owned() } else { text }
}

/// Reads a share of nodes, 0 to 100.
pub(super) fn percentage(args: &Args, key: &str) -> Option<i32> {
    let percentage = int32(args, key)?;
    if !(0..=100).contains(&percentage) {
        args.error(key, invalid(percentage, "not in valid range [0-100]"));
        return None;
    }
    Some(percentage)
}
