//! The tree that is evaluated.

use std::collections::BTreeSet;

use crate::cost::Rule;
use crate::library::{Binding, Call, Pattern, library};
use crate::meter::{Meter, Stop};
use crate::value::Value;

/// What is evaluated. Constants cost nothing, so they are told apart.
pub(crate) enum Node {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    /// `has(attribute)`
    Has(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Equal(Box<[Node; 2]>),
    NotEqual(Box<[Node; 2]>),
    /// False stays false, anything else goes on.
    NotFalse(Box<Node>),
    Call(Box<Invocation>),
    /// A call whose result is known, with what it costs.
    Settled(Box<Value<'static>>, u64),
    /// A pattern that is known.
    Match(Box<Match>),
    /// Membership in a list of constants.
    Member(Box<Node>, Box<Members>),
    List(Vec<ListPart>),
    Map(Vec<MapPart>),
    /// `optional.or(other)`, or its value with `orValue`.
    Or2(Box<[Node; 2]>, Or2),
    Fold(Box<Loop>),
    /// The list of an accumulator with one more element.
    Append(usize, Box<Node>),
    /// The map of an accumulator with more entries.
    Insert(usize, Vec<Node>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Or2 {
    Optional,
    Value,
}

/// A value with selections and indexes on it.
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
}

pub(crate) enum Base {
    Device,
    Slot(usize),
    Node(Node),
    /// Condition and both branches.
    Ternary(Node, Box<[Attribute; 2]>),
}

pub(crate) struct Qualifier {
    pub(crate) key: Key,
    pub(crate) optional: bool,
    /// Asks only whether the key is there.
    pub(crate) test: bool,
}

pub(crate) enum Key {
    Const(Value<'static>),
    Attribute(Attribute),
    Node(Node),
}

pub(crate) struct Invocation {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<Node>,
    pub(crate) dispatch: Dispatch,
    pub(crate) rule: Rule,
}

pub(crate) enum Dispatch {
    /// This code, after a look at the arguments' types.
    Overload { function: usize, overload: usize, call: Call },
    /// This code.
    Singleton(Call),
    /// The first overload that takes the values.
    Any { function: usize },
    /// Nothing can be called.
    Nothing,
}

impl Dispatch {
    /// Whether an argument that fails ends the call before the others are looked at.
    pub(crate) fn is_variadic(&self) -> bool {
        match self {
            Self::Overload { function, overload, .. } => {
                let overload = &library().function(*function).overloads[*overload];
                matches!(overload.binding, Binding::Variadic(_))
            }
            Self::Any { .. } => true,
            Self::Singleton(_) | Self::Nothing => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Matches,
    First,
    All,
}

pub(crate) struct Match {
    pub(crate) finding: Finding,
    pub(crate) pattern: Pattern,
    /// The text, the pattern as it is written, and perhaps a count.
    pub(crate) args: Vec<Node>,
}

#[derive(Default)]
pub(crate) struct Members {
    pub(crate) texts: BTreeSet<String>,
    pub(crate) others: Vec<Value<'static>>,
}

pub(crate) struct ListPart {
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

pub(crate) struct MapPart {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A comprehension. Its variables live in slots.
pub(crate) struct Loop {
    pub(crate) range: Node,
    pub(crate) var: usize,
    pub(crate) var2: Option<usize>,
    pub(crate) accu: usize,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

impl Node {
    pub(super) fn constant(&self) -> Option<Value<'static>> {
        match self {
            Self::Const(value) => Some(value.clone()),
            _ => None,
        }
    }
}

impl Dispatch {
    /// Runs the code that the arguments' types ask for.
    pub(crate) fn run<'a>(
        &self,
        meter: &mut Meter,
        args: &[Value<'a>],
        name: &str,
    ) -> Result<Value<'a>, Stop> {
        match self {
            Self::Singleton(call) => call(meter, args),
            Self::Overload { function, overload, call } => {
                let function = library().function(*function);
                match function.takes(&function.overloads[*overload], args) {
                    true => call(meter, args),
                    false => Err(no_overload(name, args)),
                }
            }
            Self::Any { function } => {
                let function = library().function(*function);
                for overload in &function.overloads {
                    if let Binding::Fixed(call) | Binding::Variadic(call) = overload.binding
                        && function.takes(overload, args)
                    {
                        return call(meter, args);
                    }
                }
                Err(no_overload(name, args))
            }
            Self::Nothing => Err(no_overload(name, args)),
        }
    }
}

fn no_overload(name: &str, args: &[Value<'_>]) -> Stop {
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    Stop::error(format!("no such overload: {name}({})", types.join(", ")))
}
