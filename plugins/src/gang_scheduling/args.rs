//! GangSchedulingArgs (berth.dev/v1alpha1): what a profile says of groups.

use std::collections::BTreeSet;

use berth_core::framework::{Args, GroupRules, Preflight};
use berth_core::types::group::NATIVE;
use berth_core::types::{Span, Text, Value};

use crate::shared::field::{duplicate, invalid_text, required, unsupported};

use super::NAME;

const DEADLINE: Span = Span::from_secs(5 * 60);
/// Waits at Permit end here. Source: `maxTimeout` of upstream's framework/runtime.
const DEADLINE_MAX: Span = Span::from_secs(15 * 60);
const TAKE_BACK_AFTER: Span = Span::from_secs(30);
const HOLD_SLOTS: Span = Span::from_secs(5 * 60);
const SECOND: Span = Span::from_secs(1);
const FOREVER: Span = Span(u64::MAX);

/// Reads the rules; what is wrong with them is noted in `args`. Whether a dialect is known, and
/// whether another profile has a name, is for those to check who know all of them.
pub(super) fn read(args: &Args) -> GroupRules {
    let (take_back_after, take_back_unowned) = take_back(args);
    GroupRules {
        plugin: NAME,
        scheduler_names: names(args, "schedulerNames"),
        dialects: dialects(args),
        deadline: duration(args, "deadline", DEADLINE, SECOND, DEADLINE_MAX),
        preflight: preflight(args),
        take_back_after,
        take_back_unowned,
        hold_for: duration(args, "holdSlots", HOLD_SLOTS, Span::ZERO, FOREVER),
    }
}

/// Kubernetes' own groups count always: what a pod's spec says is no convention of somebody else's.
fn dialects(args: &Args) -> BTreeSet<Text> {
    let mut dialects = names(args, "dialects");
    dialects.insert(Text::from(NATIVE.name));
    dialects
}

/// Reads a list of distinct names.
fn names(args: &Args, key: &str) -> BTreeSet<Text> {
    let mut names = BTreeSet::new();
    // What is no text is told by the reader of lists, which leaves it out.
    args.texts(key);
    let Some(Value::List(items)) = args.raw(key) else { return names };
    for (at, item) in items.iter().enumerate() {
        let Value::Text(name) = item else { continue };
        let at = format!("{key}[{at}]");
        if name.is_empty() {
            args.error(&at, required("a name"));
        } else if !names.insert(name.clone()) {
            args.error(&at, duplicate(name));
        }
    }
    names
}

fn preflight(args: &Args) -> Preflight {
    match args.text("preflight").as_deref() {
        None | Some("WhereNeeded") => Preflight::WhereNeeded,
        Some("Always") => Preflight::Always,
        Some("Never") => Preflight::Never,
        Some(other) => {
            let all = ["Always", "Never", "WhereNeeded"];
            args.error("preflight", unsupported(other, &all));
            Preflight::WhereNeeded
        }
    }
}

/// Returns after how long a group is taken back, if at all, and whether members without a
/// controller are.
fn take_back(args: &Args) -> (Option<Span>, bool) {
    let Some(args) = args.object("takeBack") else { return (Some(TAKE_BACK_AFTER), false) };
    let after = duration(&args, "after", TAKE_BACK_AFTER, SECOND, FOREVER);
    let unowned = args.bool("withoutController", false);
    let disabled = args.bool("disabled", false);
    args.finish();
    (Some(after).filter(|_| !disabled), unowned)
}

fn duration(args: &Args, key: &str, default: Span, least: Span, most: Span) -> Span {
    let Some(ms) = args.duration_ms(key) else { return default };
    let wrong = |detail: String| {
        args.error(key, invalid_text(&args.text(key).unwrap_or_default(), detail));
        default
    };
    match u64::try_from(ms).map(Span) {
        Err(_) if least == Span::ZERO => wrong("must be zero or positive".to_owned()),
        Ok(span) if span > most => wrong(format!("must be at most {most}")),
        Ok(span) if span >= least => span,
        Err(_) | Ok(_) => wrong(format!("must be at least {least}")),
    }
}
