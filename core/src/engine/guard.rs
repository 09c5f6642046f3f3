//! A panic inside a plugin is caught at its point: it costs one pod an attempt, not the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::types::Text;

/// Runs `call` for `plugin`.
///
/// # Errors
/// What the plugin panicked with. Its answer is lost; what it kept in the cycle's state may be
/// half done, and the cycle ends with an error for this pod.
pub(crate) fn guarded<T>(plugin: &str, call: impl FnOnce() -> T) -> Result<T, Text> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let what = payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Text::from(format!("plugin {plugin} failed: {what}"))
    })
}
