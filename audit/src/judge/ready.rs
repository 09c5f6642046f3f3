//! I12: who is bound has the claims that he uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::judge::Limits;
use crate::judge::author::{Author, Binders};
use crate::moment::Moment;
use crate::objects::{Claim, Name, Object, Pod};
use crate::report::{Invariant, Report};
use crate::world::Step;

pub(crate) struct Ready<'a> {
    binders: &'a Binders<'a>,
    limits: &'a Limits,
    claims: BTreeMap<Name, Arc<Claim>>,
    /// When a pod lost a claim that it had, by claim and the pod's UID.
    lost: BTreeMap<(Name, String), Moment>,
}

impl<'a> Ready<'a> {
    pub(crate) fn new(binders: &'a Binders<'a>, limits: &'a Limits) -> Self {
        Self { binders, limits, claims: BTreeMap::new(), lost: BTreeMap::new() }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, report: &mut Report) {
        self.note_claim(step);
        let Some((pod, node)) = step.bind().filter(|(pod, _)| !pod.claims.is_empty()) else {
            return;
        };
        let (binder, sent) = self.binders.of(pod, step.now());
        if let Author::Foreign(_) = binder {
            return;
        }
        let known_to = sent - self.limits.node_grace;
        for name in &pod.claims {
            let claim = Name { namespace: pod.name.namespace.clone(), name: name.clone() };
            if let Some(why) = self.lacks(&claim, pod, known_to) {
                let (pod, by) = (&pod.name, binder.shown());
                let text = format!("{pod} bound to {node}{by}: claim {claim} {why}");
                report.convict(Invariant::I12, step.change.revision, text);
            }
        }
    }

    fn note_claim(&mut self, step: &Step<'_>) {
        let old = match &step.old {
            Some(Object::Claim(claim)) => Some(claim),
            _ => None,
        };
        let new = match &step.change.object {
            Some(Object::Claim(claim)) => Some(claim),
            _ => None,
        };
        for (_, uid) in old.into_iter().flat_map(|old| &old.reserved_for) {
            let keeps = new.is_some_and(|new| unready(new, uid).is_none());
            if let (false, Some(old)) = (keeps, old.filter(|old| unready(old, uid).is_none())) {
                self.lost.insert((old.name.clone(), uid.clone()), step.now());
            }
        }
        match (old, new) {
            (_, Some(new)) => drop(self.claims.insert(new.name.clone(), Arc::clone(new))),
            (Some(old), None) => drop(self.claims.remove(&old.name)),
            (None, None) => {}
        }
    }

    /// Says what the pod lacks of a claim, and has lacked since before it was known.
    fn lacks(&self, claim: &Name, pod: &Pod, known_to: Moment) -> Option<&'static str> {
        let lost = self.lost.get(&(claim.clone(), pod.uid.clone()));
        if lost.is_some_and(|lost| *lost > known_to) {
            return None;
        }
        self.claims.get(claim).map_or(Some("is not there"), |claim| unready(claim, &pod.uid))
    }
}

/// Whether a claim of a group is the pod's group's is not asked.
fn unready(claim: &Claim, pod: &str) -> Option<&'static str> {
    let by_group = claim.is_reserved && claim.reserved_for.is_empty();
    match &claim.allocation {
        None => Some("is not allocated"),
        Some(_) if by_group || claim.reserved_for.iter().any(|(_, uid)| uid == pod) => None,
        Some(_) => Some("is not reserved for it"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builder::Builder;
    use crate::report::Invariant::I12;

    /// A pod that uses claim `c`, which has `dr/p/x`.
    fn with_claim() -> Builder {
        let mut history = Builder::new();
        history.node("n-1", 8).pool("p", &["x"]);
        let claims = json!({"spec": {"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]}});
        history.pod("a").with(claims).stored();
        history
    }

    #[test]
    fn a_pod_is_bound_once_its_claim_is_its_own() {
        let mut history = with_claim();
        let a = history.uid("a");
        history.claim_as("c", &[a], &["p/x"]).pod("a").bound("n-1");
        history.acquit();
    }

    #[test]
    fn a_pod_that_is_bound_before_is_convicted() {
        let mut history = with_claim();
        history.pod("a").bound("n-1");
        assert!(history.convict(I12).ends_with("claim default/c is not there"));

        let mut history = with_claim();
        history.claim("c", &[]).pod("a").bound("n-1");
        assert!(history.convict(I12).ends_with("claim default/c is not allocated"));

        let mut history = with_claim();
        history.claim_as("c", &["another".to_owned()], &["p/x"]).pod("a").bound("n-1");
        assert!(history.convict(I12).ends_with("claim default/c is not reserved for it"));
    }

    #[test]
    fn a_claim_that_is_taken_away_must_be_known_to_be_after_a_while() {
        let mut history = with_claim();
        let a = history.uid("a");
        history.claim_as("c", &[a], &["p/x"]).wait(10.0).claim("c", &[]).wait(1.0);
        history.pod("a").bound("n-1");
        history.acquit();

        let mut history = with_claim();
        let a = history.uid("a");
        history.claim_as("c", &[a], &["p/x"]).claim_gone("c").wait(3.0);
        history.pod("a").bound("n-1");
        history.convict(I12);
    }
}
