//! Which devices are candidates of which requests.

use std::ptr;

use berth_core::snapshot::devices::gather::{NodeDevice, NodePool, PoolState};
use berth_core::snapshot::devices::pools::SliceIdx;
use berth_core::snapshot::devices::selections::Selected;
use berth_core::types::Text;
use berth_core::types::device::{DeviceModel, Placement};

use super::super::super::filter::tolerated;
use super::super::amounts::amounts;
use super::super::limits::DEVICES_A_SLICE;
use super::super::problem::{Candidate, Device, NoValue, Problem};
use super::Reading;

impl<'a> Reading<'a> {
    /// Adds the devices of a pool, given with its index, to the profiles that could take them.
    pub(super) fn read_pool(&mut self, (at, pool): (usize, &NodePool<'a>)) {
        match pool.state {
            PoolState::Complete => {}
            PoolState::Incomplete => return,
            PoolState::Invalid(_) => {
                self.problem.notes.invalid_pool = true;
                return;
            }
        }
        for device in &pool.devices {
            if self.slice != Some(device.slice_idx) {
                if device.slice.devices.len() > DEVICES_A_SLICE {
                    self.problem.notes.invalid_pool = true;
                    return;
                }
                self.turn_to(device.slice_idx);
            }
            let mut entered = None;
            for profile in 0..self.requests.len() {
                self.consider(profile, (at, pool), device, &mut entered);
            }
        }
    }

    fn turn_to(&mut self, slice: SliceIdx) {
        let selections = self.devices.selections();
        self.answers.clear();
        self.answers.extend(self.selectors.iter().map(|text| selections.answers(text, slice)));
        self.slice = Some(slice);
    }

    /// Adds a device to the candidates of a profile if it is one. `entered` is its index once it
    /// has one.
    fn consider(
        &mut self,
        profile: usize,
        pool: (usize, &NodePool<'a>),
        device: &NodeDevice<'a>,
        entered: &mut Option<u32>,
    ) {
        let no_value = match self.selected(profile, device) {
            (Selected::Yes, _) => None,
            (Selected::Unknown, _) if profile >= self.n_own => {
                self.note_odd(pool, device, entered);
                return;
            }
            (_, None) => return,
            (selected, expression) => expression.map(|it| (selected, it)),
        };
        let all = self.problem.profiles[profile].all;
        let taken = !self.problem.profiles[profile].admin && taken(device);
        let request = self.requests[profile];
        let mut taints = self.devices.taints(device.slice, device.device);
        let usable = !taken && taints.all(|taint| tolerated(taint, &request.tolerations));
        if !all && !usable {
            return;
        }
        if let Some((selected, expression)) = no_value {
            match selected {
                Selected::Unknown => self.note_unknown(expression),
                _ => self.note_error(device, expression),
            }
            self.problem.profiles[profile].blocked |= all;
            return;
        }
        let model: &'a DeviceModel = &device.device.model;
        let given = match self.given[profile] {
            Some((of, amounts)) if ptr::eq(of, model) => Some(amounts),
            _ if model.multi_allocatable => {
                let Some(given) = amounts(request, &model.capacity) else { return };
                let amounts = self.add_amounts(given);
                self.given[profile] = Some((model, amounts));
                Some(amounts)
            }
            _ if !request.capacity.is_empty() && amounts(request, &model.capacity).is_none() => {
                return;
            }
            _ => None,
        };
        let index = match self.supported(device) {
            true => self.enter(pool, device, entered),
            false => None,
        };
        self.problem.profiles[profile].blocked |= all && (!usable || index.is_none());
        let Some(device) = index else { return };
        let candidate = Candidate { device, amounts: given };
        self.problem.profiles[profile].candidates.push(candidate);
    }

    /// Whether others could have the device isn't known: it may differ from any.
    fn note_odd(
        &mut self,
        pool: (usize, &NodePool<'a>),
        device: &NodeDevice<'a>,
        entered: &mut Option<u32>,
    ) {
        if let Some(at) = self.enter(pool, device, entered) {
            self.problem.devices[at as usize].odd = true;
        }
    }

    /// Tells what a profile's selectors say of a device, and which one has no value for it, or has
    /// not looked at it.
    fn selected(&self, profile: usize, device: &NodeDevice<'a>) -> (Selected, Option<&'a Text>) {
        for at in self.ranges[profile].clone() {
            match self.answers[at].of(device.at) {
                Selected::Yes => {}
                Selected::No => return (Selected::No, None),
                other => return (other, Some(self.selectors[at])),
            }
        }
        (Selected::Yes, None)
    }

    fn note_unknown(&mut self, expression: &Text) {
        self.problem.notes.unknown.get_or_insert_with(|| expression.clone());
    }

    /// Returns the index of what a device gives. Devices of one model mostly give the same.
    fn add_amounts(&mut self, given: Box<[i128]>) -> u32 {
        let all = &mut self.problem.amounts;
        if all.last() != Some(&given) {
            all.push(given);
        }
        all.len() as u32 - 1
    }

    fn note_error(&mut self, device: &NodeDevice<'a>, expression: &Text) {
        let expression = expression.clone();
        let (slice, at) = (device.slice_idx, device.at);
        let no_value = || NoValue { slice, at, expression };
        self.problem.notes.error.get_or_insert_with(no_value);
    }

    fn supported(&mut self, device: &NodeDevice<'a>) -> bool {
        let Some(field) = &device.device.model.unsupported else { return true };
        let note = || (device.device.name.clone(), field.clone());
        self.problem.notes.unsupported.get_or_insert_with(note);
        false
    }

    /// Returns the device's index; `None` if its pool doesn't have the counters that it draws on.
    fn enter(
        &mut self,
        pool: (usize, &NodePool<'a>),
        device: &NodeDevice<'a>,
        entered: &mut Option<u32>,
    ) -> Option<u32> {
        if entered.is_some() {
            return *entered;
        }
        let reach = self.reach(pool.0, device);
        let Problem { draws, rooms, devices, .. } = &mut self.problem;
        let (first_draw, first_room) = (draws.len() as u32, rooms.len() as u32);
        if !self.counters.read(self.devices, pool, &device.device.consumes, draws) {
            return None;
        }
        let model = &device.device.model;
        if model.multi_allocatable {
            let left = model.capacity.iter().map(|capacity| {
                let consumed = device.taken.map_or(0, |taken| taken.consumed(&capacity.name));
                capacity.value.nanos.saturating_sub(consumed)
            });
            rooms.extend(left);
        }
        devices.push(Device {
            slice: device.slice_idx,
            at: device.at as u32,
            shared: model.multi_allocatable,
            taken: taken(device),
            charged: device.taken.is_some(),
            binding: !model.binding_conditions.is_empty(),
            reach,
            odd: false,
            draws: first_draw..draws.len() as u32,
            room: first_room..rooms.len() as u32,
        });
        self.found.push(*device);
        *entered = Some(devices.len() as u32 - 1);
        *entered
    }
}

impl<'a> Reading<'a> {
    fn reach(&mut self, pool: usize, device: &NodeDevice<'a>) -> u32 {
        let Some(reaches) = &mut self.reaches else { return 0 };
        if matches!(device.placement, Placement::Node(_)) {
            return 0;
        }
        let reach = (pool, device.placement, device.device.model.binds_to_node);
        let known = reaches.iter().position(|known| *known == reach);
        let at = known.unwrap_or_else(|| {
            reaches.push(reach);
            reaches.len() - 1
        });
        at as u32 + 1
    }
}

/// Tells whether nobody else can have the device for himself, nor share it.
fn taken(device: &NodeDevice<'_>) -> bool {
    let shared = device.device.model.multi_allocatable;
    device.taken.is_some_and(|taken| taken.dedicated() || (taken.shared() && !shared))
}
