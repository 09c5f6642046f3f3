//! What an expression says of kinds of devices: of all devices of one driver and model.
//!
//! A cluster has few models, which the decoder keeps once each; devices of a model differ in IDs,
//! which few expressions look at.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Text;
use crate::types::device::DeviceModel;

/// Most kinds that are kept; with more, all are forgotten and found out anew. A kind keeps its model
/// alive, of about 1 KiB.
const KINDS_MAX: usize = 256;
/// Unit: bytes.
const BYTES_A_KIND: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Kinds {
    answers: BTreeMap<Kind, u8>,
    /// The kind that was asked about last: neighbours are mostly alike.
    last: Option<(Kind, u8)>,
}

/// Ordered by content, at a glance where it is the same allocation.
#[derive(Clone, Debug)]
struct Kind {
    driver: Text,
    model: Arc<DeviceModel>,
}

impl Kinds {
    pub(super) fn answer(&mut self, driver: &Text, model: &Arc<DeviceModel>) -> Option<u8> {
        if let Some((last, answer)) = &self.last
            && Arc::ptr_eq(&last.model, model)
            && last.driver == *driver
        {
            return Some(*answer);
        }
        let kind = Kind { driver: driver.clone(), model: model.clone() };
        let answer = *self.answers.get(&kind)?;
        self.last = Some((kind, answer));
        Some(answer)
    }

    pub(super) fn note(&mut self, driver: &Text, model: &Arc<DeviceModel>, answer: u8) {
        if self.answers.len() == KINDS_MAX {
            self.answers.clear();
        }
        let kind = Kind { driver: driver.clone(), model: model.clone() };
        self.last = Some((kind.clone(), answer));
        self.answers.insert(kind, answer);
    }

    pub(super) fn bytes(&self) -> usize {
        self.answers.len() * BYTES_A_KIND
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> Ordering {
        let models = || match Arc::ptr_eq(&self.model, &other.model) {
            true => Ordering::Equal,
            false => self.model.cmp(&other.model),
        };
        self.driver.cmp(&other.driver).then_with(models)
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Kind {}
