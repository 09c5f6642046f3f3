//! Values of one attribute over the devices of a search, as sets of small numbers.
//!
//! A scalar is a set of one, so that constraints treat lists and scalars alike. Values of different
//! types are different, as are a string and a version of the same text.

use std::collections::BTreeMap;

use berth_core::types::device::AttributeValue;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Element<'a> {
    Bool(bool),
    Int(i64),
    String(&'a str),
    Version(&'a str),
}

/// Shape: one set a device, its numbers ascending; empty where the device has no value.
#[derive(Debug, Default)]
pub(super) struct Column {
    ends: Vec<u32>,
    numbers: Vec<u32>,
    /// How many different values there are.
    pub(super) n_values: usize,
}

impl Column {
    pub(super) fn new<'a>(values: impl Iterator<Item = Option<&'a AttributeValue>>) -> Column {
        let mut column = Column::default();
        let mut known = BTreeMap::new();
        for value in values {
            let start = column.numbers.len();
            for element in value.into_iter().flat_map(elements) {
                let fresh = known.len() as u32;
                column.numbers.push(*known.entry(element).or_insert(fresh));
            }
            column.numbers[start..].sort_unstable();
            let mut kept = start;
            for at in start..column.numbers.len() {
                if at == start || column.numbers[at] != column.numbers[kept - 1] {
                    column.numbers[kept] = column.numbers[at];
                    kept += 1;
                }
            }
            column.numbers.truncate(kept);
            column.ends.push(kept as u32);
        }
        column.n_values = known.len();
        column
    }

    pub(super) fn of(&self, device: u32) -> &[u32] {
        let at = device as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.numbers[start as usize..self.ends[at] as usize]
    }
}

fn elements(value: &AttributeValue) -> Vec<Element<'_>> {
    match value {
        AttributeValue::Bool(value) => vec![Element::Bool(*value)],
        AttributeValue::Int(value) => vec![Element::Int(*value)],
        AttributeValue::String(value) => vec![Element::String(value)],
        AttributeValue::Version(value) => vec![Element::Version(value)],
        AttributeValue::Bools(values) => values.iter().map(|v| Element::Bool(*v)).collect(),
        AttributeValue::Ints(values) => values.iter().map(|v| Element::Int(*v)).collect(),
        AttributeValue::Strings(values) => values.iter().map(|v| Element::String(v)).collect(),
        AttributeValue::Versions(values) => values.iter().map(|v| Element::Version(v)).collect(),
    }
}

/// Tells whether two ascending sets have a number in common.
pub(super) fn meet(a: &[u32], b: &[u32]) -> bool {
    match (a, b) {
        ([a], [b]) => a == b,
        _ => a.iter().any(|number| b.binary_search(number).is_ok()),
    }
}

/// Returns what two ascending sets have in common.
pub(super) fn common(a: &[u32], b: &[u32]) -> Vec<u32> {
    a.iter().copied().filter(|number| b.binary_search(number).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_equal_texts_apart_and_lists_are_sets() {
        let values = [
            AttributeValue::String("a".into()),
            AttributeValue::Version("a".into()),
            AttributeValue::Strings(vec!["b".into(), "a".into(), "b".into()].into()),
        ];
        let column = Column::new(values.iter().map(Some).chain([None]));
        assert!(!meet(column.of(0), column.of(1)));
        assert!(meet(column.of(0), column.of(2)));
        assert_eq!(column.of(2).len(), 2);
        assert_eq!(common(column.of(0), column.of(2)), column.of(0));
        assert!(column.of(3).is_empty());
        assert_eq!(column.n_values, 3);
    }
}
