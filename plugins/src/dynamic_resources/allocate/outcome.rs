//! What a search has found, as results of claims, or why there is nothing.

use std::sync::Arc;

use berth_core::snapshot::Devices;
use berth_core::types::claim::{DeviceDemand, DeviceId, DeviceRequest, DeviceResult};
use berth_core::types::{ResourceSlice, Text};

use super::amounts::written;
use super::problem::{Ask, Candidate, NoValue, Problem};
use super::state::Pick;
use super::{Found, Refused, TIMED_OUT};

/// Upstream's score of the first alternative. Source: `computeScore` of kube-scheduler 1.37.
const FIRST_ALTERNATIVE: i64 = 8;

/// Returns the picks as results.
pub(super) fn found(
    devices: &Devices,
    problem: &Problem,
    claims: &[Arc<DeviceDemand>],
    picks: &[Pick],
) -> Found {
    let mut picks = picks.to_vec();
    picks.sort_by_key(|pick| {
        let ask = &problem.asks[pick.ask as usize];
        (ask.claim, ask.request, problem.candidate(pick.ask, pick.at).device)
    });
    let mut found = Found { claims: vec![Vec::new(); claims.len()], ..Found::default() };
    let mut last = None;
    for pick in picks {
        let ask = &problem.asks[pick.ask as usize];
        let request = &claims[ask.claim as usize].requests[ask.request as usize];
        if request.first_available && last != Some(pick.ask) {
            found.preference += FIRST_ALTERNATIVE - i64::from(ask.alternative);
        }
        last = Some(pick.ask);
        let request = &request.alternatives[ask.alternative as usize];
        found.claims[ask.claim as usize].extend(result(devices, problem, request, pick));
    }
    found
}

fn result(
    devices: &Devices,
    problem: &Problem,
    request: &DeviceRequest,
    pick: Pick,
) -> Option<DeviceResult> {
    let candidate = problem.candidate(pick.ask, pick.at);
    let at = &problem.devices[candidate.device as usize];
    let slice = devices.slice(at.slice)?;
    let device = slice.devices.get(at.at as usize)?;
    let model = &device.model;
    let amounts = candidate.amounts.map_or(&[][..], |amounts| &problem.amounts[amounts as usize]);
    let consumed = model.capacity.iter().zip(amounts);
    let consumed = consumed.map(|(of, nanos)| (of.name.clone(), written(*nanos, of)));
    Some(DeviceResult {
        request: request.name.clone(),
        id: id(slice, &device.name),
        admin: request.admin,
        tolerations: request.tolerations.clone(),
        binding_conditions: model.binding_conditions.to_vec(),
        binding_failure_conditions: model.binding_failure_conditions.to_vec(),
        share_id: model.multi_allocatable.then(Text::default),
        consumed: consumed.collect(),
        skip_node_operations: slice.skip_node_operations.clone(),
    })
}

fn id(slice: &ResourceSlice, device: &Text) -> DeviceId {
    DeviceId { driver: slice.driver.clone(), pool: slice.pool.clone(), device: device.clone() }
}

/// Returns the results as picks; `None` if the problem isn't the one that they solve.
pub(super) fn picks(
    devices: &Devices,
    problem: &Problem,
    claims: &[Arc<DeviceDemand>],
    found: &Found,
) -> Option<Vec<Pick>> {
    let results = found.claims.iter().enumerate();
    let results = results.flat_map(|(at, of)| of.iter().map(move |result| (at, result)));
    results.map(|(at, result)| pick(devices, problem, &claims[at], at as u32, result)).collect()
}

fn pick(
    devices: &Devices,
    problem: &Problem,
    demand: &DeviceDemand,
    claim: u32,
    result: &DeviceResult,
) -> Option<Pick> {
    let named = |ask: &Ask| {
        let request = &demand.requests[ask.request as usize];
        request.alternatives[ask.alternative as usize].name == result.request
    };
    let ask = problem.asks.iter().position(|ask| ask.claim == claim && named(ask))? as u32;
    let meant = |candidate: &Candidate| {
        let at = &problem.devices[candidate.device as usize];
        devices.slice(at.slice).is_some_and(|slice| {
            let device = slice.devices.get(at.at as usize);
            slice.driver == result.id.driver
                && slice.pool == result.id.pool
                && device.is_some_and(|device| device.name == result.id.device)
        })
    };
    let at = problem.profile(ask).candidates.iter().position(meant)? as u32;
    Some(Pick { ask, at })
}

/// Says why there is no solution.
pub(super) fn refusal(
    devices: &Devices,
    problem: &Problem,
    claims: &[Arc<DeviceDemand>],
) -> Refused {
    let notes = &problem.notes;
    if let Some(no_value) = &notes.error {
        return Refused::Broken(no_value_text(devices, no_value));
    }
    if let Some(expression) = &notes.unknown {
        return Refused::NotProven(unknown_text(expression));
    }
    if let Some((ask, device)) = notes.mismatch {
        let ask = &problem.asks[ask as usize];
        let request = &claims[ask.claim as usize].requests[ask.request as usize];
        let at = &problem.devices[device as usize];
        let slice = devices.slice(at.slice);
        let device = slice.and_then(|s| Some(id(s, &s.devices.get(at.at as usize)?.name)));
        let device = device.map_or_else(String::new, |id| id.to_string());
        let of = format!("request {}: cannot add device {device}", request.name);
        let text = format!("{of} because a claim constraint would not be satisfied");
        return Refused::Broken(text.into());
    }
    let text = match &notes.unsupported {
        Some((device, field)) => {
            format!(
                "cannot allocate all claims: device {device} has {field}, which is not supported"
            )
        }
        None if notes.invalid_pool => "invalid resource pools were encountered".to_owned(),
        None => "cannot allocate all claims".to_owned(),
    };
    Refused::NoFit(text.into())
}

fn no_value_text(devices: &Devices, no_value: &NoValue) -> Text {
    let NoValue { slice, at, expression } = no_value;
    let object = devices.slice(*slice);
    let device = object.and_then(|object| Some((object, object.devices.get(*at)?)));
    let Some((object, device)) = device else { return "a device is gone".into() };
    let selections = devices.selections();
    if let Some(text) = selections.compile_error(expression) {
        return format!("selector {:?}: CEL compile error: {text}", &**expression).into();
    }
    let error = selections.error(expression, *slice, *at).cloned().unwrap_or_default();
    let of = format!("selector {:?} on device {}", &**expression, id(object, &device.name));
    format!("{of}: CEL runtime error: {error}").into()
}

/// What is shown of a selector that takes too long. Unit: bytes.
const SHOWN_MAX: usize = 200;

fn unknown_text(expression: &Text) -> Text {
    let shown = &expression[..expression.floor_char_boundary(SHOWN_MAX)];
    let rest = if shown.len() < expression.len() { "…" } else { "" };
    let of = format!("{TIMED_OUT}: selector {:?} was not evaluated", format!("{shown}{rest}"));
    let text = format!(
        "{of} for every device, as the pod's selectors take more steps than filterTimeout allows: make them cheaper"
    );
    text.into()
}
