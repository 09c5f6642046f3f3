//! The lower part: who waits, and why, with numbers.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use berth_core::types::pod::TolerationOperator;
use berth_core::types::{GpuShare, Node, Pod, PodUid, ShareSize, Taint, TaintEffect};

use super::amounts::{gpus, label, n_gpus, shown_milli};
use super::paint::{GLUE, Paint, Piece, Style, cut, joined, padded, plain, width, words, wrap};
use super::pods::{name, shown_taint};
use super::words::{counted, counted_i64, in_words, said};
use super::{View, WIDTH};

const NAME_MAX: usize = 36;
const TAINTS_MAX: usize = 3;

/// Pods that wait for the same reason, the first of them first.
pub(super) struct Waiting<'a> {
    pods: Vec<&'a Pod>,
    why: Why,
}

#[derive(PartialEq, Eq)]
pub(super) struct Why {
    wants: String,
    /// The reason in one sentence.
    pub(super) reason: String,
    /// What keeps it from each node.
    pub(super) nodes: String,
}

impl Why {
    pub(super) fn of_text(reason: String) -> Why {
        Why { wants: String::new(), reason, nodes: String::new() }
    }
}

/// What is waited for.
pub(super) struct Waits<'a>(Vec<Waiting<'a>>);

impl Waits<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) fn waits(pod: &Pod) -> bool {
    pod.node_name.is_none() && !pod.finished()
}

/// Returns the pods that wait and are in no group, most important first.
pub(super) fn waiting<'a>(view: &View<'a>) -> Waits<'a> {
    let members: BTreeSet<&PodUid> = view.groups.iter().flat_map(|it| &it.members).collect();
    let alone = |pod: &&Pod| waits(pod) && !members.contains(&pod.uid);
    let mut pods: Vec<&Pod> = view.pods.iter().filter(alone).collect();
    pods.sort_by_key(|pod| (Reverse(pod.priority), pod.created, &pod.namespace, &pod.name));
    let mut all: Vec<Waiting<'_>> = Vec::new();
    for pod in pods {
        let why = why(pod, view);
        // Only neighbours are put together, so that the order stays that of the queue.
        match all.last_mut() {
            Some(last) if last.why == why => last.pods.push(pod),
            _ => all.push(Waiting { pods: vec![pod], why }),
        }
    }
    Waits(all)
}

pub(super) fn lines(waits: &Waits<'_>, paint: Paint) -> Vec<String> {
    let names: Vec<String> = waits.0.iter().map(names_of).collect();
    let name_wide = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let wants_wide = waits.0.iter().map(|waiting| width(&waiting.why.wants)).max().unwrap_or(0);
    let left = 2 + name_wide + 2 + if wants_wide > 0 { wants_wide + 2 } else { 0 };
    let right = WIDTH.saturating_sub(left).max(30);
    let mut lines = vec![paint.show(&Piece::new("Waiting", Style::Bold))];
    for (name, waiting) in names.iter().zip(&waits.0) {
        let named = padded(name.clone(), width(name), name_wide + 2);
        let wants =
            padded(waiting.why.wants.clone(), width(&waiting.why.wants), left - name_wide - 4);
        let mut text = wrap(words(&waiting.why.reason, Style::Waits), right);
        if !waiting.why.nodes.is_empty() {
            text.extend(wrap(words(&waiting.why.nodes, Style::Dim), right));
        }
        for (at, line) in text.iter().enumerate() {
            let left = if at == 0 { format!("  {named}{wants}") } else { " ".repeat(left) };
            lines.push(left + &joined(line, paint));
        }
    }
    lines
}

fn names_of(waiting: &Waiting<'_>) -> String {
    let first = waiting.pods.first().map_or(String::new(), |pod| name(pod));
    match waiting.pods.len() - 1 {
        0 => cut(&first, NAME_MAX),
        n_more => format!("{} and {n_more} more", cut(&first, NAME_MAX - 12)),
    }
}

pub(super) fn why(pod: &Pod, view: &View<'_>) -> Why {
    let (reason, nodes) = reason(pod, view);
    Why { wants: wants(pod), reason, nodes }
}

/// The GPUs that a pod asks for.
pub(super) fn wants(pod: &Pod) -> String {
    let requests = &pod.spec.requests.real;
    let text = match gpus(requests).as_slice() {
        [] => pod.gpu_share().map(|share| part(&share)).unwrap_or_default(),
        [(name, amount)] if !label(name).is_empty() => {
            format!("{amount} {}", cut(&plain(label(name)), 16))
        }
        _ => counted_i64(n_gpus(requests), "GPU"),
    };
    text.replace(GLUE, " ")
}

fn part(share: &GpuShare) -> String {
    let each = match share.size {
        ShareSize::Milli(milli) => format!("{} GPU", shown_milli(i64::from(milli))),
        ShareSize::Mib(mib) => format!("{mib} MiB of GPU"),
    };
    if share.n_gpus == 1 { each } else { format!("{}×{each}", share.n_gpus) }
}

fn reason(pod: &Pod, view: &View<'_>) -> (String, String) {
    let alone = |text: String| (text, String::new());
    if !pod.gates.is_empty() {
        let gates: Vec<String> = pod.gates.iter().map(|gate| plain(gate)).collect();
        return alone(format!("held back by scheduling gate {}", gates.join(", ")));
    }
    let scheduler = &pod.spec.scheduler_name;
    if !view.served.iter().any(|served| scheduler == served.as_str()) {
        return alone(format!("left to the scheduler {:?}", plain(scheduler)));
    }
    let Some(condition) = &pod.unscheduled else {
        return alone("not looked at yet".to_owned());
    };
    let Some(said) = said(&condition.message) else {
        return alone(plain(&condition.message));
    };
    let taints = untolerated(pod, view.nodes);
    let phrase = |(n, reason): &(usize, String)| {
        format!("{} {}", counted(*n, "node"), in_words(*n, reason, &taints))
    };
    let phrases: Vec<String> = said.reasons.iter().map(phrase).collect();
    match said.numbers {
        Some(numbers) => (numbers, phrases.join(", ")),
        None => alone(phrases.join(", ")),
    }
}

/// Returns the taints that keep the pod away, a few of them.
fn untolerated(pod: &Pod, nodes: &[Node]) -> Vec<String> {
    let repels = |taint: &&Taint| {
        let soft = taint.effect == TaintEffect::PreferNoSchedule;
        !soft && !tolerates(pod, taint)
    };
    // A cordoned node is told as such, though a controller taints it too.
    let open = nodes.iter().filter(|node| !node.unschedulable);
    let taints = open.flat_map(|node| &node.taints).filter(repels);
    let distinct: BTreeSet<String> = taints.map(shown_taint).collect();
    // Of too many it is not worth naming some.
    if distinct.len() > TAINTS_MAX { Vec::new() } else { distinct.into_iter().collect() }
}

/// Only for display: what counts is decided by TaintToleration.
fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| {
        let key = toleration.key.is_empty() || toleration.key == taint.key;
        let effect = toleration.effect.is_none_or(|effect| effect == taint.effect);
        let value = match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => toleration.value == taint.value,
            TolerationOperator::Lt | TolerationOperator::Gt => false,
        };
        key && effect && value
    })
}
