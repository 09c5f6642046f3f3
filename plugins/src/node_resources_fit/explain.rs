//! Berth's own numbers for a pod that fits nowhere: what it needs and the most there is.

use berth_core::framework::{Cycle, CycleState, Explain};
use berth_core::snapshot::NodeIdx;
use berth_core::snapshot::nodes::Nodes;
use berth_core::types::Text;

use crate::shared::{amount, is_open};

use super::needs::{Need, Needs, free_slots};
use super::{Fit, NAME};

impl Explain for Fit {
    fn explain(&self, cycle: Cycle<'_>, state: &CycleState) -> Option<Text> {
        let own;
        let needs = match state.kept::<Needs>(NAME) {
            Some(needs) => needs,
            None => {
                own = self.needs(cycle);
                &own
            }
        };
        let nodes = cycle.cluster.nodes();
        let open: Vec<NodeIdx> =
            nodes.iter().filter(|(_, node)| is_open(cycle, node)).map(|(idx, _)| idx).collect();
        if open.is_empty() || open.iter().any(|node| needs.verdict(nodes, *node).fits()) {
            return None;
        }
        Some(sentence(needs, nodes, &open).into())
    }
}

/// Says the strongest thing that is true of `open`: what can never fit, else what nowhere is free,
/// else that it is not free together.
fn sentence(needs: &Needs, nodes: &Nodes, open: &[NodeIdx]) -> String {
    let peaks: Vec<Peak> = needs.entries.iter().map(|need| Peak::of(need, nodes, open)).collect();
    let never: Vec<String> = peaks.iter().filter_map(Peak::never).collect();
    if !never.is_empty() {
        return never.join(", and ");
    }
    let not_now: Vec<String> = peaks.iter().filter_map(|peak| peak.not_now(nodes)).collect();
    if !not_now.is_empty() {
        return not_now.join(", and ");
    }
    if open.iter().all(|node| free_slots(nodes, *node) < 1) {
        return "needs a pod slot; no node that it may use has one free".to_owned();
    }
    together(needs, nodes, open)
}

/// The most that any node has of a needed resource.
struct Peak<'a> {
    need: &'a Need,
    total: i64,
    free: i64,
    freest: NodeIdx,
}

impl<'a> Peak<'a> {
    fn of(need: &'a Need, nodes: &Nodes, open: &[NodeIdx]) -> Peak<'a> {
        let mut peak = Peak { need, total: 0, free: i64::MIN, freest: NodeIdx(0) };
        for node in open {
            let stock = need.stock(nodes, *node);
            peak.total = peak.total.max(stock.total);
            if stock.free() > peak.free {
                (peak.free, peak.freest) = (stock.free(), *node);
            }
        }
        peak
    }

    fn never(&self) -> Option<String> {
        let Need { name, amount: needed, .. } = self.need;
        if *needed <= self.total {
            return None;
        }
        let wanted = amount::shown(name, *needed);
        Some(if self.total == 0 {
            format!("needs {wanted}; no node that it may use has any")
        } else {
            format!("needs {wanted}; the largest node has {}", amount::bare(name, self.total))
        })
    }

    fn not_now(&self, nodes: &Nodes) -> Option<String> {
        let Need { name, amount: needed, .. } = self.need;
        if *needed <= self.free {
            return None;
        }
        let wanted = amount::shown(name, *needed);
        let freest = &nodes.slot(self.freest).name;
        Some(if self.free <= 0 {
            format!("needs {wanted}; none is free on any node")
        } else {
            let free = amount::bare(name, self.free);
            let are = if free == "1" { "is" } else { "are" };
            format!("needs {wanted}; at most {free} {are} free on one node ({freest})")
        })
    }
}

/// Each resource is free somewhere, but not all on one node: names the node that lacks least.
fn together(needs: &Needs, nodes: &Nodes, open: &[NodeIdx]) -> String {
    let lacks = |node: NodeIdx| -> Vec<String> {
        let mut lacks = Vec::new();
        if free_slots(nodes, node) < 1 {
            lacks.push("a pod slot".to_owned());
        }
        for need in &needs.entries {
            let missing = need.amount.saturating_sub(need.stock(nodes, node).free());
            if missing > 0 {
                lacks.push(amount::shown(&need.name, missing));
            }
        }
        lacks
    };
    let closest = open.iter().map(|node| (lacks(*node), *node)).min_by(|(a, m), (b, n)| {
        a.len().cmp(&b.len()).then_with(|| nodes.slot(*m).name.cmp(&nodes.slot(*n).name))
    });
    let wanted: Vec<String> =
        needs.entries.iter().map(|need| amount::shown(&need.name, need.amount)).collect();
    let closest = closest.map_or(String::new(), |(lacks, node)| {
        format!("; {} lacks only {}", nodes.slot(node).name, lacks.join(", "))
    });
    format!("needs {} on one node{closest}", wanted.join(", "))
}
