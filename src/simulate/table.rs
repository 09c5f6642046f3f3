//! The placement table: GPUs of each node as a bar and by island, who sits where, which groups are whole, who waits
//! and why.
//!
//! It is drawn from nodes, pods, groups, claims and links alone, so that it shows a simulation and a real cluster alike.

mod amounts;
mod groups;
mod islands;
mod nodes;
mod paint;
mod pods;
mod waiting;
mod words;

use std::collections::BTreeSet;

use berth_core::types::{Node, Pod, PodUid, ResourceClaim};

use super::groups::Group;
use super::islands::Islands;
use amounts::{shown_milli, sum};
use nodes::Usage;
pub use paint::Paint;
pub(super) use paint::plain;
use paint::{GLUE, Piece, Style};

/// Columns that a line may have.
const WIDTH: usize = 100;

/// What is drawn.
pub struct View<'a> {
    pub nodes: &'a [Node],
    pub pods: &'a [Pod],
    pub claims: &'a [ResourceClaim],
    pub groups: &'a [Group],
    /// Of the nodes whose GPUs are linked in several islands.
    pub islands: &'a Islands,
    /// Pods that were placed just now; they are marked.
    pub placed: &'a BTreeSet<PodUid>,
    /// The scheduler names that were served.
    pub served: &'a [String],
}

/// Returns the table, each line ended.
pub fn table(view: &View<'_>, paint: Paint) -> String {
    let usages = nodes::usages(view);
    let waiting = waiting::waiting(view);
    let mut lines = nodes::lines(&usages, view.islands, paint);
    lines.extend(elsewhere(view, paint));
    lines.push(String::new());
    let groups = groups::lines(view, paint);
    if !groups.is_empty() {
        lines.extend(groups);
        lines.push(String::new());
    }
    if !waiting.is_empty() {
        lines.extend(waiting::lines(&waiting, paint));
        lines.push(String::new());
    }
    let n_waiting = view.pods.iter().filter(|pod| waiting::waits(pod)).count();
    lines.push(summary(view, &usages, n_waiting, paint));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Tells of placed pods whose node isn't among the nodes.
fn elsewhere(view: &View<'_>, paint: Paint) -> Option<String> {
    let known: BTreeSet<&str> = view.nodes.iter().map(|node| &*node.name).collect();
    let unknown = |pod: &&Pod| pod.node_name.as_ref().is_some_and(|node| !known.contains(&**node));
    let n_pods = view.pods.iter().filter(unknown).count();
    let text = format!("{} on nodes that are not listed here", words::counted(n_pods, "pod"));
    (n_pods > 0).then(|| paint.show(&Piece::new(text, Style::Dim)))
}

fn summary(view: &View<'_>, usages: &[Usage<'_>], n_waiting: usize, paint: Paint) -> String {
    let n_placed = view.placed.len();
    let placed = match (n_placed, n_waiting) {
        (0, 0) => Piece::new("Nothing to place", Style::Bold),
        (_, 0) => {
            Piece::new(format!("All {} placed", words::counted(n_placed, "pod")), Style::Good)
        }
        _ => {
            let wait = if n_waiting == 1 { "waits" } else { "wait" };
            let all = words::counted(n_placed + n_waiting, "pod");
            Piece::new(format!("{n_placed} of {all} placed, {n_waiting} {wait}"), Style::Waits)
        }
    };
    let total = sum(usages.iter().map(Usage::gpus_total));
    let before = shown_milli(sum(usages.iter().map(Usage::milli_before)));
    let used = shown_milli(sum(usages.iter().map(Usage::milli_used)));
    let mut text = paint.show(&placed);
    if total > 0 {
        let all = words::counted_i64(total, "GPU").replace(GLUE, " ");
        text += &format!(" · {used} of {all} in use");
        if used != before {
            text += &format!(" ({before} before)");
        }
    }
    text + "."
}
