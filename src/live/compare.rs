//! SIGUSR2, and now and then by itself: what the ledger holds, compared with what the API server says.
//!
//! A picture is taken on the engine's thread, everything else happens beside it. Objects move while
//! they are looked at, so what seems to differ is looked at again, the server first and the ledger
//! a moment later: only what the ledger has missed several times in a row is a difference.
//!
//! Source: kube-scheduler's cache comparer is asked for by the same signal; it compares names of
//! nodes and pods only, once.
//!
//! Reading order: [`picture`], [`camera`], [`differ`], `server`.

pub mod camera;
pub mod differ;
pub mod picture;
mod server;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::signal::unix::Signal;
use tracing::{debug, info, warn};

use super::client::Api;
use super::dialects::Dialects;
use super::kinds::{self, Key};
use super::optional::Optional;
use super::rate::TokenBucket;
use crate::wire::{Kind, Tables};

use camera::Camera;
use differ::{Difference, Verdict, judge, miscounted, misplaced};
use picture::{Content, Id, Picture};
use server::Server;

/// So often in a row an object must differ.
const SURE: u32 = 3;
const PASSES_MAX: u32 = 8;
/// The ledger gets so long to hear of what the server has said.
const GRACE: Duration = Duration::from_millis(500);
/// More doubtful objects of a kind than this are listed instead of read one by one.
const SINGLE_MAX: usize = 100;
/// The first comparison is made by itself so long after the start, and one that could not be made is
/// tried again so long after that.
const FIRST: Duration = Duration::from_secs(60);
/// Further ones follow so long after the last one, later if that took long: at most a hundredth of the
/// time goes there.
const EVERY: Duration = Duration::from_secs(600);
const PART: u32 = 100;
/// Where there are more pods and nodes than that only the signal asks, since all of them are read.
const OBJECTS_MAX: f64 = 20_000.0;
/// Lines about differences, and about assumed pods.
const LINES_MAX: usize = 200;

/// What is compared, and by whom.
pub struct Comparison {
    pub api: Api,
    pub rate: TokenBucket,
    pub camera: Camera,
    pub kinds: Vec<Kind>,
    /// Their kinds come and go.
    pub dialects: Dialects,
    /// And so do these.
    pub optional: Optional,
    /// The gate TaintTolerationComparisonOperators: it changes what is read of a pod.
    pub comparison_tolerations: bool,
}

/// What a comparison came to.
#[derive(Debug, Default)]
pub struct Report {
    pub objects: usize,
    pub differences: Vec<(Id, Difference)>,
    pub assumed: BTreeMap<Id, berth_core::types::Text>,
    pub unconfirmed: usize,
}

/// An object that seemed to differ.
#[derive(Debug)]
struct Doubt {
    in_a_row: u32,
    difference: Option<Difference>,
    /// Its version in the last picture.
    version: u64,
}

impl Comparison {
    /// Compares whenever the signal comes, and when none has come for a while. One that comes
    /// meanwhile is heard once afterwards.
    pub async fn run(self, mut signal: Signal) {
        let mut pause = FIRST;
        loop {
            let asked = tokio::select! {
                heard = signal.recv() => match heard {
                    Some(()) => true,
                    None => return,
                },
                () = tokio::time::sleep(pause) => false,
            };
            if !asked && self.api.metrics().ledger_size() > OBJECTS_MAX {
                continue;
            }
            let begun = Instant::now();
            pause = match self.compare_and_tell(asked).await {
                true => pause_after(begun.elapsed()),
                false => FIRST,
            };
        }
    }

    /// Returns false if nothing could be compared.
    async fn compare_and_tell(&self, asked: bool) -> bool {
        if asked {
            info!("comparing the ledger with the API server");
        }
        match self.compare().await {
            Ok(report) => {
                self.api.metrics().compared(report.differences.len());
                report.log(asked);
                return true;
            }
            Err(problem) if asked => {
                warn!("the ledger was not compared with the API server: {problem}");
            }
            // A standby's is not up to date all of the time.
            Err(problem) => debug!("the ledger was not compared with the API server: {problem}"),
        }
        false
    }

    /// # Errors
    /// Why it can't be told.
    async fn compare(&self) -> Result<Report, String> {
        let kinds = [self.kinds.clone(), self.dialects.watched(), self.optional.watched()].concat();
        self.all_synced(&kinds)?;
        let tables = Mutex::new(Tables::new(self.comparison_tolerations));
        let server = Server { api: &self.api, rate: &self.rate, tables };
        let mut said = BTreeMap::new();
        for kind in &kinds {
            said.extend(server.list(*kind).await?);
        }
        let picture = self.picture().await?;
        let ids: BTreeSet<Id> = said.keys().chain(picture.objects.keys()).cloned().collect();
        let objects = ids.len();
        let mut doubts = BTreeMap::new();
        look(&mut doubts, &ids, &said, &picture);
        let mut report = Report::of(&picture, objects);
        drop((said, picture));
        for pass in 1..PASSES_MAX {
            if doubts.values().all(|doubt| doubt.in_a_row >= SURE) {
                break;
            }
            let ids: BTreeSet<Id> = doubts.keys().cloned().collect();
            let said = ask_again(&server, &kinds, &ids).await?;
            tokio::time::sleep(GRACE * pass).await;
            look(&mut doubts, &ids, &said, &self.picture().await?);
        }
        report.differences.extend(sure(doubts));
        Ok(report)
    }

    /// A ledger that doesn't claim to be up to date is not accused.
    fn all_synced(&self, kinds: &[Kind]) -> Result<(), String> {
        let resources = kinds.iter().map(|kind| kinds::resource(*kind));
        let waiting: Vec<String> =
            resources.filter(|resource| !self.api.metrics().is_synced(resource)).collect();
        match waiting.is_empty() {
            true => Ok(()),
            false => Err(format!("not listed yet: {}", waiting.join(", "))),
        }
    }

    async fn picture(&self) -> Result<Picture, String> {
        self.camera.picture().await.ok_or("the engine has ended".to_owned())
    }
}

fn pause_after(took: Duration) -> Duration {
    EVERY.max(took * PART)
}

async fn ask_again(
    server: &Server<'_>,
    kinds: &[Kind],
    ids: &BTreeSet<Id>,
) -> Result<BTreeMap<Id, Content>, String> {
    let mut said = BTreeMap::new();
    for kind in kinds {
        let of_kind: Vec<&Id> = ids.iter().filter(|id| id.kind == kind.family()).collect();
        if of_kind.len() > SINGLE_MAX {
            said.extend(server.list(*kind).await?);
            continue;
        }
        for id in of_kind {
            said.extend(server.object(*kind, id).await?.map(|content| (id.clone(), content)));
        }
    }
    Ok(said)
}

/// Looks at `ids` and keeps in `doubts` what does not agree.
fn look(
    doubts: &mut BTreeMap<Id, Doubt>,
    ids: &BTreeSet<Id>,
    said: &BTreeMap<Id, Content>,
    picture: &Picture,
) {
    for id in ids {
        let ours = picture.objects.get(id);
        let before = doubts.remove(id);
        let version = before.as_ref().map_or(0, |doubt| doubt.version);
        let (in_a_row, difference) = match judge(ours, said.get(id), version) {
            Verdict::Same => continue,
            Verdict::Moving => (0, None),
            Verdict::Differs(difference) => {
                (before.map_or(0, |doubt| doubt.in_a_row) + 1, Some(difference))
            }
        };
        let version = ours.map_or(0, Content::version);
        doubts.insert(id.clone(), Doubt { in_a_row, difference, version });
    }
}

fn sure(doubts: BTreeMap<Id, Doubt>) -> impl Iterator<Item = (Id, Difference)> {
    let sure = doubts.into_iter().filter(|(_, doubt)| doubt.in_a_row >= SURE);
    sure.filter_map(|(id, doubt)| doubt.difference.map(|difference| (id, difference)))
}

impl Report {
    /// Begins with what the ledger contradicts itself in: that needs no second look.
    fn of(picture: &Picture, objects: usize) -> Report {
        let counts = miscounted(picture).into_iter().map(|(name, difference)| {
            let key = Key { namespace: Default::default(), name };
            (Id { kind: Kind::Node, key, uid: Default::default() }, difference)
        });
        Report {
            objects,
            differences: counts.chain(misplaced(picture)).collect(),
            assumed: picture.assumed.clone(),
            unconfirmed: picture.unconfirmed,
        }
    }

    /// Who asked is told what is under way too.
    fn log(&self, asked: bool) {
        let lines_max = if asked { LINES_MAX } else { 0 };
        for (id, node) in self.assumed.iter().take(lines_max) {
            info!(pod = %id.key, %node, "assumed, not yet confirmed");
        }
        for (id, difference) in self.differences.iter().take(LINES_MAX) {
            let Difference { ledger, server } = difference;
            let kind = kinds::resource(id.kind);
            warn!(kind, object = %id.key, ledger, server, "ledger and API server differ");
        }
        let more = self.differences.len().saturating_sub(LINES_MAX);
        if more > 0 {
            warn!(more, "further differences are not listed");
        }
        info!(
            objects = self.objects,
            differences = self.differences.len(),
            assumed = self.assumed.len(),
            unconfirmed = self.unconfirmed,
            asked,
            "compared the ledger with the API server"
        );
    }
}
