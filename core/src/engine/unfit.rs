//! Why a pod has no place: what each node's verdict amounts to, for its message and for PostFilter.

use std::collections::BTreeMap;

use crate::framework::{Cycle, NodeSet, Point, PreFilterAnswer, Reason, Verdict};
use crate::queue::Rejection;
use crate::snapshot::{Cluster, NodeIdx};
use crate::types::{Pod, Text};

use super::crowded::Crowded;
use super::guard::guarded;
use super::judge::verdict_of;
use super::message::FitError;
use super::placing::Placer;
use super::report::Rejected;
use super::table::{Table, Unready};
use super::timing::Code;

/// What is said of nodes where a member of a group was placed, and the others found no place.
const IN_VAIN: &str = "node(s) left no place for the group's other members";

/// What is said of nodes that take the pod, but are not where the group's other members are.
const OUTSIDE: &str = "node(s) are outside the placement of the group";

/// What is said of nodes that take the pod, but where its group may have no more members.
const FULL: &str =
    "node(s) are in domains that have as many pods of the group as they may, or in none";

/// Why a member was not placed.
pub(super) enum Unplaced {
    Paused,
    /// It fits nowhere.
    Unfit(Box<Unfit>),
    /// A consultant must be asked about these nodes first.
    Ask {
        consultant: usize,
        nodes: NodeSet,
    },
    /// Bad data or a fault.
    Error(Text),
}

impl Unplaced {
    /// Returns what went wrong, for outcomes that should not have come so far.
    pub(super) fn fault(self) -> Text {
        match self {
            Unplaced::Error(text) => text,
            Unplaced::Unfit(unfit) => unfit.error.message().into(),
            Unplaced::Paused | Unplaced::Ask { .. } => Text::from("the search was not carried on"),
        }
    }
}

#[derive(Default)]
pub(super) struct Unfit {
    pub(super) error: FitError,
    pub(super) rejection: Rejection,
    /// Nodes by plugin and reason text.
    rejected: BTreeMap<(&'static str, Text), usize>,
    /// A node was Broken: if nothing fits, this is an error and no lack of room.
    pub(super) broken: Option<Text>,
    /// By node, for PostFilter; `None` if it has no say: the pod fits, but was refused later.
    pub(super) verdicts: Option<Vec<Verdict>>,
}

impl Placer<'_> {
    pub(super) fn unready(&self, unready: Unready, cluster: &Cluster) -> Unplaced {
        let (plugin, answer) = match unready {
            Unready::Paused => return Unplaced::Paused,
            Unready::Rejected { plugin, answer } => (plugin, answer),
        };
        let mut unfit = Unfit::default();
        unfit.error.nodes = cluster.nodes().len();
        let pending = matches!(answer, PreFilterAnswer::Pending(_));
        let verdict = verdict_of(answer);
        let reason = match &verdict {
            Verdict::Broken(text) => return Unplaced::Error(text.clone()),
            Verdict::Unschedulable(reason) | Verdict::Unresolvable(reason) => reason.clone(),
            Verdict::Fit => Reason::default(),
        };
        let said_no =
            if pending { &mut unfit.rejection.pending } else { &mut unfit.rejection.plugins };
        said_no.push(plugin);
        let text = Text::from(reason.texts.join(", "));
        let nodes = unfit.error.nodes;
        unfit.rejected.insert((plugin, text.clone()), nodes);
        unfit.error.pre_filter = Some(text);
        if !self.profile.post_filter.is_empty() {
            unfit.verdicts = Some(vec![verdict; cluster.nodes().capacity()]);
        }
        Unplaced::Unfit(Box::new(unfit))
    }

    pub(super) fn unfit(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        table: &Table,
        crowded: &[Crowded],
        tried: &NodeSet,
    ) -> Unplaced {
        let mut unfit = Unfit::default();
        unfit.error.nodes = cluster.nodes().len();
        let mut plugins: Vec<&'static str> = Vec::new();
        for (plugin, verdict, nodes) in table.rejections(self.profile) {
            unfit.note(plugin, verdict, nodes);
            if plugin.is_empty() {
                plugins.extend(table.restricting_plugins());
            } else {
                plugins.push(plugin);
            }
        }
        for (_, plugin, verdict) in crowded {
            unfit.note(plugin, verdict, 1);
            plugins.push(plugin);
        }
        let is_crowded = |node: NodeIdx| crowded.iter().any(|(other, ..)| *other == node);
        let uncrowded = || table.fit.iter().filter(|node| !is_crowded(*node));
        let in_vain = uncrowded().filter(|node| tried.contains(*node)).count();
        unfit.note("", &Verdict::Unschedulable(Reason::of(IN_VAIN)), in_vain);
        let outside = |node: &NodeIdx| !tried.contains(*node) && !self.is_within(*node);
        let outside = uncrowded().filter(outside).count();
        unfit.note("", &Verdict::Unschedulable(Reason::of(OUTSIDE)), outside);
        let full = |node: &NodeIdx| {
            !tried.contains(*node) && self.is_within(*node) && !self.is_open(*node)
        };
        let full = uncrowded().filter(full).count();
        unfit.note("", &Verdict::Unschedulable(Reason::of(FULL)), full);
        let refused = table.fit.len() - crowded.len() - in_vain - outside - full;
        if refused > 0 {
            let verdict = Verdict::Unschedulable(Reason::of("node(s) refused by extender"));
            unfit.note("Extender", &verdict, refused);
            // Nobody tells what would change an extender's mind: anything may.
            plugins.push("Extender");
        }
        plugins.sort_unstable();
        plugins.dedup();
        unfit.rejection = Rejection { plugins, pending: Vec::new() };
        if let Some(text) = unfit.broken.take() {
            self.timing.went(Point::Filter, Code::Error);
            return Unplaced::Error(text);
        }
        if !self.profile.post_filter.is_empty() {
            unfit.verdicts = Some(verdicts(cluster, table, crowded));
            unfit.keep_to(|node| self.is_within(node) && self.is_open(node));
        }
        let cycle = Cycle { pod, cluster };
        for entry in &self.profile.explain {
            let turned_away = unfit.rejection.plugins.contains(&entry.name);
            let told = || entry.plugin.explain(cycle, &table.state);
            if turned_away && let Ok(Some(text)) = guarded(entry.name, told) {
                unfit.error.numbers.push(text);
            }
        }
        Unplaced::Unfit(Box::new(unfit))
    }
}

fn verdicts(cluster: &Cluster, table: &Table, crowded: &[Crowded]) -> Vec<Verdict> {
    let gone = Verdict::Unresolvable(Reason::of("node is gone"));
    let nodes = (0..cluster.nodes().capacity()).map(|at| NodeIdx(at as u32));
    let mut verdicts: Vec<Verdict> =
        nodes.map(|node| table.verdict(node).cloned().unwrap_or_else(|| gone.clone())).collect();
    for (node, _, verdict) in crowded {
        verdicts[node.at()] = verdict.clone();
    }
    verdicts
}

/// What a Reserve or Permit plugin's no amounts to: it is about one node, as upstream tells it.
pub(super) fn refused(plugin: &'static str, reason: &Reason) -> Unplaced {
    let mut unfit = Unfit { rejection: Rejection::by(plugin), ..Unfit::default() };
    unfit.error.nodes = 1;
    unfit.note(plugin, &Verdict::Unschedulable(reason.clone()), 1);
    Unplaced::Unfit(Box::new(unfit))
}

impl Unfit {
    /// Whoever is evicted elsewhere makes no room for the pod.
    pub(super) fn keep_to(&mut self, nodes: impl Fn(NodeIdx) -> bool) {
        let elsewhere = Verdict::Unresolvable(Reason::of(OUTSIDE));
        for (at, verdict) in self.verdicts.iter_mut().flatten().enumerate() {
            if !nodes(NodeIdx(at as u32)) {
                *verdict = elsewhere.clone();
            }
        }
    }

    fn note(&mut self, plugin: &'static str, verdict: &Verdict, nodes: usize) {
        if nodes == 0 {
            return;
        }
        self.error.count(verdict, nodes);
        let texts = match verdict {
            Verdict::Fit => return,
            Verdict::Unschedulable(reason) | Verdict::Unresolvable(reason) => &reason.texts[..],
            Verdict::Broken(text) => {
                let told = Text::from(format!("running {plugin:?} filter plugin: {text}"));
                // Whatever order the nodes were looked at in, one text speaks for all.
                self.broken = self.broken.take().into_iter().chain([told]).min();
                std::slice::from_ref(text)
            }
        };
        for text in texts {
            *self.rejected.entry((plugin, text.clone())).or_default() += nodes;
        }
    }

    /// Returns the rows of a report.
    pub(super) fn take_rejected(&mut self) -> Vec<Rejected> {
        let rows = std::mem::take(&mut self.rejected).into_iter();
        rows.map(|((plugin, reason), nodes)| Rejected { plugin, reason, nodes }).collect()
    }
}
