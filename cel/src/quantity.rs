//! Quantities as Kubernetes reads them: exact decimals of any size.

mod decimal;

use std::cmp::Ordering;

use decimal::Decimal;

/// An amount such as `40Gi`, `1500m` or `1e30`.
///
/// Kept as upstream keeps it, a 64-bit number and a power of ten where that fits, because
/// `asInteger` answers by that.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
}

#[derive(Clone, Debug)]
enum Amount {
    /// `value · 10^scale`
    Small {
        value: i64,
        scale: i32,
    },
    Large(Decimal),
}

/// Text that is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
    #[error("the quantity has too many digits")]
    TooLong,
}

/// The smallest power of ten that is kept; finer amounts are rounded up.
const NANO: i32 = -9;

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// [`QuantityError`], for what Kubernetes refuses too, and for exponents that no machine can
    /// write out.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::read(text)?;
        let unit = Unit::read(parts.suffix)?;
        if let Some(small) = small(&parts, unit)? {
            return Ok(Self { amount: small });
        }
        let mut amount = Decimal::parse(parts.value).ok_or(QuantityError::Number)?;
        match unit {
            Unit::Decimal(exponent) => amount.shift(exponent),
            Unit::Binary(exponent) => amount.multiply(1 << exponent),
        }
        let negative = amount.negate_if_negative();
        if !amount.is_zero() {
            amount.round_up_to(NANO).ok_or(QuantityError::TooLong)?;
        }
        let limit = Decimal::from_parts(i64::MAX, 0);
        if matches!(unit, Unit::Binary(_)) && amount.compare(&limit) == Ordering::Greater {
            amount = limit;
        }
        if negative {
            amount.negate();
        }
        Ok(Self { amount: Amount::Large(amount) })
    }

    pub fn from_int(value: i64) -> Self {
        Self { amount: Amount::Small { value, scale: 0 } }
    }

    /// Returns -1, 0 or 1.
    pub(crate) fn sign(&self) -> i64 {
        match &self.amount {
            Amount::Small { value, .. } => value.signum(),
            Amount::Large(decimal) => decimal.sign(),
        }
    }

    /// Returns the amount if it is kept as a whole number that fits.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self.amount {
            Amount::Small { value, scale } => scale_up(value, scale),
            Amount::Large(_) => None,
        }
    }

    pub(crate) fn as_float(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Small { value, scale } => (*value as f64, *scale),
            Amount::Large(decimal) => (decimal.unscaled_float(), decimal.scale()),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    /// Returns the sum, or nothing if it has more digits than can be kept.
    pub(crate) fn add(&self, other: &Self) -> Option<Self> {
        self.small_sum(other, |value| value).or_else(|| {
            let sum = self.decimal().add(&other.decimal())?;
            Some(Self { amount: Amount::Large(sum) })
        })
    }

    /// Returns the difference, or nothing if it has more digits than can be kept.
    pub(crate) fn sub(&self, other: &Self) -> Option<Self> {
        // Upstream's negation of the smallest number wraps.
        self.small_sum(other, i64::wrapping_neg).or_else(|| {
            let mut negated = other.decimal();
            negated.negate();
            Some(Self { amount: Amount::Large(self.decimal().add(&negated)?) })
        })
    }

    /// Returns the sum if all of it is kept as 64-bit numbers.
    fn small_sum(&self, other: &Self, sign: fn(i64) -> i64) -> Option<Self> {
        let (Amount::Small { value: a, scale: s }, Amount::Small { value: b, scale: t }) =
            (&self.amount, &other.amount)
        else {
            return None;
        };
        let (value, scale) = small_sum((*a, *s), (sign(*b), *t))?;
        Some(Self { amount: Amount::Small { value, scale } })
    }

    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Small { value, scale } => Decimal::from_parts(*value, *scale),
            Amount::Large(decimal) => decimal.clone(),
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Small { value: a, scale: s }, Amount::Small { value: b, scale: t })
                if s == t =>
            {
                a.cmp(b)
            }
            _ => self.decimal().compare(&other.decimal()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

/// The pieces of a quantity's text.
struct Parts<'t> {
    negative: bool,
    /// Sign, digits and point.
    value: &'t str,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    fn read(text: &'t str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let rest = unsigned.trim_start_matches('0');
        if rest.is_empty() {
            return Ok(Self { negative, value: "0", whole: "0", fraction: "", suffix: "" });
        }
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let value = &text[..text.len() - rest.len()];
        let letters = rest.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
        let number = rest[letters..].strip_prefix(['-', '+']).unwrap_or(&rest[letters..]);
        if digits(number) != number.len() {
            return Err(QuantityError::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, value, whole, fraction, suffix: rest })
    }
}

/// What the suffix multiplies by.
#[derive(Clone, Copy)]
enum Unit {
    /// A power of ten.
    Decimal(i32),
    /// A power of two.
    Binary(u32),
}

impl Unit {
    fn read(suffix: &str) -> Result<Self, QuantityError> {
        Ok(match suffix {
            "" => Self::Decimal(0),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
                let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
                Self::Decimal(i32::try_from(exponent).map_err(|_| QuantityError::TooLong)?)
            }
        })
    }
}

/// Returns the amount as a number and a power of ten, where upstream keeps it so.
fn small(parts: &Parts<'_>, unit: Unit) -> Result<Option<Amount>, QuantityError> {
    let digits = parts.whole.len() + parts.fraction.len();
    let digits = i32::try_from(digits).unwrap_or(i32::MAX);
    let (precision, scale, factor) = match unit {
        Unit::Decimal(exponent) => (18 - digits, exponent, 1),
        Unit::Binary(exponent) if parts.fraction.is_empty() => {
            let bits = i32::try_from(exponent).unwrap_or(i32::MAX);
            (15 - digits - bits * 3 / 10 - 1, 0, 1_i64 << exponent)
        }
        Unit::Binary(_) => return Ok(None),
    };
    let fraction = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let scale = scale.saturating_sub(fraction);
    if precision < 0 || scale < NANO {
        return Ok(None);
    }
    let value: i64 =
        format!("{}{}", parts.whole, parts.fraction).parse().map_err(|_| QuantityError::Number)?;
    let Some(value) = value.checked_mul(factor) else { return Ok(None) };
    let value = if parts.negative { -value } else { value };
    Ok(Some(Amount::Small { value, scale }))
}

fn small_sum(left: (i64, i32), right: (i64, i32)) -> Option<(i64, i32)> {
    let ((a, s), (b, t)) = (left, right);
    if b == 0 {
        return Some(left);
    }
    if a == 0 {
        return Some(right);
    }
    let scale = s.min(t);
    let sum = scale_up(a, s - scale)?.checked_add(scale_up(b, t - scale)?)?;
    Some((sum, scale))
}

/// Returns `value · 10^scale` for a scale that isn't negative.
fn scale_up(value: i64, scale: i32) -> Option<i64> {
    if value == 0 && scale >= 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?)
}

/// The power of ten as Go's `math.Pow10` rounds it: a product of two table entries.
fn power_of_ten(exponent: i32) -> f64 {
    let exact = |exponent: i32| format!("1e{exponent}").parse().unwrap_or(f64::NAN);
    match exponent {
        0..=308 => exact(exponent / 32 * 32) * exact(exponent % 32),
        -323..=-1 => exact(-(-exponent / 32 * 32)) / exact(-exponent % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn amounts_compare_exactly_whatever_their_size() {
        let ascending = [
            "-1e30", "-1", "-1n", "0", "0.1n", "1u", "1m", "999m", "1", "1.5", "1k", "1Ki", "1M",
            "40Gi", "8Ei", "1e30", "1e31",
        ];
        for pair in ascending.windows(2) {
            let (less, more) = (quantity(pair[0]), quantity(pair[1]));
            assert_eq!(less.cmp(&more), Ordering::Less, "{pair:?}");
            assert_eq!(more.cmp(&less), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(quantity("1Gi"), quantity("1073741824"));
        assert_eq!(quantity("0.5"), quantity("500m"));
        assert_eq!(quantity("1e3"), quantity("1k"));
        assert_eq!(quantity("9Ei"), quantity("9223372036854775807"), "binary ones are capped");
        assert_eq!(quantity("0.0000000001"), quantity("1n"), "finer ones are rounded up");
    }

    #[test]
    fn sums_are_exact() {
        let sum = quantity("1e30").add(&quantity("1n")).unwrap();
        assert!(sum > quantity("1e30") && sum < quantity("1.000000000000000001e30"));
        assert_eq!(sum.sub(&quantity("1n")).unwrap(), quantity("1e30"));
        assert_eq!(quantity("50k").add(&Quantity::from_int(20)).unwrap(), quantity("50020"));
    }

    #[test]
    fn whole_numbers_are_those_that_upstream_keeps_so() {
        assert_eq!(quantity("132").as_int(), Some(132));
        assert_eq!(quantity("50k").as_int(), Some(50_000));
        assert_eq!(quantity("1000m").as_int(), None);
        assert_eq!(quantity("12345678901234567890").as_int(), None);
        assert_eq!(quantity("40Gi").as_int(), Some(40 << 30));
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        for wrong in ["", " 1", "1 ", "1Q", "1i", "a", "1e", "1.2.3", "1Kii", "--1"] {
            assert!(Quantity::parse(wrong).is_err(), "{wrong:?}");
        }
        for right in ["+1", "-1.5Gi", ".5", "1e-3", "1E2", "-", "."] {
            assert!(Quantity::parse(right).is_ok(), "{right:?}");
        }
    }
}
