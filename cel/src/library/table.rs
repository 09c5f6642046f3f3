//! The table of functions: signatures for the checker, bindings for the evaluator.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::check::types::{self, Type};
use crate::meter::{Eval, Meter};
use crate::value::Value;

/// The code of an overload. Arguments stay with the caller, who needs them for the cost.
pub(crate) type Call = for<'a> fn(&mut Meter, &[Value<'a>]) -> Eval<Value<'a>>;

/// How a function is run, which decides what is charged when an argument fails.
#[derive(Clone, Copy)]
pub(crate) enum Binding {
    /// All arguments are evaluated, then the first error counts.
    Fixed(Call),
    /// The first argument that fails ends it, uncharged.
    Variadic(Call),
    /// Declared, but without code: a runtime error, or the evaluator's own matter.
    None,
}

pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) binding: Binding,
}

pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
    /// One code for all overloads, which looks at the values itself.
    pub(crate) singleton: Option<Binding>,
    /// The code of an overload looks at the values itself; only their number is checked before.
    unguarded: bool,
}

impl Function {
    /// Whether an overload takes these values.
    pub(crate) fn takes(&self, overload: &Overload, args: &[Value<'_>]) -> bool {
        let fits = |(of, value): (&Type, &Value<'_>)| self.unguarded || accepts(of, value);
        overload.args.len() == args.len() && overload.args.iter().zip(args).all(fits)
    }
}

#[derive(Default)]
pub(crate) struct Library {
    functions: Vec<Function>,
    places: BTreeMap<&'static str, usize>,
}

impl Library {
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(crate) fn function(&self, place: usize) -> &Function {
        &self.functions[place]
    }

    /// Declares `target.name(args)`. The signature reads `"target, args: result"`.
    pub(super) fn member(
        &mut self,
        name: &'static str,
        id: &'static str,
        signature: &str,
        binding: Binding,
    ) {
        self.add(name, id, true, signature, binding);
    }

    /// Declares `name(args)`. The signature reads `"args: result"`.
    pub(super) fn global(
        &mut self,
        name: &'static str,
        id: &'static str,
        signature: &str,
        binding: Binding,
    ) {
        self.add(name, id, false, signature, binding);
    }

    /// Gives a declared function one code for all its overloads.
    pub(super) fn singleton(&mut self, name: &'static str, binding: Binding) {
        let place = self.place(name);
        self.functions[place].singleton = Some(binding);
    }

    /// Leaves a look at the types of arguments to the code.
    pub(super) fn unguarded(&mut self, name: &'static str) {
        let place = self.place(name);
        self.functions[place].unguarded = true;
    }

    fn place(&mut self, name: &'static str) -> usize {
        *self.places.entry(name).or_insert_with(|| {
            self.functions.push(Function {
                name,
                overloads: Vec::new(),
                singleton: None,
                unguarded: false,
            });
            self.functions.len() - 1
        })
    }

    fn add(
        &mut self,
        name: &'static str,
        id: &'static str,
        member: bool,
        signature: &str,
        binding: Binding,
    ) {
        let (args, result) = read_signature(signature);
        let place = self.place(name);
        self.functions[place].overloads.push(Overload { id, member, args, result, binding });
    }
}

/// Reads `"list(T), int: T"`.
fn read_signature(signature: &str) -> (Vec<Type>, Type) {
    let (args, result) = signature.split_once(": ").unwrap_or(("", signature));
    let mut types = split(args);
    let result = split(result).pop().unwrap_or(Type::Dyn);
    (std::mem::take(&mut types), result)
}

/// Reads types separated by commas, which may be nested.
fn split(text: &str) -> Vec<Type> {
    let mut types = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                types.extend(read_type(text[start..at].trim()));
                start = (at + 1).min(text.len());
            }
            _ => {}
        }
    }
    types
}

fn read_type(text: &str) -> Option<Type> {
    if let Some((constructor, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('('))
    {
        let mut inner = split(inner).into_iter();
        let first = inner.next()?;
        return Some(match (constructor, inner.next()) {
            ("list", None) => Type::list(first),
            ("optional", None) => Type::optional(first),
            ("type", None) => Type::Meta(Some(Arc::new(first))),
            ("map", Some(value)) => Type::map(first, value),
            _ => unreachable!("a signature of this crate names an unknown type {text}"),
        });
    }
    Some(match text {
        "" => return None,
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "quantity" => Type::Opaque(types::QUANTITY),
        "semver" => Type::Opaque(types::SEMVER),
        "url" => Type::Opaque(types::URL),
        "format" => Type::Opaque(types::FORMAT),
        "ip" => Type::Opaque(types::IP),
        "cidr" => Type::Opaque(types::CIDR),
        "authorizer" => Type::Opaque("kubernetes.authorization.Authorizer"),
        "pathcheck" => Type::Opaque("kubernetes.authorization.PathCheck"),
        "groupcheck" => Type::Opaque("kubernetes.authorization.GroupCheck"),
        "resourcecheck" => Type::Opaque("kubernetes.authorization.ResourceCheck"),
        "decision" => Type::Opaque("kubernetes.authorization.Decision"),
        param => Type::Param(param.chars().next()?),
    })
}

/// Whether a value may be an argument of this type. Of lists and maps the first element tells.
fn accepts(of: &Type, value: &Value<'_>) -> bool {
    match (of, value) {
        (Type::Dyn | Type::Param(_) | Type::Var(_), _) => true,
        (Type::List(element), Value::List(list)) => {
            list.get(0).is_none_or(|first| accepts(element, &first))
        }
        (Type::Map(key, element), Value::Map(map)) => map
            .iter()
            .next()
            .is_none_or(|(first, value)| accepts(key, &first) && accepts(element, &value)),
        (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::Text(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Meta(_), Value::Type(_))
        | (Type::Optional(_), Value::Optional(_)) => true,
        (Type::Opaque(name), value) => value.type_name() == *name,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_with_nested_types() {
        let (args, result) = read_signature("map(K, list(V)), int: optional(V)");
        let wanted = Type::map(Type::Param('K'), Type::list(Type::Param('V')));
        assert_eq!(args, [wanted, Type::Int]);
        assert_eq!(result, Type::optional(Type::Param('V')));
    }
}
