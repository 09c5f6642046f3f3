//! A kind of objects in one of its versions, whatever it is that the objects make.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use berth_core::types::group::Dialect;

/// How a kind of objects is called.
pub struct Names {
    pub(super) dialect: Dialect,
    /// API group and version, newest first.
    pub(super) api_versions: &'static [&'static str],
    pub(super) kind: &'static str,
    pub(super) resource: &'static str,
}

/// What there is to know about a kind of objects.
pub trait Definition: 'static {
    /// What tells the kinds of one dialect apart.
    type Makes: Copy + Ord + Hash;

    fn names(&self) -> &Names;
    fn makes(&self) -> Self::Makes;
}

/// A kind of objects, in one version.
pub struct Versioned<D: 'static> {
    pub(super) def: &'static D,
    version: usize,
}

impl<D> Clone for Versioned<D> {
    fn clone(&self) -> Versioned<D> {
        *self
    }
}

impl<D> Copy for Versioned<D> {}

impl<D: Definition> Versioned<D> {
    pub(super) fn newest(def: &'static D) -> Versioned<D> {
        Versioned { def, version: 0 }
    }

    /// Returns the same kind in every version, newest first.
    pub fn versions(self) -> impl Iterator<Item = Versioned<D>> {
        (0..self.names().api_versions.len()).map(move |version| Versioned { version, ..self })
    }

    /// Returns the kind in the newest version, which stands for all: the ledger knows no versions.
    pub fn family(self) -> Versioned<D> {
        Versioned { version: 0, ..self }
    }

    pub fn dialect(self) -> Dialect {
        self.names().dialect
    }

    pub fn makes(self) -> D::Makes {
        self.def.makes()
    }

    /// Returns API group and version, such as `scheduling.k8s.io/v1beta1`.
    pub fn api_version(self) -> &'static str {
        self.names().api_versions[self.version]
    }

    pub fn kind(self) -> &'static str {
        self.names().kind
    }

    pub fn resource(self) -> &'static str {
        self.names().resource
    }

    fn names(self) -> &'static Names {
        self.def.names()
    }

    /// Order: dialect, what it makes, newest version first.
    fn order(self) -> (Dialect, D::Makes, usize) {
        (self.dialect(), self.makes(), self.version)
    }
}

impl<D: Definition> PartialEq for Versioned<D> {
    fn eq(&self, other: &Versioned<D>) -> bool {
        self.order() == other.order()
    }
}

impl<D: Definition> Eq for Versioned<D> {}

impl<D: Definition> PartialOrd for Versioned<D> {
    fn partial_cmp(&self, other: &Versioned<D>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<D: Definition> Ord for Versioned<D> {
    fn cmp(&self, other: &Versioned<D>) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl<D: Definition> Hash for Versioned<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

impl<D: Definition> fmt::Debug for Versioned<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind(), self.api_version())
    }
}
