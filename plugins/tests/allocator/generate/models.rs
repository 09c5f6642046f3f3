//! What devices are like: attributes, and capacities with the policies for sharing them.

use berth_core::types::Text;
use berth_core::types::device::{AttributeValue, Capacity, PolicyValues, Quantity, RequestPolicy};

use super::super::instance::quantity;
use super::Dice;

/// Sorted by name, as the ledger has them.
pub(super) fn attributes(
    dice: &mut Dice,
    driver: &str,
    lists: bool,
) -> Vec<(Text, AttributeValue)> {
    let mut made: Vec<(Text, AttributeValue)> = Vec::new();
    let string = |text: &str| AttributeValue::String(text.into());
    if dice.chance(85) {
        let qualified = dice.chance(20);
        let name = if qualified { format!("{driver}/model") } else { "model".to_owned() };
        made.push((name.into(), string(dice.word(&["a", "a", "b"]))));
    }
    if dice.chance(85) {
        let version = dice.word(&["1.0.0", "1.0.1", "2.0.0"]);
        let text = dice.chance(8);
        let value = if text { string(version) } else { AttributeValue::Version(version.into()) };
        made.push(("firmware".into(), value));
    }
    if dice.chance(60) {
        made.push(("ready".into(), AttributeValue::Bool(dice.chance(70))));
    }
    if dice.chance(85) {
        let value = root(dice, lists);
        made.push(("std.example.com/root".into(), value));
    }
    if dice.chance(60) {
        made.push(("numa".into(), numa(dice, lists)));
    }
    made.sort();
    made
}

fn root(dice: &mut Dice, lists: bool) -> AttributeValue {
    let roots = ["r0", "r1", "r2"];
    if lists && dice.chance(50) {
        let count = if dice.rarely(20) { 0 } else { 1 + dice.below(3) };
        let drawn = (0..count).map(|_| Text::from(dice.word(&roots)));
        return AttributeValue::Strings(drawn.collect::<Vec<_>>().into());
    }
    AttributeValue::String(dice.word(&roots[..2]).into())
}

fn numa(dice: &mut Dice, lists: bool) -> AttributeValue {
    if lists && dice.chance(50) {
        let drawn: Vec<i64> = (0..1 + dice.below(2)).map(|_| *dice.pick(&[0, 1, 2])).collect();
        return AttributeValue::Ints(drawn.into());
    }
    AttributeValue::Int(*dice.pick(&[0, 1]))
}

/// Sorted by name.
pub(super) fn capacities(dice: &mut Dice, driver: &str, shared: bool) -> Vec<Capacity> {
    let mut made = Vec::new();
    if dice.chance(if shared { 92 } else { 60 }) {
        let qualified = dice.chance(6);
        let name = if qualified { format!("{driver}/memory") } else { "memory".to_owned() };
        let value = quantity(dice.word(&["16Gi", "40Gi", "80Gi"]));
        let policy = if shared { memory_policy(dice) } else { None };
        made.push(Capacity { name: name.into(), value, policy });
    }
    if dice.chance(35) {
        let value = quantity(dice.word(&["4", "7", "2500m"]));
        let policy = if shared { slots_policy(dice) } else { None };
        made.push(Capacity { name: "slots".into(), value, policy });
    }
    made.sort_by(|a, b| a.name.cmp(&b.name));
    made
}

fn memory_policy(dice: &mut Dice) -> Option<RequestPolicy> {
    let (default, values) = match dice.below(7) {
        0 => return None,
        1 => ("4Gi", PolicyValues::Any),
        2 => ("4Gi", one_of(&["1Gi", "4Gi", "10Gi", "40Gi"])),
        3 => ("1Gi", range("1Gi", Some("16Gi"), Some("1Gi"))),
        4 => ("4Gi", range("1Gi", Some("8Gi"), Some("3Gi"))),
        5 => ("2Gi", range("2Gi", None, None)),
        _ => ("10Gi", range("5Gi", None, Some("5Gi"))),
    };
    Some(RequestPolicy { default: Some(quantity(default)), values })
}

fn slots_policy(dice: &mut Dice) -> Option<RequestPolicy> {
    let (default, values) = match dice.below(5) {
        0 => return None,
        1 => ("1", PolicyValues::Any),
        2 => ("1", one_of(&["500m", "1", "2"])),
        3 => ("500m", range("500m", None, Some("500m"))),
        _ => ("1", range("250m", Some("2"), Some("250m"))),
    };
    Some(RequestPolicy { default: Some(quantity(default)), values })
}

fn one_of(values: &[&str]) -> PolicyValues {
    PolicyValues::OneOf(values.iter().map(|value| quantity(value)).collect())
}

fn range(min: &str, max: Option<&str>, step: Option<&str>) -> PolicyValues {
    let amount = |text: Option<&str>| -> Option<Quantity> { text.map(quantity) };
    PolicyValues::Range { min: quantity(min), max: amount(max), step: amount(step) }
}
