//! Taints against tolerations.

use berth_core::types::{Taint, TaintEffect, Toleration};

/// The effects that keep a new pod off a node.
pub(crate) const REPELLING: &[TaintEffect] = &[TaintEffect::NoSchedule, TaintEffect::NoExecute];

/// Returns the first taint with one of `effects` that no toleration covers.
///
/// Source: `FindMatchingUntoleratedTaint` of k8s.io/component-helpers/scheduling/corev1.
pub(crate) fn first_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[TaintEffect],
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        effects.contains(&taint.effect) && !tolerations.iter().any(|t| t.covers(taint))
    })
}

#[cfg(test)]
mod tests {
    use berth_core::types::pod::TolerationOperator;

    use super::*;

    fn taint(value: &str, effect: TaintEffect) -> Taint {
        Taint { key: "k".into(), value: value.into(), effect }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect: None }
    }

    #[test]
    fn keys_effects_and_values_must_match() {
        let t = taint("v", TaintEffect::NoSchedule);
        assert!(toleration("k", TolerationOperator::Equal, "v").covers(&t));
        assert!(!toleration("k", TolerationOperator::Equal, "w").covers(&t));
        assert!(!toleration("j", TolerationOperator::Exists, "").covers(&t));
        assert!(toleration("", TolerationOperator::Exists, "").covers(&t));
        let mut other = toleration("k", TolerationOperator::Exists, "");
        other.effect = Some(TaintEffect::NoExecute);
        assert!(!other.covers(&t));
    }

    #[test]
    fn comparisons_need_integers() {
        let lt = toleration("k", TolerationOperator::Lt, "10");
        assert!(lt.covers(&taint("9", TaintEffect::NoSchedule)));
        assert!(!lt.covers(&taint("10", TaintEffect::NoSchedule)));
        for odd in ["many", "", "+9", "007", "-0", "9.0"] {
            assert!(!lt.covers(&taint(odd, TaintEffect::NoSchedule)), "{odd}");
        }
        let gt = toleration("k", TolerationOperator::Gt, "10");
        assert!(gt.covers(&taint("11", TaintEffect::NoSchedule)));
    }

    #[test]
    fn only_the_asked_effects_repel() {
        let taints = [taint("", TaintEffect::PreferNoSchedule), taint("", TaintEffect::NoExecute)];
        assert_eq!(first_untolerated(&taints, &[], REPELLING), Some(&taints[1]));
        assert_eq!(first_untolerated(&taints, &[], &[TaintEffect::NoSchedule]), None);
    }
}
