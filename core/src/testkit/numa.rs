//! `numa` statements: what a node tells of its NUMA cells.

use crate::snapshot::ClusterEvent;
use crate::types::numa::{NumaCell, NumaPolicy, NumaReport, NumaScope};

use super::words::{self, Key, Line};

const KEYS: &[Key<NumaReport>] = &[
    ("policy", "of the kubelet: single, restricted or lenient", |report, v| {
        report.policy = match v {
            "single" => NumaPolicy::SingleCell,
            "restricted" => NumaPolicy::Restricted,
            "lenient" => NumaPolicy::Lenient,
            _ => return Err(format!("{v:?} is no policy")),
        };
        Ok(())
    }),
    ("podscope", "containers of a pod are aligned with each other", |report, _| {
        report.scope = NumaScope::Pod;
        Ok(())
    }),
    ("cell", "available/allocatable of each resource: \"cpu=4/8 gpu=2/4\"", |report, v| {
        let number = report.cells.len() as u16;
        let mut cell = NumaCell { number, ..NumaCell::default() };
        for word in v.split_whitespace() {
            let (key, amounts) = words::key_and_value(word);
            let (available, allocatable) =
                amounts.split_once('/').ok_or("available/allocatable")?;
            words::set_amount(&mut cell.available, &key, available)?;
            words::set_amount(&mut cell.allocatable, &key, allocatable)?;
        }
        report.cells.push(cell);
        Ok(())
    }),
];

/// Reads a statement, of one that is gone too.
pub fn read(line: &Line) -> Result<ClusterEvent, String> {
    let node = line.name.clone();
    if line.kind.starts_with('-') {
        return Ok(ClusterEvent::NumaReportDeleted { node, uid: Default::default() });
    }
    let mut report = NumaReport { node, ..NumaReport::default() };
    words::apply(line, KEYS, &mut report, words::unknown)?;
    Ok(ClusterEvent::NumaReportApplied(Box::new(report)))
}
