//! Random numbers that are derived, not drawn: the same question gets the same answer.

/// A stream of numbers for one purpose (SplitMix64 over an FNV-1a hash of what it is for).
///
/// Another purpose's draws can't move it; a retry differs by its attempt, a replay does not.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn stream(seed: u64, purpose: &str, key: &str, attempt: u64) -> Rng {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        mix(purpose.as_bytes());
        mix(&[0]);
        mix(key.as_bytes());
        mix(&attempt.to_le_bytes());
        Rng(hash)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, 0 for a bound of 0. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_purpose_and_attempt() {
        let draw = |purpose, attempt| Rng::stream(7, purpose, "uid", attempt).next_u64();
        assert_eq!(draw("tie-break", 1), draw("tie-break", 1));
        assert_ne!(draw("tie-break", 1), draw("tie-break", 2));
        assert_ne!(draw("tie-break", 1), draw("order", 1));
        let mut rng = Rng::stream(1, "p", "k", 0);
        assert!((0..1000).all(|_| rng.below(3) < 3));
    }
}
