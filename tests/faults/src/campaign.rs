//! Plays rows, judges each repeat, and writes down what came of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_audit::{Limits, Violation};
use berth_stand::with_sources;

use crate::failed::{Failed, Outcome};
use crate::rows::{ROWS, Row};
use crate::scene::Scene;
use crate::scheduler::Program;
use crate::table::{Batch, Table, commit};

/// Repeats of a row in CI, and of one that takes long.
const SHARE: u64 = 3;
const SHARE_ONCE: u64 = 1;
/// Repeats of a slow row are enough at this, whatever is asked for.
const ENOUGH_SLOW: u64 = 10;

/// So many control planes for the rows of CI's share that wait.
const WAITING_LANES: usize = 2;

/// So much longer than a pod may be lost is looked on after a repeat that has failed.
const LOOKS_ON: Duration = Duration::from_secs(2);

/// Violations of a repeat that are printed.
const SHOWN: usize = 4;

/// What is to be played.
pub struct Campaign {
    pub rows: Vec<&'static Row>,
    pub program: Program,
    pub count: Count,
    /// None: nothing is written down, and nothing that was is counted.
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many repeats, each with an effective injection, at this commit, together with those of
    /// the table.
    Injections(u64),
    /// CI's share: so many repeats as the row is worth.
    Share,
}

/// How many rows held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u32,
    pub failed: u32,
}

impl Tally {
    fn with(self, other: Tally) -> Tally {
        Tally { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }

    fn count(&mut self, holds: bool) {
        match holds {
            true => self.passed += 1,
            false => self.failed += 1,
        }
    }
}

/// Rows that are still to be played, those of one setting together.
struct Queue(Mutex<std::vec::IntoIter<&'static Row>>);

impl Queue {
    fn new(mut rows: Vec<&'static Row>) -> Queue {
        rows.sort_by_key(|row| row.setting.name);
        Queue(Mutex::new(rows.into_iter()))
    }

    fn next(&self) -> Option<&'static Row> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// What is known of a batch while it is played.
struct Played {
    batch: Batch,
    /// What went wrong.
    failed: Vec<String>,
}

impl Campaign {
    /// Plays all rows, those of one setting after each other on one control plane. Of CI's share
    /// those that wait are played beside the others, on control planes of their own.
    ///
    /// # Errors
    /// What keeps the campaign itself from running: the table, git.
    pub fn run(&self) -> Outcome<Tally> {
        let commit = commit()?;
        let beside = |row: &&Row| self.count == Count::Share && row.waits;
        let (waiting, others): (Vec<_>, Vec<_>) = self.rows.iter().copied().partition(beside);
        let (waiting, others) = (Queue::new(waiting), Queue::new(others));
        std::thread::scope(|scope| {
            let lane = || scope.spawn(|| self.run_rows(&waiting, &commit));
            let lanes: Vec<_> = (0..WAITING_LANES).map(|_| lane()).collect();
            let others = self.run_rows(&others, &commit);
            lanes.into_iter().try_fold(others?, |tally, lane| {
                Ok(tally.with(lane.join().expect("a campaign does not panic")?))
            })
        })
    }

    fn run_rows(&self, rows: &Queue, commit: &str) -> Outcome<Tally> {
        let mut table = self.out.as_deref().map(Table::read).transpose()?;
        let mut tally = Tally::default();
        let mut kept: Option<(&str, Scene)> = None;
        while let Some(row) = rows.next() {
            let known = table.as_ref().map(|t| t.known(row.id, self.program.name(), commit));
            let known = known.unwrap_or_default();
            let wanted = self.wanted(row, &known);
            if wanted == Wanted::default() {
                let Batch { effective, violations, .. } = known;
                println!("{} is complete at {commit}: {effective}, {violations} violated", row.id);
                tally.count(violations == 0);
                continue;
            }
            let scene = kept.take().filter(|(setting, _)| *setting == row.setting.name);
            let (played, scene) = self.play(row, wanted, commit, scene.map(|(_, scene)| scene));
            let holds = self.told(row, &played);
            if let Some(table) = &mut table {
                table.append(played.batch)?;
            }
            tally.count(holds);
            kept = scene.filter(|_| holds).map(|scene| (row.setting.name, scene));
        }
        Ok(tally)
    }

    /// A fault that takes effect often in one repeat is repeated all the same.
    fn wanted(&self, row: &Row, known: &Batch) -> Wanted {
        match self.count {
            Count::Injections(count) => {
                let count = if row.slow { count.min(ENOUGH_SLOW) } else { count };
                Wanted {
                    effective: count.saturating_sub(known.effective),
                    repeats: count.saturating_sub(u64::from(known.repeats)),
                }
            }
            Count::Share if row.slow || row.once => Wanted { effective: 0, repeats: SHARE_ONCE },
            Count::Share => Wanted { effective: 0, repeats: SHARE },
        }
    }

    /// Plays a batch. The scene that comes back can go on being used if the row held.
    fn play(
        &self,
        row: &'static Row,
        wanted: Wanted,
        commit: &str,
        scene: Option<Scene>,
    ) -> (Played, Option<Scene>) {
        let begun = Instant::now();
        let mut played = Played {
            batch: Batch {
                row: row.id.to_owned(),
                scheduler: self.program.name().to_owned(),
                commit: commit.to_owned(),
                ..Batch::default()
            },
            failed: Vec::new(),
        };
        let folder = folder(row, self.program);
        let scene = match scene {
            Some(scene) => Ok(scene),
            None => Scene::start(&row.setting, self.program, &folder),
        };
        let scene = match scene {
            Ok(mut scene) => {
                if let Err(failed) = repeats(row, wanted, &folder, &mut scene, &mut played) {
                    played.failed(format!("repeat {}: {}", scene.repeat(), with_sources(&failed)));
                }
                Some(scene)
            }
            Err(failed) => {
                played.failed(format!("the scene: {}", with_sources(&failed)));
                None
            }
        };
        if played.batch.effective == 0 && played.failed.is_empty() {
            played.failed("no injection took effect".to_owned());
        }
        played.batch.seconds = begun.elapsed().as_secs();
        played.batch.note = played.failed.first().cloned().unwrap_or_default();
        match &scene {
            Some(scene) if !played.failed.is_empty() => keep(scene),
            // It may not be there.
            Some(_) | None => drop(fs::remove_dir_all(&folder)),
        }
        (played, scene)
    }

    /// Prints what came of a batch, and returns whether the row held.
    fn told(&self, row: &Row, played: &Played) -> bool {
        let Batch { repeats, effective, violations, seconds, .. } = &played.batch;
        let verdict = if played.failed.is_empty() { "holds" } else { "FAILED" };
        println!(
            "{} {verdict} with {}: {} ({repeats} repeats, {effective} effective injections, \
             {violations} violated, {seconds} s)",
            row.id,
            self.program.name(),
            row.title
        );
        if !played.failed.is_empty() {
            println!("  must: {}\n  but:  {}", row.must, played.failed.join("\n        "));
            println!("  logs: {}", folder(row, self.program).display());
        }
        played.failed.is_empty()
    }
}

/// When a batch is complete: so many effective injections and so many repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    effective: u64,
    repeats: u64,
}

impl Wanted {
    fn is_met(self, batch: &Batch) -> bool {
        batch.effective >= self.effective && u64::from(batch.repeats) >= self.repeats
    }
}

impl Played {
    /// Notes what the auditor found in a repeat: all of it in a file, the beginning of it here.
    fn convicted(&mut self, scene: &Scene, violations: &[Violation]) {
        let mut by_kind: BTreeMap<String, u32> = BTreeMap::new();
        for violation in violations {
            *by_kind.entry(format!("{:?}", violation.invariant)).or_default() += 1;
        }
        let kinds: Vec<String> = by_kind.iter().map(|(kind, n)| format!("{n} x {kind}")).collect();
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let report = scene.folder().join(format!("violations-{}.txt", scene.repeat()));
        // The lines below say it too, as far as they go.
        let _ = fs::write(report, lines.join("\n"));
        let shown = lines.get(..SHOWN).unwrap_or(&lines).join("\n        ");
        self.failed(format!("repeat {}: {}: {shown}", scene.repeat(), kinds.join(", ")));
    }

    fn failed(&mut self, what: String) {
        self.failed.push(what);
    }
}

/// Repeats the row until that is met. What the auditor finds does not end a batch; a repeat that
/// can't go on does, and so does one without effect.
fn repeats(
    row: &'static Row,
    wanted: Wanted,
    folder: &Path,
    scene: &mut Scene,
    played: &mut Played,
) -> Outcome {
    scene.begin_row(folder)?;
    (row.prepare)(scene)?;
    while !wanted.is_met(&played.batch) {
        scene.begin_repeat(played.batch.repeats);
        let outcome = (row.repeat)(scene).and_then(|()| scene.is_right_at_rest());
        if !scene.have_faults_ended() {
            scene.faults_ended();
        }
        played.batch.repeats += 1;
        played.batch.effective += scene.effective();
        let mut violations = scene.judge();
        if outcome.is_err() && violations.as_ref().is_ok_and(Vec::is_empty) {
            // The row has seen something wrong. If it stays so, a pod may be lost: that takes time.
            std::thread::sleep(Limits::default().lost_pod + LOOKS_ON);
            violations = scene.judge();
        }
        let convicted = violations.as_ref().is_ok_and(|violations| !violations.is_empty());
        played.batch.violations += u32::from(convicted || violations.is_err() || outcome.is_err());
        let violations = violations?;
        if convicted {
            played.convicted(scene, &violations);
        }
        outcome?;
        if scene.effective() == 0 {
            return Err(Failed::Wrong("the injection took no effect".to_owned()));
        }
        scene.clean()?;
    }
    Ok(())
}

/// Where a row's logs are while it is played, and afterwards if it failed.
fn folder(row: &Row, program: Program) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2).unwrap_or(own);
    let name = format!("{}-{}-{}", row.id, program.name(), std::process::id());
    root.join(target).join("faults").join(name)
}

fn keep(scene: &Scene) {
    scene.keep_logs();
    for scheduler in &scene.schedulers {
        println!("the end of {}'s log:\n{}", scheduler.user, scheduler.log_tail());
    }
}

/// Returns the rows of these ids, in the order of the table; all of them for none.
///
/// # Errors
/// [`Failed::Wrong`] with the id that no row has.
pub fn rows(ids: &[String]) -> Outcome<Vec<&'static Row>> {
    for id in ids {
        let known: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
        if !known.contains(&id.as_str()) {
            return Err(Failed::Wrong(format!("there is no row {id:?}, only {}", known.join(","))));
        }
    }
    let named = |row: &&Row| ids.is_empty() || ids.iter().any(|id| id == row.id);
    Ok(ROWS.iter().copied().filter(named).collect())
}
