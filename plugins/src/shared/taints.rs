//! Taints against tolerations.

use berth_core::types::pod::TolerationOperator;
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
        effects.contains(&taint.effect) && !tolerations.iter().any(|t| tolerates(t, taint))
    })
}

/// Tells whether a toleration covers a taint.
///
/// `Lt` and `Gt` are evaluated without asking for their feature gate: where it is off, the border
/// leaves such tolerations out, since then they tolerate nothing.
///
/// Source: `Toleration.ToleratesTaint` of k8s.io/api/core/v1.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    match toleration.operator {
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Exists => true,
        TolerationOperator::Lt => compares(toleration, taint, |taint, bound| taint < bound),
        TolerationOperator::Gt => compares(toleration, taint, |taint, bound| taint > bound),
    }
}

/// Values that are no integers are not comparable, so nothing is tolerated.
fn compares(toleration: &Toleration, taint: &Taint, ordered: fn(i64, i64) -> bool) -> bool {
    match (integer(&taint.value), integer(&toleration.value)) {
        (Some(taint), Some(bound)) => ordered(taint, bound),
        _ => false,
    }
}

/// Reads a decimal without plus sign and leading zeros, as the API server admits it.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
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
        assert!(tolerates(&toleration("k", TolerationOperator::Equal, "v"), &t));
        assert!(!tolerates(&toleration("k", TolerationOperator::Equal, "w"), &t));
        assert!(!tolerates(&toleration("j", TolerationOperator::Exists, ""), &t));
        assert!(tolerates(&toleration("", TolerationOperator::Exists, ""), &t));
        let mut other = toleration("k", TolerationOperator::Exists, "");
        other.effect = Some(TaintEffect::NoExecute);
        assert!(!tolerates(&other, &t));
    }

    #[test]
    fn comparisons_need_integers() {
        let lt = toleration("k", TolerationOperator::Lt, "10");
        assert!(tolerates(&lt, &taint("9", TaintEffect::NoSchedule)));
        assert!(!tolerates(&lt, &taint("10", TaintEffect::NoSchedule)));
        for odd in ["many", "", "+9", "007", "-0", "9.0"] {
            assert!(!tolerates(&lt, &taint(odd, TaintEffect::NoSchedule)), "{odd}");
        }
        let gt = toleration("k", TolerationOperator::Gt, "10");
        assert!(tolerates(&gt, &taint("11", TaintEffect::NoSchedule)));
    }

    #[test]
    fn only_the_asked_effects_repel() {
        let taints = [taint("", TaintEffect::PreferNoSchedule), taint("", TaintEffect::NoExecute)];
        assert_eq!(first_untolerated(&taints, &[], REPELLING), Some(&taints[1]));
        assert_eq!(first_untolerated(&taints, &[], &[TaintEffect::NoSchedule]), None);
    }
}
