//! Steps: the only clock inside the engine.

/// How many plugin calls a poll may still make. One call of one plugin on one node is one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: u64,
    spent: u64,
}

/// 0.8 ms worth of plugin calls, at 40 ns each: the measured mean of the default filters.
pub const STEPS_A_POLL: u64 = 20_000;
/// Ten polls' worth.
pub const STEPS_BACK: u64 = 200_000;

impl Budget {
    pub(crate) fn new(steps: u64) -> Budget {
        Budget { left: steps, spent: 0 }
    }

    pub(crate) fn left(&self) -> bool {
        self.left > 0
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.left
    }

    pub(crate) fn spend(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
        self.spent += steps;
    }

    pub(crate) fn extend(&mut self, steps: u64) {
        self.left = self.left.saturating_add(steps);
    }

    pub(crate) fn exhaust(&mut self) {
        self.left = 0;
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }
}
