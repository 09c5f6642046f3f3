//! From the checked tree to the one that is evaluated: names, overloads, literals and patterns are
//! settled once.

mod node;

use crate::ast::{Element, Entry, Fold, Id, Kind, Literal};
use crate::check::{Checked, Reference};
use crate::cost::Rule;
use crate::error::CompileError;
use crate::library::{Binding, Function, Pattern, compile_pattern, library};
use crate::meter::Meter;
use crate::value::{Entries, Map, Value};

pub(crate) use node::{
    Attribute, Base, Dispatch, Finding, Invocation, Key, ListPart, Loop, MapPart, Match, Members,
    Node, Or2, Qualifier,
};

/// Returns the plan and how many slots it takes.
///
/// # Errors
/// For constants that can't be converted, and patterns that aren't.
pub(crate) fn plan(text: &str, checked: &Checked) -> Result<(Node, usize), CompileError> {
    let mut planner = Planner { text, checked, scope: Vec::new(), slots: 0 };
    let root = planner.plan(checked.ast.root())?;
    Ok((root, planner.slots))
}

struct Planner<'t> {
    text: &'t str,
    checked: &'t Checked,
    /// Variables with their slots, innermost last.
    scope: Vec<(String, usize)>,
    /// The most that were open at once.
    slots: usize,
}

type Plan<T = Node> = Result<T, CompileError>;

impl Planner<'_> {
    fn error<T>(&self, id: Id, message: impl Into<String>) -> Plan<T> {
        Err(CompileError::at(self.text, self.checked.ast.at(id), message))
    }

    fn plan(&mut self, id: Id) -> Plan {
        let checked = self.checked;
        match checked.reference(id) {
            Reference::Device => return Ok(attribute(Base::Device)),
            Reference::Local(name) => {
                let slot = self.scope.iter().rev().find(|(known, _)| known == name);
                return Ok(attribute(Base::Slot(slot.map_or(0, |(_, slot)| *slot))));
            }
            Reference::Type(name) => return Ok(Node::Const(Value::Type(name))),
            Reference::Function { .. } | Reference::None => {}
        }
        match checked.ast.kind(id) {
            Kind::Literal(literal) => Ok(Node::Const(constant(literal))),
            Kind::Ident(name) => self.error(id, format!("undeclared reference to '{name}'")),
            Kind::Select { operand, field, test } => {
                let mut attribute = into_attribute(self.plan(*operand)?);
                let key = Key::Const(Value::text(field.as_str()));
                attribute.qualifiers.push(Qualifier { key, optional: false, test: *test });
                let attribute = Box::new(attribute);
                Ok(if *test { Node::Has(attribute) } else { Node::Attribute(attribute) })
            }
            Kind::Call { function, target, args } => self.call(id, function, *target, args),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(id, entries),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn list(&mut self, elements: &[Element]) -> Plan {
        let mut parts = Vec::with_capacity(elements.len());
        for element in elements {
            parts.push(ListPart { value: self.plan(element.value)?, optional: element.optional });
        }
        let constants: Option<Vec<Value<'static>>> =
            parts.iter().map(|part| part.value.constant().filter(|_| !part.optional)).collect();
        Ok(constants.map_or(Node::List(parts), |values| Node::Const(Value::list(values))))
    }

    fn map(&mut self, id: Id, entries: &[Entry]) -> Plan {
        let mut parts = Vec::with_capacity(entries.len());
        for entry in entries {
            let (key, value) = (self.plan(entry.key)?, self.plan(entry.value)?);
            parts.push(MapPart { key, value, optional: entry.optional });
        }
        let mut map = Entries::default();
        for part in &parts {
            let (Some(key), Some(value), false) =
                (part.key.constant(), part.value.constant(), part.optional)
            else {
                return Ok(Node::Map(parts));
            };
            if !map.set(key, value) {
                return self.error(id, "such a key can't be looked up: use a string or a number");
            }
        }
        Ok(Node::Const(Value::Map(Map::Made(map.into()))))
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Plan {
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            planned.push(self.plan(*arg)?);
        }
        let mut nodes = match <[Node; 2]>::try_from(planned) {
            Ok(pair) => match self.pair(id, function, pair)? {
                Ok(node) => return Ok(node),
                Err(pair) => Vec::from(pair),
            },
            Err(nodes) => nodes,
        };
        match function {
            "_?_:_" => {
                let no = nodes.pop().map(into_branch);
                let yes = nodes.pop().map(into_branch);
                if let (Some(no), Some(yes), Some(condition)) = (no, yes, nodes.pop()) {
                    return Ok(attribute(Base::Ternary(condition, Box::new([yes, no]))));
                }
                self.error(id, "a condition has two branches")
            }
            "@not_strictly_false" => match nodes.pop() {
                Some(value) => Ok(Node::NotFalse(Box::new(value))),
                None => self.error(id, "a condition is missing"),
            },
            _ => self.invocation(id, nodes),
        }
    }

    /// Plans what has two operands and isn't a plain call; gives the operands back otherwise.
    fn pair(&mut self, id: Id, function: &str, pair: [Node; 2]) -> Plan<Result<Node, [Node; 2]>> {
        Ok(Ok(match function {
            "_&&_" => Node::And(Box::new(pair)),
            "_||_" => Node::Or(Box::new(pair)),
            "_==_" => Node::Equal(Box::new(pair)),
            "_!=_" => Node::NotEqual(Box::new(pair)),
            "or" => Node::Or2(Box::new(pair), Or2::Optional),
            "orValue" => Node::Or2(Box::new(pair), Or2::Value),
            "_[_]" => self.index(id, pair, false)?,
            "_[?_]" | "_?._" => self.index(id, pair, true)?,
            "_+_" if is_accumulator(self.checked, id) => match pair {
                [Node::Attribute(accu), value] => match accu.base {
                    Base::Slot(slot) => Node::Append(slot, Box::new(value)),
                    _ => return self.error(id, "an accumulator is a variable"),
                },
                pair => return Ok(Err(pair)),
            },
            _ => return Ok(Err(pair)),
        }))
    }

    fn index(&mut self, id: Id, [operand, index]: [Node; 2], optional: bool) -> Plan {
        let mut attribute = into_attribute(operand);
        let key = match index {
            Node::Const(value) if is_key(&value) => Key::Const(value),
            Node::Const(value) => {
                return self.error(id, format!("a {} is no index", value.type_name()));
            }
            Node::Attribute(attribute) => Key::Attribute(*attribute),
            other => Key::Node(other),
        };
        attribute.qualifiers.push(Qualifier { key, optional, test: false });
        Ok(Node::Attribute(Box::new(attribute)))
    }

    fn invocation(&mut self, id: Id, args: Vec<Node>) -> Plan {
        let Reference::Function { function: place, overloads } = self.checked.reference(id) else {
            return self.error(id, "no such function");
        };
        let function = library().function(*place);
        let only = match overloads.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        let overload = only.map(|only| function.overloads[only].id);
        if function.name == "cel.@mapInsert"
            && let Some(Node::Attribute(accu)) = args.first()
            && let Base::Slot(slot) = accu.base
        {
            return Ok(Node::Insert(slot, args.into_iter().skip(1).collect()));
        }
        if function.name == "@in" && overload == Some("in_list") {
            return Ok(self.membership(args, function, *place, only));
        }
        if let Some(found) = self.known_pattern(id, function.name, &args)? {
            let (finding, pattern) = found;
            return Ok(Node::Match(Box::new(Match { finding, pattern, args })));
        }
        let invocation = invocation(function, *place, only, args);
        self.converted(id, invocation)
    }

    /// Membership in a list that is known.
    fn membership(
        &mut self,
        mut args: Vec<Node>,
        function: &'static Function,
        place: usize,
        only: Option<usize>,
    ) -> Node {
        let members = match args.get(1) {
            Some(Node::Const(Value::List(list))) if list.len() == 0 => {
                return Node::Const(Value::Bool(false));
            }
            Some(Node::Const(Value::List(list))) => members(list),
            _ => None,
        };
        match members {
            Some(members) => {
                args.truncate(1);
                let value = args.pop().unwrap_or(Node::Const(Value::Null));
                Node::Member(Box::new(value), Box::new(members))
            }
            None => Node::Call(Box::new(invocation(function, place, only, args))),
        }
    }

    fn known_pattern(&self, id: Id, name: &str, args: &[Node]) -> Plan<Option<(Finding, Pattern)>> {
        let finding = match name {
            "matches" => Finding::Matches,
            "find" => Finding::First,
            "findAll" => Finding::All,
            _ => return Ok(None),
        };
        let Some(Node::Const(Value::Text(pattern))) = args.get(1) else { return Ok(None) };
        match compile_pattern(pattern) {
            Ok(pattern) => Ok(Some((finding, pattern))),
            Err(error) => self.error(id, error),
        }
    }

    /// Makes a value of a literal now: a conversion must succeed, and what parses a text is parsed
    /// once.
    fn converted(&self, id: Id, invocation: Invocation) -> Plan {
        const CONVERSIONS: [&str; 10] = [
            "bool",
            "bytes",
            "double",
            "duration",
            "dyn",
            "int",
            "string",
            "timestamp",
            "type",
            "uint",
        ];
        const PARSERS: [&str; 5] = ["quantity", "semver", "ip", "cidr", "url"];
        let value = match invocation.args.as_slice() {
            [Node::Const(value)] => value,
            _ => return Ok(Node::Call(Box::new(invocation))),
        };
        let args = std::slice::from_ref(value);
        let run = || invocation.dispatch.run(&mut Meter::unlimited(), args, invocation.name);
        if CONVERSIONS.contains(&invocation.name) {
            return match run() {
                Ok(value) => Ok(Node::Const(value)),
                Err(error) => self.error(id, error.to_string()),
            };
        }
        if PARSERS.contains(&invocation.name)
            && let Ok(parsed) = run()
        {
            let units = invocation.rule.units(&[Some(value)], Some(&parsed));
            return Ok(Node::Settled(Box::new(parsed), units));
        }
        Ok(Node::Call(Box::new(invocation)))
    }

    fn fold(&mut self, fold: &Fold) -> Plan {
        let range = self.plan(fold.range)?;
        let init = self.plan(fold.init)?;
        let depth = self.scope.len();
        let accu = self.open(&fold.accu);
        let var = self.open(&fold.var);
        let var2 = fold.var2.as_ref().map(|var2| self.open(var2));
        let condition = self.plan(fold.condition)?;
        let step = self.plan(fold.step)?;
        self.scope.truncate(depth + 1);
        let result = self.plan(fold.result)?;
        self.scope.truncate(depth);
        let planned = Loop { range, var, var2, accu, init, condition, step, result };
        Ok(Node::Fold(Box::new(planned)))
    }

    fn open(&mut self, name: &str) -> usize {
        let slot = self.scope.len();
        self.scope.push((name.to_owned(), slot));
        self.slots = self.slots.max(self.scope.len());
        slot
    }
}

fn invocation(
    function: &'static Function,
    place: usize,
    only: Option<usize>,
    args: Vec<Node>,
) -> Invocation {
    let overload = only.map(|only| &function.overloads[only]);
    let bound = |binding: &Binding| match binding {
        Binding::Fixed(call) | Binding::Variadic(call) => Some(*call),
        Binding::None => None,
    };
    let any = function.overloads.iter().any(|overload| bound(&overload.binding).is_some());
    let dispatch = match (overload.and_then(|overload| bound(&overload.binding)), only) {
        (Some(call), Some(overload)) => Dispatch::Overload { function: place, overload, call },
        _ => match function.singleton.as_ref().and_then(bound) {
            Some(call) => Dispatch::Singleton(call),
            None if any => Dispatch::Any { function: place },
            None => Dispatch::Nothing,
        },
    };
    let rule = Rule::of(function.name, overload.map(|overload| overload.id));
    Invocation { name: function.name, args, dispatch, rule }
}

fn attribute(base: Base) -> Node {
    Node::Attribute(Box::new(Attribute { base, qualifiers: Vec::new() }))
}

fn into_attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => *attribute,
        other => Attribute { base: Base::Node(other), qualifiers: Vec::new() },
    }
}

/// The branch of a ternary. There, upstream asks `has()` without turning the answer into a bool.
fn into_branch(node: Node) -> Attribute {
    match node {
        Node::Has(attribute) => *attribute,
        other => into_attribute(other),
    }
}

/// Whether a sum is that of a macro: `@result + […]`.
fn is_accumulator(checked: &Checked, id: Id) -> bool {
    let Kind::Call { args, .. } = checked.ast.kind(id) else { return false };
    let [accu, value] = args.as_slice() else { return false };
    let named = matches!(checked.reference(*accu), Reference::Local(name) if name == "@result");
    named && matches!(checked.ast.kind(*value), Kind::List(_))
}

/// Whether a constant may stand in brackets.
fn is_key(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Text(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_)
    )
}

/// Sorts constants for membership, unless some are not simple.
fn members(list: &crate::value::List<'static>) -> Option<Members> {
    let mut members = Members::default();
    for value in list.iter() {
        match value {
            Value::Text(text) => {
                members.texts.insert(text.to_string());
            }
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
                members.others.push(value);
            }
            _ => return None,
        }
    }
    Some(members)
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::text(value.as_str()),
        Literal::Bytes(value) => Value::Bytes(value.as_slice().into()),
    }
}
