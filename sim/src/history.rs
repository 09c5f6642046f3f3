//! What happened, as a hash and, on request, as lines.

use berth_core::types::Timestamp;

/// The history of one run.
#[derive(Debug)]
pub(crate) struct History {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl History {
    /// With `trace` every line is kept.
    pub(crate) fn new(trace: bool) -> History {
        History { hash: 0xcbf2_9ce4_8422_2325, lines: trace.then(Vec::new) }
    }

    /// FNV-1a over everything noted, in order (invariant I16).
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }

    /// Notes numbers and a text; `line` says the same to people and is only made for a trace.
    pub(crate) fn note(
        &mut self,
        at: Timestamp,
        numbers: &[u64],
        text: &str,
        line: impl FnOnce() -> String,
    ) {
        self.mix(&at.0.to_le_bytes());
        for number in numbers {
            self.mix(&number.to_le_bytes());
        }
        self.mix(text.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9}.{:03} {}", at.0 / 1000, at.0 % 1000, line()));
        }
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
