//! URLs, as Go's `net/url` reads them.

use std::collections::BTreeMap;

use super::table::{Binding, Library};
use crate::meter::{Eval, Stop};
use crate::value::{Entries, Map, Value};

/// A URL that may stand in a request: absolute, or a path from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// What follows the scheme where no slash does.
    opaque: String,
    user: Option<(String, Option<String>)>,
    host: String,
    has_authority: bool,
    path: String,
    query: Option<String>,
    fragment: String,
}

/// What may stay unescaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

fn wrong(text: &str) -> String {
    format!("\"{text}\" is no URL: write scheme://host/path or /path")
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// A text that says that it is none.
    fn parse(text: &str) -> Result<Self, String> {
        // A fragment is part of the path where a request is read, but not where a URL is.
        Self::read(text, true)?;
        let (plain, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::read(plain, false)?;
        url.fragment = unescape(fragment, Part::Fragment).ok_or_else(|| wrong(text))?;
        Ok(url)
    }

    pub(super) fn is_request(text: &str) -> bool {
        Self::read(text, true).is_ok()
    }

    fn read(text: &str, request: bool) -> Result<Self, String> {
        let wrong = || wrong(text);
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) || (text.is_empty() && request) {
            return Err(wrong());
        }
        let mut url = Self {
            scheme: String::new(),
            opaque: String::new(),
            user: None,
            host: String::new(),
            has_authority: false,
            path: String::new(),
            query: None,
            fragment: String::new(),
        };
        if text == "*" {
            url.path = text.to_owned();
            return Ok(url);
        }
        let (scheme, rest) = scheme(text).ok_or_else(wrong)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        url.query = query;
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            let first = rest.split('/').next().unwrap_or_default();
            if request || first.contains(':') {
                return Err(wrong());
            }
        }
        let may_have_authority = !url.scheme.is_empty() || (!request && !rest.starts_with("///"));
        if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_authority) {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            url.authority(authority).ok_or_else(wrong)?;
            url.has_authority = true;
            rest = path;
        }
        url.path = escaped_path(rest).ok_or_else(wrong)?;
        Ok(url)
    }

    fn authority(&mut self, authority: &str) -> Option<()> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = parse_host(&self.scheme, host)?;
        let Some(user) = user else { return Some(()) };
        if !user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte))
        {
            return None;
        }
        let (name, password) = match user.split_once(':') {
            Some((name, password)) => (name, Some(unescape(password, Part::User)?)),
            None => (user, None),
        };
        self.user = Some((unescape(name, Part::User)?, password));
        Some(())
    }

    /// Returns host and port without the brackets of IPv6.
    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':') {
            Some(colon) if is_port(&self.host[colon..]) => {
                (&self.host[..colon], &self.host[colon + 1..])
            }
            _ => (self.host.as_str(), ""),
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (inner.unwrap_or(host), port)
    }

    fn query<'a>(&self) -> Map<'a> {
        let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
        for pair in self.query.as_deref().unwrap_or_default().split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (unescape(key, Part::Query), unescape(value, Part::Query));
            if let (Some(key), Some(value)) = (key, value) {
                values.entry(key).or_default().push(Value::text(value));
            }
        }
        let mut entries = Entries::default();
        for (key, values) in values {
            entries.set(Value::text(key), Value::list(values));
        }
        Map::Made(entries.into())
    }
}

/// Splits the scheme off; a first part that can't be one is none.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parse_host(scheme: &str, host: &str) -> Option<String> {
    match host.rfind('[') {
        Some(0) => {
            let close = host.rfind(']')?;
            let port = &host[close + 1..];
            if !is_port(port) {
                return None;
            }
            let inner = &host[1..close];
            let (address, zone) = inner.split_at(inner.find("%25").unwrap_or(inner.len()));
            let address = unescape(address, Part::Host)?;
            let zone = unescape(zone, Part::Zone)?;
            let plain: std::net::IpAddr = address.parse().ok()?;
            let has_zone = zone.len() > 1;
            if plain.is_ipv4() || (!zone.is_empty() && !has_zone) {
                return None;
            }
            return Some(format!("[{address}{zone}]{port}"));
        }
        Some(_) => return None,
        None => {}
    }
    if let (Some(first), Some(last)) = (host.find(':'), host.rfind(':')) {
        let strict = matches!(scheme, "http" | "https");
        let colon = if strict { first } else { last };
        if !is_port(&host[colon..]) {
            return None;
        }
    }
    unescape(host, Part::Host)
}

/// Returns the path as it is escaped in URLs.
fn escaped_path(path: &str) -> Option<String> {
    let plain = unescape_bytes(path, Part::Path)?;
    let encoded = path
        .bytes()
        .all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !should_escape(byte, Part::Path));
    if encoded {
        return Some(path.to_owned());
    }
    let mut escaped = String::new();
    for byte in plain {
        match should_escape(byte, Part::Path) {
            true => escaped += &format!("%{byte:02X}"),
            false => escaped.push(char::from(byte)),
        }
    }
    Some(escaped)
}

fn should_escape(byte: u8, part: Part) -> bool {
    let unreserved = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let allowed: &[u8] = match part {
        Part::Path => b"$&+,/:;=@",
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
        Part::User | Part::Query | Part::Fragment => b"",
    };
    !unreserved && !allowed.contains(&byte)
}

fn unescape(text: &str, part: Part) -> Option<String> {
    unescape_bytes(text, part).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn unescape_bytes(text: &str, part: Part) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = text.get(at + 1..at + 3)?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                let value = u8::from_str_radix(digits, 16).ok()?;
                let forbidden = match part {
                    Part::Host => value < 0x80 && digits != "25",
                    Part::Zone => {
                        digits != "25" && value != b' ' && should_escape(value, Part::Host)
                    }
                    _ => false,
                };
                if forbidden {
                    return None;
                }
                plain.push(value);
                at += 3;
                continue;
            }
            b'+' if part == Part::Query => plain.push(b' '),
            byte => {
                let host = matches!(part, Part::Host | Part::Zone);
                if host && byte.is_ascii() && should_escape(*byte, part) {
                    return None;
                }
                plain.push(*byte);
            }
        }
        at += 1;
    }
    Some(plain)
}

pub(super) fn declare(library: &mut Library) {
    let fixed = Binding::Fixed;
    let parse = fixed(|_, args| match args {
        [Value::Text(text)] => match Url::parse(text) {
            Ok(url) => Ok(Value::Url(url.into())),
            Err(error) => Err(Stop::error(error)),
        },
        _ => Err(Stop::no_overload()),
    });
    library.global("url", "string_to_url", "string: url", parse);
    let parts: [(&str, super::Call); 5] = [
        ("getScheme", |_, args| part(args, |url| &url.scheme)),
        ("getHost", |_, args| part(args, |url| &url.host)),
        ("getHostname", |_, args| part(args, |url| url.host_and_port().0)),
        ("getPort", |_, args| part(args, |url| url.host_and_port().1)),
        ("getEscapedPath", |_, args| part(args, |url| &url.path)),
    ];
    for (name, call) in parts {
        library.member(name, name, "url: string", fixed(call));
    }
    let query = fixed(|_, args| match args {
        [Value::Url(url)] => Ok(Value::Map(url.query())),
        _ => Err(Stop::no_overload()),
    });
    library.member("getQuery", "url_get_query", "url: map(string, list(string))", query);
    let is = fixed(|_, args| match args {
        [Value::Text(text)] => Ok(Value::Bool(Url::is_request(text))),
        _ => Err(Stop::no_overload()),
    });
    library.global("isURL", "is_url_string", "string: bool", is);
}

fn part<'a>(args: &[Value<'a>], get: fn(&Url) -> &str) -> Eval<Value<'a>> {
    match args {
        [Value::Url(url)] => Ok(Value::text(get(url))),
        _ => Err(Stop::no_overload()),
    }
}
