//! Texts of argument errors in the form of Kubernetes' field errors, and readers that several
//! plugins use.
//!
//! Source: k8s.io/apimachinery/pkg/util/validation/field, `Error.ErrorBody`.

use std::fmt::Display;

use berth_core::framework::Args;

/// Returns the message for a number that isn't allowed.
pub(crate) fn invalid(value: impl Display, detail: impl Display) -> String {
    format!("Invalid value: {value}: {detail}")
}

/// Returns the message for a string that isn't allowed.
pub(crate) fn invalid_text(value: &str, detail: impl Display) -> String {
    format!("Invalid value: {value:?}: {detail}")
}

/// Returns the message for a missing value.
pub(crate) fn required(detail: impl Display) -> String {
    format!("Required value: {detail}")
}

/// Returns the message for a value that must not be given here.
pub(crate) fn forbidden(detail: impl Display) -> String {
    format!("Forbidden: {detail}")
}

/// Returns the message for a value that was given before.
pub(crate) fn duplicate(value: &str) -> String {
    format!("Duplicate value: {value:?}")
}

/// Returns the message for a string that is none of `supported` (sorted).
pub(crate) fn unsupported(value: &str, supported: &[&str]) -> String {
    let quoted: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
    format!("Unsupported value: {value:?}: supported values: {}", quoted.join(", "))
}

/// Reads an integer of 32 bits, as upstream's decoder takes it.
pub(crate) fn int32(args: &Args, key: &str) -> Option<i32> {
    let wide = args.int(key)?;
    let narrow = i32::try_from(wide).ok();
    if narrow.is_none() {
        args.error(key, invalid(wide, "must fit into 32 bits"));
    }
    narrow
}
