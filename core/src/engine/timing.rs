//! Times of extension points: told to a stopwatch, and never asked for.
//!
//! The engine says when a point or a plugin's call begins and ends; how long that was is known only
//! to whoever hears it. Every method of [`Stopwatch`] returns nothing, so no decision can depend on
//! a time. Without a stopwatch (in `simulate`, under injected faults) nothing is heard.

use crate::framework::{
    Gate, PermitAnswer, Point, PostFilterAnswer, PreFilterAnswer, PreScoreAnswer, Reason, Verdict,
};
use crate::types::Text;

/// How a point or a call went: the codes of upstream's framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    Success,
    Error,
    Unschedulable,
    UnschedulableAndUnresolvable,
    Wait,
    Skip,
    Pending,
}

impl Code {
    pub const ALL: [Code; 7] = [
        Code::Success,
        Code::Error,
        Code::Unschedulable,
        Code::UnschedulableAndUnresolvable,
        Code::Wait,
        Code::Skip,
        Code::Pending,
    ];

    /// Returns the code's name as upstream's metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Success => "Success",
            Code::Error => "Error",
            Code::Unschedulable => "Unschedulable",
            Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Code::Wait => "Wait",
            Code::Skip => "Skip",
            Code::Pending => "Pending",
        }
    }
}

/// A plugin's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Indexes of the profile, and of the plugin at the point in that profile.
    pub profile: usize,
    pub point: Point,
    pub plugin: usize,
    pub code: Code,
}

/// A plugin's hint was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hinted {
    pub plugin: &'static str,
    /// The change that it was asked about, by its label.
    pub event: &'static str,
    pub queues: bool,
    pub failed: bool,
}

/// Hears where the engine is. Calls come from the one thread that decides.
pub trait Stopwatch: Send + Sync {
    /// From now on the time is this point's; `None`: nobody's.
    fn turn(&self, to: Option<Point>);
    /// How the point went since its last lap. One that nothing is told of went well.
    fn went(&self, point: Point, code: Code);
    /// What the point has taken since its last lap is one observation; if nothing, it is none.
    fn lap(&self, profile: usize, point: Point);
    /// A call that is timed on its own begins.
    fn call(&self);
    fn called(&self, call: Called);
    fn hinted(&self, hint: Hinted);
}

/// Hears nothing.
pub struct NoStopwatch;

impl Stopwatch for NoStopwatch {
    fn turn(&self, _to: Option<Point>) {}
    fn went(&self, _point: Point, _code: Code) {}
    fn lap(&self, _profile: usize, _point: Point) {}
    fn call(&self) {}
    fn called(&self, _call: Called) {}
    fn hinted(&self, _hint: Hinted) {}
}

/// Plugins' calls are timed in one of so many attempts and gatings, and hints at one of so many
/// changes. Source: `pluginMetricsSamplePercent` of upstream, 10, there by chance.
const SAMPLE: u64 = 10;

/// Picks the first of every [`SAMPLE`].
#[derive(Debug, Default)]
pub(super) struct Sampling(u64);

impl Sampling {
    pub(super) fn next(&mut self) -> bool {
        let sampled = self.0.is_multiple_of(SAMPLE);
        self.0 = self.0.wrapping_add(1);
        sampled
    }
}

/// The points that an attempt goes through until it has made a plan or found none.
const OF_AN_ATTEMPT: [Point; 8] = [
    Point::PreFilter,
    Point::Filter,
    Point::PostFilter,
    Point::PreScore,
    Point::Score,
    Point::Reserve,
    Point::Permit,
    Point::PreBind,
];

/// A stopwatch in the hands of one attempt.
#[derive(Clone, Copy)]
pub(crate) struct Timing<'a> {
    stopwatch: &'a dyn Stopwatch,
    profile: usize,
    /// Plugins' calls are timed one by one.
    sampled: bool,
}

impl<'a> Timing<'a> {
    pub(crate) fn new(stopwatch: &'a dyn Stopwatch, profile: usize, sampled: bool) -> Timing<'a> {
        Timing { stopwatch, profile, sampled }
    }

    /// The same without timing calls one by one: of nodes that are looked at, the first stands for
    /// all, since two readings of a clock cost about what a filter does.
    pub(crate) fn unsampled(self) -> Timing<'a> {
        Timing { sampled: false, ..self }
    }

    pub(crate) fn turn(&self, to: Point) {
        self.stopwatch.turn(Some(to));
    }

    pub(crate) fn went(&self, point: Point, code: Code) {
        self.stopwatch.went(point, code);
    }

    /// Runs all of a point that is no part of an attempt, or not of each.
    pub(crate) fn point<T>(&self, point: Point, run: impl FnOnce() -> (T, Code)) -> T {
        self.turn(point);
        let (result, code) = run();
        self.went(point, code);
        self.stopwatch.turn(None);
        self.stopwatch.lap(self.profile, point);
        result
    }

    /// Nobody is looked at until the next turn.
    pub(crate) fn rest(&self) {
        self.stopwatch.turn(None);
    }

    /// The attempt has ended.
    pub(crate) fn end(&self) {
        self.rest();
        for point in OF_AN_ATTEMPT {
            self.stopwatch.lap(self.profile, point);
        }
    }

    /// Calls the plugin at this index of the point.
    pub(crate) fn call<T: Coded>(
        &self,
        point: Point,
        plugin: usize,
        call: impl FnOnce() -> T,
    ) -> T {
        if !self.sampled {
            return call();
        }
        self.stopwatch.call();
        let answer = call();
        let code = answer.code();
        self.stopwatch.called(Called { profile: self.profile, point, plugin, code });
        answer
    }
}

/// An answer as upstream's framework would code it.
pub(crate) trait Coded {
    fn code(&self) -> Code;
}

impl Coded for Verdict {
    fn code(&self) -> Code {
        match self {
            Verdict::Fit => Code::Success,
            Verdict::Unschedulable(_) => Code::Unschedulable,
            Verdict::Unresolvable(_) => Code::UnschedulableAndUnresolvable,
            Verdict::Broken(_) => Code::Error,
        }
    }
}

/// None: it goes on with the next poll.
impl<T: Coded> Coded for Option<T> {
    fn code(&self) -> Code {
        self.as_ref().map_or(Code::Wait, T::code)
    }
}

impl Coded for PreFilterAnswer {
    fn code(&self) -> Code {
        match self {
            PreFilterAnswer::Continue | PreFilterAnswer::Only(_) => Code::Success,
            PreFilterAnswer::Skip => Code::Skip,
            PreFilterAnswer::Unschedulable(_) => Code::Unschedulable,
            PreFilterAnswer::Unresolvable(_) => Code::UnschedulableAndUnresolvable,
            PreFilterAnswer::Pending(_) => Code::Pending,
            PreFilterAnswer::Broken(_) => Code::Error,
        }
    }
}

impl Coded for PreScoreAnswer {
    fn code(&self) -> Code {
        match self {
            PreScoreAnswer::Continue => Code::Success,
            PreScoreAnswer::Skip => Code::Skip,
        }
    }
}

impl Coded for PermitAnswer {
    fn code(&self) -> Code {
        match self {
            PermitAnswer::Allow => Code::Success,
            PermitAnswer::Wait { .. } => Code::Wait,
            PermitAnswer::Reject(_) => Code::Unschedulable,
        }
    }
}

impl Coded for Gate {
    fn code(&self) -> Code {
        match self {
            Gate::Open => Code::Success,
            Gate::Closed { .. } => Code::UnschedulableAndUnresolvable,
        }
    }
}

impl Coded for PostFilterAnswer {
    fn code(&self) -> Code {
        match self {
            PostFilterAnswer::Evict { .. } => Code::Success,
            PostFilterAnswer::Write(..) => Code::Unschedulable,
            PostFilterAnswer::Unschedulable(_) => Code::Unschedulable,
            PostFilterAnswer::Unresolvable(_) => Code::UnschedulableAndUnresolvable,
        }
    }
}

/// A score.
impl Coded for i64 {
    fn code(&self) -> Code {
        Code::Success
    }
}

/// Reserve's answer.
impl Coded for Result<(), Reason> {
    fn code(&self) -> Code {
        if self.is_ok() { Code::Success } else { Code::Unschedulable }
    }
}

/// A guarded call.
impl<T: Coded> Coded for Result<T, Text> {
    fn code(&self) -> Code {
        self.as_ref().map_or(Code::Error, Coded::code)
    }
}

/// PreBind's stages and PostBind's writes.
impl<T> Coded for Vec<T> {
    fn code(&self) -> Code {
        Code::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_every_ten_is_sampled() {
        let mut sampling = Sampling::default();
        let picked: Vec<usize> = (0..25).filter(|_| sampling.next()).collect();
        assert_eq!(picked, [0, 10, 20]);
    }
}
