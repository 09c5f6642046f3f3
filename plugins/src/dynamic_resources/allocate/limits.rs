//! What of a demand can't be answered, whatever devices there are.

use std::sync::Arc;

use berth_core::snapshot::Devices;
use berth_core::types::Text;
use berth_core::types::claim::{AllocationMode, ConstraintKind, DeviceDemand, DeviceRequest};

/// Source: `types.go` of resource.k8s.io/v1.
pub(super) const DEVICES_A_CLAIM: usize = 32;
pub(super) const DEVICES_A_SLICE: usize = 128;
const REQUESTS: usize = 32;
const CONSTRAINTS: usize = 32;
const SELECTORS: usize = 32;
const ALTERNATIVES: usize = 8;

/// Checks what the claims ask for.
///
/// # Errors
/// What can't be understood, or is over a limit of the API, with the request's name.
pub(super) fn check(claims: &[Arc<DeviceDemand>], devices: &Devices) -> Result<(), Text> {
    claims.iter().try_for_each(|claim| check_claim(claim, devices))
}

fn check_claim(claim: &DeviceDemand, devices: &Devices) -> Result<(), Text> {
    at_most("a claim", "requests", claim.requests.len(), REQUESTS)?;
    at_most("a claim", "constraints", claim.constraints.len(), CONSTRAINTS)?;
    for request in &claim.requests {
        let of = format!("request {}", request.name);
        at_most(&of, "alternatives", request.alternatives.len(), ALTERNATIVES)?;
        if request.alternatives.is_empty() {
            return Err(format!("{of}: unknown request type").into());
        }
        request.alternatives.iter().try_for_each(|request| check_request(request, devices))?;
    }
    for (at, constraint) in claim.constraints.iter().enumerate() {
        if constraint.kind == ConstraintKind::Unknown {
            let text = "empty constraint (unsupported constraint type?)";
            return Err(format!("constraint #{at}: {text}").into());
        }
    }
    Ok(())
}

fn check_request(request: &DeviceRequest, devices: &Devices) -> Result<(), Text> {
    let of = format!("request {}", request.name);
    at_most(&of, "selectors", request.selectors.len(), SELECTORS)?;
    if let Some(field) = &request.unsupported {
        return Err(format!("{of}: {field} is not supported").into());
    }
    let name = &request.class;
    let Some(class) = devices.class(name) else {
        return Err(format!("{of}: could not retrieve device class {name}").into());
    };
    if let Some(problem) = &class.problem {
        return Err(format!("{of}: device class {name} can't be understood: {problem}").into());
    }
    at_most(&format!("device class {name}"), "selectors", class.selectors.len(), SELECTORS)?;
    match &request.mode {
        AllocationMode::ExactCount(1..) | AllocationMode::All => Ok(()),
        AllocationMode::ExactCount(count) => {
            Err(format!("{of}: a count of {count} devices can't be allocated").into())
        }
        AllocationMode::Unknown(mode) => Err(format!("{of}: unsupported count mode {mode}").into()),
    }
}

fn at_most(of: &str, what: &str, n: usize, max: usize) -> Result<(), Text> {
    match n <= max {
        true => Ok(()),
        false => Err(format!("{of} has {n} {what}, more than the {max} that are allowed").into()),
    }
}
