//! Dates of the proleptic Gregorian calendar.

/// A date and a time of day at some offset from UTC.
pub(super) struct Civil {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    /// From 1.
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    /// From Sunday, 0.
    pub(super) weekday: i64,
}

const DAY: i64 = 86_400;

impl Civil {
    /// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    pub(super) fn at(unix_seconds: i64, offset_seconds: i64) -> Self {
        let local = unix_seconds + offset_seconds;
        let (days, second_of_day) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            weekday: (days + 4).rem_euclid(7),
        }
    }

    /// From 0.
    pub(super) fn day_of_year(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day) - days_from_civil(self.year, 1, 1)
    }
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads RFC 3339 into seconds since 1970, nanoseconds and the offset in seconds.
pub(super) fn parse(text: &str) -> Option<(i64, i64, i64)> {
    let mut reader = Reader { rest: text.as_bytes() };
    let year = reader.number(4, 4)?;
    reader.expect(b'-')?;
    let month = reader.number(2, 2)?;
    reader.expect(b'-')?;
    let day = reader.number(2, 2)?;
    reader.expect(b'T')?;
    // Go takes an hour of one digit.
    let hour = reader.number(1, 2)?;
    reader.expect(b':')?;
    let minute = reader.number(2, 2)?;
    reader.expect(b':')?;
    let second = reader.number(2, 2)?;
    let nanos = reader.fraction();
    let offset = reader.offset()?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && reader.rest.is_empty();
    let days = days_from_civil(year, month, day);
    let local = days * DAY + hour * 3_600 + minute * 60 + second;
    in_range.then_some((local - offset, nanos, offset))
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl Reader<'_> {
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if digits < least {
            return None;
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Some(number.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    /// Reads digits after a point or comma; what is finer than nanoseconds is cut off.
    fn fraction(&mut self) -> i64 {
        let [b'.' | b',', digits @ ..] = self.rest else { return 0 };
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        self.rest = &digits[count..];
        let padded = digits[..count].iter().copied().chain(std::iter::repeat(b'0'));
        padded.take(9).fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
    }

    fn offset(&mut self) -> Option<i64> {
        let sign = match self.rest.first()? {
            b'Z' => {
                self.rest = &self.rest[1..];
                return Some(0);
            }
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let hours = self.number(2, 2)?;
        self.expect(b':')?;
        let minutes = self.number(2, 2)?;
        (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3_600 + minutes * 60))
    }
}
