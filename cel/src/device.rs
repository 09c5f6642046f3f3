//! The device that a selector looks at.

use crate::quantity::Quantity;
use crate::semver::Semver;

/// A device's driver, attributes and capacities, read where they are.
///
/// The domain of a bare name is the driver's: an implementation answers with full names.
pub trait Device: Sync {
    fn driver(&self) -> &str;

    fn allow_multiple_allocations(&self) -> bool;

    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>>;

    fn capacity(&self, domain: &str, name: &str) -> Option<&Quantity>;

    /// Returns the nth attribute in the order of domain, then name, or nothing past the last.
    fn nth_attribute(&self, n: usize) -> Option<(&str, &str, Attribute<'_>)>;

    /// Returns the nth capacity in the order of domain, then name, or nothing past the last.
    fn nth_capacity(&self, n: usize) -> Option<(&str, &str, &Quantity)>;
}

/// The value of an attribute.
#[derive(Clone, Copy)]
pub enum Attribute<'d> {
    Bool(bool),
    Int(i64),
    String(&'d str),
    Version(&'d Semver),
    Bools(&'d [bool]),
    Ints(&'d [i64]),
    Strings(&'d dyn Strings),
    Versions(&'d [Semver]),
}

/// A list of strings, however it is kept.
pub trait Strings: Sync {
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the nth string; empty past the last.
    fn nth(&self, n: usize) -> &str;
}

impl<S: AsRef<str> + Sync> Strings for Vec<S> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn nth(&self, n: usize) -> &str {
        self.get(n).map_or("", AsRef::as_ref)
    }
}

impl<S: AsRef<str> + Sync> Strings for Box<[S]> {
    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn nth(&self, n: usize) -> &str {
        self.get(n).map_or("", AsRef::as_ref)
    }
}

/// An attribute that is kept.
#[derive(Clone, Debug)]
pub enum OwnedAttribute {
    Bool(bool),
    Int(i64),
    String(String),
    Version(Semver),
    Bools(Vec<bool>),
    Ints(Vec<i64>),
    Strings(Vec<String>),
    Versions(Vec<Semver>),
}

impl OwnedAttribute {
    fn view(&self) -> Attribute<'_> {
        match self {
            Self::Bool(value) => Attribute::Bool(*value),
            Self::Int(value) => Attribute::Int(*value),
            Self::String(value) => Attribute::String(value),
            Self::Version(value) => Attribute::Version(value),
            Self::Bools(values) => Attribute::Bools(values),
            Self::Ints(values) => Attribute::Ints(values),
            Self::Strings(values) => Attribute::Strings(values),
            Self::Versions(values) => Attribute::Versions(values),
        }
    }
}

/// A [`Device`] in two sorted tables.
#[derive(Clone, Debug, Default)]
pub struct OwnedDevice {
    driver: String,
    allow_multiple_allocations: bool,
    attributes: Vec<(String, String, OwnedAttribute)>,
    capacity: Vec<(String, String, Quantity)>,
}

impl OwnedDevice {
    pub fn new(driver: impl Into<String>) -> Self {
        Self { driver: driver.into(), ..Self::default() }
    }

    pub fn set_allow_multiple_allocations(&mut self, allow: bool) {
        self.allow_multiple_allocations = allow;
    }

    /// Sets an attribute. A name without a domain gets the driver's.
    pub fn set_attribute(&mut self, name: &str, value: OwnedAttribute) {
        set(&mut self.attributes, &self.driver, name, value);
    }

    /// Sets a capacity. A name without a domain gets the driver's.
    pub fn set_capacity(&mut self, name: &str, value: Quantity) {
        set(&mut self.capacity, &self.driver, name, value);
    }
}

type Table<T> = Vec<(String, String, T)>;

fn place<T>(table: &Table<T>, domain: &str, name: &str) -> Result<usize, usize> {
    table.binary_search_by(|(key, id, _)| (key.as_str(), id.as_str()).cmp(&(domain, name)))
}

fn set<T>(table: &mut Table<T>, driver: &str, name: &str, value: T) {
    let (domain, id) = name.split_once('/').unwrap_or((driver, name));
    match place(table, domain, id) {
        Ok(found) => table[found].2 = value,
        Err(free) => table.insert(free, (domain.to_owned(), id.to_owned(), value)),
    }
}

fn get<'t, T>(table: &'t Table<T>, domain: &str, name: &str) -> Option<&'t T> {
    place(table, domain, name).ok().map(|found| &table[found].2)
}

impl Device for OwnedDevice {
    fn driver(&self) -> &str {
        &self.driver
    }

    fn allow_multiple_allocations(&self) -> bool {
        self.allow_multiple_allocations
    }

    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>> {
        get(&self.attributes, domain, name).map(OwnedAttribute::view)
    }

    fn capacity(&self, domain: &str, name: &str) -> Option<&Quantity> {
        get(&self.capacity, domain, name)
    }

    fn nth_attribute(&self, n: usize) -> Option<(&str, &str, Attribute<'_>)> {
        self.attributes.get(n).map(|(domain, name, value)| (&**domain, &**name, value.view()))
    }

    fn nth_capacity(&self, n: usize) -> Option<(&str, &str, &Quantity)> {
        self.capacity.get(n).map(|(domain, name, value)| (&**domain, &**name, value))
    }
}
