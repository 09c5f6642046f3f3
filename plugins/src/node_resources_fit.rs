//! NodeResourcesFit: turns away nodes with too little of what the pod requests, and rates the rest
//! by how full they would be.
//!
//! Source: upstream's noderesources/fit.go (1.37).

mod args;
mod explain;
mod hints;
mod needs;
mod placements;
mod strategy;

use std::sync::Arc;

use berth_core::framework::{
    ClassPart, Classify, Cycle, CycleState, Filter, NodeSet, PluginDef, PreFilter, PreFilterAnswer,
    PreScore, PreScoreAnswer, Score, Verdict,
};
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::{Pod, Text};

use crate::shared::scored::{Asked, Basis, Weighted};

use needs::{Ignored, Needs};
use strategy::Strategy;

const NAME: &str = "NodeResourcesFit";
/// Key of what PreScore keeps; PreFilter's is [`NAME`].
const SCORE_STATE: &str = "NodeResourcesFit/score";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes with too little of what the pod requests and rates how full the \
              others would be",
    missing: None,
    build: |args, points| {
        let plugin = Arc::new(args::read(args));
        points.pre_filter(plugin.clone());
        points.filter(plugin.clone());
        points.pre_score(plugin.clone());
        points.score(plugin.clone());
        points.interest(plugin.clone());
        points.classify(plugin.clone());
        points.room(plugin.clone());
        points.placement_score(plugin.clone());
        points.explain(plugin);
    },
};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fit {
    ignored: Ignored,
    strategy: Strategy,
    resources: Vec<Weighted>,
}

impl Fit {
    fn needs(&self, cycle: Cycle<'_>) -> Needs {
        Needs::of(&cycle.pod.spec.requests.real, &self.ignored, cycle.cluster)
    }

    fn asked(&self, cycle: Cycle<'_>) -> Asked {
        let requests = &cycle.pod.spec.requests;
        Asked::of(requests, &self.resources, Basis::Nonzero, cycle.cluster.nodes())
    }
}

impl Classify for Fit {
    /// Which of the pod's resources devices may stand in for: that changes with device classes.
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        let mut part = ClassPart::default();
        if !pod.spec.extended.is_empty() {
            let names = pod.spec.requests.real.iter().map(|(name, _)| name);
            part.texts.extend(names.filter(|name| needs::backed(name, cluster)).map(Text::from));
        }
        part
    }
}

impl PreFilter for Fit {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        // Not even a pod without requests is skipped: it takes a pod slot.
        state.put(NAME, self.needs(cycle));
        PreFilterAnswer::Continue
    }
}

impl Filter for Fit {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        let nodes = cycle.cluster.nodes();
        match state.kept::<Needs>(NAME) {
            Some(needs) => needs.verdict(nodes, node),
            None => self.needs(cycle).verdict(nodes, node),
        }
    }
}

impl PreScore for Fit {
    fn pre_score(
        &self,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        _feasible: &NodeSet,
    ) -> PreScoreAnswer {
        state.put(SCORE_STATE, self.asked(cycle));
        PreScoreAnswer::Continue
    }
}

impl Score for Fit {
    fn score(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        let nodes = cycle.cluster.nodes();
        match state.kept::<Asked>(SCORE_STATE) {
            Some(asked) => self.strategy.score(asked.loads(nodes, node)),
            None => self.strategy.score(self.asked(cycle).loads(nodes, node)),
        }
    }
}
