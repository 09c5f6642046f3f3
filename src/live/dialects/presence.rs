//! Which kinds the server has, asked again and again: custom resources come and go while we run.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use berth_core::engine::Input;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{debug, info};

use super::{Dialects, Served};
use crate::live::discovery::{self, Resources};
use crate::live::watch::{Running, Source, Watch, tell_synced};
use crate::wire::Kind;
use crate::wire::dialect::DialectDef;

/// Looks what is served, now and whenever it is time or a list fails.
pub(super) async fn follow(dialects: Dialects, source: Source) -> Infallible {
    let look_again = source.pace.look_again;
    let mut presence = Presence {
        awaited: dialects.kinds().collect(),
        dialects,
        source,
        running: BTreeMap::new(),
        told: BTreeMap::new(),
        failed: Arc::default(),
    };
    loop {
        presence.look().await;
        presence.dialects.looked.send_replace(true);
        let _ = timeout(look_again, presence.failed.notified()).await;
    }
}

struct Presence {
    dialects: Dialects,
    source: Source,
    /// By kind in the newest version.
    running: BTreeMap<Kind, (Served, Running)>,
    /// Kinds that the engine waits for, or whose watch tells it itself.
    awaited: BTreeSet<Kind>,
    /// What the engine was told of each dialect: whether it is served.
    told: BTreeMap<&'static str, bool>,
    /// A list has failed: its kind may be gone.
    failed: Arc<Notify>,
}

/// What the server says of a kind.
enum Found {
    In(Served),
    Nowhere,
    /// It gives no answer.
    Unknown,
}

impl Presence {
    /// Asks once for each group and version, and begins and ends watches.
    async fn look(&mut self) {
        let mut asked = BTreeMap::new();
        for def in self.dialects.honoured.clone().iter() {
            let mut found = Vec::new();
            for kind in super::kinds_of(def) {
                found.push((kind, self.find(kind, &mut asked).await));
            }
            self.follow_up(def, found).await;
        }
    }

    async fn find(
        &self,
        family: Kind,
        asked: &mut BTreeMap<&'static str, Option<Resources>>,
    ) -> Found {
        for kind in family.versions() {
            let api_version = kind.names().0;
            if !asked.contains_key(api_version) {
                let answer = discovery::ask(&self.source.api, api_version).await;
                let answer = answer.inspect_err(|problem| {
                    debug!(version = api_version, %problem, "asking what is served failed");
                });
                asked.insert(api_version, answer.ok());
            }
            match asked.get(api_version) {
                Some(Some(resources)) if resources.have(kind) => {
                    let usual = matches!(kind, Kind::Group(object) if object.has_status());
                    let status = resources.have_status(kind).unwrap_or(usual);
                    return Found::In(Served { kind, status });
                }
                Some(Some(_)) => {}
                // An older version must not take its place because the server was away just then.
                Some(None) | None => return Found::Unknown,
            }
        }
        Found::Nowhere
    }

    /// A dialect is served where the first of its kinds that make groups is. One that needs none
    /// always is.
    async fn follow_up(&mut self, def: &DialectDef, found: Vec<(Kind, Found)>) {
        let first = found.iter().find(|(kind, _)| matches!(kind, Kind::Group(_)));
        let served = match first {
            Some((_, Found::In(_))) => Some(true),
            Some((_, Found::Nowhere)) => Some(false),
            Some((_, Found::Unknown)) | None => None,
        };
        if served == Some(true) {
            self.tell(def, true);
        }
        for (family, found) in found {
            match found {
                Found::In(served) => self.begin(family, served).await,
                Found::Nowhere => self.end(family).await,
                Found::Unknown => {}
            }
        }
        if served == Some(false) {
            self.tell(def, false);
        }
    }

    fn tell(&mut self, def: &DialectDef, served: bool) {
        let dialect = def.dialect.name;
        match self.told.insert(dialect, served) {
            Some(before) if before == served => return,
            None if served => {}
            _ if served => info!(dialect, "its pod groups are served now"),
            _ => info!(dialect, "its pod groups are not served; they are looked for again"),
        }
        self.send(Input::Cluster(ClusterEvent::Groups(GroupEvent::Served { dialect, served })));
    }

    async fn begin(&mut self, family: Kind, served: Served) {
        if self.running.get(&family).is_some_and(|(running, _)| *running == served) {
            return;
        }
        let changes = self.running.contains_key(&family);
        if self.awaited.insert(family) || changes {
            tell_synced(&self.source.sink, family, false);
        }
        self.stop(family).await;
        let watch = Watch::new(self.source.clone(), served.kind);
        let (failed, sink) = (Arc::clone(&self.failed), self.source.sink.clone());
        let running = watch.spawn(move || {
            failed.notify_one();
            if matches!(family, Kind::Tree(_)) {
                // What says where groups are better holds nobody when it can't be read.
                tell_synced(&sink, family, true);
            }
        });
        self.dialects.known().served.insert(family, served);
        self.running.insert(family, (served, running));
    }

    /// Its objects are told gone, and then that there is nothing to wait for.
    async fn end(&mut self, family: Kind) {
        self.stop(family).await;
        if self.awaited.remove(&family) {
            tell_synced(&self.source.sink, family, true);
        }
    }

    async fn stop(&mut self, family: Kind) {
        self.dialects.known().served.remove(&family);
        if let Some((_, running)) = self.running.remove(&family) {
            running.end().await;
        }
    }

    fn send(&self, input: Input) {
        // Nobody listens only while the program ends.
        let _ = self.source.sink.send(input);
    }
}
