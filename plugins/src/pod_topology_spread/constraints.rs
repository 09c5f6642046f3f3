//! The constraints that hold for a pod: its own, or the profile's defaults.

use berth_core::snapshot::{Cluster, CountQuery};
use berth_core::types::{
    LabelSelector, Labels, Operator, Pod, Requirement, SpreadConstraint, Text,
};

use super::PodTopologySpread;
use super::default_selector::default_selector;

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Whether an empty selector counts pods. Up to 1.37 it counts none, although it selects the pod
/// itself; 1.38.0-alpha.1 lets it count all (CHANGELOG-1.38).
///
/// Source: `countPodsMatchSelector` of upstream's podtopologyspread/common.go (1.37).
const EMPTY_SELECTOR_COUNTS: bool = false;

/// What upstream takes for a constraint without `minDomains`.
const MIN_DOMAINS_DEFAULT: i32 = 1;

/// `whenUnsatisfiable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hardness {
    /// DoNotSchedule: Filter's.
    Hard,
    /// ScheduleAnyway: Score's.
    Soft,
}

/// A constraint with the selector that holds for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) topology_key: Text,
    pub(super) min_domains: i64,
    pub(super) honor_node_affinity: bool,
    pub(super) honor_node_taints: bool,
    /// None selects nothing.
    selector: Option<LabelSelector>,
}

impl Constraint {
    fn of(constraint: &SpreadConstraint, selector: Option<LabelSelector>) -> Constraint {
        let min_domains = constraint.min_domains.unwrap_or(MIN_DOMAINS_DEFAULT);
        Constraint {
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            min_domains: i64::from(min_domains),
            honor_node_affinity: constraint.honor_node_affinity,
            honor_node_taints: constraint.honor_node_taints,
            selector,
        }
    }

    pub(super) fn by_hostname(&self) -> bool {
        self.topology_key == HOSTNAME
    }

    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.selects(labels))
    }

    /// Returns what is to be counted; `None` where nothing counts.
    pub(super) fn query(&self, namespace: &Text) -> Option<CountQuery> {
        let selector = self.selector.as_ref()?;
        if selector.is_empty() && !EMPTY_SELECTOR_COUNTS {
            return None;
        }
        Some(CountQuery { namespace: namespace.clone(), selector: selector.clone() })
    }
}

impl PodTopologySpread {
    /// Returns the pod's own constraints of that hardness or, if it has none of any, the defaults.
    pub(super) fn constraints(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        hardness: Hardness,
    ) -> Vec<Constraint> {
        let wanted = |c: &&SpreadConstraint| c.hard == (hardness == Hardness::Hard);
        if !pod.spec.spread.is_empty() {
            let own = pod.spec.spread.iter().filter(wanted);
            return own.map(|c| Constraint::of(c, own_selector(c, &pod.labels))).collect();
        }
        if !self.derives_selector(pod, hardness) {
            return Vec::new();
        }
        let selector = default_selector(pod, cluster);
        if selector.is_empty() {
            return Vec::new();
        }
        let defaults = self.defaults.iter().filter(wanted);
        defaults.map(|c| Constraint::of(c, Some(selector.clone()))).collect()
    }

    /// Tells whether services and controllers decide what is counted for the pod.
    pub(super) fn derives_selector(&self, pod: &Pod, hardness: Hardness) -> bool {
        pod.spec.spread.is_empty()
            && self.defaults.iter().any(|c| c.hard == (hardness == Hardness::Hard))
    }

    /// Tells whether only nodes with all keys of the constraints take part in scoring.
    pub(super) fn scores_need_all_keys(&self, pod: &Pod) -> bool {
        !pod.spec.spread.is_empty() || !self.system_defaulted
    }
}

/// Returns the constraint's selector, narrowed to the pod's values of `matchLabelKeys`; keys that
/// the pod lacks narrow nothing. A selector that selects nothing stays so.
fn own_selector(constraint: &SpreadConstraint, labels: &Labels) -> Option<LabelSelector> {
    let mut selector = constraint.selector.clone()?;
    let with_value = |key: &Text| Some((key.clone(), labels.value(key)?.clone()));
    let merged = constraint
        .match_label_keys
        .iter()
        .filter_map(with_value)
        .map(|(key, value)| Requirement { key, operator: Operator::In, values: vec![value] });
    selector.requirements.extend(merged);
    Some(canonical(selector))
}

/// Brings a selector into one form, so that equal ones are counted once.
pub(super) fn canonical(mut selector: LabelSelector) -> LabelSelector {
    selector.requirements.sort();
    selector.requirements.dedup();
    selector
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_core::framework::Args;
    use berth_core::types::{PodSpec, Value};

    use super::*;

    fn constraint(selector: Option<LabelSelector>, match_label_keys: &[&str]) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: 1,
            topology_key: HOSTNAME.into(),
            hard: true,
            selector,
            min_domains: None,
            honor_node_affinity: true,
            honor_node_taints: false,
            match_label_keys: match_label_keys.iter().map(|k| Text::from(*k)).collect(),
        }
    }

    fn check(selector: Option<LabelSelector>, keys: &[&str], selects_self: bool, counts: bool) {
        let plugin = super::super::args::read(&Args::new("args", &Value::Null));
        let pod = Pod {
            labels: Labels::new(vec![("app".into(), "a".into()), ("rev".into(), "1".into())]),
            spec: Arc::new(PodSpec {
                spread: vec![constraint(selector, keys)],
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        let cluster = Cluster::default();
        let found = plugin.constraints(&pod, &cluster, Hardness::Hard);
        assert_eq!(found[0].selects(&pod.labels), selects_self);
        assert_eq!(found[0].query(&pod.namespace).is_some(), counts);
        assert!(plugin.constraints(&pod, &cluster, Hardness::Soft).is_empty());
    }

    #[test]
    fn an_empty_selector_selects_the_pod_and_counts_nothing_up_to_1_37() {
        check(Some(LabelSelector::default()), &[], true, false);
        check(Some(LabelSelector::default()), &["rev"], true, true);
        check(Some(LabelSelector::default()), &["none"], true, false);
        check(None, &["rev"], false, false);
        check(Some(LabelSelector::equals("app", "b")), &[], false, true);
    }
}
