//! What the objects of all dialects have in common: how they are named, read and told.

use berth_core::types::Text;
use berth_core::types::group::{
    GroupKey, GroupKind, GroupPhase, GroupTold, GroupWords, PodGroup, Quorum,
};
use serde::Deserialize;
use serde_json::Value as Json;

use super::topology;
use super::versioned::{Definition, Names, Versioned};
use crate::wire::field::{Field, Shape};
use crate::wire::meta::Meta;
use crate::wire::problem::{Path, Problem};
use crate::wire::reading::Reading;
use crate::wire::tables::Tables;

/// A kind of objects that make groups.
pub struct ObjectDef {
    /// All versions have the same content, but for what the functions below make of the version.
    pub(super) names: Names,
    pub(super) makes: GroupKind,
    /// The status is written by a path of its own, where the server doesn't say.
    pub(super) status_subresource: bool,
    pub(super) patch: PatchType,
    pub(super) words: GroupWords,
    /// One of [`read`].
    pub(super) read: ReadFn,
    /// What is to stand in the status for what is told. Without, nothing is ever written.
    pub(super) status: Option<fn(&Telling<'_>) -> Json>,
}

pub(super) type ReadFn = fn(&str, GroupObject, &mut Tables) -> Result<GroupRead, serde_json::Error>;

/// How a patch is merged into the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// Lists are replaced whole. The only one that custom resources know.
    Merge,
    /// Conditions are merged by type.
    Strategic,
}

/// What is to be written on a group's object.
pub struct Telling<'a> {
    pub told: &'a GroupTold,
    /// What it said before, as far as is known.
    pub before: Option<GroupPhase>,
    pub object: GroupObject,
    /// As Kubernetes writes a Time.
    pub now: &'a str,
}

impl Telling<'_> {
    pub(super) fn scheduled(&self) -> bool {
        self.told.phase == GroupPhase::Scheduled
    }

    /// Tells whether a condition that is true for a scheduled group goes from one to the other.
    pub(super) fn turns(&self) -> bool {
        self.before.map(|phase| phase == GroupPhase::Scheduled) != Some(self.scheduled())
    }
}

impl Definition for ObjectDef {
    type Makes = GroupKind;

    fn names(&self) -> &Names {
        &self.names
    }

    fn makes(&self) -> GroupKind {
        self.makes
    }
}

/// A kind of objects that make groups, in one version.
pub type GroupObject = Versioned<ObjectDef>;

impl GroupObject {
    /// Tells whether its status has a path of its own, where the server doesn't say.
    pub fn has_status(self) -> bool {
        self.def.status_subresource
    }

    /// Tells whether anything is written on it.
    pub fn is_told(self) -> bool {
        self.def.status.is_some()
    }

    pub fn patch(self) -> PatchType {
        self.def.patch
    }

    /// Reads an object. All but broken JSON is read.
    ///
    /// # Errors
    /// It is no JSON object.
    pub fn read(self, json: &str, tables: &mut Tables) -> Result<GroupRead, serde_json::Error> {
        (self.def.read)(json, self, tables)
    }

    /// Returns what is to stand in the status; null where nothing is told.
    pub fn status(self, told: &GroupTold, before: Option<GroupPhase>, now: &str) -> Json {
        let telling = Telling { told, before, object: self, now };
        self.def.status.map_or(Json::Null, |status| status(&telling))
    }
}

/// A group's object as it was read.
pub struct GroupRead {
    pub meta: Meta,
    pub group: PodGroup,
    pub problems: Vec<Problem>,
}

#[derive(Deserialize)]
#[serde(default, bound = "S: Shape, T: Shape")]
struct Wire<S, T> {
    metadata: Meta,
    spec: Field<S>,
    status: Field<T>,
}

impl<S, T> Default for Wire<S, T> {
    fn default() -> Wire<S, T> {
        Wire { metadata: Meta::default(), spec: Field::Absent, status: Field::Absent }
    }
}

pub(super) const SPEC: Path<'static> = Path::Root("spec");
pub(super) const STATUS: Path<'static> = Path::Root("status");

/// What a dialect makes of an object's spec and status.
pub(super) trait Conversion {
    type Spec: Shape + Default;
    type Status: Shape + Default;

    fn spec(reading: &mut Reading<'_>, spec: &Self::Spec, group: &mut PodGroup);
    /// Fills in what the object says by itself.
    fn status(
        reading: &mut Reading<'_>,
        status: &Self::Status,
        object: GroupObject,
        group: &mut PodGroup,
    );
}

/// Reads an object as its dialect has it.
pub(super) fn read<C: Conversion>(
    json: &str,
    object: GroupObject,
    tables: &mut Tables,
) -> Result<GroupRead, serde_json::Error> {
    let wire: Wire<C::Spec, C::Status> = serde_json::from_str(json)?;
    let mut reading = Reading::of(tables);
    let mut group = identity(&mut reading, &wire.metadata, object);
    let (no_spec, no_status) = (C::Spec::default(), C::Status::default());
    let spec = reading.required(&SPEC, &wire.spec).unwrap_or(&no_spec);
    C::spec(&mut reading, spec, &mut group);
    match topology::span(&wire.metadata, &mut reading) {
        Ok(Some(span)) => {
            let parts = group.sub_groups.iter_mut().map(|sub| &mut sub.topology);
            std::iter::once(&mut group.topology)
                .chain(parts)
                .for_each(|constraints| topology::spread_out(constraints, &span));
        }
        Ok(None) => {}
        Err(problem) => reading.problem(&Path::Root("metadata").field("annotations"), problem),
    }
    match topology::spread(&wire.metadata, &mut reading) {
        Ok(spread) => group.spread = spread,
        Err(problem) => reading.problem(&Path::Root("metadata").field("annotations"), problem),
    }
    group.problem = reading.problems.summary().map(Text::from);
    // What was written there by others is no reason to hold anybody.
    let status = reading.opt(&STATUS, &wire.status).unwrap_or(&no_status);
    C::status(&mut reading, status, object, &mut group);
    Ok(GroupRead { group, problems: reading.finish(), meta: wire.metadata })
}

fn identity(reading: &mut Reading<'_>, meta: &Meta, object: GroupObject) -> PodGroup {
    let namespace = reading.namespace(meta);
    let name = reading.name(meta);
    let key = GroupKey { dialect: object.dialect(), kind: object.makes(), namespace, name };
    PodGroup {
        resource_version: meta.resource_version(),
        created: meta.created(),
        quorum: Quorum::None,
        words: object.def.words,
        ..PodGroup::gang(key, meta.object.uid.as_deref().unwrap_or_default(), 0)
    }
}

/// Reads a number of members or groups; one below `least` is a problem. `None` if there is none.
pub(super) fn number(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    field: &Field<i64>,
    least: u32,
) -> Option<u32> {
    let number = reading.int32(at, field)?;
    let count = u32::try_from(number).ok().filter(|count| *count >= least);
    if count.is_none() {
        reading.problem(at, format_args!("{number} must be at least {least}"));
    }
    count
}
