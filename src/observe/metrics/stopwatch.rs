//! The stopwatch that the engine speaks to: the only one of the two that reads a clock.
//!
//! A turn costs one reading of the clock and two stores, an observation its three atomic adds:
//! histograms are looked up once and kept by profile, point, plugin and code.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use berth_core::engine::{Called, Code, Hinted, Stopwatch};
use berth_core::framework::{Point, Profile};
use prometheus::{Histogram, HistogramVec};

use super::Metrics;

const N_POINTS: usize = Point::ALL.len();
const NOBODY: usize = N_POINTS;

/// The histograms of something by [`Code`], made when first used.
type ByCode = [OnceLock<Histogram>; Code::ALL.len()];

/// Times points and calls. Written by the engine's thread only, so nothing is locked.
pub(super) struct PointTimes {
    metrics: Metrics,
    profiles: Vec<OfProfile>,
    begun: Instant,
    /// Index of the point whose time it is; [`NOBODY`]'s is none's.
    current: AtomicUsize,
    /// Since when, in nanoseconds after `begun`.
    since: AtomicU64,
    call_since: AtomicU64,
    laps: [Lap; N_POINTS],
}

/// The plugin that looks for victims.
const PREEMPTION: &str = "DefaultPreemption";

/// What a point has taken since its last observation, and how it went.
#[derive(Default)]
struct Lap {
    nanos: AtomicU64,
    code: AtomicU8,
}

struct OfProfile {
    name: String,
    points: [ByCode; N_POINTS],
    /// By point and index of the plugin there.
    plugins: [Vec<(&'static str, ByCode)>; N_POINTS],
}

impl OfProfile {
    fn new(profile: &Profile) -> OfProfile {
        OfProfile {
            name: profile.scheduler_name.to_string(),
            points: std::array::from_fn(|_| ByCode::default()),
            plugins: Point::ALL.map(|point| {
                profile.names_at(point).into_iter().map(|name| (name, ByCode::default())).collect()
            }),
        }
    }
}

/// Returns the point's name as upstream's metrics have it: that of its plugins' interface.
pub(super) const fn point_name(point: Point) -> &'static str {
    match point {
        Point::PreEnqueue => "PreEnqueue",
        Point::QueueSort => "QueueSort",
        Point::PreFilter => "PreFilter",
        Point::Filter => "Filter",
        Point::PostFilter => "PostFilter",
        Point::PreScore => "PreScore",
        Point::Score => "Score",
        Point::Reserve => "Reserve",
        Point::Permit => "Permit",
        Point::PreBind => "PreBind",
        Point::Bind => "Bind",
        Point::PostBind => "PostBind",
        Point::PlacementGenerate => "PlacementGenerate",
        Point::PlacementScore => "PlacementScore",
        Point::PodGroupPostFilter => "PodGroupPostFilter",
    }
}

impl Metrics {
    /// Returns the stopwatch of an engine with these profiles.
    pub fn stopwatch(&self, profiles: &[Profile]) -> Arc<dyn Stopwatch> {
        Arc::new(PointTimes {
            metrics: self.clone(),
            profiles: profiles.iter().map(OfProfile::new).collect(),
            begun: Instant::now(),
            current: AtomicUsize::new(NOBODY),
            since: AtomicU64::new(0),
            call_since: AtomicU64::new(0),
            laps: std::array::from_fn(|_| Lap::default()),
        })
    }
}

impl PointTimes {
    fn now(&self) -> u64 {
        // 584 years fit.
        self.begun.elapsed().as_nanos() as u64
    }

    fn call_seconds(&self) -> f64 {
        seconds(self.now().saturating_sub(self.call_since.load(Relaxed)))
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn observe(by_code: &ByCode, code: Code, made: impl FnOnce() -> Histogram, nanos: u64) {
    by_code[code as usize].get_or_init(made).observe(seconds(nanos));
}

fn with(histograms: &HistogramVec, labels: [&str; 3]) -> Histogram {
    histograms.with_label_values(&labels)
}

impl Stopwatch for PointTimes {
    fn turn(&self, to: Option<Point>) {
        let (from, to) = (self.current.load(Relaxed), to.map_or(NOBODY, |point| point as usize));
        if from == to {
            return;
        }
        let now = self.now();
        if let Some(lap) = self.laps.get(from) {
            let took = now.saturating_sub(self.since.load(Relaxed));
            lap.nanos.store(lap.nanos.load(Relaxed) + took, Relaxed);
        }
        self.current.store(to, Relaxed);
        self.since.store(now, Relaxed);
    }

    fn went(&self, point: Point, code: Code) {
        self.laps[point as usize].code.store(code as u8, Relaxed);
    }

    fn lap(&self, profile: usize, point: Point) {
        let lap = &self.laps[point as usize];
        let nanos = lap.nanos.load(Relaxed);
        let Some(profile) = self.profiles.get(profile).filter(|_| nanos > 0) else { return };
        let code = Code::ALL[usize::from(lap.code.load(Relaxed))];
        lap.nanos.store(0, Relaxed);
        lap.code.store(0, Relaxed);
        let families = self.metrics.families();
        let labels = [point_name(point), &profile.name, code.name()];
        let made = || with(&families.points, labels);
        observe(&profile.points[point as usize], code, made, nanos);
        // Other plugins make room in other ways. Source: pkg/scheduler/framework/preemption.
        let evicts = profile.plugins[point as usize].iter().any(|(name, _)| *name == PREEMPTION);
        if point == Point::PostFilter && evicts {
            let evaluated = families.evaluation.with_label_values(&["pod", code.name()]);
            evaluated.observe(seconds(nanos));
        }
    }

    fn call(&self) {
        self.call_since.store(self.now(), Relaxed);
    }

    fn called(&self, call: Called) {
        let nanos = self.now().saturating_sub(self.call_since.load(Relaxed));
        let plugin = self
            .profiles
            .get(call.profile)
            .and_then(|profile| profile.plugins[call.point as usize].get(call.plugin));
        let Some((name, by_code)) = plugin else { return };
        let labels = [point_name(call.point), name, call.code.name()];
        let made = || with(&self.metrics.families().plugins, labels);
        observe(by_code, call.code, made, nanos);
    }

    fn hinted(&self, hint: Hinted) {
        let answer = match hint {
            Hinted { failed: true, .. } => "Error",
            Hinted { queues: true, .. } => "Queue",
            Hinted { .. } => "QueueSkip",
        };
        let histogram = with(&self.metrics.families().hints, [hint.event, answer, hint.plugin]);
        histogram.observe(self.call_seconds());
    }
}
