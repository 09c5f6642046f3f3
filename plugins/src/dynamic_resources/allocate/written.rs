//! What is written to a claim: results, where they can be used, and configuration.

use berth_core::snapshot::Devices;
use berth_core::snapshot::devices::gather::{NodeDevice, NodePool};
use berth_core::types::claim::{AllocatedConfig, ClaimRequest, ClaimSpec, DeviceResult};
use berth_core::types::device::{OpaqueConfig, Placement};
use berth_core::types::{Node, NodeSelector, NodeTerm, Operator, Requirement, Text};

const NODE_NAME: &str = "metadata.name";

/// Gives each share of a device an ID that follows from `salt` and what the share is of.
pub(super) fn name_shares(results: &mut [DeviceResult], salt: &str) {
    for result in results {
        if result.share_id.is_some() {
            let id = &result.id;
            let parts = [salt, &result.request, &id.driver, &id.pool, &id.device];
            result.share_id = Some(uuid(&parts));
        }
    }
}

/// Returns a UUID (version 8) made of texts. Source: RFC 9562; the hash is FNV-1a, 128 bits.
fn uuid(parts: &[&str]) -> Text {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    let with_end = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = with_end.fold(OFFSET, step);
    let hash = hash & !(0xf << 76) & !(0b11 << 62) | 8 << 76 | 0b10 << 62;
    let hex = format!("{hash:032x}");
    let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    groups.join("-").into()
}

/// Returns where all of the devices can be used; `None` if everywhere.
///
/// Source: `createNodeSelector` of k8s.io/dynamic-resource-allocation 1.37.
pub(super) fn node_selector(
    pools: &[NodePool<'_>],
    node: &Node,
    results: &[DeviceResult],
) -> Option<NodeSelector> {
    let mut merged = NodeTerm::default();
    for result in results {
        let device = device_of(pools, result);
        let bound = device.is_none_or(|device| device.device.model.binds_to_node);
        match device.map(|device| device.placement) {
            Some(Placement::AllNodes) if !bound => {}
            Some(Placement::Selector(selector)) if !bound => {
                for term in &selector.terms {
                    merge(&mut merged.labels, &term.labels);
                    merge(&mut merged.names, &term.names);
                }
            }
            // A device that is bound to a node, or not to be found, keeps the claim there.
            Some(
                Placement::AllNodes
                | Placement::Selector(_)
                | Placement::Node(_)
                | Placement::PerDevice
                | Placement::Unknown,
            )
            | None => return Some(only(node)),
        }
    }
    let anywhere = merged == NodeTerm::default();
    (!anywhere).then(|| NodeSelector { terms: vec![merged] })
}

fn device_of<'a>(pools: &'a [NodePool<'a>], result: &DeviceResult) -> Option<&'a NodeDevice<'a>> {
    let id = &result.id;
    let pool = pools.iter().find(|pool| *pool.driver == id.driver && *pool.name == id.pool)?;
    pool.devices.iter().find(|device| device.device.name == id.device)
}

fn only(node: &Node) -> NodeSelector {
    let values = vec![node.name.clone()];
    let name = Requirement { key: NODE_NAME.into(), operator: Operator::In, values };
    NodeSelector { terms: vec![NodeTerm { labels: Vec::new(), names: vec![name] }] }
}

fn merge(into: &mut Vec<Requirement>, from: &[Requirement]) {
    for requirement in from {
        let same = |known: &Requirement| {
            let values = |of: &Requirement| {
                let mut values = of.values.clone();
                values.sort();
                values.dedup();
                values
            };
            known.key == requirement.key
                && known.operator == requirement.operator
                && values(known) == values(requirement)
        };
        if !into.iter().any(same) {
            into.push(requirement.clone());
        }
    }
}

/// Returns the configuration that goes with the results: each class's once, with the requests that
/// took their devices from it, then those of the claim that are for one of its requests.
pub(super) fn config(
    devices: &Devices,
    claim: &ClaimSpec,
    results: &[DeviceResult],
) -> Vec<AllocatedConfig> {
    let requests = &claim.demand.requests;
    let chosen: Vec<(&ClaimRequest, &Text, &Text)> =
        requests.iter().filter_map(|request| chosen(request, results)).collect();
    let mut classes: Vec<&Text> = chosen.iter().map(|(.., class)| *class).collect();
    let mut seen = Vec::new();
    classes.retain(|class| {
        !seen.contains(class) && {
            seen.push(*class);
            true
        }
    });
    let mut all = Vec::new();
    for class in classes {
        let of_class = chosen.iter().filter(|(.., of)| *of == class);
        let names: Vec<Text> = of_class.map(|(_, name, _)| (*name).clone()).collect();
        for config in devices.class(class).into_iter().flat_map(|class| &class.config) {
            let config = OpaqueConfig { requests: names.clone(), ..config.clone() };
            all.push(AllocatedConfig { from_class: true, config });
        }
    }
    let names = |config: &OpaqueConfig, (request, name, _): &(&ClaimRequest, &Text, &Text)| {
        config.requests.contains(&request.name) || config.requests.contains(name)
    };
    for config in &claim.config {
        if config.requests.is_empty() || chosen.iter().any(|of| names(config, of)) {
            all.push(AllocatedConfig { from_class: false, config: config.clone() });
        }
    }
    for AllocatedConfig { config, .. } in &mut all {
        if chosen.len() == requests.len() && chosen.iter().all(|of| names(config, of)) {
            config.requests.clear();
        }
    }
    all
}

/// Returns the request with the name and class of the alternative that its results are for.
fn chosen<'a>(
    request: &'a ClaimRequest,
    results: &[DeviceResult],
) -> Option<(&'a ClaimRequest, &'a Text, &'a Text)> {
    let mut alternatives = request.alternatives.iter();
    let taken = alternatives.find(|a| results.iter().any(|result| result.request == a.name))?;
    Some((request, &taken.name, &taken.class))
}
