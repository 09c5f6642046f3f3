//! PodTopologySpread: keeps the pods that a selector selects evenly spread over zones, hosts or
//! whatever else a node label names.
//!
//! Source: upstream's podtopologyspread/{common,filtering,scoring,plugin}.go (1.37).

mod args;
mod constraints;
mod default_selector;
mod domains;
mod hints;
mod score;

use std::sync::Arc;

use berth_core::framework::{
    ClassPart, Classify, Cycle, CycleState, Filter, PluginDef, PreFilter, PreFilterAnswer, Reads,
    Reason, Verdict,
};
use berth_core::snapshot::{Cluster, IndexRef, NodeIdx};
use berth_core::types::{Pod, SpreadConstraint};

use constraints::{Constraint, Hardness};
use domains::Domains;

const NAME: &str = "PodTopologySpread";
/// Key of what PreScore keeps; PreFilter's is [`NAME`].
const SCORE_STATE: &str = "PodTopologySpread/score";
/// Keys of the layouts of hard and soft constraints.
const LAYOUT: &str = "PodTopologySpread/layout";
const SCORE_LAYOUT: &str = "PodTopologySpread/score layout";

const TOO_SKEWED: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "keeps the pods that a selector selects evenly spread over zones, hosts or other \
              domains",
    missing: None,
    build: |args, points| {
        let plugin = Arc::new(args::read(args));
        points.pre_filter(plugin.clone());
        points.filter(plugin.clone());
        points.pre_score(plugin.clone());
        points.score(plugin.clone());
        points.classify(plugin.clone());
        points.interest(plugin);
    },
};

#[derive(Clone, Debug, PartialEq, Eq)]
struct PodTopologySpread {
    /// For pods without constraints of their own; selectors are derived for each pod.
    defaults: Vec<SpreadConstraint>,
    /// They are upstream's, not a configuration's: nodes that lack some of the keys are scored too.
    system_defaulted: bool,
}

impl Classify for PodTopologySpread {
    /// The queries stand for namespace, labels named by `matchLabelKeys` and derived selectors;
    /// the numbers tell of each constraint whether it selects the pod itself and has a query.
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        let mut part = ClassPart::default();
        for hardness in [Hardness::Hard, Hardness::Soft] {
            for constraint in self.constraints(pod, cluster, hardness) {
                let query = constraint.query(&pod.namespace);
                let bits = i64::from(constraint.selects(&pod.labels))
                    + 2 * i64::from(query.is_some())
                    + 4 * i64::from(hardness == Hardness::Hard);
                part.numbers.push(bits);
                part.queries.extend(query);
            }
        }
        part
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        let constraints = self.constraints(cycle.pod, cycle.cluster, Hardness::Hard);
        if constraints.is_empty() {
            return PreFilterAnswer::Skip;
        }
        let findings = Findings::of(cycle, &constraints, state);
        state.put(NAME, findings);
        PreFilterAnswer::Continue
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        self.reads_of(cycle, Hardness::Hard)
    }
}

impl Filter for PodTopologySpread {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        match state.kept::<Findings>(NAME) {
            Some(findings) => findings.verdict(node),
            None => {
                let constraints = self.constraints(cycle.pod, cycle.cluster, Hardness::Hard);
                let mut state = CycleState::default();
                Findings::of(cycle, &constraints, &mut state).verdict(node)
            }
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        self.reads_of(cycle, Hardness::Hard)
    }
}

impl PodTopologySpread {
    fn reads_of(&self, cycle: Cycle<'_>, hardness: Hardness) -> Reads {
        let mut indexes = Vec::new();
        if self.derives_selector(cycle.pod, hardness) {
            indexes.push(IndexRef::SelectorOwners);
        }
        let constraints = self.constraints(cycle.pod, cycle.cluster, hardness);
        if !constraints.is_empty() {
            indexes.push(IndexRef::Topology);
            if hardness == Hardness::Hard {
                indexes.push(IndexRef::Within);
            }
        }
        let queries = constraints.iter().filter_map(|c| c.query(&cycle.pod.namespace));
        indexes.extend(queries.map(IndexRef::Counts));
        Reads { indexes }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Even,
    TooSkewed,
    NoLabel,
}

/// Filter's answers, worked out for all nodes at once. Where a group stays within some nodes, those
/// alone count. Cost: O(nodes · constraints); one byte a
/// node is kept.
struct Findings {
    of_node: Vec<Finding>,
    too_skewed: Reason,
    no_label: Reason,
}

impl Findings {
    fn of(cycle: Cycle<'_>, constraints: &[Constraint], state: &mut CycleState) -> Findings {
        let nodes = cycle.cluster.nodes();
        let within = cycle.cluster.within();
        let surveys = domains::survey(cycle, constraints, within, true, state, LAYOUT);
        let rules: Vec<Rule> = constraints
            .iter()
            .zip(&surveys)
            .map(|(constraint, domains)| Rule::of(constraint, domains, cycle.pod))
            .collect();
        let mut of_node = vec![Finding::Even; nodes.capacity()];
        for (node, _) in nodes.iter() {
            // The first constraint that is not met gives the answer, as upstream.
            let found = rules.iter().map(|rule| rule.finding(node)).find(|f| *f != Finding::Even);
            of_node[node.at()] = found.unwrap_or(Finding::Even);
        }
        Findings { of_node, too_skewed: TOO_SKEWED.into(), no_label: NO_LABEL.into() }
    }

    fn verdict(&self, node: NodeIdx) -> Verdict {
        match self.of_node.get(node.at()) {
            None | Some(Finding::Even) => Verdict::Fit,
            Some(Finding::TooSkewed) => Verdict::Unschedulable(self.too_skewed.clone()),
            Some(Finding::NoLabel) => Verdict::Unresolvable(self.no_label.clone()),
        }
    }
}

/// One hard constraint with what its domains hold.
struct Rule<'a> {
    domains: &'a Domains,
    /// The most pods that a domain may hold before this one comes.
    count_max: i64,
}

impl<'a> Rule<'a> {
    /// Rule: pods in the domain + 1 if the pod counts itself − pods in the emptiest domain must
    /// not exceed `maxSkew`. With fewer domains than `minDomains` the emptiest holds 0.
    fn of(constraint: &Constraint, domains: &'a Domains, pod: &Pod) -> Rule<'a> {
        let own = i64::from(constraint.selects(&pod.labels));
        let fewest = if domains.counted() < constraint.min_domains {
            0
        } else {
            // Without any domain upstream starts from this bound; only a default constraint with
            // `minDomains: 0` gets here.
            domains.fewest().unwrap_or(i64::from(i32::MAX))
        };
        Rule { domains, count_max: constraint.max_skew.saturating_add(fewest) - own }
    }

    fn finding(&self, node: NodeIdx) -> Finding {
        match self.domains.of(node) {
            None => Finding::NoLabel,
            Some(domain) if self.domains.count(domain) > self.count_max => Finding::TooSkewed,
            Some(_) => Finding::Even,
        }
    }
}
