//! Decimals of any length: a sign, digits and a power of ten.

use std::cmp::Ordering;

/// More digits than this are not written out.
const MAX_DIGITS: usize = 20_000;

/// `±digits · 10^scale`, digits most significant first, without leading zeroes; zero has none.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    scale: i32,
}

impl Decimal {
    pub(super) fn from_parts(value: i64, scale: i32) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect();
        Self::trimmed(value < 0, digits, scale)
    }

    /// Reads a sign, digits and perhaps a point among them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let mut digits = Vec::with_capacity(unsigned.len());
        for byte in whole.bytes().chain(fraction.bytes()) {
            digits.push(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
        }
        if digits.is_empty() {
            return None;
        }
        let scale = -i32::try_from(fraction.len()).ok()?;
        Some(Self::trimmed(text.starts_with('-'), digits, scale))
    }

    fn trimmed(negative: bool, mut digits: Vec<u8>, scale: i32) -> Self {
        let zeroes = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeroes);
        Self { negative: negative && !digits.is_empty(), digits, scale }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn sign(&self) -> i64 {
        match (self.is_zero(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(super) fn scale(&self) -> i32 {
        self.scale
    }

    pub(super) fn negate(&mut self) {
        self.negative = !self.negative && !self.is_zero();
    }

    /// Makes the decimal positive and returns whether it was negative.
    pub(super) fn negate_if_negative(&mut self) -> bool {
        std::mem::take(&mut self.negative)
    }

    /// Multiplies by a power of ten.
    pub(super) fn shift(&mut self, exponent: i32) {
        self.scale = self.scale.saturating_add(exponent);
    }

    pub(super) fn multiply(&mut self, factor: u64) {
        let mut carry = 0_u128;
        for digit in self.digits.iter_mut().rev() {
            let product = u128::from(*digit) * u128::from(factor) + carry;
            *digit = u8::try_from(product % 10).unwrap_or_default();
            carry = product / 10;
        }
        let mut digits: Vec<u8> = carry.to_string().bytes().map(|byte| byte - b'0').collect();
        digits.append(&mut self.digits);
        *self = Self::trimmed(self.negative, digits, self.scale);
    }

    /// Sets the scale, away from zero where digits are lost. Nothing if the digits grow too many.
    pub(super) fn round_up_to(&mut self, scale: i32) -> Option<()> {
        let distance = i64::from(self.scale) - i64::from(scale);
        self.scale = scale;
        if let Ok(more) = usize::try_from(distance) {
            if self.digits.len() + more > MAX_DIGITS {
                return None;
            }
            self.digits.resize(self.digits.len() + more, 0);
            return Some(());
        }
        let lost = usize::try_from(-distance).unwrap_or(usize::MAX).min(self.digits.len());
        let lost_digits = self.digits.split_off(self.digits.len() - lost);
        if lost_digits.iter().any(|digit| *digit != 0) {
            self.increment();
        }
        Some(())
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// Returns the digits as a float, without the power of ten.
    pub(super) fn unscaled_float(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let float: f64 = if digits.is_empty() { 0.0 } else { digits.parse().unwrap_or(f64::NAN) };
        if self.negative { -float } else { float }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let magnitude = self.compare_magnitude(other);
            if self.negative { magnitude.reverse() } else { magnitude }
        })
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        let top = |decimal: &Self| {
            i64::try_from(decimal.digits.len()).unwrap_or(i64::MAX) + i64::from(decimal.scale)
        };
        if self.is_zero() || other.is_zero() {
            return other.is_zero().cmp(&self.is_zero());
        }
        top(self).cmp(&top(other)).then_with(|| {
            let longer = self.digits.len().max(other.digits.len());
            let digit = |decimal: &Self, n: usize| decimal.digits.get(n).copied().unwrap_or(0);
            (0..longer)
                .map(|n| digit(self, n).cmp(&digit(other, n)))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    /// Returns the sum; nothing if it has too many digits.
    pub(super) fn add(&self, other: &Self) -> Option<Self> {
        let scale = self.scale.min(other.scale);
        let (left, right) = (self.at_scale(scale)?, other.at_scale(scale)?);
        if self.negative == other.negative {
            return Some(Self::trimmed(self.negative, sum(&left, &right), scale));
        }
        let (negative, digits) = match self.compare_magnitude(other) {
            Ordering::Less => (other.negative, difference(&right, &left)),
            _ => (self.negative, difference(&left, &right)),
        };
        Some(Self::trimmed(negative, digits, scale))
    }

    /// Returns the digits least significant first, at a scale that isn't above the own.
    fn at_scale(&self, scale: i32) -> Option<Vec<u8>> {
        let more = usize::try_from(i64::from(self.scale) - i64::from(scale)).ok()?;
        if self.digits.len() + more > MAX_DIGITS && !self.is_zero() {
            return None;
        }
        let mut digits = if self.is_zero() { Vec::new() } else { vec![0; more] };
        digits.extend(self.digits.iter().rev());
        Some(digits)
    }
}

/// Adds digits that are least significant first; the result is most significant first.
fn sum(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(left.len().max(right.len()) + 1);
    let mut carry = 0;
    for n in 0..left.len().max(right.len()) {
        let digit = carry + left.get(n).unwrap_or(&0) + right.get(n).unwrap_or(&0);
        digits.push(digit % 10);
        carry = digit / 10;
    }
    digits.push(carry);
    digits.reverse();
    digits
}

/// Subtracts the smaller from the larger, in the order of [`sum`].
fn difference(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(larger.len());
    let mut borrow = 0;
    for (n, digit) in larger.iter().copied().enumerate() {
        let minus = smaller.get(n).unwrap_or(&0) + borrow;
        borrow = u8::from(digit < minus);
        digits.push(digit + 10 * borrow - minus);
    }
    digits.reverse();
    digits
}
