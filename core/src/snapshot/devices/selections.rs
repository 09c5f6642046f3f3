//! Which devices a selector picks, worked out once for each expression and device.
//!
//! Expressions are declared before a cycle; the engine then has every device looked at that has
//! not been, in as many polls as it takes, and plugins read the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use crate::types::{Device, ResourceSlice, Text};

use super::pools::SliceIdx;

/// Compiles selectors. Handed in beside the plugin table: core doesn't know their language.
pub trait SelectorCompiler: Debug + Send + Sync {
    /// # Errors
    /// What is wrong with the expression, and where.
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, Text>;
}

/// A compiled selector. Its answer depends on the device's content alone.
pub trait DeviceSelector: Debug + Send + Sync {
    /// # Errors
    /// Why the expression has no value for this device.
    fn selects(&self, driver: &str, device: &Device) -> Result<bool, Text>;
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
                Some(_) => Selected::Error,
                None => Selected::Unknown,
            },
            Answers::Error => Selected::Error,
            Answers::Unknown => Selected::Unknown,
        }
    }
}

/// One expression with its answers. Shape: one column a slice, one entry a device of it.
#[derive(Debug)]
struct Selection {
    program: Result<Arc<dyn DeviceSelector>, Text>,
    columns: Vec<Box<[u8]>>,
    /// Slices that have not been looked at.
    pending: BTreeSet<SliceIdx>,
    bytes: usize,
    used: u64,
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
/// An expression costs about this much besides its answers.
const BYTES_AN_EXPRESSION: usize = 4 << 10;

/// Compiling an expression takes about as long as so many plugin calls.
const STEPS_A_COMPILATION: u64 = 400;
/// So does evaluating one for a device.
const STEPS_AN_EVALUATION: u64 = 5;

const NO: u8 = 0;
const YES: u8 = 1;
const ERROR: u8 = 2;

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
        let Some(selection) = self.by_expression.get(expression) else { return Answers::Unknown };
        if selection.program.is_err() {
            return Answers::Error;
        }
        match selection.columns.get(slice.at()) {
            Some(column) if !selection.pending.contains(&slice) => Answers::Known(column),
            Some(_) | None => Answers::Unknown,
        }
    }

    /// Says why `expression` can't be compiled.
    pub fn compile_error(&self, expression: &str) -> Option<&Text> {
        self.by_expression.get(expression)?.program.as_ref().err()
    }

    /// Says why `expression` has no value for a device.
    pub fn error(&self, expression: &str, driver: &str, device: &Device) -> Option<Text> {
        match &self.by_expression.get(expression)?.program {
            Ok(program) => program.selects(driver, device).err(),
            Err(text) => Some(text.clone()),
        }
    }

    /// The slice's devices are others now; `devices` of them, 0 if the slice is gone.
    pub(super) fn forget_slice(&mut self, slice: SliceIdx, devices: usize) {
        for selection in self.by_expression.values_mut() {
            if let Some(column) = selection.columns.get_mut(slice.at()) {
                let freed = std::mem::take(column).len();
                selection.bytes -= freed;
                self.bytes -= freed;
            }
            match devices {
                0 => selection.pending.remove(&slice),
                _ => selection.pending.insert(slice),
            };
        }
    }

    /// Compiles `expression` unless that was done, and looks at the devices of `slices` that it has
    /// not been asked about, as long as `spend` says that there are steps left. Returns false if
    /// there weren't enough.
    pub(super) fn declare(
        &mut self,
        expression: &Text,
        slices: &[Option<ResourceSlice>],
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        self.clock += 1;
        let clock = self.clock;
        if !self.by_expression.contains_key(expression) {
            if !spend(STEPS_A_COMPILATION) {
                return false;
            }
            self.add(expression, slices);
        }
        let Some(selection) = self.by_expression.get_mut(expression) else { return true };
        selection.used = clock;
        let Ok(program) = &selection.program else { return true };
        while let Some(idx) = selection.pending.first().copied() {
            let slice = slices.get(idx.at()).and_then(Option::as_ref);
            let devices = slice.map_or(0, |slice| slice.devices.len());
            if !spend(STEPS_AN_EVALUATION * devices as u64) {
                return false;
            }
            selection.pending.pop_first();
            let Some(slice) = slice else { continue };
            let answer = |device| match program.selects(&slice.driver, device) {
                Ok(true) => YES,
                Ok(false) => NO,
                Err(_) => ERROR,
            };
            let column: Box<[u8]> = slice.devices.iter().map(answer).collect();
            if selection.columns.len() <= idx.at() {
                selection.columns.resize_with(idx.at() + 1, Box::default);
            }
            selection.bytes += column.len();
            self.bytes += column.len();
            selection.columns[idx.at()] = column;
        }
        true
    }

    fn add(&mut self, expression: &Text, slices: &[Option<ResourceSlice>]) {
        while self.bytes > BYTES_MAX && self.forget_oldest() {}
        let known = slices.iter().enumerate().filter(|(_, slice)| slice.is_some());
        let selection = Selection {
            program: self.compiler.compile(expression),
            columns: Vec::new(),
            pending: known.map(|(at, _)| SliceIdx(at as u32)).collect(),
            bytes: BYTES_AN_EXPRESSION + expression.len(),
            used: self.clock,
        };
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
