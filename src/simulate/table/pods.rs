//! The pods of a node, and what else keeps pods away from it, as the last column.

use berth_core::types::{Pod, Taint, TaintEffect};

use super::amounts::{n_gpus, shown_milli};
use super::nodes::{Sitting, Usage};
use super::paint::{Piece, Style, plain};

/// Lines of pods that a node gets.
const LINES_MAX: usize = 4;
/// Devices of a pod that are named.
const DEVICES_MAX: usize = 4;

/// Keeps what fits into a few lines and counts the rest.
pub(super) fn shorten(lines: &mut Vec<Vec<Piece>>) {
    if lines.len() > LINES_MAX {
        let n_more: usize = lines[LINES_MAX - 1..].iter().map(Vec::len).sum();
        lines.truncate(LINES_MAX - 1);
        lines.push(vec![Piece::new(format!("and {n_more} more"), Style::Dim)]);
    }
}

/// The pods that hold GPUs or other devices, or came now, by name, the rest as a number.
pub(super) fn pods(usage: &Usage<'_>, pool: &[Usage<'_>]) -> Vec<Piece> {
    let has_gpus = usage.gpus_total() > 0;
    let (mut pieces, mut n_rest) = (Vec::new(), 0);
    for sitting in &usage.pods {
        let n_held = n_gpus(&sitting.pod.usage.real);
        let without = n_held == 0 && sitting.devices.is_empty() && sitting.share_milli.is_none();
        if has_gpus && without && !sitting.now {
            n_rest += 1;
            continue;
        }
        pieces.push(pod_piece(sitting, n_held));
    }
    if n_rest > 0 {
        pieces.push(Piece::new(format!("{n_rest} without GPUs"), Style::Dim));
    }
    if usage.node.unschedulable {
        pieces.push(Piece::new("cordoned", Style::Waits));
    }
    pieces.extend(own_taints(usage, pool).map(|taint| Piece::new(taint, Style::Waits)));
    let n_pieces = pieces.len();
    for piece in pieces.iter_mut().take(n_pieces.saturating_sub(1)) {
        piece.text.push(',');
    }
    pieces
}

/// Taints that keep pods away from this node and not from its whole pool.
fn own_taints<'a>(usage: &'a Usage<'_>, pool: &'a [Usage<'_>]) -> impl Iterator<Item = String> {
    let repels = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let common = |taint: &Taint| pool.iter().all(|other| other.node.taints.contains(taint));
    let taints = usage.node.taints.iter().filter(|_| !usage.node.unschedulable).filter(repels);
    let own = taints.filter(move |taint| pool.len() > 1 && !common(taint));
    own.map(|taint| format!("taint {}", shown_taint(taint)))
}

/// Writes `key=value`, or the key alone where there is no value.
pub(super) fn shown_taint(taint: &Taint) -> String {
    match taint.value.as_str() {
        "" => plain(&taint.key),
        value => format!("{}={}", plain(&taint.key), plain(value)),
    }
}

fn pod_piece(sitting: &Sitting<'_>, n_held: i64) -> Piece {
    let Sitting { pod, now, devices, share_milli } = sitting;
    let mark = if *now { "+" } else { "" };
    let count = match share_milli {
        _ if n_held > 0 => format!(" ×{n_held}"),
        Some(milli) => format!(" ×{}", shown_milli(*milli)),
        None => String::new(),
    };
    let leaving = if pod.terminating { " (leaving)" } else { "" };
    let style = if *now { Style::Good } else { Style::Plain };
    let names = devices.iter().map(|name| plain(name));
    let numbers = pod.gpu_numbers.iter().flat_map(|gpus| gpus.iter()).map(|at| at.to_string());
    let devices = device_list(names.chain(numbers).collect());
    Piece::new(format!("{mark}{}{count}{devices}{leaving}", name(pod)), style)
}

/// Returns the devices in brackets, a few of them by name.
fn device_list(mut names: Vec<String>) -> String {
    if names.is_empty() {
        return String::new();
    }
    if names.len() > DEVICES_MAX {
        let n_more = names.len() - (DEVICES_MAX - 1);
        names.truncate(DEVICES_MAX - 1);
        names.push(format!("and {n_more} more"));
    }
    format!(" [{}]", names.join(" "))
}

/// The pod's name, with its namespace unless that is `default`.
pub(super) fn name(pod: &Pod) -> String {
    match pod.namespace.as_str() {
        "default" => plain(&pod.name),
        namespace => format!("{}/{}", plain(namespace), plain(&pod.name)),
    }
}
