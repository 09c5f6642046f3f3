//! Whether a device is one that its request asks for.

use std::collections::BTreeSet;

use berth_core::types::Text;
use berth_core::types::claim::{AllocationMode, DeviceRequest, DeviceToleration};
use berth_core::types::device::{DeviceTaint, DeviceTaintEffect};

use super::super::instance::Instance;
use super::super::oracle::Grant;
use super::pools::{Offered, Offers};
use super::{Findings, Wrong, usage};

/// Checks how many devices the request got, and that none is there twice.
pub(super) fn check_count(
    instance: &Instance,
    offers: &Offers<'_>,
    request: &DeviceRequest,
    grants: &[Grant],
    found: &mut Findings,
) {
    let ids: BTreeSet<_> = grants.iter().map(|grant| &grant.id).collect();
    if ids.len() != grants.len() {
        found.add(Wrong::Taken, format!("request {}: a device twice", request.name));
    }
    match &request.mode {
        AllocationMode::ExactCount(count) => {
            if i64::try_from(grants.len()) != Ok(*count) {
                let text = format!("request {}: {} of {count}", request.name, grants.len());
                found.add(Wrong::Count, text);
            }
        }
        AllocationMode::All => {
            if !offers.unusable.is_empty() {
                found.add(Wrong::NotOffered, "all devices of a pool that can't be used");
            }
            let all: BTreeSet<(&str, &str, &str)> = offers
                .devices()
                .filter(|offered| wanted(instance, request, *offered))
                .map(|offered| {
                    let Offered { slice, device } = offered;
                    (&*slice.driver, &*slice.pool, &*device.name)
                })
                .collect();
            let got = ids.iter().map(|id| (&*id.driver, &*id.pool, &*id.device)).collect();
            if all != got || all.is_empty() {
                found.add(Wrong::Count, format!("request {}: {got:?} of {all:?}", request.name));
            }
        }
        AllocationMode::Unknown(mode) => found.add(Wrong::Unknown, format!("mode {mode}")),
    }
}

/// Whether a request for all devices means this one: selected, and large enough when empty.
fn wanted(instance: &Instance, request: &DeviceRequest, offered: Offered<'_>) -> bool {
    selects(instance, request, offered) == Some(true)
        && usage::amounts(offered.device, request).is_some()
}

pub(super) fn check_device(
    instance: &Instance,
    request: &DeviceRequest,
    grant: &Grant,
    offered: Offered<'_>,
    found: &mut Findings,
) {
    match selects(instance, request, offered) {
        Some(true) => {}
        Some(false) => found.add(Wrong::NotSelected, format!("{} for {}", grant.id, request.name)),
        None => found.add(Wrong::Unknown, format!("class {}", request.class)),
    }
    if let Some(taint) = taints(instance, offered).find(|taint| !tolerated(request, taint)) {
        found.add(Wrong::Tainted, format!("{}: {taint:?}", grant.id));
    }
    if grant.admin != request.admin {
        found.add(Wrong::Admin, grant.id.to_string());
    }
}

/// Tells whether class and request pick the device, `None` if there is no such class. A selector
/// without a value picks nothing.
fn selects(instance: &Instance, request: &DeviceRequest, offered: Offered<'_>) -> Option<bool> {
    let compiler = berth_plugins::selectors();
    let Offered { slice, device } = offered;
    let says = |expression: &Text| {
        let program = compiler.compile(expression);
        let answer = program.map(|it| it.evaluate(&slice.driver, device, u64::MAX).answer);
        answer == Ok(Some(Ok(true)))
    };
    let class = instance.class(&request.class)?;
    Some(class.selectors.iter().chain(&request.selectors).all(says))
}

fn taints<'a>(
    instance: &'a Instance,
    offered: Offered<'a>,
) -> impl Iterator<Item = &'a DeviceTaint> {
    let Offered { slice, device } = offered;
    let by_rule = instance.rules.iter().filter(move |rule| {
        let Some(selector) = &rule.selector else { return false };
        let is = |wanted: &Option<Text>, name: &Text| wanted.as_ref().is_none_or(|w| w == name);
        is(&selector.driver, &slice.driver)
            && is(&selector.pool, &slice.pool)
            && is(&selector.device, &device.name)
    });
    device.model.taints.iter().chain(by_rule.map(|rule| &rule.taint))
}

fn tolerated(request: &DeviceRequest, taint: &DeviceTaint) -> bool {
    let tolerates = |toleration: &DeviceToleration| {
        (toleration.key.is_empty() || toleration.key == taint.key)
            && (toleration.exists || toleration.value == taint.value)
            && toleration.effect.is_none_or(|effect| effect == taint.effect)
    };
    taint.effect == DeviceTaintEffect::None || request.tolerations.iter().any(tolerates)
}
