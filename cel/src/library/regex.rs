//! Patterns with RE2's meaning, run by the `regex` crate.

mod translate;

use super::table::{Binding, Library};
use crate::meter::{Eval, Meter, Stop};
use crate::value::Value;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(regex::Regex);

/// What a compiled pattern may take, in bytes. RE2 refuses what is larger too.
const SIZE_LIMIT: usize = 4 << 20;

/// Compiles a pattern.
///
/// # Errors
/// A text that says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Pattern, String> {
    let translated = translate::translate(pattern)?;
    let built = regex::RegexBuilder::new(&translated).size_limit(SIZE_LIMIT).build();
    match built {
        Ok(regex) => Ok(Pattern(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Err(format!("the pattern {pattern} is too large")),
        Err(_) => Err(format!("the pattern {pattern} is no regular expression")),
    }
}

impl Pattern {
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    pub(crate) fn find<'a>(&self, text: &str) -> Value<'a> {
        Value::text(self.0.find(text).map_or("", |found| found.as_str()))
    }

    /// Returns all matches, or the first `count` if that isn't negative.
    pub(crate) fn find_all<'a>(
        &self,
        meter: &mut Meter,
        text: &str,
        count: i64,
    ) -> Eval<Value<'a>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for part in self.0.find_iter(text).take(count) {
            meter.work(1)?;
            found.push(Value::text(part.as_str()));
        }
        Ok(Value::list(found))
    }
}

pub(super) fn declare(library: &mut Library) {
    let find = Binding::Fixed(|_, args| match args {
        [Value::Text(text), Value::Text(pattern)] => {
            Ok(compile(pattern).map_err(Stop::error)?.find(text))
        }
        _ => Err(Stop::no_overload()),
    });
    library.member("find", "string_find_string", "string, string: string", find);
    let all: super::Call = |meter, args| {
        let (text, pattern, count) = match args {
            [Value::Text(text), Value::Text(pattern)] => (text, pattern, -1),
            [Value::Text(text), Value::Text(pattern), Value::Int(count)] => (text, pattern, *count),
            _ => return Err(Stop::no_overload()),
        };
        compile(pattern).map_err(Stop::error)?.find_all(meter, text, count)
    };
    let signature = "string, string: list(string)";
    library.member("findAll", "string_find_all_string", signature, Binding::Fixed(all));
    let signature = "string, string, int: list(string)";
    library.member("findAll", "string_find_all_string_int", signature, Binding::Variadic(all));
}
