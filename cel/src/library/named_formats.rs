//! `format.dns1123Label().validate(text)` and its like: what is wrong with a text, or nothing.

use super::table::{Binding, Library};
use super::time;
use super::url::Url;
use crate::meter::Stop;
use crate::value::Value;

/// A named format.
pub(crate) struct Format {
    name: &'static str,
    /// What its pattern counts for in costs.
    pub(crate) pattern_size: u64,
    problems: fn(&str) -> Vec<&'static str>,
}

impl Format {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

const FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", pattern_size: 30, problems: dns1123_label },
    Format { name: "dns1123Subdomain", pattern_size: 60, problems: dns1123_subdomain },
    Format { name: "dns1035Label", pattern_size: 30, problems: dns1035_label },
    Format { name: "qualifiedName", pattern_size: 60, problems: qualified_name },
    Format {
        name: "dns1123LabelPrefix",
        pattern_size: 30,
        problems: |text| dns1123_label(&masked(text)),
    },
    Format {
        name: "dns1123SubdomainPrefix",
        pattern_size: 60,
        problems: |text| dns1123_subdomain(&masked(text)),
    },
    Format {
        name: "dns1035LabelPrefix",
        pattern_size: 30,
        problems: |text| dns1035_label(&masked(text)),
    },
    Format { name: "labelValue", pattern_size: 40, problems: label_value },
    Format {
        name: "uri",
        pattern_size: 1103,
        problems: |text| unless(Url::is_request(text), "invalid URI"),
    },
    Format {
        name: "uuid",
        pattern_size: 70,
        problems: |text| unless(is_uuid(text), "does not match the UUID format"),
    },
    Format {
        name: "byte",
        pattern_size: 84,
        problems: |text| unless(is_base64(text), "invalid base64"),
    },
    Format {
        name: "date",
        pattern_size: 71,
        problems: |text| unless(is_date(text), "invalid date"),
    },
    Format {
        name: "datetime",
        pattern_size: 71,
        problems: |text| unless(is_datetime(text), "invalid datetime"),
    },
];

static ALL: [Format; 13] = FORMATS;

const FUNCTIONS: [(&str, super::Call); 13] = [
    ("format.dns1123Label", |_, _| Ok(Value::Format(&ALL[0]))),
    ("format.dns1123Subdomain", |_, _| Ok(Value::Format(&ALL[1]))),
    ("format.dns1035Label", |_, _| Ok(Value::Format(&ALL[2]))),
    ("format.qualifiedName", |_, _| Ok(Value::Format(&ALL[3]))),
    ("format.dns1123LabelPrefix", |_, _| Ok(Value::Format(&ALL[4]))),
    ("format.dns1123SubdomainPrefix", |_, _| Ok(Value::Format(&ALL[5]))),
    ("format.dns1035LabelPrefix", |_, _| Ok(Value::Format(&ALL[6]))),
    ("format.labelValue", |_, _| Ok(Value::Format(&ALL[7]))),
    ("format.uri", |_, _| Ok(Value::Format(&ALL[8]))),
    ("format.uuid", |_, _| Ok(Value::Format(&ALL[9]))),
    ("format.byte", |_, _| Ok(Value::Format(&ALL[10]))),
    ("format.date", |_, _| Ok(Value::Format(&ALL[11]))),
    ("format.datetime", |_, _| Ok(Value::Format(&ALL[12]))),
];

pub(super) fn declare(library: &mut Library) {
    for (name, call) in FUNCTIONS {
        library.global(name, name, "format", Binding::Variadic(call));
    }
    let named = Binding::Fixed(|_, args| match args {
        [Value::Text(name)] => {
            let found = ALL.iter().find(|format| format.name == &**name);
            Ok(found.map_or_else(Value::none, |format| Value::some(Value::Format(format))))
        }
        _ => Err(Stop::no_overload()),
    });
    library.global("format.named", "format-named", "string: optional(format)", named);
    let validate = Binding::Fixed(|_, args| match args {
        [Value::Format(format), Value::Text(text)] => {
            let problems = (format.problems)(text);
            if problems.is_empty() {
                return Ok(Value::none());
            }
            let problems = problems.into_iter().map(Value::borrowed).collect();
            Ok(Value::some(Value::list(problems)))
        }
        _ => Err(Stop::no_overload()),
    });
    let signature = "format, string: optional(list(string))";
    library.member("validate", "format-validate", signature, validate);
}

fn unless(fits: bool, problem: &'static str) -> Vec<&'static str> {
    if fits { Vec::new() } else { vec![problem] }
}

/// Replaces a dash at the end, for names that are beginnings.
fn masked(text: &str) -> String {
    match text.char_indices().nth_back(1) {
        Some((at, before)) if text.ends_with('-') && before.is_ascii() => {
            text[..at].to_owned() + "a"
        }
        _ => text.to_owned(),
    }
}

fn is_label(text: &str, first: fn(u8) -> bool) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(begin), Some(end)) => {
            first(*begin) && inner(*end) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        }
        _ => false,
    }
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|label| is_label(label, lower_or_digit))
}

fn dns1123_label(text: &str) -> Vec<&'static str> {
    let mut problems = unless(text.len() <= 63, "must be no more than 63 bytes");
    if !is_label(text, lower_or_digit) {
        problems.push(match is_subdomain(text) {
            true => "must not contain dots",
            false => {
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
            }
        });
    }
    problems
}

fn dns1123_subdomain(text: &str) -> Vec<&'static str> {
    let mut problems = unless(text.len() <= 253, "must be no more than 253 bytes");
    if !is_subdomain(text) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        );
    }
    problems
}

fn dns1035_label(text: &str) -> Vec<&'static str> {
    let mut problems = unless(text.len() <= 63, "must be no more than 63 bytes");
    if !is_label(text, |byte| byte.is_ascii_lowercase()) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        );
    }
    problems
}

fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

const LABEL_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn qualified_name(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            match prefix {
                "" => problems.push("prefix part must be non-empty"),
                prefix => problems.extend(dns1123_subdomain(prefix)),
            }
            name
        }
        _ => return vec!["a valid label key has an optional DNS subdomain prefix, '/' and a name"],
    };
    if name.is_empty() {
        problems.push("name part must be non-empty");
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes");
    }
    if !is_label_name(name) {
        problems.push(LABEL_NAME);
    }
    problems
}

fn label_value(text: &str) -> Vec<&'static str> {
    let mut problems = unless(text.len() <= 63, "must be no more than 63 bytes");
    if !text.is_empty() && !is_label_name(text) {
        problems.push(LABEL_NAME);
    }
    problems
}

/// Whether the text is 32 hexadecimal digits, with dashes or without any of them.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(length) else { return false };
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let plain = text.trim_end_matches('=');
    let padding = text.len() - plain.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && time::parse_timestamp(&format!("{text}T00:00:00Z")).is_ok()
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_clock(clock)
}

/// Whether the text is `hh:mm:ss`, a fraction perhaps, and `z` or an offset.
fn is_clock(text: &str) -> bool {
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((clock, zone)) = text.split_at_checked(8) else { return false };
    let parts: Vec<&str> = clock.split(':').collect();
    let in_range = match parts[..] {
        [hour, minute, second] => {
            digits(hour)
                && digits(minute)
                && digits(second)
                && hour <= "23"
                && minute <= "59"
                && second <= "59"
        }
        _ => false,
    };
    // Upstream's pattern takes any character for the point.
    let mut after = zone.chars();
    let fraction = after.next().is_some()
        && after.as_str().starts_with(|letter: char| letter.is_ascii_digit());
    let without = after.as_str().trim_start_matches(|letter: char| letter.is_ascii_digit());
    in_range && (is_zone(zone) || (fraction && is_zone(without)))
}

fn is_zone(text: &str) -> bool {
    let offset = text.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text == "z" || offset.is_some_and(|(hours, minutes)| digits(hours) && digits(minutes))
}
