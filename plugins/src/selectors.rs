//! Device selectors for the ledger: Kubernetes' CEL, by `berth_cel`.

use std::sync::Arc;

use berth_cel::{
    Budget, EvalError, OwnedAttribute, OwnedDevice, Program, Quantity, Semver, compile,
};
use berth_core::snapshot::{DeviceSelector, Evaluation, SelectorCompiler};
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

/// An evaluation takes so many steps whatever it costs: a microsecond for what it sees of a device.
/// Beyond that a step is one of Kubernetes' cost units, which takes up to 48 ns; a step of the engine
/// takes 40.
const STEPS_AN_EVALUATION: u64 = 25;
/// Work that Kubernetes doesn't count, for a step.
const WORK_A_STEP: u64 = 20;

impl DeviceSelector for Compiled {
    fn evaluate(&self, driver: &str, device: &Device, steps_max: u64) -> Evaluation {
        let mut budget = Budget::new(steps_max);
        let answer = match self.seen(driver, device) {
            Ok(device) => match self.0.matches(&device, &mut budget) {
                Err(EvalError::Budget) => None,
                answer => Some(answer.map_err(|error| Text::from(error.to_string()))),
            },
            Err(error) => Some(Err(error)),
        };
        let steps = budget.spent() + budget.work() / WORK_A_STEP;
        Evaluation { answer, steps: STEPS_AN_EVALUATION + steps }
    }

    fn sees(&self, driver: &str, attribute: &str) -> bool {
        let (domain, name) = attribute.split_once('/').unwrap_or((driver, attribute));
        self.0.sees_attribute(domain, name)
    }
}

impl Compiled {
    /// Returns what the selector can see of a device.
    fn seen(&self, driver: &str, device: &Device) -> Result<OwnedDevice, Text> {
        let mut seen = OwnedDevice::new(driver);
        seen.set_allow_multiple_allocations(device.model.multi_allocatable);
        for (name, value) in device.attributes().filter(|(name, _)| self.sees(driver, name)) {
            seen.set_attribute(name, attribute(name, value)?);
        }
        for capacity in device.model.capacity.iter() {
            let name = &capacity.name;
            let (domain, bare) = name.split_once('/').unwrap_or((driver, name));
            if self.0.sees_capacity(domain, bare) {
                let quantity = Quantity::parse(&capacity.value.text);
                let quantity = quantity.map_err(|e| Text::from(format!("capacity {name}: {e}")));
                seen.set_capacity(name, quantity?);
            }
        }
        Ok(seen)
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_core::types::device::DeviceModel;

    use super::*;

    fn gpu() -> Device {
        let text = |name: &str, value: &str| (name.into(), AttributeValue::String(value.into()));
        let model =
            DeviceModel { attributes: [text("model", "H100")].into(), ..DeviceModel::default() };
        let own = [text("uuid", "u-1")];
        Device { model: Arc::new(model), own: own.into(), ..Device::default() }
    }

    fn asked(expression: &str) -> (Evaluation, bool) {
        let program = Cel.compile(expression).unwrap();
        (program.evaluate("d", &gpu(), u64::MAX), program.sees("d", "uuid"))
    }

    #[test]
    fn a_selector_takes_steps_in_proportion_to_its_cost() {
        let (plain, _) = asked("device.driver == 'd' && device.attributes['d'].model == 'H100'");
        assert_eq!(plain.answer, Some(Ok(true)));
        assert!((25..=45).contains(&plain.steps), "{} steps", plain.steps);
        let list = format!("[{}]", ["0"; 30].join(","));
        let (long, _) =
            asked(&format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c < 1)))"));
        assert!(long.steps > 10_000, "{} steps", long.steps);
        let (over, _) = asked(&format!(
            "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, a + b + c + d < 1))))"
        ));
        assert!(over.answer.is_some_and(|it| it.is_err_and(|error| error.contains("cost limit"))));
        assert!((1_000_000..1_100_000).contains(&over.steps), "{} steps", over.steps);
    }

    #[test]
    fn an_evaluation_is_broken_off_when_its_steps_are_taken() {
        let list = format!("[{}]", ["0"; 30].join(","));
        let long = format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c < 1)))");
        let program = Cel.compile(&long).unwrap();
        let broken_off = program.evaluate("d", &gpu(), 5_000);
        assert_eq!(broken_off.answer, None);
        assert!((4_900..5_200).contains(&broken_off.steps), "{} steps", broken_off.steps);
        let whole = program.evaluate("d", &gpu(), 400_000);
        assert_eq!(whole.answer, Some(Ok(true)));
    }

    #[test]
    fn a_selector_sees_what_it_names() {
        for (expression, sees) in [
            ("device.driver == 'd'", false),
            ("device.attributes['d'].model == 'H100'", false),
            ("device.attributes['other'].uuid == 'u-1'", false),
            ("device.capacity['d'].uuid == quantity('1')", false),
            ("has(device.attributes['d'].uuid)", true),
            ("device.attributes['d'].?uuid.orValue('') == 'u-1'", true),
            ("device.attributes['d'].model == 'x' || device.attributes['d'].uuid == 'u-1'", true),
            ("'uuid' in device.attributes['d']", true),
            ("'uuid' in device.attributes['other']", false),
            ("device.attributes['d'].all(name, name != 'uuid')", true),
            ("device.attributes.all(domain, domain != 'd')", true),
            ("cel.bind(a, device.attributes['d'], a.uuid == 'u-1')", true),
            ("cel.bind(a, device.attributes, a['d'].uuid == 'u-1')", true),
            ("device.attributes[device.driver].uuid == 'u-1'", true),
            ("device.attributes['d'][device.driver == 'd' ? 'uuid' : 'model'] == 'u-1'", true),
            (
                "(device.driver == 'd' ? device.attributes['d'] : device.attributes['e']).uuid == 'u-1'",
                true,
            ),
        ] {
            let (evaluation, seen) = asked(expression);
            assert_eq!(seen, sees, "{expression}");
            // What isn't seen can make no difference.
            let mut other = gpu();
            other.own = [].into();
            let program = Cel.compile(expression).unwrap();
            let without = program.evaluate("d", &other, u64::MAX).answer;
            assert!(sees || without == evaluation.answer, "{expression}");
        }
    }
}
