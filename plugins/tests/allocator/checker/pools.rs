//! Which devices the node is offered: by generation, completeness and soundness of their pools.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::types::device::Placement;
use berth_core::types::{Device, DeviceId, Node, ResourceSlice, Text};

use super::super::instance::Instance;

/// A device that the node may use.
#[derive(Clone, Copy)]
pub(super) struct Offered<'a> {
    pub(super) slice: &'a ResourceSlice,
    pub(super) device: &'a Device,
}

/// A pool whose devices may be granted.
pub(super) struct SoundPool<'a> {
    /// Every slice of the generation, for this node or not.
    pub(super) slices: Vec<&'a ResourceSlice>,
    pub(super) devices: Vec<Offered<'a>>,
}

#[derive(Default)]
pub(super) struct Offers<'a> {
    pub(super) sound: BTreeMap<(&'a str, &'a str), SoundPool<'a>>,
    /// Pools that are incomplete or contradict themselves.
    pub(super) unusable: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Offers<'a> {
    pub(super) fn of(instance: &'a Instance) -> Offers<'a> {
        let mut pools: BTreeMap<(&str, &str), Vec<&ResourceSlice>> = BTreeMap::new();
        for slice in &instance.slices {
            pools.entry((&slice.driver, &slice.pool)).or_default().push(slice);
        }
        let mut offers = Offers::default();
        for (key, slices) in pools {
            match gather(&slices, &instance.node) {
                Gathered::Nothing => {}
                Gathered::Unusable => {
                    offers.unusable.insert(key);
                }
                Gathered::Sound(pool) => {
                    offers.sound.insert(key, pool);
                }
            }
        }
        offers
    }

    pub(super) fn find(&self, id: &DeviceId) -> Option<Offered<'a>> {
        let pool = self.sound.get(&(&*id.driver, &*id.pool))?;
        pool.devices.iter().find(|offered| offered.device.name == id.device).copied()
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = Offered<'a>> + '_ {
        self.sound.values().flat_map(|pool| pool.devices.iter().copied())
    }
}

enum Gathered<'a> {
    /// The node has nothing of it, or what it has is outdated.
    Nothing,
    Unusable,
    Sound(SoundPool<'a>),
}

fn gather<'a>(slices: &[&'a ResourceSlice], node: &Node) -> Gathered<'a> {
    let reach = |slice: &&ResourceSlice| reaches(slice, node);
    let near: Vec<&ResourceSlice> = slices.iter().copied().filter(reach).collect();
    let Some(generation) = near.iter().map(|slice| slice.generation).max() else {
        return Gathered::Nothing;
    };
    let mut near: Vec<&ResourceSlice> =
        near.into_iter().filter(|slice| slice.generation == generation).collect();
    near.sort_by(|a, b| a.name.cmp(&b.name));
    let wanted = usize::try_from(near[0].slice_count).unwrap_or(usize::MAX);
    let all: Vec<&ResourceSlice> = if near.len() == wanted {
        near.clone()
    } else {
        if slices.iter().any(|slice| slice.generation > generation) {
            return Gathered::Nothing;
        }
        slices.iter().copied().filter(|slice| slice.generation == generation).collect()
    };
    if all.len() != wanted || !sound(&near, &all) {
        return Gathered::Unusable;
    }
    let devices =
        near.iter().flat_map(|slice| slice.devices.iter().map(|device| Offered { slice, device }));
    let devices = devices.filter(|offered| usable(offered, node)).collect();
    Gathered::Sound(SoundPool { slices: all, devices })
}

fn reaches(slice: &ResourceSlice, node: &Node) -> bool {
    match &slice.placement {
        Placement::PerDevice => {
            slice.devices.iter().any(|device| usable(&Offered { slice, device }, node))
        }
        placement => matches(placement, node),
    }
}

fn usable(offered: &Offered<'_>, node: &Node) -> bool {
    match (&offered.slice.placement, &offered.device.model.placement) {
        (Placement::PerDevice, Some(own)) => matches(own, node),
        (Placement::PerDevice, None) => false,
        (whole, _) => matches(whole, node),
    }
}

fn matches(placement: &Placement, node: &Node) -> bool {
    match placement {
        Placement::Node(name) => *name == node.name,
        Placement::Selector(selector) => selector.matches(&node.name, &node.labels),
        Placement::AllNodes => true,
        Placement::PerDevice | Placement::Unknown => false,
    }
}

/// Device names must be unique where the node sees them; counters must exist, and once only.
fn sound(near: &[&ResourceSlice], all: &[&ResourceSlice]) -> bool {
    let names: Vec<&Text> =
        near.iter().flat_map(|slice| slice.devices.iter().map(|device| &device.name)).collect();
    let sets: Vec<_> = all.iter().flat_map(|slice| &slice.counter_sets).collect();
    let unique: BTreeSet<&Text> = sets.iter().map(|set| &set.name).collect();
    let has = |set: &Text, counter: &Text| {
        let named = sets.iter().filter(|known| known.name == *set);
        named.flat_map(|known| known.counters.iter()).any(|(name, _)| name == counter)
    };
    let consumed = all.iter().flat_map(|slice| &slice.devices).flat_map(|d| &d.consumes);
    let known = |set: &Text| unique.contains(set);
    names.iter().collect::<BTreeSet<_>>().len() == names.len()
        && unique.len() == sets.len()
        && consumed.into_iter().all(|consumption| {
            known(&consumption.set)
                && consumption.counters.iter().all(|(counter, _)| has(&consumption.set, counter))
        })
}
