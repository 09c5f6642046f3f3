//! One expression with its answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::types::{Device, ResourceSlice, Text};

use super::super::super::changes::Version;
use super::super::pools::SliceIdx;
use super::kinds::Kinds;
use super::{Answers, DeviceSelector};

pub(super) const NO: u8 = 0;
pub(super) const YES: u8 = 1;
/// The expression has no value: for the reason of this number less this.
pub(super) const ERROR: u8 = 2;
/// Reasons that are told apart; the last one speaks for the rest.
const REASONS_MAX: usize = (u8::MAX - ERROR) as usize;
/// What is kept of a reason. Unit: bytes.
const REASON_MAX: usize = 1 << 10;

/// An expression costs about this much besides its answers, and this for each byte of its text.
const BYTES_AN_EXPRESSION: usize = 4 << 10;
const BYTES_A_BYTE: usize = 32;

/// Devices whose answer is known from others of their kind, for a step.
const DEVICES_A_STEP: u64 = 8;

/// Steps that an evaluation may take until one was broken off, and how many times as many then. So
/// what nobody would expect of a selector is done in a turn of its own, when others have had theirs.
const STEPS_AT_FIRST: u64 = 20_000;
const STEPS_THEN: u64 = 8;

/// Shape: one column a slice, one entry a device of it.
#[derive(Debug)]
pub(super) struct Selection {
    program: Result<Arc<dyn DeviceSelector>, Text>,
    columns: Vec<Box<[u8]>>,
    /// Slices that have not been looked at.
    pending: BTreeSet<SliceIdx>,
    /// The first of them, with the answers for its first devices.
    begun: Option<(SliceIdx, Vec<u8>)>,
    kinds: Kinds,
    /// Steps that one evaluation may take.
    steps_max: u64,
    /// Why there is no value.
    reasons: Vec<Text>,
    /// Somebody has gone on without the answers for what is pending.
    given_up: bool,
    /// Answers have come since.
    moved_on: bool,
    pub(super) version: Version,
    pub(super) bytes: usize,
    pub(super) used: u64,
}

impl Selection {
    pub(super) fn new(
        program: Result<Arc<dyn DeviceSelector>, Text>,
        expression: &Text,
        pending: BTreeSet<SliceIdx>,
        version: Version,
    ) -> Selection {
        Selection {
            program,
            columns: Vec::new(),
            pending,
            begun: None,
            kinds: Kinds::default(),
            steps_max: STEPS_AT_FIRST,
            reasons: Vec::new(),
            given_up: false,
            moved_on: false,
            version,
            bytes: BYTES_AN_EXPRESSION + BYTES_A_BYTE * expression.len(),
            used: 0,
        }
    }

    pub(super) fn answers(&self, slice: SliceIdx) -> Answers<'_> {
        if self.program.is_err() {
            return Answers::Error;
        }
        match self.columns.get(slice.at()) {
            Some(column) if !self.pending.contains(&slice) => Answers::Known(column),
            Some(_) | None => Answers::Unknown,
        }
    }

    pub(super) fn compile_error(&self) -> Option<&Text> {
        self.program.as_ref().err()
    }

    pub(super) fn error(&self, slice: SliceIdx, at: usize) -> Option<&Text> {
        let Answers::Known(column) = self.answers(slice) else { return self.compile_error() };
        let reason = column.get(at)?.checked_sub(ERROR)?;
        self.reasons.get(usize::from(reason))
    }

    pub(super) fn give_up(&mut self, version: Version) {
        if self.program.is_err() || self.pending.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.given_up, true) || std::mem::take(&mut self.moved_on) {
            self.version = version;
        }
    }

    /// All answers are there.
    pub(super) fn catch_up(&mut self, version: Version) {
        if std::mem::take(&mut self.given_up) {
            self.version = version;
        }
    }

    pub(super) fn forget_slice(&mut self, slice: SliceIdx, devices: usize) {
        if let Some(column) = self.columns.get_mut(slice.at()) {
            self.bytes -= std::mem::take(column).len();
        }
        self.begun.take_if(|(of, _)| *of == slice);
        match devices {
            0 => self.pending.remove(&slice),
            _ => self.pending.insert(slice),
        };
    }

    /// Looks at the devices of the pending slices, as far as `spend` allows. Returns whether that is
    /// done.
    pub(super) fn look(
        &mut self,
        slices: &[Option<ResourceSlice>],
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        let Ok(program) = self.program.clone() else { return true };
        while let Some(idx) = self.pending.first().copied() {
            let begun = self.begun.take().filter(|(of, _)| *of == idx);
            let mut column = begun.map(|(_, column)| column).unwrap_or_default();
            if let Some(slice) = slices.get(idx.at()).and_then(Option::as_ref) {
                if column.is_empty() && !spend(1 + slice.devices.len() as u64 / DEVICES_A_STEP) {
                    return false;
                }
                column.reserve_exact(slice.devices.len() - column.len());
                for device in &slice.devices[column.len()..] {
                    let Some(answer) = self.answer(&*program, &slice.driver, device, spend) else {
                        self.begun = Some((idx, column));
                        return false;
                    };
                    column.push(answer);
                }
                if self.columns.len() <= idx.at() {
                    self.columns.resize_with(idx.at() + 1, Box::default);
                }
                self.bytes += column.len();
                self.columns[idx.at()] = column.into();
            }
            self.pending.pop_first();
            self.moved_on = true;
        }
        true
    }

    /// Returns the answer for a device; `None` if there are no steps left to find it.
    fn answer(
        &mut self,
        program: &dyn DeviceSelector,
        driver: &Text,
        device: &Device,
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> Option<u8> {
        let of_kind = !device.own.iter().any(|(name, _)| program.sees(driver, name));
        if of_kind && let Some(known) = self.kinds.answer(driver, &device.model) {
            return Some(known);
        }
        let answer = match self.evaluated(program, driver, device, spend)? {
            Ok(true) => YES,
            Ok(false) => NO,
            Err(reason) => self.number(reason),
        };
        if of_kind {
            self.bytes -= self.kinds.bytes();
            self.kinds.note(driver, &device.model, answer);
            self.bytes += self.kinds.bytes();
        }
        Some(answer)
    }

    fn evaluated(
        &mut self,
        program: &dyn DeviceSelector,
        driver: &Text,
        device: &Device,
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> Option<Result<bool, Text>> {
        while spend(0) {
            let evaluation = program.evaluate(driver, device, self.steps_max);
            spend(evaluation.steps);
            if evaluation.answer.is_some() {
                return evaluation.answer;
            }
            self.steps_max = self.steps_max.saturating_mul(STEPS_THEN);
        }
        None
    }

    /// Returns the answer that stands for a reason.
    fn number(&mut self, reason: Text) -> u8 {
        let reason = shortened(reason);
        let known = self.reasons.iter().position(|known| *known == reason);
        let at = known.unwrap_or_else(|| {
            if self.reasons.len() < REASONS_MAX {
                self.bytes += reason.len();
                self.reasons.push(reason);
            }
            self.reasons.len() - 1
        });
        ERROR + at as u8
    }
}

fn shortened(text: Text) -> Text {
    if text.len() <= REASON_MAX {
        return text;
    }
    Text::from(format!("{}…", &text[..text.floor_char_boundary(REASON_MAX)]))
}
