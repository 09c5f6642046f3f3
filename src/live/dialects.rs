//! The objects of dialects on the server: which kinds it has, the watches that come and go with them,
//! and whose status is ours to write.
//!
//! Only the dialects that some profile honours are asked for. A kind that isn't served, or can't be
//! listed, holds nobody but the pods that say they are in its groups; one that describes topologies
//! holds nobody.
//!
//! Reading order: this file, `presence` (what is served), `peers` (who else writes).

mod peers;
mod presence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_core::engine::Input;
use berth_core::framework::Profile;
use berth_core::types::Text;
use berth_core::types::group::{Dialect, GroupKey};
use tokio::sync::watch;

use super::kinds;
use super::lease::Rules;
use super::watch::{Source, tell_synced};
use crate::wire::Kind;
use crate::wire::dialect::object::GroupObject;
use crate::wire::dialect::{self, DialectDef};

/// What is known of the dialects that count. Clones share it.
#[derive(Clone)]
pub struct Dialects {
    honoured: Arc<Vec<&'static DialectDef>>,
    known: Arc<Mutex<Known>>,
    /// True once the server has been asked for all of them.
    looked: Arc<watch::Sender<bool>>,
}

#[derive(Default)]
struct Known {
    /// By kind in the newest version.
    served: BTreeMap<Kind, Served>,
    /// Dialects whose own scheduler is known not to lead.
    ours: BTreeSet<Dialect>,
}

/// A kind as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Served {
    kind: Kind,
    /// The status has a path of its own.
    status: bool,
}

/// Where the status of a group is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusAt {
    pub object: GroupObject,
    /// From the root.
    pub path: String,
}

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTold {
    #[error("the {dialect} dialect has no object for {group}")]
    NoObject { dialect: &'static str, group: GroupKey },
    #[error("the server has no objects of the {dialect} dialect")]
    NotServed { dialect: &'static str },
    #[error("the {dialect} scheduler holds its Lease, or may: the status of its groups is its own")]
    Foreign { dialect: &'static str },
}

impl Dialects {
    /// Takes those that a profile honours. `own` is the Lease that Berth itself runs for: it is
    /// nobody else's while we write.
    pub fn of(profiles: &[Profile], own: Option<&Rules>) -> Dialects {
        let rules = profiles.iter().filter_map(|profile| profile.groups.as_ref());
        let names: BTreeSet<&Text> = rules.flat_map(|rules| &rules.dialects).collect();
        let honoured = |def: &&DialectDef| names.iter().any(|name| **name == *def.dialect.name);
        Dialects::new(dialect::ALL.into_iter().filter(honoured).collect(), own)
    }

    pub fn new(honoured: Vec<&'static DialectDef>, own: Option<&Rules>) -> Dialects {
        let is_own = |def: &DialectDef| match (def.peer, own) {
            (Some(peer), Some(own)) => own.namespace == peer.namespace && own.name == peer.name,
            (None, _) => true,
            (Some(_), None) => false,
        };
        let ours = honoured.iter().filter(|def| is_own(def)).map(|def| def.dialect).collect();
        Dialects {
            honoured: Arc::new(honoured),
            known: Arc::new(Mutex::new(Known { ours, ..Known::default() })),
            looked: Arc::new(watch::Sender::new(false)),
        }
    }

    /// As a server that has everything and nobody else who writes.
    #[cfg(test)]
    pub(super) fn serving_all() -> Dialects {
        let dialects = Dialects::new(dialect::ALL.to_vec(), None);
        for object in dialects.honoured.iter().flat_map(|def| def.objects()) {
            let kind = Kind::Group(object);
            let served = Served { kind, status: object.has_status() };
            dialects.known().served.insert(kind, served);
            dialects.known().ours.insert(object.dialect());
        }
        dialects
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the dialects that count.
    pub fn honoured(&self) -> &[&'static DialectDef] {
        &self.honoured
    }

    /// Each in the newest version.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.honoured.iter().flat_map(|def| kinds_of(def))
    }

    /// Returns the kinds that are watched now.
    pub fn watched(&self) -> Vec<Kind> {
        self.known().served.values().map(|served| served.kind).collect()
    }

    /// Waits until the server has been asked for all kinds once.
    pub async fn looked(&self) {
        // The sender is kept by this very handle.
        let _ = self.looked.subscribe().wait_for(|looked| *looked).await;
    }

    /// Returns where the status of a group is written.
    ///
    /// # Errors
    /// Nothing is to be written there.
    pub fn status_at(&self, group: &GroupKey) -> Result<StatusAt, NotTold> {
        let dialect = group.dialect.name;
        let no_object = || NotTold::NoObject { dialect, group: group.clone() };
        let family = dialect::object_of(group.dialect, group.kind).ok_or_else(no_object)?;
        let known = self.known();
        let served = known.served.get(&Kind::Group(family));
        let Some(Served { kind: kind @ Kind::Group(object), status }) = served.copied() else {
            return Err(NotTold::NotServed { dialect });
        };
        if !known.ours.contains(&group.dialect) || !family.is_told() {
            return Err(NotTold::Foreign { dialect });
        }
        let collection = kinds::collection_path(kind, &group.namespace);
        let status = if status { "/status" } else { "" };
        let path = format!("{collection}/{}{status}", group.name);
        Ok(StatusAt { object, path })
    }

    /// Tells the engine that nothing is known yet of the kinds that may come. Call it before
    /// anything that tells of pods.
    pub fn announce(&self, sink: &Sender<Input>) {
        for kind in self.kinds() {
            tell_synced(sink, kind, false);
        }
    }

    /// Watches what is served, and who else writes, for ever.
    pub async fn run(self, source: Source) {
        let ours = self.known().ours.clone();
        for def in self.honoured.iter().filter(|def| !ours.contains(&def.dialect)) {
            tokio::spawn(peers::follow(source.api.clone(), self.clone(), def));
        }
        presence::follow(self, source).await;
    }
}

/// Returns the kinds of objects of a dialect, each in the newest version.
fn kinds_of(def: &DialectDef) -> impl Iterator<Item = Kind> + use<> {
    def.objects().map(Kind::Group).chain(def.tree().map(Kind::Tree))
}
