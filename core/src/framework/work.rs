//! What a search on one node may use of the poll's steps, and what it leaves for later.

use std::any::Any;
use std::fmt;

/// Steps, and one place to keep something: a search that is not done, or what it found.
///
/// A search counts what it does; when no steps are left it keeps where it stands and returns
/// nothing, and is asked again at the next poll. What a finished search keeps is there for Score
/// and Reserve ([`CycleState::found`](super::CycleState::found)) until the node is looked at again.
#[derive(Default)]
pub struct Work {
    left: u64,
    spent: u64,
    kept: Option<Kept>,
}

pub(crate) type Kept = Box<dyn Any + Send + Sync>;

impl Work {
    /// A search that may take so many steps, and that goes on from what it kept.
    pub(crate) fn new(steps: u64, kept: Option<Kept>) -> Work {
        Work { left: steps, spent: 0, kept }
    }

    /// As many steps as it takes: for checks of one node.
    pub fn unlimited() -> Work {
        Work::new(u64::MAX, None)
    }

    pub fn spend(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
        self.spent = self.spent.saturating_add(steps);
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub fn keep<T: Any + Send + Sync>(&mut self, value: T) {
        self.kept = Some(Box::new(value));
    }

    /// Takes out what was kept when the search paused, `None` if it begins or kept another type.
    pub fn take<T: Any>(&mut self) -> Option<Box<T>> {
        self.kept.take()?.downcast().ok()
    }

    pub(crate) fn into_kept(self) -> Option<Kept> {
        self.kept
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { left, spent, kept } = self;
        write!(f, "Work {{ left: {left}, spent: {spent}, kept: {} }}", kept.is_some())
    }
}
