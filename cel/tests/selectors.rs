//! Selectors with the answers that Kubernetes gives.

mod support;

use berth_cel::{Budget, EvalError, OwnedDevice, compile};
use support::Outcome;

fn h100() -> OwnedDevice {
    support::device(&support::h100())
}

/// Selectors of driver manuals and proposals, by name.
fn selectors() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!("selectors.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (answer, rest) = line.split_once(' ').expect("an answer");
        let (name, expression) = rest.trim_start().split_once(' ').expect("a name");
        (answer, name, expression.trim_start())
    })
}

#[test]
fn selectors_of_drivers_and_proposals_answer_as_in_kubernetes() {
    let gpu = h100();
    let mut wrong = Vec::new();
    for (wanted, name, expression) in selectors() {
        let answer = support::ask(expression, &gpu);
        if answer.outcome.name() != wanted {
            wrong.push(format!("{name}: {answer:?}, wanted {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(selectors().count(), 66);
}

#[test]
fn golden_answers_and_costs_hold() {
    let gpu = h100();
    let mut wrong = Vec::new();
    for line in support::vectors() {
        let answer = support::ask(line.expression, &gpu);
        if answer.outcome.name() != line.answer || answer.cost != line.cost {
            wrong.push(format!(
                "{}: {answer:?}, wanted {} {:?}",
                line.expression, line.answer, line.cost
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_missing_attribute_is_an_error_with_upstreams_hint() {
    let program =
        compile("device.attributes['gpu.nvidia.com'].profile == '1g.5gb'").expect("valid");
    let error = program.matches(&h100(), &mut Budget::default()).expect_err("it is missing");
    assert_eq!(
        error.to_string(),
        "no such key: profile. consider using CEL optional chaining (.? followed by orValue()) or \
         guarding the check with has() for optional fields"
    );
}

#[test]
fn an_error_says_where_it_is_and_what_to_change() {
    for (expression, line, column, hint) in [
        ("device.name == 'gpu-0'", 1, 7, "it has driver, attributes, capacity"),
        ("true &&\n  dev.driver == 'x'", 2, 3, "the only variable is `device`"),
        ("device.driver == 1", 1, 15, "change the types"),
        ("device.driver.matches('(')", 1, 23, "invalid matches argument"),
        ("device.driver in ['a', 1]", 1, 24, "make all elements one type"),
        ("1", 1, 1, "compare it"),
        ("'é' == device.driver.frobnicate()", 1, 32, "no such function"),
        ("device.driver == 'a' &&", 1, 24, ""),
    ] {
        let error = compile(expression).expect_err(expression);
        assert_eq!((error.line, error.column), (line, column), "{expression}: {error}");
        assert!(error.message.contains(hint), "{expression}: {error}");
    }
}

#[test]
fn a_budget_is_shared_and_a_limit_is_not_absorbed() {
    let gpu = h100();
    let program = compile("device.driver == 'x' || true").expect("valid");
    let mut budget = Budget::new(5);
    assert_eq!(program.matches(&gpu, &mut budget), Ok(true));
    assert_eq!((budget.spent(), budget.left()), (3, 2));
    assert_eq!(program.matches(&gpu, &mut budget), Err(EvalError::Budget));
    assert_eq!(budget.left(), 0);
}

#[test]
fn the_same_question_has_the_same_answer_and_cost() {
    let gpu = h100();
    let text = "device.attributes['gpu.nvidia.com'].exists(k, k.startsWith('index'))";
    let first = support::ask(text, &gpu);
    assert_eq!(first.outcome, Outcome::Answer(true));
    for _ in 0..10 {
        assert!(support::ask(text, &gpu).same(&first));
    }
}

#[test]
fn programs_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&compile("true").expect("valid"));
}
