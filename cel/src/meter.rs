//! What an evaluation may cost.

use std::fmt;

/// Kubernetes' limit of one evaluation, in its own units.
pub const COST_LIMIT: u64 = 1_000_000;

/// Steps inside of functions that upstream counts as one (comparisons of nested values, copies of
/// lists) for each unit that may be spent. No useful selector comes near.
const WORK_A_UNIT: u64 = 10;

/// How deep nested values are followed.
const DEPTH_LIMIT: usize = 1_000;

/// A budget that several evaluations share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    spent: u64,
    work: u64,
}

impl Budget {
    /// Unit: Kubernetes' cost units, [`COST_LIMIT`] for one selector.
    pub fn new(units: u64) -> Self {
        Self { left: units, spent: 0, work: 0 }
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Returns what was done inside of functions that Kubernetes counts as one unit each. Unit: steps
    /// of some nanoseconds.
    pub fn work(&self) -> u64 {
        self.work
    }

    fn spend(&mut self, units: u64, work: u64) {
        self.left = self.left.saturating_sub(units);
        self.spent = self.spent.saturating_add(units);
        self.work = self.work.saturating_add(work);
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(COST_LIMIT)
    }
}

/// Why an evaluation gives no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// An error of the selector, which `||` and `&&` may absorb.
    Error(Box<str>),
    /// What ends everything.
    Limit(Limit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Cost,
    Budget,
    /// Upstream breaks off where an argument that its costs follow from has failed, and where a
    /// value can't be hashed.
    Broken,
}

impl Stop {
    pub(crate) fn error(message: impl Into<Box<str>>) -> Self {
        Self::Error(message.into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(message) => f.write_str(message),
            Self::Limit(Limit::Cost) => f.write_str("the cost limit is exceeded"),
            Self::Limit(Limit::Budget) => f.write_str("the budget is spent"),
            Self::Limit(Limit::Broken) => f.write_str("a list or a simple key is wanted"),
        }
    }
}

pub(crate) type Eval<T> = Result<T, Stop>;

/// Counts what one evaluation costs.
pub(crate) struct Meter {
    cost: u64,
    /// The smaller of the limit and the budget.
    limit: u64,
    over: Limit,
    work: u64,
    work_limit: u64,
    depth: usize,
}

impl Meter {
    pub(crate) fn new(budget: &Budget) -> Self {
        let over = if budget.left < COST_LIMIT { Limit::Budget } else { Limit::Cost };
        let limit = budget.left.min(COST_LIMIT);
        let work_limit = limit.saturating_mul(WORK_A_UNIT);
        Self { cost: 0, limit, over, work: 0, work_limit, depth: 0 }
    }

    /// For what is evaluated while compiling.
    pub(crate) fn unlimited() -> Self {
        Self::new(&Budget::default())
    }

    pub(crate) fn settle(&self, budget: &mut Budget) {
        budget.spend(self.cost, self.work);
    }

    /// Adds what upstream charges.
    pub(crate) fn charge(&mut self, units: u64) -> Eval<()> {
        self.cost = self.cost.saturating_add(units);
        if self.cost > self.limit { Err(Stop::Limit(self.over)) } else { Ok(()) }
    }

    /// Fails if these units would be too many, without charging them: for what is charged once it
    /// is made.
    pub(crate) fn foresee(&self, units: u64) -> Eval<()> {
        let sum = self.cost.saturating_add(units);
        if sum > self.limit { Err(Stop::Limit(self.over)) } else { Ok(()) }
    }

    /// Adds steps that upstream does not charge.
    pub(crate) fn work(&mut self, steps: usize) -> Eval<()> {
        self.work = self.work.saturating_add(steps as u64);
        if self.work > self.work_limit { Err(Stop::Limit(self.over)) } else { Ok(()) }
    }

    /// Runs one level deeper into a nested value.
    pub(crate) fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        if self.depth == DEPTH_LIMIT {
            return Err(Stop::Limit(Limit::Cost));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }
}
