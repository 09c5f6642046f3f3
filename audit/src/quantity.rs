//! Kubernetes quantities, read exactly.

/// Amount of a resource in thousand-millionths of its unit: the smallest part that Kubernetes
/// keeps.
pub(crate) type Nanos = i128;

pub(crate) const UNIT: Nanos = 1_000_000_000;

/// The API server caps what is larger.
const MAX: Nanos = i64::MAX as Nanos * UNIT;

/// Reads a quantity such as `100m`, `1.5Gi` or `2e3`. Parts smaller than a thousand-millionth round
/// away from zero, as in the server. Returns nothing if it is none.
pub(crate) fn parse(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, power) = scale(suffix)?;
    let fraction = fraction.trim_end_matches('0');
    let power = power + 9 - i32::try_from(fraction.len()).ok()?;
    let digits = format!("{whole}{fraction}");
    let amount = scaled(digits.trim_start_matches('0'), factor, power)?;
    Some(if negative { -amount } else { amount })
}

/// Returns what a suffix multiplies by: a whole number, and a power of ten.
fn scale(suffix: &str) -> Option<(Nanos, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        exponent => (1, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

fn scaled(digits: &str, factor: Nanos, power: i32) -> Option<Nanos> {
    if digits.is_empty() {
        return Some(0);
    }
    // What has so many digits that it does not fit is above the cap by far, unless as many are cut
    // off behind the point; the server's own form never has those.
    let Some(value) = digits.parse::<Nanos>().ok().and_then(|value| value.checked_mul(factor))
    else {
        return if power >= 0 { Some(MAX) } else { None };
    };
    let ten = 10 as Nanos;
    let power_of_ten = ten.checked_pow(power.unsigned_abs());
    Some(match (power >= 0, power_of_ten) {
        (true, Some(by)) => value.checked_mul(by).map_or(MAX, |amount| amount.min(MAX)),
        (true, None) => MAX,
        (false, Some(by)) => ((value + by - 1) / by).min(MAX),
        (false, None) => 1,
    })
}

/// Writes an amount for a report: whole units, or with the digits that are needed.
pub(crate) fn shown(amount: Nanos) -> String {
    let (sign, amount) = (if amount < 0 { "-" } else { "" }, amount.unsigned_abs());
    let unit = UNIT.unsigned_abs();
    let (whole, rest) = (amount / unit, amount % unit);
    match rest {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{}", format!("{rest:09}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, expected) in [
            ("0", 0),
            ("8", 8 * UNIT),
            ("100m", UNIT / 10),
            ("1.5", UNIT + UNIT / 2),
            (".5", UNIT / 2),
            ("5.", 5 * UNIT),
            ("1.5Gi", 3 * (1 << 29) * UNIT),
            ("0.1Ki", 1024 * UNIT / 10),
            ("2e3", 2_000 * UNIT),
            ("25E-1", 2 * UNIT + UNIT / 2),
            ("1E", 1_000_000_000_000_000_000 * UNIT),
            ("-3k", -3_000 * UNIT),
            ("+1n", 1),
            ("0.1n", 1),
            ("1e-20", 1),
            ("16Ei", MAX),
            ("99999999999999999999999999999999999999999Ki", MAX),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        // A float would round these to the same number.
        assert_ne!(parse("9007199254740993"), parse("9007199254740992"));
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in ["", "-", ".", "Gi", "1.2.3", "1KiB", "1 Gi", "e3", "one"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_shown_short() {
        assert_eq!(shown(16 * UNIT), "16");
        assert_eq!(shown(UNIT / 4), "0.25");
        assert_eq!(shown(-UNIT / 4), "-0.25");
    }
}
