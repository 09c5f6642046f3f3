//! What one node sees of the pools: which generation counts, whether it is complete and sound.
//!
//! Source: `pools.go` (`GatherPools`) of k8s.io/dynamic-resource-allocation 1.37. One difference:
//! where a newer generation exists for other nodes only, an older one that is complete for this
//! node is used, as upstream does; a pool that nobody sees whole is incomplete for everybody.

use std::collections::BTreeSet;

use crate::types::device::{Consumption, CounterSet, Placement};
use crate::types::{Device, Node, ResourceSlice, Text};

use super::Devices;
use super::pools::{Pool, SliceIdx};
use super::taken::Taken;

/// Whether a pool's devices may be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolState {
    Complete,
    /// Slices are missing: the pool is being updated.
    Incomplete,
    /// Its slices contradict each other; the text says how.
    Invalid(Text),
}

/// The slices of the generation that counts, in order of name, and their state.
#[derive(Clone, Debug)]
pub(super) struct View {
    state: PoolState,
    slices: Vec<SliceIdx>,
}

/// A pool as one node sees it.
#[derive(Clone, Debug)]
pub struct NodePool<'a> {
    pool: &'a Pool,
    pub driver: &'a Text,
    pub name: &'a Text,
    pub state: PoolState,
    /// In order of the slices' names, then as listed.
    pub devices: Vec<NodeDevice<'a>>,
}

/// A device of a pool that is usable on the node.
#[derive(Clone, Copy, Debug)]
pub struct NodeDevice<'a> {
    pub slice: &'a ResourceSlice,
    pub slice_idx: SliceIdx,
    /// Place in the slice.
    pub at: usize,
    pub device: &'a Device,
    /// Where else it can be used.
    pub placement: &'a Placement,
    pub taken: Option<&'a Taken>,
}

impl<'a> NodePool<'a> {
    /// Returns the counter set of this name of the generation that counts.
    pub fn counter_set(&self, devices: &'a Devices, name: &Text) -> Option<&'a CounterSet> {
        let slices = self.pool.slices.values().filter_map(|slice| devices.slice(*slice));
        let generation = self.devices.first().map(|device| device.slice.generation);
        let mut current = slices.filter(|slice| Some(slice.generation) == generation);
        current.find_map(|slice| slice.counter_sets.iter().find(|set| set.name == *name))
    }

    /// Returns how much is held of the counters of a set, in order of counter; those of which
    /// nothing is held are left out. Unit: billionths.
    pub fn counters_held(&self, set: &Text) -> impl Iterator<Item = (&'a Text, i128)> {
        self.pool.taken.of_set(set)
    }

    /// Returns how much of a counter is left; less than nothing if more is held than there is.
    /// `None`: the pool has no such counter. Unit: billionths.
    pub fn counter_left(&self, devices: &'a Devices, set: &Text, counter: &Text) -> Option<i128> {
        let known = self.counter_set(devices, set)?;
        let at = known.counters.binary_search_by(|(name, _)| name.cmp(counter)).ok()?;
        Some(known.counters[at].1.nanos - self.pool.taken.of_counter(set, counter))
    }
}

impl Devices {
    /// Returns the pools that `node` has devices of, in order of driver and name. Pools that are
    /// outdated here are left out.
    pub fn pools_on<'a>(&'a self, node: &Node) -> Vec<NodePool<'a>> {
        let pools = self.pools_for(&node.name);
        let mut seen: Vec<NodePool<'a>> = pools.filter_map(|pool| self.seen(pool, node)).collect();
        seen.sort_by(|a, b| (a.driver, a.name).cmp(&(b.driver, b.name)));
        seen
    }

    fn seen<'a>(&'a self, pool: &'a Pool, node: &Node) -> Option<NodePool<'a>> {
        let own;
        let view = match &pool.view {
            Some(view) => view,
            None => {
                own = self.view(pool, |slice| targets(slice, node))?;
                &own
            }
        };
        let slices = || view.slices.iter().filter_map(|idx| Some((*idx, self.slice(*idx)?)));
        let mut devices = Vec::with_capacity(slices().map(|(_, slice)| slice.devices.len()).sum());
        for (slice_idx, slice) in slices() {
            devices.extend(slice.devices.iter().enumerate().filter_map(|(at, device)| {
                let placement = placement_of(slice, device);
                let here = pool.view.is_some() || usable(placement, node);
                let taken = pool.taken.device(&device.name);
                here.then_some(NodeDevice { slice, slice_idx, at, device, placement, taken })
            }));
        }
        let (driver, name) = (&pool.driver, &pool.name);
        Some(NodePool { pool, driver, name, state: view.state.clone(), devices })
    }

    /// Returns what every node of the pool sees, `None` where nodes see different things.
    pub(super) fn common_view(&self, pool: &Pool) -> Option<View> {
        let mut slices = pool.slices.values().filter_map(|slice| self.slice(*slice));
        let first = &slices.next()?.placement;
        let same = matches!(first, Placement::Node(_) | Placement::AllNodes)
            && slices.all(|slice| slice.placement == *first);
        if same { self.view(pool, |_| true) } else { None }
    }

    /// Returns the view of who can use the slices that `targets` says; `None` if there are none, or
    /// if what there is has been replaced.
    fn view<'a>(&'a self, pool: &Pool, targets: impl Fn(&ResourceSlice) -> bool) -> Option<View> {
        let all = || pool.slices.values().filter_map(|idx| Some((*idx, self.slice(*idx)?)));
        let generation = all().filter(|(_, s)| targets(s)).map(|(_, s)| s.generation).max()?;
        let current = || all().filter(move |(_, slice)| slice.generation == generation);
        let mine: Vec<(SliceIdx, &'a ResourceSlice)> =
            current().filter(|(_, s)| targets(s)).collect();
        let wanted = mine.first()?.1.slice_count;
        let is_whole = |n: usize| i64::try_from(n) == Ok(wanted);
        let whole = if is_whole(mine.len()) {
            mine.clone()
        } else if all().any(|(_, slice)| slice.generation > generation) {
            return None;
        } else {
            current().collect()
        };
        let slices = |of: &[(SliceIdx, &'a ResourceSlice)]| of.iter().map(|(_, s)| *s).collect();
        let state = match fault(slices(&mine), slices(&whole)) {
            Some(text) => PoolState::Invalid(text),
            None if is_whole(whole.len()) => PoolState::Complete,
            None => PoolState::Incomplete,
        };
        Some(View { state, slices: mine.into_iter().map(|(idx, _)| idx).collect() })
    }
}

fn placement_of<'a>(slice: &'a ResourceSlice, device: &'a Device) -> &'a Placement {
    match (&slice.placement, &device.model.placement) {
        (Placement::PerDevice, Some(own)) => own,
        (slice, _) => slice,
    }
}

/// Tells whether a device with this placement can be used on `node`.
fn usable(placement: &Placement, node: &Node) -> bool {
    match placement {
        Placement::Node(name) => *name == node.name,
        Placement::Selector(selector) => selector.matches(&node.name, &node.labels),
        Placement::AllNodes => true,
        Placement::PerDevice | Placement::Unknown => false,
    }
}

fn targets(slice: &ResourceSlice, node: &Node) -> bool {
    match &slice.placement {
        Placement::PerDevice => {
            slice.devices.iter().any(|device| usable(placement_of(slice, device), node))
        }
        whole => usable(whole, node),
    }
}

/// Says what is wrong with the slices of one generation. Names of devices must be unique among
/// `mine`, those that whoever looks can use: the same name for another node does no harm here.
fn fault(mine: Vec<&ResourceSlice>, whole: Vec<&ResourceSlice>) -> Option<Text> {
    if let Some(problem) = whole.iter().find_map(|slice| slice.problem.as_ref()) {
        return Some(problem.clone());
    }
    let mut names = BTreeSet::new();
    for device in mine.iter().flat_map(|slice| &slice.devices) {
        if !names.insert(&device.name) {
            return Some(format!("duplicate device name {:?}", &*device.name).into());
        }
    }
    let mut sets: Vec<&CounterSet> = Vec::new();
    for set in whole.iter().flat_map(|slice| &slice.counter_sets) {
        if sets.iter().any(|known| known.name == set.name) {
            return Some(format!("duplicate counter set {:?}", &*set.name).into());
        }
        sets.push(set);
    }
    let devices = whole.iter().flat_map(|slice| &slice.devices);
    let consumed = devices.flat_map(|device| device.consumes.iter().map(move |c| (device, c)));
    consumed.filter_map(|(device, consumption)| dangling(device, consumption, &sets)).next()
}

fn dangling(device: &Device, consumes: &Consumption, sets: &[&CounterSet]) -> Option<Text> {
    let of = format!("device {:?} consumes", &*device.name);
    let Some(set) = sets.iter().find(|set| set.name == consumes.set) else {
        return Some(format!("{of} an unknown counter set {:?}", &*consumes.set).into());
    };
    let known = |counter: &Text| set.counters.binary_search_by(|(name, _)| name.cmp(counter));
    let unknown = consumes.counters.iter().find(|(counter, _)| known(counter).is_err());
    let (counter, _) = unknown?;
    Some(format!("{of} an unknown counter {:?} of set {:?}", &**counter, &*set.name).into())
}
