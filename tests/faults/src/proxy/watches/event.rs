//! Events of a JSON watch: cut out of the stream, and read as far as the proxy needs.

use hyper::body::Bytes;
use serde_json::Value;

/// What an event says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Zero if it names none.
    pub(super) version: u64,
    /// Whether it says that the watch's version is too old.
    pub(super) expired: bool,
}

impl Seen {
    pub(super) fn of(event: &[u8]) -> Seen {
        let event: Value = serde_json::from_slice(event).unwrap_or_default();
        let object = &event["object"];
        let version = object["metadata"]["resourceVersion"].as_str();
        Seen {
            version: version.and_then(|text| text.parse().ok()).unwrap_or_default(),
            expired: event["type"] == "ERROR" && object["code"] == 410,
        }
    }
}

/// Cuts a stream of bytes into lines, each with its end.
#[derive(Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Returns the lines that are complete with this.
    pub(super) fn push(&mut self, data: &[u8]) -> Vec<Bytes> {
        self.rest.extend_from_slice(data);
        let Some(last) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.rest.split_off(last + 1);
        let complete = Bytes::from(std::mem::replace(&mut self.rest, rest));
        let lines = complete.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| complete.slice_ref(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_out_wherever_chunks_end() {
        let mut lines = Lines::default();
        let mut cut = Vec::new();
        for chunk in ["{\"a\"", ":1}\n{\"b\":2}\n{", "}\n"] {
            cut.extend(lines.push(chunk.as_bytes()));
        }
        assert_eq!(cut, ["{\"a\":1}\n", "{\"b\":2}\n", "{}\n"]);
    }

    #[test]
    fn version_and_expiry_are_read() {
        let added = br#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"12"}}}"#;
        assert_eq!(Seen::of(added), Seen { version: 12, expired: false });
        let error = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert_eq!(Seen::of(error), Seen { version: 0, expired: true });
    }
}
