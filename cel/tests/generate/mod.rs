//! Random selectors and devices, typed so that most compile, by a seed.

// Each test binary takes what it needs.
#![allow(dead_code, unreachable_pub, unused_imports)]

mod device;
mod grammar;
mod mutate;

pub use device::device;

use grammar::Grammar;

/// A stream of numbers that a seed repeats (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("below a usize")
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// Returns a selector: mostly valid ones, some changed at random.
pub fn selector(random: &mut Random) -> String {
    let depth = 1 + random.below(4);
    let mut grammar = Grammar::new(random);
    let text = grammar.selector(depth);
    match random.chance(15) {
        true => mutate(random, &text),
        false => text,
    }
}

pub use mutate::{mutate, tokens};
