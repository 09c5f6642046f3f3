//! What is wrong with literals although their types fit: patterns, durations, timestamps, mixed
//! lists and format strings.

use super::types::Type;
use super::{Check, Checked};
use crate::ast::{Entry, Id, Kind, Literal};
use crate::error::CompileError;
use crate::library::{check_format, compile_pattern, parse_duration, parse_timestamp};

pub(super) fn validate(text: &str, checked: &Checked) -> Check {
    let validator = Validator { text, checked };
    validator.walk(checked.ast.root(), false)
}

struct Validator<'t> {
    text: &'t str,
    checked: &'t Checked,
}

impl Validator<'_> {
    fn error(&self, id: Id, message: impl Into<String>) -> Check {
        Err(CompileError::at(self.text, self.checked.ast.at(id), message))
    }

    /// Walks the tree. Below `format`, lists may be mixed.
    fn walk(&self, id: Id, mut mixed: bool) -> Check {
        match self.checked.ast.kind(id) {
            Kind::Call { function, target, args } => {
                self.literals(function, args)?;
                if function == "format" {
                    self.format(id, *target, args)?;
                    mixed = true;
                }
            }
            Kind::List(elements) if !mixed => {
                let of = |element: &crate::ast::Element| {
                    (element.value, self.inner(element.value, element.optional))
                };
                self.homogeneous(elements.iter().map(of))?;
            }
            Kind::Map(entries) if !mixed => {
                let key = |entry: &Entry| (entry.key, self.inner(entry.key, false));
                let value = |entry: &Entry| (entry.value, self.inner(entry.value, entry.optional));
                self.homogeneous(entries.iter().map(key))?;
                self.homogeneous(entries.iter().map(value))?;
            }
            _ => {}
        }
        for child in self.checked.ast.children(id) {
            self.walk(child, mixed)?;
        }
        Ok(())
    }

    fn inner(&self, id: Id, optional: bool) -> Type {
        let of = self.checked.type_of(id);
        if optional { of.unwrapped().0 } else { of.clone() }
    }

    fn homogeneous(&self, elements: impl Iterator<Item = (Id, Type)>) -> Check {
        let mut first: Option<Type> = None;
        for (id, of) in elements {
            match &first {
                None => first = Some(of),
                Some(first) if *first == of => {}
                Some(first) => {
                    let message = format!(
                        "expected type '{first}' but found '{of}': make all elements one type"
                    );
                    return self.error(id, message);
                }
            }
        }
        Ok(())
    }

    fn literals(&self, function: &str, args: &[Id]) -> Check {
        let Some(first) = args.first() else { return Ok(()) };
        let Kind::Literal(Literal::String(value)) = self.checked.ast.kind(*first) else {
            return Ok(());
        };
        let problem = match function {
            "matches" => compile_pattern(value).err(),
            "duration" => parse_duration(value).err(),
            "timestamp" => parse_timestamp(value).err(),
            _ => None,
        };
        match problem {
            Some(problem) => self.error(*first, format!("invalid {function} argument: {problem}")),
            None => Ok(()),
        }
    }

    /// Checks a literal format string against a literal list of arguments.
    fn format(&self, id: Id, target: Option<Id>, args: &[Id]) -> Check {
        let ast = &self.checked.ast;
        let (Some(target), [list]) = (target, args) else { return Ok(()) };
        let Kind::Literal(Literal::String(template)) = ast.kind(target) else { return Ok(()) };
        let Kind::List(elements) = ast.kind(*list) else { return Ok(()) };
        let fits = |index: usize, verb: char| match elements.get(index) {
            None => Err(format!("index {index} out of range: add an argument")),
            Some(element) => self.formattable(element.value, verb),
        };
        match check_format(template, fits) {
            Err(message) => self.error(id, message),
            Ok(used) if used < elements.len() => self.error(
                id,
                format!(
                    "too many arguments supplied to string.format (expected {used}, got {})",
                    elements.len()
                ),
            ),
            Ok(_) => Ok(()),
        }
    }

    fn formattable(&self, id: Id, verb: char) -> Result<(), String> {
        let of = self.checked.type_of(id);
        let fits = match (verb, of) {
            (_, Type::Dyn) => true,
            ('d' | 'o', of) => matches!(of, Type::Int | Type::Uint),
            ('f' | 'e', of) => matches!(of, Type::Double | Type::String),
            ('b', of) => matches!(of, Type::Int | Type::Uint | Type::Bool),
            ('x' | 'X', of) => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
            (_, of) => !matches!(of, Type::Opaque(_) | Type::Optional(_)),
        };
        if !fits {
            return Err(format!("%{verb} can't show a {of}: use another clause"));
        }
        if verb == 's' {
            match self.checked.ast.kind(id) {
                Kind::List(_) | Kind::Map(_) => {
                    for child in self.checked.ast.children(id) {
                        self.formattable(child, verb)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
