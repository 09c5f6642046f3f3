//! From what is counted to Prometheus' text format.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use prometheus::{GaugeVec, TextEncoder};

use super::handles::{Families, NO_LABELS, raise};
use super::process::ProcessFigures;
use super::{Metrics, lock};

/// The content type of what [`Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The engine's busy ratio is that of at least so long.
const BUSY_WINDOW: Duration = Duration::from_secs(10);
/// Renderings remembered for it; nobody scrapes so often for so long.
const BUSY_MARKS_MAX: usize = 1000;

/// What one rendering leaves for the next. Its lock also keeps two from overlapping.
#[derive(Default)]
pub(super) struct Rendering {
    /// Seconds worked, at the moments of earlier renderings, oldest first.
    busy: VecDeque<(Instant, f64)>,
    /// Families that are left out, by their full names.
    pub(super) disabled: BTreeSet<String>,
}

/// What a sampler may say.
pub struct Sample<'a> {
    families: &'a Families,
}

impl Sample<'_> {
    pub fn event_queue(&self, length: usize, dropped: u64) {
        set(&self.families.event_queue, NO_LABELS, length as f64);
        raise(&self.families.events_dropped, NO_LABELS, dropped as f64);
    }

    pub fn outbox(&self, plans: usize, statuses: usize) {
        set(&self.families.outbox, &["plan"], plans as f64);
        set(&self.families.outbox, &["status"], statuses as f64);
    }
}

pub(super) fn set(gauges: &GaugeVec, labels: &[&str], value: f64) {
    gauges.with_label_values(labels).set(value);
}

impl Metrics {
    /// Renders everything. It takes no lock for long and waits for nobody but another rendering.
    ///
    /// Cost: that of the series, which don't grow with the cluster.
    pub fn render(&self) -> Vec<u8> {
        let mut rendering = lock(&self.shared.rendering);
        let families = self.families();
        rendering.busy_ratio(families);
        self.watch_lags();
        process(families);
        for sampler in lock(&self.shared.samplers).iter() {
            sampler(&Sample { families });
        }
        let (mut text, mut gathered) = (String::new(), self.shared.registry.gather());
        gathered.retain(|family| !rendering.disabled.contains(family.name()));
        // Fails for empty or contradictory families only, which the registry does not hand out.
        if let Err(error) = TextEncoder::new().encode_utf8(&gathered, &mut text) {
            tracing::warn!(%error, "metrics can't be rendered");
        }
        text.into_bytes()
    }

    fn watch_lags(&self) {
        for (resource, heard) in lock(&self.shared.heard).iter() {
            let lag = heard.elapsed().as_secs_f64();
            set(&self.families().watch_lag, &[resource], lag);
        }
    }
}

impl Rendering {
    fn busy_ratio(&mut self, families: &Families) {
        let (now, busy) =
            (Instant::now(), families.busy_seconds.with_label_values(NO_LABELS).get());
        let old = |mark: &(Instant, f64)| now.duration_since(mark.0) >= BUSY_WINDOW;
        // Of the marks that are old enough the newest is kept.
        while self.busy.get(1).is_some_and(old) || self.busy.len() >= BUSY_MARKS_MAX {
            self.busy.pop_front();
        }
        if let Some((at, worked)) = self.busy.front() {
            let passed = now.duration_since(*at).as_secs_f64();
            let ratio = if passed > 0.0 { (busy - worked) / passed } else { 0.0 };
            set(&families.busy_ratio, NO_LABELS, ratio.clamp(0.0, 1.0));
        }
        self.busy.push_back((now, busy));
    }
}

fn process(families: &Families) {
    let figures = ProcessFigures::read();
    let gauges = [
        (&families.process_start, figures.start_time_seconds),
        (&families.process_threads, figures.threads),
        (&families.process_resident, figures.resident_bytes),
        (&families.process_virtual, figures.virtual_bytes),
        (&families.process_open_fds, figures.open_fds),
        (&families.process_max_fds, figures.max_fds),
    ];
    for (gauge, figure) in gauges {
        if let Some(figure) = figure {
            set(gauge, NO_LABELS, figure);
        }
    }
    if let Some(seconds) = figures.cpu_seconds {
        raise(&families.process_cpu, NO_LABELS, seconds);
    }
}
