//! Topologies between nodes, as objects of other schedulers describe them.

use std::fmt;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

use super::{LabelSelector, Text};

/// Which object it is: its dialect's name and its own. There is one kind of them in a dialect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopologyKey {
    pub dialect: &'static str,
    pub name: Text,
}

impl fmt::Display for TopologyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dialect, self.name)
    }
}

/// An object that describes a topology, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyObject {
    pub key: TopologyKey,
    pub uid: Text,
    pub resource_version: u64,
    pub shape: TopologyShape,
    /// Why the object can't be understood: it counts as if it were not there.
    pub problem: Option<Text>,
}

/// What an object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyShape {
    /// Nodes with the same value of a label are a domain; from the largest domains to the smallest.
    Levels(Vec<Level>),
    /// The object is a domain.
    HyperNode(Arc<HyperNode>),
}

/// A level whose domains are the values of a node label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pub label: Text,
    /// What groups may call it besides its label.
    pub name: Option<Text>,
}

/// A domain that is listed, not labelled (Volcano).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HyperNode {
    /// 1 for the smallest domains.
    pub tier: u32,
    pub tier_name: Option<Text>,
    /// Nodes that are in it.
    pub nodes: Vec<NodeMatch>,
    /// HyperNodes of lower tiers that are in it with all their nodes, by name.
    pub parts: Vec<Text>,
}

/// Which nodes are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMatch {
    Name(Text),
    Pattern(NamePattern),
    Labels(LabelSelector),
}

impl NodeMatch {
    /// Tells whether all nodes have to be looked at to find those that are meant.
    pub fn searches(&self) -> bool {
        match self {
            NodeMatch::Name(_) => false,
            NodeMatch::Pattern(_) | NodeMatch::Labels(_) => true,
        }
    }
}

/// A regular expression that node names are matched with, anywhere in the name. Its cost is bounded:
/// at most [`PATTERN_BYTES_MAX`] long, and [`PROGRAM_BYTES_MAX`] when compiled; matching takes time
/// that is linear in both the program and the name.
#[derive(Clone)]
pub struct NamePattern {
    text: Text,
    regex: Arc<Regex>,
}

/// Bytes of a pattern.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Bytes of a compiled pattern: `[a-z0-9-]{1,63}` takes a tenth of it.
const PROGRAM_BYTES_MAX: usize = 64 << 10;

/// Why a pattern can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("has {0} bytes; at most {PATTERN_BYTES_MAX} are read")]
    TooLong(usize),
    #[error("is too costly to match; write it without large or nested repetitions")]
    TooCostly,
    #[error("is no regular expression: {0}")]
    Malformed(Text),
}

impl NamePattern {
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: Text) -> Result<NamePattern, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong(text.len()));
        }
        // Names of nodes are ASCII; classes such as \d mean that too, as where the patterns come from.
        let regex = RegexBuilder::new(&text)
            .unicode(false)
            .size_limit(PROGRAM_BYTES_MAX)
            .nest_limit(32)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::TooCostly,
                error => PatternError::Malformed(last_line(&error.to_string())),
            })?;
        Ok(NamePattern { text, regex: Arc::new(regex) })
    }

    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name.as_bytes())
    }
}

/// The lines before it draw the pattern.
fn last_line(text: &str) -> Text {
    let line = text.lines().last().unwrap_or_default();
    Text::from(line.strip_prefix("error: ").unwrap_or(line))
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &NamePattern) -> bool {
        self.text == other.text
    }
}

impl Eq for NamePattern {}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_matched_anywhere_in_a_name() {
        let matches = |pattern: &str, name: &str| {
            NamePattern::new(pattern.into()).expect("a pattern").matches(name)
        };
        assert!(matches("node-[01]", "my-node-1x") && !matches("^node-[01]$", "my-node-1x"));
        assert!(matches(r"^r\d+$", "r42") && !matches(r"^r\d+$", "r٤٢"), "digits are ASCII");
    }

    #[test]
    fn hostile_patterns_are_refused() {
        let refused = |pattern: &str| NamePattern::new(pattern.into()).expect_err("refused");
        assert_eq!(refused(&"a".repeat(257)), PatternError::TooLong(257));
        assert_eq!(refused("((a{1,99}){1,99}){1,99}"), PatternError::TooCostly);
        assert_eq!(
            refused("rack-(").to_string(),
            "is no regular expression: unclosed group",
            "what is drawn is left out"
        );
        assert!(matches!(refused(&"(".repeat(200)), PatternError::Malformed(_)));
        assert!(matches!(refused(r"(a)\1"), PatternError::Malformed(_)), "no back references");
    }
}
