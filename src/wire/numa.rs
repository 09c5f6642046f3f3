//! NodeResourceTopology objects (topology.node.k8s.io/v1alpha2): what an exporter on a node, such as
//! Node Feature Discovery's topology updater, tells of its NUMA cells and of what its kubelet aligns.
//!
//! Source: noderesourcetopology-api, `pkg/apis/topology/v1alpha2`; how the older field and the
//! attributes go together is as scheduler-plugins' NodeResourceTopologyMatch has it.

use berth_core::types::NumaReport;
use berth_core::types::numa::{CELLS_MAX, NumaCell, NumaPolicy, NumaScope};

use super::k8s::numa as k8s;
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::tables::Tables;

const POLICY: &str = "topologyManagerPolicy";
const SCOPE: &str = "topologyManagerScope";
/// The type of zones that are NUMA cells.
const CELL: &str = "Node";

/// Returns what the object tells, and what can't be understood. Then it tells of nothing: a cell that
/// is missing would keep pods away for no reason.
pub fn report(wire: k8s::NodeResourceTopology, tables: &mut Tables) -> (NumaReport, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let mut report = NumaReport {
        node: reading.name(&wire.metadata),
        uid: reading.tables.intern(wire.metadata.object.uid.as_deref().unwrap_or("")),
        resource_version: wire.metadata.resource_version(),
        ..NumaReport::default()
    };
    older_policy(&mut reading, &wire, &mut report);
    attributes(&mut reading, &wire, &mut report);
    report.cells = cells(&mut reading, &wire);
    if reading.problems.count() > 0 {
        report.policy = NumaPolicy::Lenient;
        report.cells = Vec::new();
    }
    (report, reading.finish())
}

/// Policy and scope in one word; of several the first counts.
fn older_policy(
    reading: &mut Reading<'_>,
    wire: &k8s::NodeResourceTopology,
    report: &mut NumaReport,
) {
    let words = reading.texts(&Path::Root("topologyPolicies"), &wire.topology_policies);
    let known = [
        ("SingleNUMANodeContainerLevel", NumaPolicy::SingleCell, NumaScope::Container),
        ("SingleNUMANodePodLevel", NumaPolicy::SingleCell, NumaScope::Pod),
        ("RestrictedContainerLevel", NumaPolicy::Restricted, NumaScope::Container),
        ("RestrictedPodLevel", NumaPolicy::Restricted, NumaScope::Pod),
    ];
    let found = words.first().and_then(|word| known.iter().find(|(name, _, _)| word == name));
    if let Some((_, policy, scope)) = found {
        (report.policy, report.scope) = (*policy, *scope);
    }
}

/// A value that isn't known says nothing.
fn attributes(
    reading: &mut Reading<'_>,
    wire: &k8s::NodeResourceTopology,
    report: &mut NumaReport,
) {
    reading.each(&Path::Root("attributes"), &wire.attributes, |reading, at, attribute| {
        let name = reading.text(&at.field("name"), &attribute.name);
        let value = reading.text(&at.field("value"), &attribute.value);
        match (name.as_str(), value.as_str()) {
            (POLICY, "single-numa-node") => report.policy = NumaPolicy::SingleCell,
            (POLICY, "restricted") => report.policy = NumaPolicy::Restricted,
            (POLICY, "best-effort" | "none") => report.policy = NumaPolicy::Lenient,
            (SCOPE, "pod") => report.scope = NumaScope::Pod,
            (SCOPE, "container") => report.scope = NumaScope::Container,
            _ => {}
        }
    });
}

fn cells(reading: &mut Reading<'_>, wire: &k8s::NodeResourceTopology) -> Vec<NumaCell> {
    let zones_at = Path::Root("zones");
    let mut cells: Vec<NumaCell> = Vec::new();
    reading.each(&zones_at, &wire.zones, |reading, at, zone| {
        if reading.text(&at.field("type"), &zone.kind) != CELL {
            return;
        }
        let name = reading.required_text(&at.field("name"), &zone.name);
        let number = name.rsplit('-').next().and_then(|number| number.parse().ok());
        match number {
            _ if cells.len() == CELLS_MAX => {
                reading.problem(at, format_args!("up to {CELLS_MAX} NUMA cells are read"));
            }
            Some(number) if cells.iter().all(|cell| cell.number != number) => {
                cells.push(cell(reading, at, number, zone));
            }
            Some(number) => reading.problem(at, format_args!("is one more cell {number}")),
            None => reading.problem(&at.field("name"), "does not end in the number of a cell"),
        }
    });
    cells.sort_by_key(|cell| cell.number);
    cells
}

fn cell(reading: &mut Reading<'_>, at: &Path<'_>, number: u16, zone: &k8s::Zone) -> NumaCell {
    let mut cell = NumaCell { number, ..NumaCell::default() };
    reading.each(&at.field("resources"), &zone.resources, |reading, at, resource| {
        let name = reading.required_text(&at.field("name"), &resource.name);
        let amounts = [
            (&mut cell.allocatable, "allocatable", &resource.allocatable),
            (&mut cell.available, "available", &resource.available),
        ];
        for (amounts, field, quantity) in amounts {
            let at = at.field(field);
            let Some(quantity) = reading.required(&at, quantity) else { continue };
            match quantity.amount(&name) {
                Ok(amount) => amounts.set(&name, amount),
                Err(error) => reading.problem(&at, error),
            }
        }
    });
    cell
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(object: Value) -> (NumaReport, Vec<String>) {
        let wire = serde_json::from_value(object).unwrap();
        let (report, problems) = report(wire, &mut Tables::default());
        (report, problems.iter().map(ToString::to_string).collect())
    }

    fn zone(name: &str) -> Value {
        json!({"name": name, "type": "Node", "resources": [
            {"name": "cpu", "capacity": "32", "allocatable": "30", "available": 28},
            {"name": "nvidia.com/gpu", "capacity": 4, "allocatable": 4, "available": "1"},
        ]})
    }

    #[test]
    fn cells_and_what_the_kubelet_aligns_are_read() {
        let (report, problems) = check(json!({
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
            "attributes": [
                {"name": "topologyManagerScope", "value": "pod"},
                {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            ],
            "zones": [zone("node-1"), zone("node-0"), {"name": "socket-0", "type": "Socket"}],
        }));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((report.node.as_str(), report.resource_version), ("n", 7));
        assert_eq!((report.policy, report.scope), (NumaPolicy::SingleCell, NumaScope::Pod));
        let numbers: Vec<u16> = report.cells.iter().map(|cell| cell.number).collect();
        assert_eq!(numbers, [0, 1]);
        let first = &report.cells[0];
        assert_eq!((first.allocatable.cpu_milli, first.available.cpu_milli), (30_000, 28_000));
        assert_eq!(first.available.amount("nvidia.com/gpu"), 1);
    }

    #[test]
    fn the_older_field_counts_where_no_attribute_says_otherwise() {
        let of = |policies: Value, attributes: Value| {
            let (report, _) = check(json!({
                "metadata": {"name": "n"}, "topologyPolicies": policies, "attributes": attributes,
            }));
            (report.policy, report.scope)
        };
        let attribute = |value: &str| json!([{"name": "topologyManagerPolicy", "value": value}]);
        let restricted = json!(["RestrictedPodLevel", "SingleNUMANodePodLevel"]);
        let expected = (NumaPolicy::Restricted, NumaScope::Pod);
        assert_eq!(of(restricted.clone(), json!(null)), expected);
        assert_eq!(of(restricted.clone(), attribute("odd")), expected);
        assert_eq!(of(restricted, attribute("none")).0, NumaPolicy::Lenient);
        assert_eq!(of(json!(["BestEffortPodLevel"]), json!(null)).0, NumaPolicy::Lenient);
    }

    #[test]
    fn what_is_broken_tells_of_nothing() {
        let broken = |zones: Value, expected: &str| {
            let (report, problems) = check(json!({
                "metadata": {"name": "n"}, "topologyPolicies": ["SingleNUMANodePodLevel"],
                "zones": zones,
            }));
            assert_eq!((report.policy, report.cells.len()), (NumaPolicy::Lenient, 0), "{expected}");
            assert!(problems.iter().any(|it| it.contains(expected)), "{expected}: {problems:?}");
        };
        broken(json!([zone("node-0"), zone("left")]), "zones[1].name: does not end in the number");
        broken(json!([zone("node-0"), zone("node-0")]), "zones[1]: is one more cell 0");
        let zones: Vec<Value> = (0..70).map(|at| zone(&format!("node-{at}"))).collect();
        broken(json!(zones), "zones[64]: up to 64 NUMA cells are read");
        let mut odd = zone("node-0");
        odd["resources"][1]["available"] = json!("many");
        broken(json!([odd]), "zones[0].resources[1].available: \"many\" is not a quantity");
        let mut odd = zone("node-0");
        odd["resources"][0].as_object_mut().unwrap().remove("available");
        broken(json!([odd]), "zones[0].resources[0].available: is missing");
    }
}
