//! The text of PodScheduled=False: kube-scheduler's to the byte, Berth's numbers after it.

use std::collections::BTreeMap;

use crate::framework::Verdict;
use crate::types::Text;

/// Why a pod fits nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FitError {
    pub(crate) nodes: usize,
    /// Number of placements that the pod's group was tried in, if it is bound to one of several.
    pub(crate) placements: Option<usize>,
    /// PreFilter turned the pod away: its text stands alone.
    pub(crate) pre_filter: Option<Text>,
    /// Nodes by reason text; a node with two reasons counts for both.
    pub(crate) reasons: BTreeMap<Text, usize>,
    /// What PostFilter says, with its prefix.
    pub(crate) post_filter: Option<Text>,
    /// Berth's own numbers.
    pub(crate) numbers: Vec<Text>,
}

impl FitError {
    pub(crate) fn count(&mut self, verdict: &Verdict, nodes: usize) {
        match verdict {
            Verdict::Fit => {}
            Verdict::Unschedulable(reason) | Verdict::Unresolvable(reason) => {
                for text in reason.texts.iter() {
                    *self.reasons.entry(text.clone()).or_default() += nodes;
                }
            }
            Verdict::Broken(text) => *self.reasons.entry(text.clone()).or_default() += nodes,
        }
    }

    /// Returns the reason texts without counts: a condition whose texts are the same is not
    /// worth another write.
    pub(crate) fn texts(&self) -> Vec<Text> {
        match &self.pre_filter {
            Some(text) => vec![text.clone()],
            None => self.reasons.keys().cloned().collect(),
        }
    }

    /// Source: `FitError.Error` of upstream's framework/types.go; schedule_one_podgroup.go for groups
    /// with placements.
    pub(crate) fn message(&self) -> String {
        let message = self.of_nodes();
        match self.placements {
            Some(n) => {
                format!("0/{n} placements are available, first placement status: {message}")
            }
            None => message,
        }
    }

    fn of_nodes(&self) -> String {
        if self.nodes == 0 && self.pre_filter.is_none() {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut message = format!("0/{} nodes are available:", self.nodes);
        match &self.pre_filter {
            Some(text) => message += &format!(" {text}."),
            None => {
                let mut parts: Vec<String> =
                    self.reasons.iter().map(|(text, count)| format!("{count} {text}")).collect();
                parts.sort();
                if !parts.is_empty() {
                    message += &format!(" {}.", parts.join(", "));
                }
            }
        }
        if let Some(text) = &self.post_filter {
            message += &format!(" {text}");
        }
        if !self.numbers.is_empty() {
            message += &format!(" ({})", self.numbers.join("; "));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::Reason;

    #[test]
    fn reasons_are_sorted_as_texts_and_numbers_follow() {
        let mut error = FitError { nodes: 14, ..FitError::default() };
        error.count(&Verdict::Unschedulable(Reason::of("Insufficient nvidia.com/gpu")), 2);
        let both = Reason::from(vec!["Insufficient cpu".into(), "Too many pods".into()]);
        error.count(&Verdict::Unschedulable(both), 12);
        error.numbers.push("needs 8".into());
        assert_eq!(
            error.message(),
            "0/14 nodes are available: 12 Insufficient cpu, 12 Too many pods, \
             2 Insufficient nvidia.com/gpu. (needs 8)"
        );
    }

    #[test]
    fn a_prefilter_text_stands_alone_and_no_nodes_have_their_own() {
        let error = FitError { nodes: 3, pre_filter: Some("x".into()), ..FitError::default() };
        assert_eq!(error.message(), "0/3 nodes are available: x.");
        assert_eq!(FitError::default().message(), "no nodes available to schedule pods");
    }
}
