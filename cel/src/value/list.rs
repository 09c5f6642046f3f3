//! Lists: of the device, or made by the selector.

use std::sync::Arc;

use super::{Held, Value};
use crate::device::Strings;
use crate::semver::Semver;

#[derive(Clone)]
pub(crate) enum List<'a> {
    Made(Arc<Vec<Value<'a>>>),
    Bools(&'a [bool]),
    Ints(&'a [i64]),
    Strings(&'a dyn Strings),
    Versions(&'a [Semver]),
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Made(values) => values.len(),
            Self::Bools(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Strings(values) => values.len(),
            Self::Versions(values) => values.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Made(values) => values.get(index).cloned(),
            Self::Bools(values) => values.get(index).map(|value| Value::Bool(*value)),
            Self::Ints(values) => values.get(index).map(|value| Value::Int(*value)),
            Self::Strings(values) => {
                (index < values.len()).then(|| Value::borrowed(values.nth(index)))
            }
            Self::Versions(values) => {
                values.get(index).map(|value| Value::Semver(Held::Borrowed(value)))
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Appends, in place if nobody else holds the list.
    pub(crate) fn append(self, more: impl IntoIterator<Item = Value<'a>>) -> Self {
        match self {
            Self::Made(mut values) => {
                Arc::make_mut(&mut values).extend(more);
                Self::Made(values)
            }
            other => other.iter().chain(more).collect::<Vec<_>>().into(),
        }
    }
}

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(values: Vec<Value<'a>>) -> Self {
        Self::Made(Arc::new(values))
    }
}
