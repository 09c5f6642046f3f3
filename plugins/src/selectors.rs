//! Device selectors for the ledger: Kubernetes' CEL, by `berth_cel`.

use std::sync::Arc;

use berth_cel::{Budget, OwnedAttribute, OwnedDevice, Program, Quantity, Semver, compile};
use berth_core::snapshot::{DeviceSelector, SelectorCompiler};
use berth_core::types::device::AttributeValue;
use berth_core::types::{Device, Text};

/// Returns what compiles the `cel.expression` of classes and requests.
pub fn selectors() -> Arc<dyn SelectorCompiler> {
    Arc::new(Cel)
}

#[derive(Debug)]
struct Cel;

impl SelectorCompiler for Cel {
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, Text> {
        match compile(expression) {
            Ok(program) => Ok(Arc::new(Compiled(program))),
            Err(error) => Err(Text::from(error.to_string())),
        }
    }
}

#[derive(Debug)]
struct Compiled(Program);

impl DeviceSelector for Compiled {
    fn selects(&self, driver: &str, device: &Device) -> Result<bool, Text> {
        let device = seen(driver, device)?;
        let answer = self.0.matches(&device, &mut Budget::default());
        answer.map_err(|error| Text::from(error.to_string()))
    }
}

/// Returns the device as a selector sees it.
fn seen(driver: &str, device: &Device) -> Result<OwnedDevice, Text> {
    let mut seen = OwnedDevice::new(driver);
    seen.set_allow_multiple_allocations(device.model.multi_allocatable);
    for (name, value) in device.attributes() {
        seen.set_attribute(name, attribute(name, value)?);
    }
    for capacity in device.model.capacity.iter() {
        let quantity = Quantity::parse(&capacity.value.text);
        let quantity = quantity.map_err(|e| Text::from(format!("capacity {}: {e}", capacity.name)));
        seen.set_capacity(&capacity.name, quantity?);
    }
    Ok(seen)
}

fn attribute(name: &Text, value: &AttributeValue) -> Result<OwnedAttribute, Text> {
    let version = |text: &Text| {
        Semver::parse(text).map_err(|error| Text::from(format!("attribute {name}: {error}")))
    };
    Ok(match value {
        AttributeValue::Bool(value) => OwnedAttribute::Bool(*value),
        AttributeValue::Int(value) => OwnedAttribute::Int(*value),
        AttributeValue::String(value) => OwnedAttribute::String(value.to_string()),
        AttributeValue::Version(value) => OwnedAttribute::Version(version(value)?),
        AttributeValue::Bools(values) => OwnedAttribute::Bools(values.to_vec()),
        AttributeValue::Ints(values) => OwnedAttribute::Ints(values.to_vec()),
        AttributeValue::Strings(values) => {
            OwnedAttribute::Strings(values.iter().map(Text::to_string).collect())
        }
        AttributeValue::Versions(values) => {
            OwnedAttribute::Versions(values.iter().map(version).collect::<Result<_, _>>()?)
        }
    })
}
