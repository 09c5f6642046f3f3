//! The sub-groups of one group's object.

use std::collections::BTreeMap;

use crate::types::group::{GroupKey, SubGroup, SubGroupMembers};
use crate::types::{Pod, Text};

use super::view::{Lack, Reading};

/// Sub-groups may be so deep in each other.
const DEPTH_MAX: usize = 8;

/// The sub-groups of one group, with the units made for them.
pub(super) struct Parts<'a> {
    sub_groups: Vec<Part<'a>>,
    /// Units of the combinations of label values.
    combinations: BTreeMap<(usize, Vec<Text>), usize>,
}

struct Part<'a> {
    sub_group: &'a SubGroup,
    /// Its unit, after those that it is part of, the group itself left out.
    path: Vec<usize>,
}

impl<'a> Parts<'a> {
    /// Makes a unit for each sub-group of the unit `at`, those that others are part of first.
    ///
    /// # Errors
    /// One is part of what isn't there, of itself, or too deep.
    pub(super) fn of(
        reading: &mut Reading<'_>,
        key: &GroupKey,
        at: usize,
        sub_groups: &'a [SubGroup],
    ) -> Result<Parts<'a>, Lack> {
        let mut made: Vec<Part<'a>> = Vec::new();
        let mut paths: BTreeMap<&Text, Vec<usize>> = BTreeMap::new();
        let mut left: Vec<&SubGroup> = sub_groups.iter().collect();
        for _ in 0..DEPTH_MAX {
            let mut deeper: Vec<&SubGroup> = Vec::new();
            let mut level: Vec<(&Text, Vec<usize>)> = Vec::new();
            for sub_group in left {
                let above = match &sub_group.parent {
                    None => Some(Vec::new()),
                    Some(parent) => paths.get(parent).cloned(),
                };
                let Some(mut path) = above else {
                    deeper.push(sub_group);
                    continue;
                };
                path.push(unit_of(reading, path.last().copied().unwrap_or(at), sub_group));
                level.push((&sub_group.name, path.clone()));
                made.push(Part { sub_group, path });
            }
            paths.extend(level);
            left = deeper;
            if left.is_empty() {
                break;
            }
        }
        match left.first() {
            None => Ok(Parts { sub_groups: made, combinations: BTreeMap::new() }),
            Some(SubGroup { name, parent, .. }) => {
                let parent = parent.as_deref().unwrap_or_default();
                let text = format!(
                    "pod group {key}: sub-group {name} is part of {parent}, which is no sub-group, is in \
                     itself, or is more than {DEPTH_MAX} levels down"
                );
                Err(Lack::Refused(text.into()))
            }
        }
    }

    /// Returns the units below the group's own that a member counts for, outermost first.
    pub(super) fn units_of(
        &mut self,
        reading: &mut Reading<'_>,
        pod: &Pod,
        role: Option<&Text>,
    ) -> Vec<usize> {
        let mut units = Vec::new();
        for Part { sub_group, path } in &self.sub_groups {
            match &sub_group.members {
                SubGroupMembers::Role(wanted) if role == Some(wanted) => units.extend(path),
                SubGroupMembers::Role(_) => {}
                SubGroupMembers::Labels { selector, keys } => {
                    if selector.as_ref().is_some_and(|selector| !selector.selects(&pod.labels)) {
                        continue;
                    }
                    let values: Option<Vec<Text>> =
                        keys.iter().map(|key| pod.labels.value(key).cloned()).collect();
                    let (Some(values), Some(at)) = (values, path.last().copied()) else { continue };
                    let name = Text::from(format!("{}[{}]", sub_group.name, values.join(",")));
                    let of = *self.combinations.entry((at, values)).or_insert_with(|| {
                        let unit = reading.unit(name, Some(at), sub_group.min_member, None);
                        reading.units[unit].topology.clone_from(&sub_group.topology);
                        unit
                    });
                    units.extend(path);
                    units.push(of);
                }
            }
        }
        units
    }
}

fn unit_of(reading: &mut Reading<'_>, above: usize, sub_group: &SubGroup) -> usize {
    let (name, needed) = (sub_group.name.clone(), sub_group.min_groups);
    match sub_group.members {
        SubGroupMembers::Role(_) => {
            let unit = reading.unit(name, Some(above), sub_group.min_member, needed);
            reading.units[unit].topology.clone_from(&sub_group.topology);
            unit
        }
        SubGroupMembers::Labels { .. } => reading.unit(name, Some(above), 0, needed),
    }
}
