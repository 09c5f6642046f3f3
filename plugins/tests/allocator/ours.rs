//! Our allocator's answers, in the form of the reference's.

use std::sync::Arc;

use berth_core::framework::Work;
use berth_core::types::claim::{Allocation, DeviceDemand, DeviceResult};
use berth_plugins::allocate::{self, Options, Refused, Search};

use super::instance::Instance;
use super::json::node_selector;
use super::oracle::{Allocated, Grant, without_empty};

/// Returns an allocation for each claim, or why there is none.
pub(crate) fn ask(instance: &Instance, first_fit: bool) -> Result<Vec<Allocated>, Refused> {
    let (cluster, node) = instance.ledger();
    let demands: Vec<Arc<DeviceDemand>> =
        instance.claims.iter().map(|claim| claim.demand.clone()).collect();
    let options = Options { first_fit, steps_max: u64::MAX };
    let mut search = Search::new(node, demands, options);
    let found = search.run(&cluster, &mut Work::unlimited()).expect("steps without end")?;
    let claims = instance.claims.iter().zip(found.claims).enumerate();
    let allocations = claims.map(|(at, (claim, results))| {
        let salt = format!("claim-{at}");
        allocate::allocation(&cluster, &instance.node, claim, results, &salt)
    });
    Ok(allocations.map(|allocation| allocated(&allocation)).collect())
}

fn allocated(allocation: &Allocation) -> Allocated {
    let strings =
        |texts: &[berth_core::types::Text]| texts.iter().map(ToString::to_string).collect();
    let config = allocation.config.iter().map(|entry| {
        let requests = strings(&entry.config.requests);
        (entry.from_class, requests, entry.config.driver.to_string())
    });
    let node_selector = allocation.node_selector.as_ref().map(node_selector);
    Allocated {
        grants: allocation.results.iter().map(grant).collect(),
        node_selector: without_empty(&node_selector.unwrap_or_default()),
        config: config.collect(),
    }
}

fn grant(result: &DeviceResult) -> Grant {
    let consumed = result.consumed.iter().map(|(name, amount)| (name.to_string(), amount.nanos));
    let strings =
        |texts: &[berth_core::types::Text]| texts.iter().map(ToString::to_string).collect();
    Grant {
        request: result.request.to_string(),
        id: result.id.clone(),
        admin: result.admin,
        shared: result.share_id.is_some(),
        consumed: consumed.collect(),
        binding_conditions: strings(&result.binding_conditions),
        binding_failure_conditions: strings(&result.binding_failure_conditions),
        tolerations: result.tolerations.len(),
    }
}
