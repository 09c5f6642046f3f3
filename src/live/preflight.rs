//! At the start the API server is asked whether we may do what we will have to: a rule that is
//! missing is named before the first request fails. Nothing waits for this.
//!
//! Reading order: [`needs`], [`reviews`].

pub mod needs;
pub mod reviews;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use super::Run;
use super::client::{Api, Target};
use super::dialects::Dialects;
use super::kinds;
use super::optional::Optional;
use crate::wire::Kind;
use needs::{Features, Need};
use reviews::Rules;

/// A rule that holds in a namespace only doesn't show up in both of these.
const SOME_NAMESPACE: &str = "default";
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Who needs what: the scheduler itself, and the identities that the secure port asks with.
pub struct Preflight {
    scheduler: Vec<Need>,
    others: Vec<(Target, Vec<Need>)>,
}

impl Preflight {
    pub fn of(run: &Run, dialects: &Dialects, optional: &Optional) -> Preflight {
        let rules = || run.profiles.iter().filter_map(|profile| profile.groups.as_ref());
        let runs = |name: &str| run.profiles.iter().any(|profile| profile.runs(name));
        let mut scheduler = needs::of_scheduler(&Features {
            kinds: [&kinds::needed(&run.profiles), optional.kinds()].concat(),
            dialects: dialects.honoured().to_vec(),
            preemption: runs("DefaultPreemption"),
            taking_back: rules().any(|rules| rules.take_back_after.is_some()),
            // What is built of VolumeBinding follows bound volumes, and writes nothing.
            volume_binding: false,
            lease: run.election.as_ref().map(|election| election.rules.clone()),
        });
        let mut others = Vec::new();
        if let Some(serving) = &run.serve {
            let (who, may) = (&serving.options.authentication, &serving.options.authorization);
            let asked = [
                (&who.target, needs::of_authentication(!who.skip_lookup)),
                (&may.target, needs::of_authorization()),
            ];
            for (target, needs) in asked {
                match target {
                    Some(target) if *target == run.target => scheduler.extend(needs),
                    Some(target) => others.push((target.clone(), needs)),
                    None => {}
                }
            }
        }
        Preflight { scheduler, others }
    }

    /// Asks, and logs what is missing; of kinds that the server doesn't have nothing is needed.
    pub async fn run(
        mut self,
        api: Api,
        mut served: Vec<Kind>,
        (dialects, optional): (Dialects, Optional),
    ) {
        dialects.looked().await;
        optional.looked().await;
        served.extend(dialects.watched());
        served.extend(optional.watched());
        let has = |kind: Kind| served.iter().any(|served| served.family() == kind.family());
        self.scheduler.retain(|need| need.of_kind.is_none_or(has));
        report(check(&api, self.scheduler).await);
        for (target, needs) in self.others {
            match Api::new(&target).await {
                Ok(api) => report(check(&api, needs).await),
                Err(problem) => report(Err(problem.to_string())),
            }
        }
    }
}

/// Returns the needs that are not met.
///
/// # Errors
/// Why it can't be told.
async fn check(api: &Api, needs: Vec<Need>) -> Result<Vec<Need>, String> {
    let mut rules = BTreeMap::new();
    for namespace in namespaces(&needs) {
        rules.insert(namespace.clone(), reviews::rules(api, &namespace).await?);
    }
    let open = rules.values().any(|rules| rules.incomplete);
    let mut missing = Vec::new();
    for need in needs {
        // Node authorizer and webhooks don't list their rules, but answer when asked for one.
        let met = seen(&need, &rules) || (open && reviews::has(api, &need).await?);
        if !met {
            missing.push(need);
        }
    }
    Ok(missing)
}

fn namespaces(needs: &[Need]) -> BTreeSet<String> {
    let named = needs.iter().filter_map(|need| need.namespace.clone());
    named.chain([SOME_NAMESPACE, SYSTEM_NAMESPACE].map(str::to_owned)).collect()
}

/// Tells whether the rules allow it: in its namespace, or in all that were asked about.
fn seen(need: &Need, rules: &BTreeMap<String, Rules>) -> bool {
    match &need.namespace {
        Some(namespace) => rules.get(namespace).is_some_and(|rules| rules.allow(need)),
        None => rules.values().all(|rules| rules.allow(need)),
    }
}

fn report(checked: Result<Vec<Need>, String>) {
    let missing = match checked {
        Ok(missing) => missing,
        Err(problem) => {
            info!("it can't be told whether all rights are there: {problem}");
            return;
        }
    };
    let n_missing = missing.len();
    for need in missing {
        let Need { group, resource, verb, namespace, name, needed_for, of_kind: _ } = need;
        let namespace = namespace.unwrap_or_else(|| "*".to_owned());
        let name = name.unwrap_or_else(|| "*".to_owned());
        warn!(
            api_group = group,
            resource,
            verb,
            namespace,
            name,
            needed_for,
            "a rule is missing; manifests/ has all that are needed"
        );
    }
    info!(missing = n_missing, "rights are checked");
}
