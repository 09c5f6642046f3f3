//! kube-scheduler's reasons in plain words.

use super::paint::{GLUE, plain};

/// Returns `1 node`, `2 nodes`, to be kept on one line.
pub(super) fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1{GLUE}{noun}") } else { format!("{n}{GLUE}{noun}s") }
}

/// As [`counted`], for amounts.
pub(super) fn counted_i64(n: i64, noun: &str) -> String {
    if n == 1 { format!("1{GLUE}{noun}") } else { format!("{n}{GLUE}{noun}s") }
}

/// What a message of the form `0/4 nodes are available: 3 Insufficient cpu, … (numbers)` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Berth's own numbers, if the message has them.
    pub(super) numbers: Option<String>,
    /// Each reason with its number of nodes, most nodes first.
    pub(super) reasons: Vec<(usize, String)>,
}

/// Takes a message apart; None if it has another form.
pub(super) fn said(message: &str) -> Option<Said> {
    let (head, rest) = message.split_once(" nodes are available: ")?;
    head.strip_prefix("0/")?.parse::<usize>().ok()?;
    let (rest, numbers) = match rest.rsplit_once(". (") {
        Some((rest, numbers)) => (rest, numbers.strip_suffix(')').map(gpus_in_words)),
        None => (rest, None),
    };
    let rest = rest.split(". preemption: ").next().unwrap_or(rest);
    let mut reasons = reasons(rest.trim_end_matches('.'));
    if reasons.is_empty() {
        return None;
    }
    reasons.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Some(Said { numbers, reasons })
}

/// Splits `3 Insufficient cpu, 1 Too many pods`; a comma within a reason has no number after it.
fn reasons(text: &str) -> Vec<(usize, String)> {
    let mut reasons: Vec<(usize, String)> = Vec::new();
    for part in text.split(", ") {
        let counted = part.split_once(' ').and_then(|(n, reason)| Some((n.parse().ok()?, reason)));
        match (counted, reasons.last_mut()) {
            (Some((n, reason)), _) => reasons.push((n, reason.to_owned())),
            (None, Some((_, last))) => *last += &format!(", {part}"),
            (None, None) => return Vec::new(),
        }
    }
    reasons
}

/// Says a reason so that it follows `3 nodes`; `taints` are those that the pod doesn't tolerate.
pub(super) fn in_words(n: usize, reason: &str, taints: &[String]) -> String {
    let have = if n == 1 { "has" } else { "have" };
    let (is, does, lack) =
        if n == 1 { ("is", "doesn't", "lacks") } else { ("are", "don't", "lack") };
    if let Some(resource) = reason.strip_prefix("Insufficient ") {
        return format!("{have} too {}", resource_in_words(resource));
    }
    if let Some(what) = reason.strip_prefix("node(s) gave out ") {
        return format!("{} out {}", if n == 1 { "gives" } else { "give" }, plain(what));
    }
    if let Some(label) = reason.strip_prefix("node(s) didn't have the label ") {
        return format!("{lack} the label {}", plain(label));
    }
    match reason {
        "node(s) didn't give out GPU fractions" => format!("{does} give out parts of GPUs"),
        "node(s) had untolerated taint(s)" if taints.is_empty() => {
            format!("{have} a taint that it doesn't tolerate")
        }
        "node(s) had untolerated taint(s)" => format!("{have} the taint {}", taints.join(" or ")),
        "node(s) didn't match Pod's node affinity/selector" => {
            format!("{does} match its node selector or affinity")
        }
        "node(s) were unschedulable" => format!("{is} cordoned"),
        "Too many pods" => format!("{have} no pod slot left"),
        "node(s) didn't match pod topology spread constraints" => {
            "would spread its kind too unevenly".to_owned()
        }
        "node(s) didn't match pod topology spread constraints (missing required label)" => {
            format!("{lack} the label that it is to be spread over")
        }
        "node(s) didn't have free ports for the requested pod ports" => {
            format!("{have} its host port in use")
        }
        "node(s) didn't match the requested node name" => format!("{is} not the one it names"),
        other => format!("{have} {:?}", plain(other)).replace("\\\"", "\""),
    }
}

fn resource_in_words(resource: &str) -> String {
    match resource {
        "cpu" => "little free CPU".to_owned(),
        "memory" | "ephemeral-storage" => format!("little free {resource}"),
        "nvidia.com/gpu" | "amd.com/gpu" => "few free GPUs".to_owned(),
        "GPU fraction" => "little free of its GPUs".to_owned(),
        other => format!("few free {}", plain(other)),
    }
}

/// Says GPUs where a sentence of numbers names the resource.
fn gpus_in_words(numbers: &str) -> String {
    let mut words: Vec<String> = numbers.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let bare = words[at].trim_end_matches([',', ';']);
        if !matches!(bare, "nvidia.com/gpu" | "amd.com/gpu") {
            continue;
        }
        let tail = words[at][bare.len()..].to_owned();
        words[at] = format!("{}{tail}", if words[at - 1] == "1" { "GPU" } else { "GPUs" });
    }
    plain(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_apart() {
        let message = "0/12 nodes are available: 10 Insufficient nvidia.com/gpu, 2 node(s) had \
                       untolerated taint(s). (needs 8 nvidia.com/gpu; at most 4 are free on one node (h-3))";
        let said = said(message).unwrap();
        let numbers = "needs 8 GPUs; at most 4 are free on one node (h-3)";
        assert_eq!(said.numbers.as_deref(), Some(numbers));
        let words: Vec<String> =
            said.reasons.iter().map(|(n, reason)| in_words(*n, reason, &["a=b".into()])).collect();
        assert_eq!(words, ["have too few free GPUs", "have the taint a=b"]);
    }

    #[test]
    fn other_forms_are_left_alone_and_upstreams_preemption_part_is_dropped() {
        assert_eq!(said("no nodes available to schedule pods"), None);
        assert_eq!(said("0/3 nodes are available: claim \"x\" not found."), None);
        let said = said(
            "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: 1 x.",
        );
        assert_eq!(said.unwrap().reasons, [(1, "Too many pods".to_owned())]);
        assert_eq!(gpus_in_words("needs 1 nvidia.com/gpu; x"), "needs 1 GPU; x");
    }
}
