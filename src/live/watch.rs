//! One kind's list and watch, for ever: what it says becomes inputs of the engine.
//!
//! Own instead of kube's watcher, because of what was measured of servers and of kube 5: a 410 may
//! answer the request or come in the stream, and both need a new list; a server short of CPU ends
//! streams in good order, which needs none; a watch can be answered with an error that only a new
//! list gets over; a connection can die without a word. Streaming lists are not used: there is no
//! falling back from them.

mod follow;
pub(in crate::live) mod list;
mod pace;
mod running;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use berth_core::engine::Input;
use berth_core::types::Text;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use super::client::Api;
use super::complaint::Complaint;
use super::events::{EventQueue, Happening, Subject};
use super::kinds::{self, Key};
use super::planted::{self, Bug};
use super::rate::TokenBucket;
use crate::wire::topology::GPU_TOPOLOGY;
use crate::wire::{Kind, Problem, Tables};

use follow::End;
pub use pace::Pace;
pub use running::{Running, tell_synced};

/// So many watches in a row that the server answered with errors, and the place is given up: some
/// errors ("Too large resource version" after etcd was restored) only a new list gets over.
const REFUSALS_MAX: u32 = 5;
/// So many streams in a row that said nothing to their end, and a list has to tell how it stands:
/// something between us and the server may keep all back. It also may have had nothing to say, if it
/// sends no bookmarks.
const SILENCES_MAX: u32 = 2;

/// What all watches share.
#[derive(Clone)]
pub struct Source {
    pub api: Api,
    pub rate: Arc<TokenBucket>,
    pub tables: Arc<Mutex<Tables>>,
    pub sink: Sender<Input>,
    pub pace: Pace,
    /// True from when we may write on.
    pub led: watch::Receiver<bool>,
    pub reporter: Reporter,
}

/// Tells in events what is wrong with objects that aren't pods.
#[derive(Clone, Default)]
pub struct Reporter {
    pub events: Arc<EventQueue>,
    /// Who it is that tells.
    pub scheduler_name: Text,
}

/// The watch of one kind.
pub struct Watch {
    source: Source,
    kind: Kind,
    resource: Text,
    /// What the engine was told of: UIDs by key.
    known: BTreeMap<Key, Text>,
    /// The first problem of each object that has one, so that it is told once.
    told: BTreeMap<Key, String>,
    /// Those that were told in an event.
    reported: BTreeMap<Key, String>,
    synced: bool,
    /// When the server was last heard, in a list or a watch.
    heard: Instant,
    /// That is so long ago that a short watch is to tell whether the server is there.
    probing: bool,
    /// It brought nothing either: what is known may be old.
    overdue: bool,
    /// The last list is good enough to decide on.
    good: bool,
    complaint: Complaint,
}

impl Watch {
    pub fn new(source: Source, kind: Kind) -> Watch {
        Watch {
            source,
            kind,
            resource: Text::from(kinds::resource(kind)),
            known: BTreeMap::new(),
            told: BTreeMap::new(),
            reported: BTreeMap::new(),
            synced: false,
            heard: Instant::now(),
            probing: false,
            overdue: false,
            good: false,
            complaint: Complaint::default(),
        }
    }

    /// Lists, watches, and lists again where that is needed.
    pub async fn run(mut self) -> Infallible {
        self.go_on(|| {}).await
    }

    /// As [`Watch::run`], until `stop` is dropped: then all that was told of is told gone. `failed`
    /// hears of each list that fails.
    async fn run_until(mut self, stop: oneshot::Receiver<()>, failed: impl Fn() + Send + Sync) {
        tokio::select! {
            _ = stop => {}
            never = self.go_on(failed) => match never {},
        }
        let known: Vec<Key> = self.known.keys().cloned().collect();
        known.iter().for_each(|key| self.forget(key));
        self.source.api.metrics().unwatched(&self.resource);
    }

    async fn go_on(&mut self, failed: impl Fn()) -> Infallible {
        let mut failures = 0;
        if !self.decides() {
            // A Lease that is free is ours by then; if it isn't, the ledger is kept warm.
            let mut led = self.source.led.clone();
            let _ = timeout(self.source.pace.lead_soon, led.wait_for(|led| *led)).await;
        }
        loop {
            let decides = self.decides();
            match self.list().await {
                Ok(version) => {
                    failures = 0;
                    self.good = decides;
                    self.note_heard();
                    self.note_current();
                    self.recovered();
                    match decides {
                        true => self.watch_from(version).await,
                        false => self.watch_until_led(version).await,
                    }
                }
                Err(problem) => {
                    self.complain("list", &problem);
                    failed();
                    self.source.pace.wait(failures).await;
                    failures += 1;
                }
            }
        }
    }

    /// Tells whether a list that begins now is good enough to decide on. Pods must be listed after
    /// the leader before us has sent its last bind; a watch alone may be behind that.
    fn decides(&self) -> bool {
        self.kind != Kind::Pod || *self.source.led.borrow()
    }

    /// Keeps the ledger warm until we lead.
    async fn watch_until_led(&mut self, version: String) {
        let mut led = self.source.led.clone();
        let leading = async move {
            if led.wait_for(|led| *led).await.is_err() {
                // The election is over, and the program ends.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.watch_from(version) => {}
            () = leading => {}
        }
    }

    /// Watches from a version on until the place is lost.
    async fn watch_from(&mut self, mut version: String) {
        let (mut failures, mut refusals, mut silences) = (0, 0, 0);
        loop {
            let begun = Instant::now();
            let end = match self.follow(&mut version).await {
                // It was to bring a bookmark at least.
                End::Ended { events: 0 } if self.probing => End::Silent { heard: false },
                end => end,
            };
            if self.is_rightly_silent(&end, &version).await {
                silences = 0;
                continue;
            }
            if matches!(end, End::Ended { events } if events > 0) {
                silences = 0;
            }
            let progress = matches!(end, End::Ended { events } if events > 0)
                || begun.elapsed() >= self.source.pace.short;
            if progress {
                (failures, refusals) = (0, 0);
            }
            match end {
                End::Expired(_) if planted::on(Bug::NeverRelists) => version = "0".to_owned(),
                End::Expired(message) => {
                    info!(resource = %self.resource, %message, "watch expired, listing again");
                    self.set_synced(false);
                    return;
                }
                End::Ended { .. } if progress => {
                    self.recovered();
                    continue;
                }
                End::Ended { .. } => {}
                End::Silent { heard } => {
                    silences = if heard { 1 } else { silences + 1 };
                    if silences >= SILENCES_MAX {
                        self.complain("watch", "the server says nothing, listing again");
                        return;
                    }
                    continue;
                }
                End::Broken(problem) => self.complain("watch", &problem),
                End::Refused(problem) => {
                    self.complain("watch", &problem);
                    refusals += 1;
                }
            }
            if refusals >= REFUSALS_MAX {
                self.set_synced(false);
                return;
            }
            self.source.pace.wait(failures).await;
            failures += 1;
        }
    }

    /// Looks at how long nothing was heard. Returns true if there was nothing to say.
    async fn is_rightly_silent(&mut self, end: &End, version: &str) -> bool {
        if self.heard.elapsed() < self.source.pace.idle {
            return false;
        }
        // The first silence is not believed: servers may be late with their bookmarks.
        if self.probing || !matches!(end, End::Silent { .. }) {
            self.note_overdue();
            return false;
        }
        let newest = self.is_newest(version).await;
        match newest {
            true => self.note_heard(),
            false => self.probing = true,
        }
        newest
    }

    fn send(&self, input: Input) {
        // Nobody listens only while the program ends.
        let _ = self.source.sink.send(input);
    }

    fn set_synced(&mut self, synced: bool) {
        if self.synced != synced {
            self.synced = synced;
            self.source.api.metrics().synced(&self.resource, synced);
            self.send(Input::Watch { kind: self.resource.clone(), synced });
        }
    }

    fn note_heard(&mut self) {
        self.heard = Instant::now();
        self.source.api.metrics().heard(&self.resource);
    }

    /// What may be old is not decided on until the server is heard again.
    fn note_overdue(&mut self) {
        if self.overdue {
            return;
        }
        (self.probing, self.overdue) = (true, true);
        self.source.api.metrics().overdue(&self.resource, true);
        let silent_s = self.heard.elapsed().as_secs();
        warn!(resource = %self.resource, silent_s, "nothing is heard: what is known may be old");
        self.set_synced(false);
    }

    /// What is known is what there is, or was a moment ago.
    fn note_current(&mut self) {
        self.probing = false;
        if self.overdue {
            self.overdue = false;
            self.source.api.metrics().overdue(&self.resource, false);
            info!(resource = %self.resource, "heard again");
        }
        self.set_synced(self.good);
    }

    /// Takes over an object that is there.
    fn apply(&mut self, json: &str) -> Option<(Key, String)> {
        match kinds::read(self.kind, json, &self.source.tables) {
            Ok(seen) => {
                let key = seen.identity.key;
                self.tell_problems(&key, &seen.problems);
                self.report(&key, &seen.identity.uid, &seen.problems);
                let before = self.known.insert(key.clone(), seen.identity.uid.clone());
                // Another object of the same name: we never heard of the first one's end.
                if let Some(uid) = before.filter(|uid| *uid != seen.identity.uid) {
                    self.send(Input::Cluster(kinds::deleted(self.kind, &key, &uid)));
                }
                self.send(Input::Cluster(seen.event));
                Some((key, seen.identity.version))
            }
            Err(problem) => {
                warn!(resource = %self.resource, %problem, "object left out");
                None
            }
        }
    }

    fn forget(&mut self, key: &Key) {
        self.told.remove(key);
        self.reported.remove(key);
        if let Some(uid) = self.known.remove(key) {
            self.send(Input::Cluster(kinds::deleted(self.kind, key, &uid)));
        }
    }

    fn tell_problems(&mut self, key: &Key, problems: &[Problem]) {
        let Some(first) = problems.first() else {
            self.told.remove(key);
            return;
        };
        let problem = first.to_string();
        if self.told.get(key) != Some(&problem) {
            let more = problems.len() - 1;
            warn!(resource = %self.resource, object = %key, %problem, more, "object not understood");
            self.told.insert(key.clone(), problem);
        }
    }

    /// Reports what a node says of its GPUs, or an object of a topology, and can't be understood:
    /// once, as long as it stands, and only where we lead.
    fn report(&mut self, key: &Key, uid: &Text, problems: &[Problem]) {
        let of_gpus = |problem: &&Problem| problem.path.contains(GPU_TOPOLOGY);
        let problem = match self.kind {
            Kind::Node => problems.iter().find(of_gpus),
            Kind::Tree(_) => problems.first(),
            _ => None,
        };
        let Some(problem) = problem else {
            self.reported.remove(key);
            return;
        };
        let problem = problem.to_string();
        if !*self.source.led.borrow() || self.reported.get(key) == Some(&problem) {
            return;
        }
        let Reporter { events, scheduler_name } = &self.source.reporter;
        let (who, note) = (scheduler_name.clone(), Text::from(problem.as_str()));
        let (name, uid) = (key.name.clone(), uid.clone());
        events.push(match self.kind {
            Kind::Tree(kind) => {
                Happening::invalid_topology(Subject::tree(kind, name, uid), who, note)
            }
            _ => Happening::invalid_gpu_topology(Subject::node(name, uid), who, note),
        });
        self.reported.insert(key.clone(), problem);
    }

    fn complain(&mut self, verb: &str, problem: &str) {
        if self.complaint.is_due(self.source.pace.complain_again) {
            let waiting = match self.kind {
                _ if self.synced => "",
                Kind::Group(_) => "; its groups wait meanwhile",
                Kind::NodeResourceTopology => "; nothing is known of NUMA cells meanwhile",
                Kind::Tree(_) => "; groups do without what it says of topologies",
                _ => "; nothing is scheduled meanwhile",
            };
            warn!(resource = %self.resource, "can't {verb}, trying on{waiting}: {problem}");
        }
    }

    fn recovered(&mut self) {
        if self.complaint.ended() {
            info!(resource = %self.resource, "watching again");
        }
    }
}
