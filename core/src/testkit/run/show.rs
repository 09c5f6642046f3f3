//! Answers as text.

use crate::framework::{Normalize, Op, Points, PreFilterAnswer, Reason, Verdict};
use crate::snapshot::{Change, Cluster, NodeAspects, NodeIdx, PodAspects, StorageKind};
use crate::types::{PodUid, Text};

use super::look::{Look, Scored};

pub(super) fn texts(reason: &Reason) -> String {
    reason.texts.iter().map(Text::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns nothing where Filter decides on every node.
pub(super) fn pre_filter(answer: &PreFilterAnswer, cluster: &Cluster) -> Option<String> {
    let name = |node: &NodeIdx| cluster.nodes().slot(*node).name.to_string();
    Some(match answer {
        PreFilterAnswer::Continue => return None,
        PreFilterAnswer::Only(nodes) if nodes.is_empty() => {
            "only nodes that don't exist".to_owned()
        }
        PreFilterAnswer::Only(nodes) => {
            format!("only {}", nodes.iter().map(name).collect::<Vec<_>>().join(" "))
        }
        PreFilterAnswer::Skip => "skipped".to_owned(),
        PreFilterAnswer::Unschedulable(reason) => format!("unschedulable: {}", texts(reason)),
        PreFilterAnswer::Unresolvable(reason) => format!("unresolvable: {}", texts(reason)),
        PreFilterAnswer::Pending(reason) => format!("pending: {}", texts(reason)),
        PreFilterAnswer::Broken(text) => format!("broken: {text}"),
    })
}

/// Returns a line a node: its verdict and its score. Nothing if the plugin has neither, or if
/// PreFilter has said it all.
pub(super) fn nodes(
    look: &Look,
    subject: &Points,
    scores: Option<&[Scored]>,
    cluster: &Cluster,
) -> Vec<String> {
    let asked = matches!(look.answer, PreFilterAnswer::Continue | PreFilterAnswer::Only(_));
    let filters = asked && subject.filter.is_some();
    let plain = subject.score.as_ref().is_some_and(|s| s.normalizes() == Normalize::No);
    let mut lines = Vec::new();
    for (node, verdict) in &look.verdicts {
        let scored = scores.unwrap_or_default().iter().find(|(scored, _, _)| scored == node);
        let score = scored.map(|(_, raw, normal)| {
            if plain { format!("score {raw}") } else { format!("score {raw} -> {normal}") }
        });
        let verdict = (filters || !verdict.fits()).then(|| self::verdict(verdict));
        let parts: Vec<String> = verdict.into_iter().chain(score).collect();
        let said_before = !asked && look.answer != PreFilterAnswer::Skip;
        if !parts.is_empty() && !said_before {
            lines.push(format!("{}: {}", cluster.nodes().slot(*node).name, parts.join(", ")));
        }
    }
    lines
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Fit => "fit".to_owned(),
        Verdict::Unschedulable(reason) => format!("unschedulable: {}", texts(reason)),
        Verdict::Unresolvable(reason) => format!("unresolvable: {}", texts(reason)),
        Verdict::Broken(text) => format!("broken: {text}"),
    }
}

pub(super) fn op(op: &Op) -> String {
    match op {
        Op::Bind { pod, node, .. } => format!("binds {pod} (uid {}) to {node}", pod.uid),
        other => format!("{other:?}"),
    }
}

/// Returns what changed, such as `node a updated (labels)`.
pub(super) fn change(change: &Change, cluster: &Cluster) -> Text {
    let node = |node: &NodeIdx| cluster.nodes().slot(*node).name.to_string();
    let pod = |uid: &PodUid| uid.0.to_string();
    let text = match change {
        Change::NodeAdded { node: idx } => format!("node {} added", node(idx)),
        Change::NodeUpdated { node: idx, aspects, .. } => {
            format!("node {} updated ({})", node(idx), node_aspects(aspects))
        }
        Change::NodeDeleted { old } => format!("node {} deleted", old.name),
        Change::PodAdded { uid } => format!("pod {} added", pod(uid)),
        Change::PodBound { uid, node: idx } => format!("pod {} bound to {}", pod(uid), node(idx)),
        Change::PodUpdated { uid, aspects, .. } => {
            format!("pod {} updated ({})", pod(uid), pod_aspects(aspects))
        }
        Change::PodDeleted { old } => format!("pod {} deleted", pod(&old.uid)),
        Change::PodFreed { old, .. } => format!("pod {} gone from its node", pod(&old.uid)),
        Change::Storage { kind, added: true } => format!("{} added", storage(*kind)),
        Change::Storage { kind, added: false } => format!("{} updated", storage(*kind)),
        Change::StorageDeleted { kind } => format!("{} deleted", storage(*kind)),
        Change::NamespaceChanged { name } => format!("namespace {name} changed"),
        Change::SelectorOwnerChanged => "selector owner changed".to_owned(),
    };
    text.into()
}

fn storage(kind: StorageKind) -> &'static str {
    match kind {
        StorageKind::Claim => "pvc",
        StorageKind::Volume => "pv",
        StorageKind::StorageClass => "class",
        StorageKind::CsiNode => "csinode",
        StorageKind::Attachment => "attachment",
    }
}

fn node_aspects(aspects: &NodeAspects) -> String {
    named(&[
        ("allocatable", aspects.allocatable),
        ("labels", aspects.labels),
        ("taints", aspects.taints),
        ("images", aspects.images),
        ("features", aspects.declared_features),
    ])
}

fn pod_aspects(aspects: &PodAspects) -> String {
    named(&[
        ("labels", aspects.labels),
        ("tolerations", aspects.tolerations),
        ("gates gone", aspects.gates_gone),
        ("scaled down", aspects.scaled_down),
        ("spec", aspects.spec),
        ("terminating", aspects.terminating),
    ])
}

fn named(flags: &[(&str, bool)]) -> String {
    let set = flags.iter().filter(|(_, on)| *on).map(|(name, _)| *name);
    set.collect::<Vec<_>>().join(", ")
}
