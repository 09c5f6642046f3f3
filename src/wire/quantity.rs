//! Kubernetes quantities: `100m`, `1.5Gi`, `2e3`, also plain JSON numbers.
//!
//! Source: the grammar in apimachinery's `pkg/api/resource/quantity.go`. Amounts round up, so
//! that whoever asks for a little gets some.

use std::fmt;

use berth_core::types::resources::{AMOUNT_MAX, CPU};

use super::field::Shape;
use super::problem::shown;

const NANO_DIGITS: i32 = 9;
const NANO_PER_UNIT: i128 = 1_000_000_000;
const NANO_PER_MILLI: i128 = 1_000_000;
/// Digits kept exactly; with 2^60 (Ei) they still fit in 128 bits. Further ones only round up.
const DIGITS_MAX: usize = 19;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("\"{0}\" is not a quantity")]
    Malformed(String),
    #[error("must not be negative")]
    Negative,
}

/// A quantity as it came, understood or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity(Result<i128, QuantityError>);

impl Shape for Quantity {
    const WANTED: &'static str = "a quantity";

    fn text(text: &str) -> Option<Quantity> {
        Some(Quantity::parse(text))
    }

    fn integer(number: i64) -> Option<Quantity> {
        Some(Quantity(Ok(i128::from(number) * NANO_PER_UNIT)))
    }

    fn number(number: f64) -> Option<Quantity> {
        // Rust writes a float without exponent, in the digits that read back as the same float.
        Some(Quantity::parse(&number.to_string()))
    }
}

impl Quantity {
    /// Never fails: the error is kept until the amount is asked for.
    pub fn parse(text: &str) -> Quantity {
        Quantity(nano(text.trim()).ok_or_else(|| QuantityError::Malformed(shown(text))))
    }

    /// Returns the amount as core counts `resource`: milli-CPU for cpu, else whole units; rounded
    /// up, cut to [`AMOUNT_MAX`].
    ///
    /// # Errors
    /// If it isn't a quantity, or a negative one.
    pub fn amount(&self, resource: &str) -> Result<i64, QuantityError> {
        if resource == CPU { self.milli() } else { self.value() }
    }

    /// Returns whole units.
    ///
    /// # Errors
    /// As [`Quantity::amount`].
    pub fn value(&self) -> Result<i64, QuantityError> {
        self.scaled(NANO_PER_UNIT)
    }

    /// Returns thousandths.
    ///
    /// # Errors
    /// As [`Quantity::amount`].
    pub fn milli(&self) -> Result<i64, QuantityError> {
        self.scaled(NANO_PER_MILLI)
    }

    fn scaled(&self, nano_per_step: i128) -> Result<i64, QuantityError> {
        let nano = *self.0.as_ref().map_err(Clone::clone)?;
        if nano < 0 {
            return Err(QuantityError::Negative);
        }
        let steps = nano / nano_per_step + i128::from(nano % nano_per_step != 0);
        Ok(i64::try_from(steps).unwrap_or(AMOUNT_MAX).min(AMOUNT_MAX))
    }
}

/// Highest amount that Kubernetes' quantities hold. Unit: billionths.
const NANO_MAX: i128 = i64::MAX as i128 * NANO_PER_UNIT;

/// A quantity with the text that it came as; for devices, whose amounts are compared as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exact {
    pub text: String,
    /// None: the text is no quantity.
    pub nanos: Option<i128>,
}

impl Exact {
    pub fn parse(text: &str) -> Exact {
        let nanos = nano(text.trim()).map(|nano| nano.clamp(-NANO_MAX, NANO_MAX));
        Exact { text: text.to_owned(), nanos }
    }
}

impl Shape for Exact {
    const WANTED: &'static str = "a quantity";

    fn text(text: &str) -> Option<Exact> {
        Some(Exact::parse(text))
    }

    fn integer(number: i64) -> Option<Exact> {
        Some(Exact::parse(&number.to_string()))
    }

    fn number(number: f64) -> Option<Exact> {
        Some(Exact::parse(&number.to_string()))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(nano) => write!(f, "{nano}n"),
            Err(error) => error.fmt(f),
        }
    }
}

/// Returns billionths, away from zero rounded and cut to what 128 bits hold; None if malformed.
fn nano(text: &str) -> Option<i128> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number_end =
        unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let digits = Digits::read(number)?;
    let (exponent, shift) = scale(suffix)?;
    let nano = i128::try_from(digits.nano(exponent, shift)).unwrap_or(i128::MAX);
    Some(if negative { -nano } else { nano })
}

/// Returns the powers of ten and of two that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

/// A number as `mantissa * 10^exponent`, plus a little if `inexact`.
struct Digits {
    mantissa: u128,
    exponent: i32,
    inexact: bool,
}

impl Digits {
    fn read(number: &str) -> Option<Digits> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let mut digits = Digits { mantissa: 0, exponent: 0, inexact: false };
        let mut n_kept = 0;
        for (is_fraction, digit) in
            whole.bytes().map(|d| (false, d)).chain(fraction.bytes().map(|d| (true, d)))
        {
            let digit = u128::from(digit - b'0');
            if n_kept < DIGITS_MAX {
                digits.mantissa = digits.mantissa * 10 + digit;
                n_kept += usize::from(digits.mantissa > 0);
                digits.exponent = digits.exponent.saturating_sub(i32::from(is_fraction));
            } else {
                digits.inexact |= digit > 0;
                digits.exponent = digits.exponent.saturating_add(i32::from(!is_fraction));
            }
        }
        Some(digits)
    }

    /// Returns billionths of `self * 10^exponent * 2^shift`, rounded up.
    fn nano(&self, exponent: i32, shift: u32) -> u128 {
        if self.mantissa == 0 {
            return 0;
        }
        // 19 digits are below 2^64 and the shift is at most 60.
        let product = self.mantissa << shift;
        let exponent = self.exponent.saturating_add(exponent).saturating_add(NANO_DIGITS);
        let power = 10_u128.checked_pow(exponent.unsigned_abs());
        let inexact = u128::from(self.inexact);
        if exponent >= 0 {
            let scaled = power.and_then(|power| product.checked_mul(power));
            return scaled.unwrap_or(u128::MAX).saturating_add(inexact);
        }
        match power {
            Some(power) => {
                product / power + u128::from(self.inexact || !product.is_multiple_of(power))
            }
            None => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        Quantity::parse(text).value().ok()
    }

    fn milli(text: &str) -> Option<i64> {
        Quantity::parse(text).milli().ok()
    }

    #[test]
    fn the_whole_grammar_is_read() {
        let cases = [
            ("0", 0),
            ("1", 1),
            ("+7", 7),
            (" 12 ", 12),
            ("007", 7),
            ("1.", 1),
            (".5", 1),
            ("1k", 1_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
            ("1Ki", 1024),
            ("1.5Gi", 1536 << 20),
            ("0.5Mi", 512 << 10),
            ("3e3", 3000),
            ("3E3", 3000),
            ("2E", AMOUNT_MAX),
            ("3e+2", 300),
            ("3500e-3", 4),
            ("1500m", 2),
            ("1n", 1),
            ("-0", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn cpu_rounds_up_to_milli_and_others_to_whole_units() {
        assert_eq!(milli("0.1"), Some(100));
        assert_eq!(milli("100m"), Some(100));
        assert_eq!(milli("100.1m"), Some(101));
        assert_eq!(milli("1u"), Some(1));
        assert_eq!(milli("2e-30"), Some(1));
        assert_eq!(value("0.1"), Some(1));
        assert_eq!(Quantity::parse("1").amount("cpu"), Ok(1000));
        assert_eq!(Quantity::parse("1").amount("nvidia.com/gpu"), Ok(1));
    }

    #[test]
    fn absurd_amounts_are_cut_and_negative_ones_refused() {
        let long = "9".repeat(100_000);
        for text in ["9e18", "9223372036854775808", "1e400", "99999Ei", "1e2147483647", &long] {
            assert_eq!(value(text), Some(AMOUNT_MAX), "{}", shown(text));
        }
        assert_eq!(value("1e-2147483648"), Some(1));
        assert_eq!(value(&format!("1{}e-5000", "0".repeat(5000))), Some(1));
        assert_eq!(Quantity::parse("-1").value(), Err(QuantityError::Negative));
        assert_eq!(Quantity::parse("-9e99").value(), Err(QuantityError::Negative));
    }

    #[test]
    fn what_is_no_quantity_is_told() {
        for text in [
            "",
            "NaN",
            "inf",
            "one",
            "1 Gi",
            "1gi",
            "1kb",
            "--1",
            "1..2",
            ".",
            "-",
            "Ki",
            "0x10",
            "1e",
            "1e1.5",
            "1e99999999999",
            "1,5",
            "١",
            "1m5",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        let error = Quantity::parse("four").value().unwrap_err();
        assert_eq!(error.to_string(), "\"four\" is not a quantity");
    }

    #[test]
    fn digits_beyond_the_exact_ones_round_up() {
        assert_eq!(value("1.00000000000000000000000001"), Some(2));
        assert_eq!(value("1.00000000000000000000000000"), Some(1));
        assert_eq!(value("0.00000000000000000000000001"), Some(1));
    }

    #[test]
    fn json_numbers_are_quantities() {
        assert_eq!(Quantity::number(0.5).unwrap().milli(), Ok(500));
        assert_eq!(Quantity::number(1e300).unwrap().value(), Ok(AMOUNT_MAX));
        assert_eq!(Quantity::number(f64::NAN).unwrap().value().ok(), None);
        assert_eq!(Quantity::integer(i64::MIN).unwrap().value(), Err(QuantityError::Negative));
    }
}
