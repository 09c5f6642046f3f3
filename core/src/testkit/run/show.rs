//! Answers as text.

use crate::framework::plan::{Limit, NameOf};
use crate::framework::{
    ClaimWrite, Normalize, Op, Points, PreFilterAnswer, Reason, StageDraft, Verdict, WriteDraft,
};
use crate::snapshot::devices::claims::ClaimRecord;
use crate::snapshot::{
    Change, Cluster, DeviceChange, GroupChange, NodeAspects, NodeIdx, PodAspects, StorageKind,
};
use crate::types::claim::{Allocation, Consumer, DeviceResult};
use crate::types::{PodRef, PodUid, Text};

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
        Op::Claim { claim, write, .. } => format!("{} {}", claim_write(write), claim.key),
        Op::Create { kind, namespace, name, body, .. } => {
            format!("creates {kind} {namespace}/{} {body}", named_by(name))
        }
        Op::Patch { kind, namespace, name, subresource, body, .. } => {
            let part = subresource.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
            format!("patches {kind}{part} {namespace}/{} {body}", named_by(name))
        }
        Op::Delete { kind, namespace, name } => {
            format!("deletes {kind} {namespace}/{}", named_by(name))
        }
        other => format!("{other:?}"),
    }
}

fn named_by(name: &NameOf) -> String {
    match name {
        NameOf::Known(name) => name.to_string(),
        NameOf::FromWrite(label) => format!("<name from {label}>"),
    }
}

fn claim_write(write: &ClaimWrite) -> String {
    match write {
        ClaimWrite::Read => "reads".to_owned(),
        ClaimWrite::Protect { .. } => "protects".to_owned(),
        ClaimWrite::Allocate { allocation: Some(new), pod, consumer } => {
            format!("writes {} for {} to", allocation(new), user(consumer, Some(pod)))
        }
        ClaimWrite::Allocate { allocation: None, pod, consumer } => {
            format!("adds {} to", user(consumer, Some(pod)))
        }
        ClaimWrite::Release { consumer, deallocate: true } => {
            format!("frees devices and {} of", user(consumer, None))
        }
        ClaimWrite::Release { consumer, deallocate: false } => {
            format!("takes {} off", user(consumer, None))
        }
    }
}

fn user(consumer: &Consumer, pod: Option<&PodRef>) -> String {
    match consumer {
        Consumer::Pod(uid) => pod.map_or_else(|| uid.to_string(), PodRef::to_string),
        Consumer::PodGroup { name, .. } => format!("pod group {name}"),
        Consumer::Other { uid } => format!("{uid}"),
    }
}

/// Returns a line a write or wait.
pub(super) fn stage(stage: &StageDraft, cluster: &Cluster) -> Vec<String> {
    match stage {
        StageDraft::Writes(writes) => {
            writes.iter().map(|w| format!("before bind {}", draft(w))).collect()
        }
        StageDraft::Wait(wait) => {
            let event = wait.event.as_ref();
            let event = event.map(|it| format!("before bind says {}: {}", it.reason, it.note));
            let limit = match wait.limit {
                Limit::Until(at) => format!("until {} s", at.0 / 1000),
                Limit::For(span) => match wait.condition.since(cluster) {
                    None => format!("{} s", span.as_millis() / 1000),
                    Some(since) => format!("until {} s", (since + span).0 / 1000),
                },
            };
            let wait = format!("before bind waits {limit}, then: {}", wait.on_expiry);
            event.into_iter().chain([wait]).collect()
        }
    }
}

fn draft(write: &WriteDraft) -> String {
    let undo = write.undo.as_ref().map(|undo| format!("; undo: {}", op(undo)));
    let read = write.read_back.as_ref().map(|back| format!("; if lost: {}", op(&back.read)));
    format!("{}{}{}", op(&write.op), undo.unwrap_or_default(), read.unwrap_or_default())
}

/// Returns what a plan holds for a claim.
pub(super) fn held(record: &ClaimRecord) -> String {
    let planned = record.planned.as_ref().map(|planned| allocation(&planned.allocation));
    format!("claim {} holds {}", record.claim.key, planned.unwrap_or_default())
}

fn allocation(allocation: &Allocation) -> String {
    let mut parts: Vec<String> = allocation.results.iter().map(result).collect();
    if let Some(selector) = &allocation.node_selector {
        let requirement = |r: &crate::types::Requirement| {
            let values: Vec<&str> = r.values.iter().map(Text::as_str).collect();
            format!("{} {:?} {}", r.key, r.operator, values.join(","))
        };
        let terms = selector.terms.iter().flat_map(|term| term.names.iter().chain(&term.labels));
        parts.push(format!("usable on {}", terms.map(requirement).collect::<Vec<_>>().join("; ")));
    }
    for config in &allocation.config {
        let from = if config.from_class { "class" } else { "claim" };
        let (driver, parameters) = (&config.config.driver, &config.config.parameters);
        let requests: Vec<&str> = config.config.requests.iter().map(Text::as_str).collect();
        parts.push(format!("config of {from} [{}] {driver} {parameters}", requests.join(",")));
    }
    format!("({})", parts.join(", "))
}

/// As in `allocated=` of the notation.
fn result(result: &DeviceResult) -> String {
    let mut text = format!("{} {}", result.request, result.id);
    let named = |amounts: &[(Text, crate::types::device::Quantity)]| {
        let amounts = amounts.iter().map(|(name, amount)| format!("{name}={}", amount.text));
        amounts.collect::<Vec<_>>().join(",")
    };
    let joined = |texts: &[Text]| texts.iter().map(Text::as_str).collect::<Vec<_>>().join(",");
    let share =
        result.share_id.as_ref().map(|_| format!(" share takes={}", named(&result.consumed)));
    text += &share.unwrap_or_default();
    text += if result.admin { " admin" } else { "" };
    if !result.tolerations.is_empty() {
        text += &format!(" tolerates {}", result.tolerations.len());
    }
    for (key, texts) in [
        ("ready", &result.binding_conditions),
        ("fails", &result.binding_failure_conditions),
        ("skip", &result.skip_node_operations),
    ] {
        if !texts.is_empty() {
            text += &format!(" {key}={}", joined(texts));
        }
    }
    text
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
        Change::Devices(change) => devices(change),
        Change::Groups(GroupChange::Group { key }) => format!("pod group {key} changed"),
        Change::Groups(GroupChange::Dialect { name }) => format!("dialect {name} changed"),
        Change::Groups(GroupChange::Topology { key }) => format!("topology {key} changed"),
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
        ("topology", aspects.topology),
        ("admission", aspects.admission),
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
        ("claims", aspects.claims),
    ])
}

fn named(flags: &[(&str, bool)]) -> String {
    let set = flags.iter().filter(|(_, on)| *on).map(|(name, _)| *name);
    set.collect::<Vec<_>>().join(", ")
}

fn devices(change: &DeviceChange) -> String {
    match change {
        DeviceChange::Slice => "slice applied".to_owned(),
        DeviceChange::SliceGone => "slice deleted".to_owned(),
        DeviceChange::Class => "device class applied".to_owned(),
        DeviceChange::ClassGone => "device class deleted".to_owned(),
        DeviceChange::TaintRule => "taint rule changed".to_owned(),
        DeviceChange::Claim { key, added: true, .. } => format!("claim {key} added"),
        DeviceChange::Claim { key, deallocated: true, .. } => format!("claim {key} deallocated"),
        DeviceChange::Claim { key, .. } => format!("claim {key} updated"),
        DeviceChange::ClaimGone { key } => format!("claim {key} deleted"),
        DeviceChange::Conflict(conflict) => format!("device {} granted twice", conflict.id),
    }
}
