//! What a table says of nodes: the verdict of each, and how many were turned away for what.

use crate::framework::{NodeSet, Profile, Verdict};
use crate::snapshot::NodeIdx;

use super::{AnswerId, BY_PRE_FILTER, FIT, NO_NODE, Table, WideFilter};

impl Table {
    /// Tells whether pods of the class fit or not by how many others there are in a domain.
    pub(crate) fn counts_pods(&self) -> bool {
        self.wide.iter().any(|wide| wide.counts)
    }

    /// Returns the nodes that fit, or would if other pods came where they are counted.
    pub(crate) fn may_fit(&self) -> NodeSet {
        if !self.counts_pods() {
            return self.fit.clone();
        }
        let passes = |wide: &WideFilter, node: usize| match self
            .answers
            .get(usize::from(wide.answers[node]))
        {
            Some((_, Verdict::Fit)) => true,
            Some((_, Verdict::Unschedulable(_))) => wide.counts,
            Some(_) | None => false,
        };
        let nodes = (0..self.narrow_answers.len()).filter(|at| self.narrow_answers[*at] == FIT);
        let may = nodes.filter(|at| self.wide.iter().all(|wide| passes(wide, *at)));
        may.map(|at| NodeIdx(at as u32)).collect()
    }

    /// Returns the answer about `node`: that of the first filter, in the profile's order, that
    /// turned it away. `None` where there is no node.
    fn answer_of(&self, node: NodeIdx) -> Option<AnswerId> {
        let narrow = *self.narrow_answers.get(node.at())?;
        if narrow == NO_NODE {
            return None;
        }
        let place = |id: AnswerId| match self.answers[usize::from(id)].0 {
            _ if id == FIT => (2, 0),
            BY_PRE_FILTER => (0, 0),
            at => (1, at),
        };
        let wide = self.wide.iter().map(|w| w.answers[node.at()]).filter(|id| *id != FIT);
        wide.chain([narrow]).min_by_key(|id| place(*id))
    }

    /// Counts nodes by answer, Fit left out. Shape: (filter's name, verdict, nodes).
    pub(crate) fn rejections<'a>(
        &'a self,
        profile: &Profile,
    ) -> Vec<(&'static str, &'a Verdict, usize)> {
        let mut counts = vec![0usize; self.answers.len()];
        for at in 0..self.narrow_answers.len() {
            if let Some(id) = self.answer_of(NodeIdx(at as u32)) {
                counts[usize::from(id)] += 1;
            }
        }
        let answers = self.answers.iter().zip(counts).skip(1).filter(|(_, count)| *count > 0);
        answers.map(|((at, verdict), count)| (filter_name(profile, *at), verdict, count)).collect()
    }

    /// Returns the verdict about `node`, none where there is no node.
    pub(crate) fn verdict(&self, node: NodeIdx) -> Option<&Verdict> {
        self.answer_of(node).map(|id| &self.answers[usize::from(id)].1)
    }

    pub(crate) fn restricting_plugins(&self) -> &[&'static str] {
        &self.only.plugins
    }

    /// Number of nodes that PreFilter left, `None` if it left all.
    pub(crate) fn restricted_to(&self) -> Option<usize> {
        self.only.nodes.as_ref().map(NodeSet::len)
    }
}

fn filter_name(profile: &Profile, at: usize) -> &'static str {
    profile.filter.get(at).map_or("", |entry| entry.name)
}
