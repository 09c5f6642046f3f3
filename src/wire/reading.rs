//! What every conversion carries along: the tables and the problems found so far.

use berth_core::types::{Labels, Text};

use super::field::{Field, List, Map, Shape};
use super::meta::Meta;
use super::problem::{Path, Problem, Problems, shown};
use super::quantity::Quantity;
use super::tables::Tables;

pub(super) struct Reading<'t> {
    pub(super) tables: &'t mut Tables,
    pub(super) problems: Problems,
}

impl<'t> Reading<'t> {
    pub(super) fn of(tables: &'t mut Tables) -> Reading<'t> {
        Reading { tables, problems: Problems::default() }
    }

    pub(super) fn finish(self) -> Vec<Problem> {
        self.problems.into_vec()
    }

    pub(super) fn problem(&mut self, at: &Path<'_>, what: impl std::fmt::Display) {
        self.problems.add(at, what);
    }

    /// Records that a field holds a value which isn't one of those known.
    pub(super) fn unknown(&mut self, at: &Path<'_>, value: &str) {
        self.problem(at, format_args!("unknown value \"{}\"", shown(value)));
    }

    /// Returns the value of a field; an odd one is a problem.
    pub(super) fn opt<'f, T: Shape>(
        &mut self,
        at: &Path<'_>,
        field: &'f Field<T>,
    ) -> Option<&'f T> {
        match field {
            Field::Absent => None,
            Field::Is(value) => Some(value),
            Field::Odd(shape) => {
                self.problem(at, format_args!("is {shape}, not {}", T::WANTED));
                None
            }
        }
    }

    /// As [`Reading::opt`]; an absent one is a problem as well.
    pub(super) fn required<'f, T: Shape>(
        &mut self,
        at: &Path<'_>,
        field: &'f Field<T>,
    ) -> Option<&'f T> {
        if field.is_absent() {
            self.problem(at, "is missing");
        }
        self.opt(at, field)
    }

    /// Returns the text of a field, empty if there is none.
    pub(super) fn text(&mut self, at: &Path<'_>, field: &Field<String>) -> Text {
        let text = self.opt(at, field).map_or("", String::as_str);
        self.tables.intern(text)
    }

    /// As [`Reading::text`]; an absent or empty one is a problem.
    pub(super) fn required_text(&mut self, at: &Path<'_>, field: &Field<String>) -> Text {
        match field {
            Field::Is(text) if text.is_empty() => self.problem(at, "is empty"),
            Field::Absent => self.problem(at, "is missing"),
            Field::Is(_) | Field::Odd(_) => {}
        }
        self.text(at, field)
    }

    /// Returns the text of a field, None if absent or empty.
    pub(super) fn opt_text(&mut self, at: &Path<'_>, field: &Field<String>) -> Option<Text> {
        let text = self.opt(at, field)?;
        (!text.is_empty()).then(|| self.tables.intern(text))
    }

    pub(super) fn flag(&mut self, at: &Path<'_>, field: &Field<bool>) -> bool {
        self.opt(at, field).copied().unwrap_or(false)
    }

    pub(super) fn int32(&mut self, at: &Path<'_>, field: &Field<i64>) -> Option<i32> {
        let number = *self.opt(at, field)?;
        let fits = i32::try_from(number).ok();
        if fits.is_none() {
            self.problem(at, format_args!("{number} is out of range"));
        }
        fits
    }

    /// Calls `read` for each item of a list; odd items and nulls are problems.
    pub(super) fn each<'f, T: Shape>(
        &mut self,
        at: &Path<'_>,
        list: &'f Field<List<T>>,
        mut read: impl FnMut(&mut Self, &Path<'_>, &'f T),
    ) {
        for (i, item) in self.opt(at, list).into_iter().flatten().enumerate() {
            let at = at.index(i);
            if let Some(item) = self.required(&at, item) {
                read(self, &at, item);
            }
        }
    }

    pub(super) fn texts(&mut self, at: &Path<'_>, list: &Field<List<String>>) -> Vec<Text> {
        let mut texts = Vec::new();
        self.each(at, list, |reading, _, text| texts.push(reading.tables.intern(text)));
        texts
    }

    /// Returns the entries of a map of strings, sorted by key.
    pub(super) fn pairs(&mut self, at: &Path<'_>, map: &Field<Map<String>>) -> Vec<(Text, Text)> {
        let mut pairs = Vec::new();
        for (key, value) in self.opt(at, map).into_iter().flatten() {
            // Go decodes null in a map of strings as the empty string.
            let value = self.text(&at.key(key), value);
            pairs.push((self.tables.intern(key), value));
        }
        pairs
    }

    /// Returns the amounts of a resource list: milli-CPU for cpu, else whole units.
    ///
    /// One that can't be read is a problem and left out.
    pub(super) fn amounts(
        &mut self,
        at: &Path<'_>,
        list: &Field<Map<Quantity>>,
    ) -> Vec<(Text, i64)> {
        let mut amounts = Vec::new();
        for (name, quantity) in self.opt(at, list).into_iter().flatten() {
            let at = at.key(name);
            let Some(quantity) = self.opt(&at, quantity) else { continue };
            match quantity.amount(name) {
                Ok(amount) => amounts.push((self.tables.intern(name), amount)),
                Err(error) => self.problem(&at, error),
            }
        }
        amounts
    }

    pub(super) fn labels(&mut self, meta: &Meta) -> Labels {
        let labels = meta.object.labels.iter().flatten();
        labels.map(|(k, v)| (self.tables.intern(k), self.tables.intern(v))).collect()
    }

    /// Takes over what was odd in an object's metadata, a missing name included.
    pub(super) fn metadata_problems(&mut self, meta: &Meta) {
        for problem in &meta.problems {
            self.problem(&Path::Root("metadata").field(problem.field), &problem.what);
        }
        if meta.object.name.as_deref().unwrap_or("").is_empty() && meta.problems.is_empty() {
            self.problem(&Path::Root("metadata").field("name"), "is missing");
        }
    }

    /// Returns the object's name and takes over what was odd in its metadata.
    pub(super) fn name(&mut self, meta: &Meta) -> Text {
        self.metadata_problems(meta);
        self.tables.intern(meta.object.name.as_deref().unwrap_or(""))
    }

    pub(super) fn namespace(&mut self, meta: &Meta) -> Text {
        let namespace = meta.object.namespace.as_deref().unwrap_or("");
        self.tables.intern(if namespace.is_empty() { "default" } else { namespace })
    }
}
