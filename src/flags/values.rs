//! Values of flags as Go's flag libraries read and print them.
//!
//! Source: pflag (bool, duration, stringSlice, stringToString, int32Slice) and
//! `component-base/cli/flag` 0.37.

use std::fmt;
use std::net::IpAddr;

use berth_core::framework::args::parse_duration_ms;
use berth_core::types::Span;

use crate::config::go_duration;

/// Reads a boolean as `strconv.ParseBool` does.
///
/// # Errors
/// Go's message.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// Reads a Go duration such as `1m30s`; a negative one is refused.
///
/// # Errors
/// What is wrong, without the flag's name.
pub fn duration(text: &str) -> Result<Span, String> {
    let wrong = || format!("invalid duration {text:?}; write for example 10s or 1m30s");
    let ms = parse_duration_ms(text).ok_or_else(wrong)?;
    u64::try_from(ms).map(Span).map_err(|_| format!("invalid duration {text:?}: it is negative"))
}

/// Reads an IP address; empty means all of IPv4, as upstream's help has it.
///
/// # Errors
/// What is wrong, without the flag's name.
pub(super) fn ip(text: &str) -> Result<IpAddr, String> {
    let text = if text.is_empty() { "0.0.0.0" } else { text };
    text.parse().map_err(|_| format!("failed to parse IP: {text:?}"))
}

/// Splits comma lists, each of which may quote parts that hold commas. A flag that was not given
/// means `default`.
pub(super) fn strings(given: &[String], default: &[&str]) -> Vec<String> {
    if given.is_empty() {
        return default.iter().map(|text| (*text).to_owned()).collect();
    }
    given.iter().flat_map(|list| split_csv(list)).filter(|part| !part.is_empty()).collect()
}

/// Splits one record of comma-separated values; `"` quotes a field, `""` in it is a quote.
fn split_csv(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

/// Reads `key=value` pairs; a value with a single `=` may hold commas unquoted.
///
/// # Errors
/// pflag's message.
pub(super) fn pairs(given: &[String]) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for list in given {
        let single = list.matches('=').count() <= 1;
        let parts = if single { vec![list.trim_matches('"').to_owned()] } else { split_csv(list) };
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("{part} must be formatted as key=value"));
            };
            pairs.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(pairs)
}

/// Certificate and key files for the names that clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    pub cert_file: String,
    pub key_file: String,
    /// Domain patterns; none means the names in the certificate.
    pub names: Vec<String>,
}

impl std::str::FromStr for SniCertificate {
    type Err = String;

    fn from_str(text: &str) -> Result<SniCertificate, String> {
        let (files, names) = match text.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => {
                return Err("empty names list is not allowed".to_owned());
            }
            Some((files, names)) => {
                (files, names.split(',').map(|n| n.trim().to_owned()).collect())
            }
            None => (text, Vec::new()),
        };
        match files.split(',').map(str::trim).collect::<Vec<&str>>()[..] {
            [cert, key] => {
                Ok(SniCertificate { cert_file: cert.to_owned(), key_file: key.to_owned(), names })
            }
            _ => Err("expected comma separated certificate and key file paths".to_owned()),
        }
    }
}

impl fmt::Display for SniCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.cert_file, self.key_file)?;
        if self.names.is_empty() { Ok(()) } else { write!(f, ":{}", self.names.join(",")) }
    }
}

/// A flag's name and its value as `/flagz` prints it.
pub type Shown = (&'static str, String);

/// Prints a list as Go does: `[a,b]`.
pub(super) fn shown_list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(","))
}

/// Prints a duration as Go does.
pub(super) fn shown_duration(span: Span) -> String {
    go_duration(span)
}

/// Prints what may be absent; absent is empty.
pub(super) fn shown_option<T: fmt::Display>(value: Option<&T>) -> String {
    value.map(T::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn durations_and_booleans_are_gos() {
        assert_eq!(duration("1m30s"), Ok(Span::from_secs(90)));
        assert_eq!(duration("0"), Ok(Span::ZERO));
        assert!(duration("5").is_err() && duration("-1s").is_err() && duration("").is_err());
        assert_eq!((go_bool("T"), go_bool("0")), (Ok(true), Ok(false)));
        assert!(go_bool("yes").is_err());
    }

    #[test]
    fn lists_add_up_and_may_quote() {
        assert_eq!(strings(&[], &["/livez"]), ["/livez"]);
        assert_eq!(strings(&owned(&["a,b", "\"c,d\""]), &["x"]), ["a", "b", "c,d"]);
        assert_eq!(strings(&owned(&[""]), &["x"]), [""; 0]);
    }

    #[test]
    fn pairs_may_hold_commas() {
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(pairs(&owned(&["m,l=v1,v2"])), Ok(vec![pair("m,l", "v1,v2")]));
        let two = pairs(&owned(&["\"m,l=v1,v2\",\"n,k=\""]));
        assert_eq!(two, Ok(vec![pair("m,l", "v1,v2"), pair("n,k", "")]));
        assert_eq!(pairs(&owned(&["a"])), Err("a must be formatted as key=value".to_owned()));
    }

    #[test]
    fn certificates_have_two_files_and_maybe_names() {
        let read = |text: &str| text.parse::<SniCertificate>().map(|sni| sni.to_string());
        assert_eq!(read("a.crt, a.key").as_deref(), Ok("a.crt,a.key"));
        assert_eq!(read("a,b:*.x.io,y.io").as_deref(), Ok("a,b:*.x.io,y.io"));
        assert!(read("a").is_err() && read("a,b:").is_err() && read("a,b,c").is_err());
    }
}
