//! Durations and timestamps, as Go reads and writes them.

mod civil;

use std::fmt;

use super::table::{Binding, Library};
use crate::meter::{Eval, Stop};
use crate::value::Value;
use civil::Civil;

const NANOS: i64 = 1_000_000_000;
/// The first second of year 1, and the last of year 9999.
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

/// An instant, with the offset from UTC that it was written in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    seconds: i64,
    nanos: i64,
    offset_seconds: i64,
}

impl Timestamp {
    fn new(seconds: i64, nanos: i64, offset_seconds: i64) -> Option<Self> {
        let fits = (FIRST_SECOND..=LAST_SECOND).contains(&seconds);
        fits.then_some(Self { seconds, nanos, offset_seconds })
    }

    pub(crate) fn unix_seconds(&self) -> i64 {
        self.seconds
    }

    /// What makes two timestamps the same instant.
    pub(crate) fn instant(&self) -> (i64, i64) {
        (self.seconds, self.nanos)
    }

    /// What makes two timestamps the same key of a map.
    pub(crate) fn key(&self) -> (i64, i64, i64) {
        (self.seconds, self.nanos, self.offset_seconds)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.instant() == (FIRST_SECOND, 0)
    }

    /// Returns the timestamp `nanos` later; an error outside of the years 1 to 9999.
    fn plus(&self, nanos: i128) -> Eval<Self> {
        let total = i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos) + nanos;
        let seconds = i64::try_from(total.div_euclid(i128::from(NANOS))).ok();
        let nanos = i64::try_from(total.rem_euclid(i128::from(NANOS))).unwrap_or_default();
        let sum = seconds.and_then(|seconds| Self::new(seconds, nanos, self.offset_seconds));
        sum.ok_or_else(|| Stop::error("timestamp overflow"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = Civil::at(self.seconds, self.offset_seconds);
        write!(f, "{:04}-{:02}-{:02}T", civil.year, civil.month, civil.day)?;
        write!(f, "{:02}:{:02}:{:02}", civil.hour, civil.minute, civil.second)?;
        if self.nanos != 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        let minutes = self.offset_seconds / 60;
        if self.offset_seconds == 0 {
            return f.write_str("Z");
        }
        let sign = if minutes < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
    }
}

pub(super) fn declare(library: &mut Library) {
    let fixed = Binding::Fixed;
    let duration = fixed(|_, args| match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::Text(text)] => parse_duration(text).map(Value::Duration).map_err(Stop::error),
        _ => Err(Stop::no_overload()),
    });
    library.global("duration", "convert", "duration: duration", duration);
    library.global("duration", "convert", "string: duration", duration);
    let timestamp = fixed(|_, args| match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => match Timestamp::new(*seconds, 0, 0) {
            Some(timestamp) => Ok(Value::Timestamp(timestamp)),
            None => Err(Stop::error("timestamp overflow")),
        },
        [Value::Text(text)] => parse_timestamp(text).map(Value::Timestamp).map_err(Stop::error),
        _ => Err(Stop::no_overload()),
    });
    for source in ["timestamp", "int", "string"] {
        library.global("timestamp", "convert", &format!("{source}: timestamp"), timestamp);
    }
    parts(library);
}

/// `getFullYear` and its like: of timestamps, the last four of durations too.
fn parts(library: &mut Library) {
    let getters: [(&str, super::Call); 10] = [
        ("getFullYear", |_, args| part(args, |civil| civil.year)),
        ("getMonth", |_, args| part(args, |civil| civil.month - 1)),
        ("getDayOfYear", |_, args| part(args, Civil::day_of_year)),
        ("getDayOfMonth", |_, args| part(args, |civil| civil.day - 1)),
        ("getDate", |_, args| part(args, |civil| civil.day)),
        ("getDayOfWeek", |_, args| part(args, |civil| civil.weekday)),
        ("getHours", |_, args| {
            span(args, 3_600 * NANOS).or_else(|_| part(args, |civil| civil.hour))
        }),
        ("getMinutes", |_, args| {
            span(args, 60 * NANOS).or_else(|_| part(args, |civil| civil.minute))
        }),
        ("getSeconds", |_, args| span(args, NANOS).or_else(|_| part(args, |civil| civil.second))),
        ("getMilliseconds", milliseconds),
    ];
    for (name, call) in getters {
        library.member(name, "timestamp_part", "timestamp: int", Binding::Fixed(call));
        library.member(
            name,
            "timestamp_part_in_zone",
            "timestamp, string: int",
            Binding::Fixed(call),
        );
        if matches!(name, "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds") {
            library.member(name, "duration_part", "duration: int", Binding::Fixed(call));
        }
    }
}

fn milliseconds<'a>(_: &mut crate::meter::Meter, args: &[Value<'a>]) -> Eval<Value<'a>> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        [Value::Timestamp(timestamp), ..] => {
            part(args, |_| 0)?;
            Ok(Value::Int(timestamp.nanos / 1_000_000))
        }
        _ => Err(Stop::no_overload()),
    }
}

fn span<'a>(args: &[Value<'a>], unit: i64) -> Eval<Value<'a>> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => Err(Stop::no_overload()),
    }
}

fn part<'a>(args: &[Value<'a>], get: fn(&Civil) -> i64) -> Eval<Value<'a>> {
    let (timestamp, offset) = match args {
        [Value::Timestamp(timestamp)] => (timestamp, 0),
        [Value::Timestamp(timestamp), Value::Text(zone)] => (timestamp, zone_offset(zone)?),
        _ => return Err(Stop::no_overload()),
    };
    Ok(Value::Int(get(&Civil::at(timestamp.seconds, offset))))
}

/// Reads `UTC` or `+hh:mm`. Names of the time zone database are not known here.
fn zone_offset(zone: &str) -> Eval<i64> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            _ => Err(Stop::error(format!("unknown time zone {zone}: write it as +hh:mm"))),
        };
    };
    let number = |text: &str| {
        text.parse::<i32>()
            .map_err(|_| Stop::error(format!("{zone} is no time zone: write +hh:mm")))
    };
    let (hours, minutes) = (i64::from(number(hours)?), i64::from(number(minutes)?));
    let minutes = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    Ok(minutes * 60)
}

fn overflow() -> Stop {
    Stop::error("duration overflow")
}

/// Adds a duration to a duration or timestamp, in either order.
pub(super) fn add<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Duration(left), Value::Duration(right)) => {
            left.checked_add(*right).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Duration(nanos), Value::Timestamp(timestamp))
        | (Value::Timestamp(timestamp), Value::Duration(nanos)) => {
            timestamp.plus(i128::from(*nanos)).map(Value::Timestamp)
        }
        _ => Err(Stop::no_overload()),
    }
}

pub(super) fn subtract<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Duration(left), Value::Duration(right)) => {
            left.checked_sub(*right).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(timestamp), Value::Duration(nanos)) => {
            let nanos = nanos.checked_neg().ok_or_else(overflow)?;
            timestamp.plus(i128::from(nanos)).map(Value::Timestamp)
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            let seconds = left.seconds.checked_sub(right.seconds);
            let nanos = seconds
                .and_then(|seconds| seconds.checked_mul(NANOS))
                .and_then(|nanos| nanos.checked_add(left.nanos - right.nanos));
            nanos.map(Value::Duration).ok_or_else(overflow)
        }
        _ => Err(Stop::no_overload()),
    }
}

/// Shows a duration in seconds.
pub(super) fn show_duration(nanos: i64) -> String {
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / NANOS as f64;
    format!("{seconds}s")
}

/// Reads a duration such as `1h30m` or `-1.5s`, in nanoseconds.
///
/// # Errors
/// A text that says what is wrong.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is no duration: write it like 1h30m or 1.5s");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (nanos, after) = duration_part(rest).ok_or_else(wrong)?;
        total += nanos;
        rest = after;
        if total > 1 << 63 {
            return Err(wrong());
        }
    }
    let total = i128::try_from(total).map_err(|_| wrong())?;
    i64::try_from(if negative { -total } else { total }).map_err(|_| wrong())
}

/// Reads one number with its unit, and what follows.
fn duration_part(text: &str) -> Option<(u128, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let is_unit = |letter: char| letter != '.' && !letter.is_ascii_digit();
    let (unit, rest) = rest.split_at(rest.find(|letter| !is_unit(letter)).unwrap_or(rest.len()));
    let unit: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = u128::from(whole) * u128::from(unit);
    (nanos <= 1 << 63).then(|| (nanos + fraction_nanos(fraction, unit), rest))
}

/// Returns the part of a unit, with Go's rounding by doubles.
fn fraction_nanos(fraction: &str, unit: u64) -> u128 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let next =
            value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|next| *next <= 1 << 63) else { break };
        value = next;
        scale *= 10.0;
    }
    // Less than an hour in nanoseconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let nanos = (value as f64 * (unit as f64 / scale)) as u64;
    u128::from(nanos)
}

/// Reads a timestamp in the form of RFC 3339.
///
/// # Errors
/// A text that says what is wrong.
pub(crate) fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("'{text}' is no timestamp: write it like 2026-01-31T12:00:00Z");
    let (seconds, nanos, offset) = civil::parse(text).ok_or_else(wrong)?;
    Timestamp::new(seconds, nanos, offset).ok_or_else(|| "timestamp overflow".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_back_as_they_were_written() {
        for text in [
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999Z",
            "2024-02-29T12:30:00.000000001+05:30",
            "9999-12-31T23:59:59Z",
            "2000-03-01T00:00:00-08:00",
        ] {
            assert_eq!(parse_timestamp(text).unwrap().to_string(), text);
        }
        for wrong in [
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-01-01",
            "2023-01-01T24:00:00Z",
            "2023-01-01t00:00:00Z",
            "2023-01-01T00:00:60Z",
            "2023-01-01T00:00:00",
        ] {
            assert!(parse_timestamp(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_add_up_their_units() {
        assert_eq!(parse_duration("1h30m"), Ok(5_400 * NANOS));
        assert_eq!(parse_duration("-1.5s"), Ok(-1_500_000_000));
        assert_eq!(parse_duration("1.5µs"), Ok(1_500));
        assert_eq!(show_duration(1_500_000_000), "1.5s");
        for wrong in ["", "1", "s", "1d", "1h-1m", "9223372036854775808ns"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
