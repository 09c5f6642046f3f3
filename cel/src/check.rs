//! The checker: names, fields, overloads and the type of every node, before anything runs.

pub(crate) mod types;
mod validate;

use crate::ast::{Ast, Entry, Fold, Id, Kind, Literal};
use crate::error::CompileError;
use crate::library::{Library, library};
use types::{Bindings, Type, most_general};

/// What the checker knows of a tree.
pub(crate) struct Checked {
    pub(crate) ast: Ast,
    types: Vec<Type>,
    references: Vec<Reference>,
}

/// What a node refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    None,
    /// A variable of a comprehension, by its name.
    Local(String),
    Device,
    /// The name of a type.
    Type(&'static str),
    /// A function with the overloads that may be meant, both by their places in the library.
    Function {
        function: usize,
        overloads: Vec<usize>,
    },
}

impl Checked {
    pub(crate) fn type_of(&self, id: Id) -> &Type {
        &self.types[id]
    }

    pub(crate) fn reference(&self, id: Id) -> &Reference {
        &self.references[id]
    }
}

/// Checks a selector.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn check(text: &str, ast: Ast) -> Result<Checked, CompileError> {
    let count = ast.len();
    let mut checker = Checker {
        text,
        library: library(),
        ast,
        types: vec![Type::Dyn; count],
        references: vec![Reference::None; count],
        weights: vec![1; count],
        bindings: Bindings::default(),
        scopes: Vec::new(),
    };
    let root = checker.ast.root();
    checker.check(root)?;
    let Checker { ast, types, references, bindings, .. } = checker;
    let types = types.iter().map(|of| bindings.finish(of)).collect();
    let checked = Checked { ast, types, references };
    validate::validate(text, &checked)?;
    let result = checked.type_of(root);
    if !matches!(result, Type::Bool | Type::Dyn) {
        let message = format!("the selector is of type {result}: compare it, so that it is a bool");
        return Err(CompileError::at(text, checked.ast.at(root), message));
    }
    Ok(checked)
}

struct Checker<'t> {
    text: &'t str,
    library: &'static Library,
    ast: Ast,
    types: Vec<Type>,
    references: Vec<Reference>,
    /// Bounds of how large types are: maps of maps double theirs.
    weights: Vec<usize>,
    bindings: Bindings,
    /// Variables of comprehensions, innermost last.
    scopes: Vec<Variable>,
}

struct Variable {
    name: String,
    of: Type,
    weight: usize,
}

/// The largest type that is followed.
const MAX_WEIGHT: usize = 1_000;

type Check<T = ()> = Result<T, CompileError>;

impl Checker<'_> {
    fn error<T>(&self, id: Id, message: impl Into<String>) -> Check<T> {
        Err(CompileError::at(self.text, self.ast.at(id), message))
    }

    fn check(&mut self, id: Id) -> Check<Type> {
        let of = match self.ast.kind(id).clone() {
            Kind::Literal(literal) => literal_type(&literal),
            Kind::Ident(name) => self.ident(id, &name)?,
            Kind::Select { operand, field, test } => self.select(id, operand, &field, test)?,
            Kind::Call { function, target, args } => self.call(id, &function, target, &args)?,
            Kind::List(elements) => {
                let mut element_type = None;
                for element in elements {
                    let of = self.element(element.value, element.optional)?;
                    element_type = Some(self.join(element_type, of));
                }
                Type::list(element_type.unwrap_or_else(|| self.bindings.fresh()))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    let of = self.check(entry.key)?;
                    keys = Some(self.join(keys, of));
                    let of = self.element(entry.value, entry.optional)?;
                    values = Some(self.join(values, of));
                }
                let keys = keys.unwrap_or_else(|| self.bindings.fresh());
                Type::map(keys, values.unwrap_or_else(|| self.bindings.fresh()))
            }
            Kind::Fold(fold) => self.fold(&fold)?,
        };
        self.types[id] = of.clone();
        self.weights[id] = self.weigh(id);
        if self.weights[id] > MAX_WEIGHT {
            return self.error(id, "the type of this is too large: nest fewer lists and maps");
        }
        Ok(of)
    }

    fn weigh(&self, id: Id) -> usize {
        let children = self.ast.children(id).into_iter().map(|child| self.weights[child]);
        match (self.ast.kind(id), &self.references[id]) {
            (_, Reference::Local(name)) => self.local(name).map_or(1, |local| local.weight),
            (Kind::Map(entries), _) => {
                let heaviest = |of: fn(&Entry) -> Id| {
                    entries.iter().map(|entry| self.weights[of(entry)]).max().unwrap_or(1)
                };
                1 + heaviest(|entry| entry.key) + heaviest(|entry| entry.value)
            }
            (Kind::Call { function, .. }, _) if function == "cel.@mapInsert" => {
                children.fold(1, usize::saturating_add)
            }
            (Kind::List(_), _) => 1 + children.max().unwrap_or(0),
            _ => children.max().unwrap_or(1),
        }
    }

    fn local(&self, name: &str) -> Option<&Variable> {
        self.scopes.iter().rev().find(|known| known.name == name)
    }

    /// Returns the type of an element, unwrapped if it was written with `?`.
    fn element(&mut self, id: Id, optional: bool) -> Check<Type> {
        let of = self.check(id)?;
        if !optional {
            return Ok(of);
        }
        let (inner, is_optional) = of.unwrapped();
        if !is_optional && !of.is_dyn() {
            return self.error(id, format!("`?` wants an optional, this is {of}: remove the `?`"));
        }
        Ok(inner)
    }

    /// Returns the common type of elements; a mixture is dyn until the validator sees it.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        match before {
            None => next,
            Some(before) if self.bindings.assignable(&before, &next) => {
                most_general(&before, &next).clone()
            }
            Some(_) => Type::Dyn,
        }
    }

    fn ident(&mut self, id: Id, name: &str) -> Check<Type> {
        match self.resolve(name) {
            Some((of, reference)) => {
                self.references[id] = reference;
                Ok(of)
            }
            None => self.undeclared(id, name),
        }
    }

    fn undeclared<T>(&self, id: Id, name: &str) -> Check<T> {
        self.error(id, format!("undeclared reference to '{name}': the only variable is `device`"))
    }

    fn resolve(&self, name: &str) -> Option<(Type, Reference)> {
        let local = self.local(name).filter(|_| !name.starts_with('.'));
        if let Some(local) = local {
            return Some((local.of.clone(), Reference::Local(local.name.clone())));
        }
        self.global(name.trim_start_matches('.'))
    }

    fn global(&self, name: &str) -> Option<(Type, Reference)> {
        if name == "device" {
            return Some((Type::Opaque(types::DEVICE), Reference::Device));
        }
        let (name, of) = type_named(name)?;
        Some((Type::Meta(Some(of.into())), Reference::Type(name)))
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) -> Check<Type> {
        if !test && let Some(name) = self.qualified_name(id) {
            let first = name.split('.').find(|part| !part.is_empty()).unwrap_or_default();
            let shadowed = self.local(first).is_some();
            let absolute = name.starts_with('.');
            if (absolute || !shadowed)
                && let Some((of, reference)) = self.global(name.trim_start_matches('.'))
            {
                self.references[id] = reference;
                return Ok(of);
            }
        }
        let of = self.field(id, operand, field, false)?;
        Ok(if test { Type::Bool } else { self.bindings.resolve(&of) })
    }

    /// Returns `a.b.c` for selections on a name.
    fn qualified_name(&self, id: Id) -> Option<String> {
        match self.ast.kind(id) {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => {
                Some(self.qualified_name(*operand)? + "." + field)
            }
            _ => None,
        }
    }

    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Check<Type> {
        let of = self.check(operand)?;
        let (target, was_optional) = self.bindings.resolve(&of).unwrapped();
        let result = match &target {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Opaque(types::DEVICE) => self.device_field(id, field)?,
            Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn => Type::Dyn,
            other => {
                let message = format!("type {other} has no fields: remove .{field}");
                return self.error(id, message);
            }
        };
        Ok(if was_optional || optional { Type::optional(result) } else { result })
    }

    fn device_field(&self, id: Id, field: &str) -> Check<Type> {
        let nested = |value| Type::map(Type::String, Type::map(Type::String, value));
        match field {
            "driver" => Ok(Type::String),
            "allowMultipleAllocations" => Ok(Type::Bool),
            "attributes" => Ok(nested(Type::Dyn)),
            "capacity" => Ok(nested(Type::Opaque(types::QUANTITY))),
            _ => self.error(
                id,
                format!(
                    "device has no field '{field}': it has driver, attributes, capacity and allowMultipleAllocations"
                ),
            ),
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Check<Type> {
        if function == "_?._" {
            return self.optional_select(id, args);
        }
        let mut arg_types = Vec::with_capacity(args.len() + 1);
        for arg in args {
            arg_types.push(self.check(*arg)?);
        }
        if let Some(target) = target {
            if let Some(name) = self.qualified_name(target) {
                let name = format!("{}.{function}", name.trim_start_matches('.'));
                if let Some(place) = self.library.find(&name) {
                    let args = args.to_vec();
                    self.ast.replace(id, Kind::Call { function: name, target: None, args });
                    return self.overloads(id, place, false, &arg_types);
                }
            }
            arg_types.insert(0, self.check(target)?);
        }
        match self.library.find(function.trim_start_matches('.')) {
            Some(place) => self.overloads(id, place, target.is_some(), &arg_types),
            None => {
                self.error(id, format!("undeclared reference to '{function}': no such function"))
            }
        }
    }

    fn optional_select(&mut self, id: Id, args: &[Id]) -> Check<Type> {
        let [operand, field] = args else {
            return self.error(id, "an optional selection is written `value.?field`");
        };
        let Kind::Literal(Literal::String(name)) = self.ast.kind(*field).clone() else {
            return self.error(*field, "an optional selection is written `value.?field`");
        };
        self.types[*field] = Type::String;
        let of = self.field(id, *operand, &name, true)?;
        Ok(self.bindings.resolve(&of))
    }

    /// Finds the overloads that fit the arguments. Several may, as long as some are dyn.
    fn overloads(&mut self, id: Id, place: usize, member: bool, args: &[Type]) -> Check<Type> {
        let library = self.library;
        let function = library.function(place);
        if matches!(function.name, "_&&_" | "_||_") {
            for (of, arg) in args.iter().zip(self.ast.children(id)) {
                if !self.bindings.assignable(of, &Type::Bool) {
                    let of = self.bindings.finish(of);
                    return self.error(arg, format!("expected bool, this is {of}: compare it"));
                }
            }
        }
        let mut fitting = Vec::new();
        let mut result: Option<Type> = None;
        for (index, overload) in function.overloads.iter().enumerate() {
            if overload.member != member {
                continue;
            }
            let mut params = Vec::new();
            let mut instance = |of| self.bindings.instantiate(of, &mut params);
            let wanted: Vec<Type> = overload.args.iter().map(&mut instance).collect();
            let returned = instance(&overload.result);
            if !self.bindings.all_assignable(args, &wanted) {
                continue;
            }
            fitting.push(index);
            let returned = self.bindings.resolve(&returned);
            result = Some(match result {
                None => returned,
                Some(before) if before.is_dyn() || before == returned => before,
                Some(_) => Type::Dyn,
            });
        }
        self.references[id] = Reference::Function { function: place, overloads: fitting };
        match result {
            Some(result) => Ok(result),
            None => self.no_overload(id, function.name, member, args),
        }
    }

    fn no_overload<T>(&self, id: Id, name: &str, member: bool, args: &[Type]) -> Check<T> {
        let shown: Vec<String> =
            args.iter().map(|of| self.bindings.finish(of).to_string()).collect();
        let applied = match shown.split_first() {
            Some((target, rest)) if member => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.error(
            id,
            format!(
                "found no matching overload for '{name}' applied to '{applied}': change the types"
            ),
        )
    }

    fn fold(&mut self, fold: &Fold) -> Check<Type> {
        let range = self.check(fold.range)?;
        let range = self.bindings.resolve(&range);
        let accu = self.check(fold.init)?;
        let two = fold.var2.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, element.as_ref().clone()),
            Type::List(element) => (element.as_ref().clone(), Type::Dyn),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message =
                    format!("a {other} can't be iterated: only lists, maps and dynamic values can");
                return self.error(fold.range, message);
            }
        };
        let depth = self.scopes.len();
        let (range_weight, accu_weight) = (self.weights[fold.range], self.weights[fold.init]);
        self.open(&fold.accu, accu.clone(), accu_weight);
        self.open(&fold.var, first, range_weight);
        if let Some(var2) = &fold.var2 {
            self.open(var2, second, range_weight);
        }
        self.expect(fold.condition, &Type::Bool)?;
        self.expect(fold.step, &accu)?;
        self.scopes.truncate(depth + 1);
        let result = self.check(fold.result)?;
        self.scopes.truncate(depth);
        Ok(self.bindings.resolve(&result))
    }

    fn open(&mut self, name: &str, of: Type, weight: usize) {
        self.scopes.push(Variable { name: name.to_owned(), of, weight });
    }

    fn expect(&mut self, id: Id, wanted: &Type) -> Check {
        let of = self.check(id)?;
        if self.bindings.assignable(wanted, &of) {
            return Ok(());
        }
        let (wanted, of) = (self.bindings.finish(wanted), self.bindings.finish(&of));
        self.error(id, format!("expected type {wanted}, this is {of}"))
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// Types that have a name in selectors.
fn type_named(name: &str) -> Option<(&'static str, Type)> {
    Some(match name {
        "bool" => ("bool", Type::Bool),
        "bytes" => ("bytes", Type::Bytes),
        "double" => ("double", Type::Double),
        "int" => ("int", Type::Int),
        "list" => ("list", Type::list(Type::Dyn)),
        "map" => ("map", Type::map(Type::Dyn, Type::Dyn)),
        "null_type" => ("null_type", Type::Null),
        "string" => ("string", Type::String),
        "type" => ("type", Type::Meta(None)),
        "uint" => ("uint", Type::Uint),
        "optional_type" => ("optional_type", Type::optional(Type::Dyn)),
        types::TIMESTAMP => (types::TIMESTAMP, Type::Timestamp),
        types::DURATION => (types::DURATION, Type::Duration),
        types::IP => (types::IP, Type::Opaque(types::IP)),
        types::CIDR => (types::CIDR, Type::Opaque(types::CIDR)),
        _ => return None,
    })
}
