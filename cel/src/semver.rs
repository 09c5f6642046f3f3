//! Semantic versions as Kubernetes reads them: build metadata doesn't count.

use std::cmp::Ordering;

/// A version `major.minor.patch[-prerelease][+build]`. Equality and order leave the build out.
#[derive(Clone, Debug)]
pub struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    prerelease: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

/// Text that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SemverError {
    #[error("a version is written major.minor.patch")]
    Parts,
    #[error("major, minor and patch are numbers without leading zeroes")]
    Number,
    #[error("a prerelease or build is made of letters, digits and `-`, separated by dots")]
    Identifier,
}

impl Semver {
    /// Reads a version.
    ///
    /// # Errors
    /// [`SemverError`], for what Kubernetes refuses too.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(SemverError::Parts);
        };
        let (major, minor) = (number(major)?, number(minor)?);
        let (rest, build) = split(rest, '+');
        let (patch, prerelease) = split(rest, '-');
        let patch = number(patch)?;
        if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
            return Err(SemverError::Identifier);
        }
        let prerelease: Result<Vec<_>, _> =
            prerelease.iter().flat_map(|text| text.split('.')).map(identifier).collect();
        Ok(Self { major, minor, patch, prerelease: prerelease? })
    }

    /// Reads a version that may begin with `v`, have leading zeroes or lack minor and patch.
    ///
    /// # Errors
    /// [`SemverError`].
    pub fn parse_normalized(text: &str) -> Result<Self, SemverError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeroes).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(SemverError::Parts);
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }
}

/// Drops leading zeroes, but leaves one where no digit follows.
fn without_zeroes(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    match rest.starts_with(|first: char| first.is_ascii_digit()) {
        true => rest.to_owned(),
        false => format!("0{rest}"),
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn number(text: &str) -> Result<u64, SemverError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return Err(SemverError::Number);
    }
    text.parse().map_err(|_| SemverError::Number)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Result<Identifier, SemverError> {
    if !is_identifier(text) {
        return Err(SemverError::Identifier);
    }
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => number(text).map(Identifier::Number),
        false => Ok(Identifier::Text(text.to_owned())),
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Semver {}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            // A release comes after its prereleases.
            let released = self.prerelease.is_empty().cmp(&other.prerelease.is_empty());
            released.then_with(|| self.prerelease.cmp(&other.prerelease))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_without_their_builds() {
        let ascending = ["1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0", "1.0.1", "2.0.0-0"];
        for pair in ascending.windows(2) {
            assert!(Semver::parse(pair[0]).unwrap() < Semver::parse(pair[1]).unwrap(), "{pair:?}");
        }
        assert_eq!(Semver::parse("1.0.0+a").unwrap(), Semver::parse("1.0.0+b.2").unwrap());
        for wrong in ["", "1", "1.2", "01.2.3", "1.2.x", "1.2.3-", "1.2.3+", "1.2.3-01", "v1.2.3"] {
            assert!(Semver::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn normalising_forgives_prefix_zeroes_and_missing_parts() {
        for (text, same) in [("v01.02.3", "1.2.3"), ("1", "1.0.0"), ("1.00", "1.0.0")] {
            let read = Semver::parse_normalized(text).unwrap();
            assert_eq!(read, Semver::parse(same).unwrap(), "{text}");
        }
        assert!(Semver::parse_normalized("1.0-rc").is_err());
    }
}
