//! The evaluator: one pass over the plan, charging as upstream does.

mod attributes;
mod loops;

use crate::cost::Rule;
use crate::device::Device;
use crate::library::{Equality, equal};
use crate::meter::{Eval, Limit, Meter, Stop};
use crate::plan::{Finding, Invocation, ListPart, MapPart, Match, Members, Node, Or2};
use crate::value::{Entries, Held, Map, Text, Value};

/// One evaluation of a plan.
pub(crate) struct Evaluator<'a> {
    device: &'a dyn Device,
    meter: Meter,
    slots: Vec<Slot<'a>>,
}

/// A variable of a comprehension.
enum Slot<'a> {
    Empty,
    /// Evaluated when it is first read.
    Lazy(&'a Node),
    Known(Eval<Value<'a>>),
}

const LIST_BASE: u64 = 10;
const MAP_BASE: u64 = 30;

impl<'a> Evaluator<'a> {
    pub(crate) fn new(device: &'a dyn Device, meter: Meter, slots: usize) -> Self {
        Self { device, meter, slots: (0..slots).map(|_| Slot::Empty).collect() }
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Eval<Value<'a>> {
        match node {
            Node::Const(value) => Ok(borrowed(value)),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Has(attribute) => self.has(attribute),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equal(sides) => self.equal(sides, Rule::Equals, false),
            Node::NotEqual(sides) => self.equal(sides, Rule::Smaller, true),
            Node::NotFalse(value) => {
                let value = self.eval(value);
                self.meter.charge(1)?;
                match value {
                    Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                    Err(Stop::Limit(limit)) => Err(Stop::Limit(limit)),
                    Ok(_) | Err(Stop::Error(_)) => Ok(Value::Bool(true)),
                }
            }
            Node::Call(invocation) => self.call(invocation),
            Node::Settled(value, units) => {
                self.meter.charge(*units)?;
                Ok(borrowed(value))
            }
            Node::Match(known) => self.known_pattern(known),
            Node::Member(value, members) => {
                let value = self.eval(value)?;
                is_member(&value, members).map(Value::Bool)
            }
            Node::List(parts) => self.list(parts),
            Node::Map(parts) => self.map(parts),
            Node::Or2(sides, kind) => self.or(sides, *kind),
            Node::Fold(fold) => self.fold(fold),
            Node::Append(slot, value) => self.append(*slot, value),
            Node::Insert(slot, args) => self.insert(*slot, args),
        }
    }

    /// Evaluates until one side decides; an error counts only if the other side doesn't.
    fn logic(&mut self, terms: &'a [Node; 2], decisive: bool) -> Eval<Value<'a>> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| Some(Stop::no_overload())),
                Err(stop @ Stop::Limit(_)) => return Err(stop),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equal(&mut self, sides: &'a [Node; 2], rule: Rule, negated: bool) -> Eval<Value<'a>> {
        let [left, right] = sides;
        let (left, right) = (self.settled(left)?, self.settled(right)?);
        let result = match (&left, &right) {
            (Ok(left), Ok(right)) => match equal(&mut self.meter, left, right)? {
                Equality::NoOverload if !negated => Err(Stop::no_overload()),
                equality => Ok(Value::Bool((equality == Equality::Equal) != negated)),
            },
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
        };
        let args = [left.as_ref().ok(), right.as_ref().ok()];
        self.meter.charge(rule.units(&args, None))?;
        result
    }

    /// Evaluates; an error of the selector is a result, a limit isn't.
    fn settled(&mut self, node: &'a Node) -> Eval<Eval<Value<'a>>> {
        match self.eval(node) {
            Err(stop @ Stop::Limit(_)) => Err(stop),
            settled => Ok(settled),
        }
    }

    fn call(&mut self, invocation: &'a Invocation) -> Eval<Value<'a>> {
        match invocation.args.as_slice() {
            [] => self.call_n::<0>(invocation),
            [_] => self.call_n::<1>(invocation),
            [_, _] => self.call_n::<2>(invocation),
            [_, _, _] => self.call_n::<3>(invocation),
            _ => self.call_n::<4>(invocation),
        }
    }

    fn call_n<const N: usize>(&mut self, invocation: &'a Invocation) -> Eval<Value<'a>> {
        let mut args = [const { Value::Null }; N];
        let mut there = [true; N];
        let mut failed = None;
        let variadic = invocation.dispatch.is_variadic();
        for (index, node) in invocation.args.iter().enumerate().take(N) {
            match self.settled(node)? {
                Ok(value) => args[index] = value,
                Err(error) => {
                    there[index] = false;
                    failed = failed.or(Some(error));
                    // The call is charged if its last argument was reached.
                    if variadic && index + 1 < N {
                        return Err(failed.unwrap_or_else(Stop::no_overload));
                    }
                }
            }
        }
        let result = match failed {
            Some(error) => Err(error),
            None => invocation.dispatch.run(&mut self.meter, &args, invocation.name),
        };
        if let Err(stop @ Stop::Limit(_)) = result {
            return Err(stop);
        }
        let units = match invocation.rule {
            Rule::One => 1,
            rule => {
                let known: [Option<&Value<'a>>; N] =
                    std::array::from_fn(|index| there[index].then_some(&args[index]));
                if rule.breaks_on(&known) {
                    return Err(Stop::Limit(Limit::Broken));
                }
                rule.units(&known, result.as_ref().ok())
            }
        };
        self.meter.charge(units)?;
        result
    }

    /// Runs a pattern that is known; its arguments end it as those of any function with many do.
    fn known_pattern(&mut self, known: &'a Match) -> Eval<Value<'a>> {
        let text = self.eval(&known.args[0])?;
        let count = match known.args.get(2) {
            Some(count) => self.settled(count)?,
            None => Ok(Value::Int(-1)),
        };
        let count = count.as_ref().map(within);
        let result = match (within(&text), count, known.finding) {
            (Value::Text(text), Ok(_), Finding::Matches) => {
                Ok(Value::Bool(known.pattern.is_match(text)))
            }
            (Value::Text(text), Ok(_), Finding::First) => Ok(known.pattern.find(text)),
            (Value::Text(text), Ok(Value::Int(count)), Finding::All) => {
                known.pattern.find_all(&mut self.meter, text, *count)
            }
            (_, Err(error), _) => Err(error.clone()),
            _ => Err(Stop::no_overload()),
        };
        let pattern = match &known.args[1] {
            Node::Const(pattern) => Some(pattern),
            _ => None,
        };
        self.meter.charge(Rule::Pattern.units(&[Some(&text), pattern], None))?;
        result
    }

    fn list(&mut self, parts: &'a [ListPart]) -> Eval<Value<'a>> {
        let mut values = Vec::with_capacity(parts.len());
        let mut failed = None;
        for part in parts {
            match (self.settled(&part.value)?, part.optional) {
                (Ok(value), false) => values.push(value),
                (Ok(Value::Optional(Some(value))), true) => values.push(value.as_ref().clone()),
                (Ok(Value::Optional(None)), true) => {}
                (Ok(value), true) => failed = Some(not_optional(&value)),
                (Err(error), _) => failed = Some(error),
            }
            if failed.is_some() {
                break;
            }
        }
        self.meter.charge(LIST_BASE)?;
        failed.map_or_else(|| Ok(Value::list(values)), Err)
    }

    fn map(&mut self, parts: &'a [MapPart]) -> Eval<Value<'a>> {
        let result = self.entries(parts);
        if matches!(result, Err(Stop::Limit(_))) {
            return result;
        }
        self.meter.charge(MAP_BASE)?;
        result
    }

    fn entries(&mut self, parts: &'a [MapPart]) -> Eval<Value<'a>> {
        let mut entries = Entries::default();
        for part in parts {
            let key = self.eval(&part.key)?;
            let value = match (self.eval(&part.value)?, part.optional) {
                (value, false) => value,
                (Value::Optional(Some(value)), true) => value.as_ref().clone(),
                (Value::Optional(None), true) => {
                    entries.remove(&key);
                    continue;
                }
                (value, true) => return Err(not_optional(&value)),
            };
            if !entries.set(key, value) {
                return Err(Stop::Limit(Limit::Broken));
            }
        }
        Ok(Value::Map(Map::Made(entries.into())))
    }

    /// Takes the left optional if it has a value, else evaluates the right side.
    fn or(&mut self, sides: &'a [Node; 2], kind: Or2) -> Eval<Value<'a>> {
        let [left, right] = sides;
        match (self.eval(left)?, kind) {
            (Value::Optional(Some(value)), Or2::Value) => Ok(value.as_ref().clone()),
            (some @ Value::Optional(Some(_)), Or2::Optional) => Ok(some),
            (Value::Optional(None), _) => self.eval(right),
            _ => Err(Stop::no_overload()),
        }
    }
}

/// Returns what is in an optional: where a pattern is known, Kubernetes' code looks through it.
fn within<'v, 'a>(value: &'v Value<'a>) -> &'v Value<'a> {
    match value {
        Value::Optional(Some(inner)) => within(inner),
        other => other,
    }
}

fn not_optional(value: &Value<'_>) -> Stop {
    Stop::error(format!("cannot initialize optional element from non-optional value {value}"))
}

/// Returns a constant without copying it.
fn borrowed<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::Text(Text::Borrowed(text)),
        Value::Quantity(quantity) => Value::Quantity(Held::Borrowed(quantity)),
        Value::Semver(version) => Value::Semver(Held::Borrowed(version)),
        other => other.clone(),
    }
}

fn is_member(value: &Value<'_>, members: &Members) -> Eval<bool> {
    match value {
        Value::Text(text) => Ok(members.texts.contains(&**text)),
        value if !value.is_hashable() => Err(Stop::Limit(Limit::Broken)),
        value => {
            let mut meter = Meter::unlimited();
            for member in &members.others {
                if equal(&mut meter, member, value)? == Equality::Equal {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}
