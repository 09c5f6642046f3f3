//! `berth config check FILE`: every error of a configuration file, without a cluster.

use std::fmt;

use berth_core::framework::args::ArgError;

use super::{Configuration, decode};

/// What a check found, ready to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// 0 valid, 1 invalid, 2 unreadable.
    pub exit_code: u8,
    /// One line an error, in the order of the file; a single line if there is none.
    pub lines: Vec<String>,
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl CheckReport {
    /// Reports a file whose text could not be had or is neither YAML nor JSON.
    pub fn unreadable(path_label: &str, error: &dyn fmt::Display) -> CheckReport {
        CheckReport { exit_code: 2, lines: vec![line(path_label, error)] }
    }
}

/// Checks the text of a configuration file.
///
/// `build` makes the profiles with the plugins that exist and returns what they refuse; it runs
/// on wrong configurations too, so that one check tells everything.
pub fn check(
    path_label: &str,
    text: &str,
    build: &dyn Fn(&Configuration) -> Vec<ArgError>,
) -> CheckReport {
    let reading = match decode::read(text) {
        Ok(reading) => reading,
        Err(error) => {
            return CheckReport::unreadable(path_label, &format!("not readable as YAML: {error}"));
        }
    };
    let mut errors = reading.errors;
    errors.extend(build(&reading.configuration));
    errors.extend(reading.strays.into_iter().map(|(at, kind)| stray(at, &kind)));
    let errors = reading.root.in_document_order(errors);
    if errors.is_empty() {
        return CheckReport { exit_code: 0, lines: vec![line(path_label, &"valid")] };
    }
    let lines = errors.iter().map(|error| line(path_label, error)).collect();
    CheckReport { exit_code: 1, lines }
}

fn stray(at: usize, kind: &str) -> ArgError {
    let message = format!("another document of kind {kind:?}; a configuration file has just one");
    ArgError { path: format!("document {}", at + 1), message }
}

/// Returns one line of output, whatever a hostile file puts into names and keys.
fn line(path_label: &str, message: &dyn fmt::Display) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    format!("{path_label}: {message}").chars().map(plain).collect()
}
