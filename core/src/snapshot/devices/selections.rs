//! Which devices a selector picks, worked out once for each expression and each kind of device.
//!
//! Expressions are declared before a cycle; the engine then has every device looked at that has
//! not been, in as many polls as it takes, and plugins read the answers. Devices of one driver and
//! model get one answer, unless the expression looks at what tells them apart ([`kinds`]). A decision
//! may give up before every device was looked at; what it has found stays for the next.

mod kinds;
mod selection;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use crate::types::{Device, ResourceSlice, Text};

use super::super::changes::Version;
use super::pools::SliceIdx;
use selection::{ERROR, NO, Selection, YES};

/// Compiles selectors. Handed in beside the plugin table: core doesn't know their language.
pub trait SelectorCompiler: Debug + Send + Sync {
    /// # Errors
    /// What is wrong with the expression, and where.
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, Text>;
}

/// A compiled selector. Its answer depends on the device's content alone.
pub trait DeviceSelector: Debug + Send + Sync {
    /// Breaks off when it has taken `steps_max`.
    fn evaluate(&self, driver: &str, device: &Device, steps_max: u64) -> Evaluation;

    /// Tells whether the answer may depend on an attribute, which a driver has published by this name.
    fn sees(&self, driver: &str, attribute: &str) -> bool;
}

/// What a selector says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// `None`: it was broken off. The error says why the expression has no value for the device.
    pub answer: Option<Result<bool, Text>>,
    /// What it took, whatever came of it. Unit: engine steps.
    pub steps: u64,
}

/// There are no selectors: every expression is refused.
#[derive(Debug)]
struct NoSelectors;

impl SelectorCompiler for NoSelectors {
    fn compile(&self, _: &str) -> Result<Arc<dyn DeviceSelector>, Text> {
        Err("this scheduler has no selectors".into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    Yes,
    No,
    /// The expression has no value; [`Selections::error`] says why.
    Error,
    /// The expression was not declared, or not every device has been looked at.
    Unknown,
}

/// What an expression says of the devices of one slice.
#[derive(Clone, Copy, Debug)]
pub enum Answers<'a> {
    /// Shape: one entry a device.
    Known(&'a [u8]),
    /// The expression has no value for any device.
    Error,
    Unknown,
}

impl Answers<'_> {
    /// Tells what it says of the device at this place of the slice.
    pub fn of(self, at: usize) -> Selected {
        match self {
            Answers::Known(column) => match column.get(at) {
                Some(&YES) => Selected::Yes,
                Some(&NO) => Selected::No,
                Some(ERROR..) => Selected::Error,
                None => Selected::Unknown,
            },
            Answers::Error => Selected::Error,
            Answers::Unknown => Selected::Unknown,
        }
    }
}

#[derive(Debug)]
pub struct Selections {
    compiler: Arc<dyn SelectorCompiler>,
    by_expression: BTreeMap<Text, Selection>,
    bytes: usize,
    clock: u64,
}

impl Default for Selections {
    fn default() -> Selections {
        Selections {
            compiler: Arc::new(NoSelectors),
            by_expression: BTreeMap::new(),
            bytes: 0,
            clock: 0,
        }
    }
}

/// Answers and what is kept of expressions; those declared longest ago go first.
const BYTES_MAX: usize = 32 << 20;

/// Compiling an expression takes about as long as so many plugin calls for each part of its text that
/// is so long. Unit of the second: bytes.
const STEPS_A_COMPILATION: u64 = 400;
const BYTES_A_COMPILATION: u64 = 128;

impl Selections {
    pub(crate) fn set_compiler(&mut self, compiler: Arc<dyn SelectorCompiler>) {
        *self = Selections { compiler, ..Selections::default() };
    }

    /// Tells what `expression` says of a device.
    pub fn selected(&self, expression: &str, slice: SliceIdx, at: usize) -> Selected {
        self.answers(expression, slice).of(at)
    }

    /// Tells what `expression` says of the devices of a slice.
    pub fn answers(&self, expression: &str, slice: SliceIdx) -> Answers<'_> {
        self.by_expression.get(expression).map_or(Answers::Unknown, |of| of.answers(slice))
    }

    /// Says why `expression` can't be compiled.
    pub fn compile_error(&self, expression: &str) -> Option<&Text> {
        self.by_expression.get(expression)?.compile_error()
    }

    /// Says why `expression` has no value for a device. Where many devices each have a reason of their
    /// own, one is told for the rest.
    pub fn error(&self, expression: &str, slice: SliceIdx, at: usize) -> Option<&Text> {
        self.by_expression.get(expression)?.error(slice, at)
    }

    /// Moves when answers come that a decision has given up waiting for.
    pub fn version(&self, expression: &str) -> Version {
        self.by_expression.get(expression).map_or(Version::default(), |known| known.version)
    }

    /// A decision goes on without the answers that are missing.
    pub(super) fn give_up(&mut self, expression: &str) {
        self.clock += 1;
        if let Some(selection) = self.by_expression.get_mut(expression) {
            selection.give_up(Version(self.clock));
        }
    }

    /// The slice's devices are others now; `devices` of them, 0 if the slice is gone.
    pub(super) fn forget_slice(&mut self, slice: SliceIdx, devices: usize) {
        for selection in self.by_expression.values_mut() {
            let before = selection.bytes;
            selection.forget_slice(slice, devices);
            self.bytes -= before - selection.bytes;
        }
    }

    /// Compiles `expression` unless that was done, and looks at the devices of `slices` that it has
    /// not been asked about. `spend` is told the steps that something takes, and says whether there
    /// were any left before. Returns false if there weren't enough.
    pub(super) fn declare(
        &mut self,
        expression: &Text,
        slices: &[Option<ResourceSlice>],
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        self.clock += 1;
        if !self.by_expression.contains_key(expression) {
            let parts = 1 + expression.len() as u64 / BYTES_A_COMPILATION;
            if !spend(STEPS_A_COMPILATION * parts) {
                return false;
            }
            self.add(expression, slices);
        }
        let Some(selection) = self.by_expression.get_mut(expression) else { return true };
        selection.used = self.clock;
        let before = selection.bytes;
        let done = selection.look(slices, spend);
        self.bytes += selection.bytes - before;
        if done {
            selection.catch_up(Version(self.clock));
        }
        done
    }

    fn add(&mut self, expression: &Text, slices: &[Option<ResourceSlice>]) {
        while self.bytes > BYTES_MAX && self.forget_oldest() {}
        let known = slices.iter().enumerate().filter(|(_, slice)| slice.is_some());
        let pending = known.map(|(at, _)| SliceIdx(at as u32)).collect();
        let program = self.compiler.compile(expression);
        let selection = Selection::new(program, expression, pending, Version(self.clock));
        self.bytes += selection.bytes;
        self.by_expression.insert(expression.clone(), selection);
    }

    fn forget_oldest(&mut self) -> bool {
        let oldest = self.by_expression.iter().min_by_key(|(_, selection)| selection.used);
        let Some(oldest) = oldest.map(|(expression, _)| expression.clone()) else { return false };
        if let Some(selection) = self.by_expression.remove(&oldest) {
            self.bytes -= selection.bytes;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{ClusterEvent, DeviceEvent};
    use crate::testkit::{expressions, parse};

    /// What each of so many turns takes for an expression on one device, if a turn ends when that much is taken.
    fn turns(expression: &str, turns: usize, steps_a_turn: u64) -> Vec<u64> {
        let mut selections = Selections::default();
        selections.set_compiler(expressions::tiny());
        let events = parse("slice s node=n devices=\"d kind=x\"").expect("a slice");
        let slices = events.into_iter().map(|event| match event {
            ClusterEvent::Devices(DeviceEvent::SliceApplied(slice)) => Some(*slice),
            _ => None,
        });
        let slices: Vec<Option<ResourceSlice>> = slices.collect();
        let turn = |_| {
            let mut spent = 0;
            let mut spend = |steps| {
                let left = spent < steps_a_turn;
                spent += steps;
                left
            };
            selections.declare(&expression.into(), &slices, &mut spend);
            spent
        };
        (0..turns).map(turn).collect()
    }

    #[test]
    fn what_nobody_expects_of_a_selector_is_done_in_a_later_turn() {
        let usual = turns("cost.19000", 2, 20_000);
        assert!((19_000..20_000).contains(&usual[0]) && usual[1] == 0, "{usual:?}");
        let costly = turns("cost.400000", 4, 20_000);
        assert!((20_000..21_000).contains(&costly[0]), "{costly:?}");
        assert_eq!(costly[1..], [160_001, 400_006, 0]);
        let at_once = turns("cost.400000", 1, u64::MAX);
        assert_eq!(at_once, [costly.iter().sum::<u64>() - 2]);
    }
}
