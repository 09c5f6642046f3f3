//! What is wrong with an object, and where.

use std::fmt;

/// Problems kept an object; further ones are only counted.
const KEPT_MAX: usize = 8;
/// Longest piece of an object's own text in a message. Unit: characters.
const SHOWN_MAX: usize = 64;

/// Something in an object that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// As in `spec.containers[0].resources.requests.cpu`.
    pub path: String,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// The place of a field, kept on the stack and written out only when there is a problem.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    Root(&'static str),
    Field(&'a Path<'a>, &'static str),
    Index(&'a Path<'a>, usize),
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    pub fn field(&'a self, name: &'static str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub fn index(&'a self, at: usize) -> Path<'a> {
        Path::Index(self, at)
    }

    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, at) => write!(f, "{parent}[{at}]"),
            Path::Key(parent, key) if is_plain(key) => write!(f, "{parent}.{key}"),
            Path::Key(parent, key) => write!(f, "{parent}[{}]", shown(key)),
        }
    }
}

fn is_plain(key: &str) -> bool {
    (1..=SHOWN_MAX).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Returns `text` for a message: one line, cut to 64 characters.
pub fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The problems of one object; bounded, however broken the object is.
#[derive(Debug, Default)]
pub struct Problems {
    kept: Vec<Problem>,
    n_more: usize,
}

impl Problems {
    pub fn add(&mut self, path: &Path<'_>, what: impl fmt::Display) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(Problem { path: path.to_string(), what: what.to_string() });
        } else {
            self.n_more += 1;
        }
    }

    /// Takes over the problems that `others` kept and counts the rest.
    pub fn append(&mut self, others: Problems) {
        self.n_more += others.n_more;
        for problem in others.kept {
            if self.kept.len() < KEPT_MAX {
                self.kept.push(problem);
            } else {
                self.n_more += 1;
            }
        }
    }

    /// Returns how many there are, also of those that weren't kept.
    pub fn count(&self) -> usize {
        self.kept.len() + self.n_more
    }

    /// Returns the first problem and the number of others; None if there is none.
    pub fn summary(&self) -> Option<String> {
        let first = self.kept.first()?;
        match self.count() - 1 {
            0 => Some(first.to_string()),
            n => Some(format!("{first} (and {n} more)")),
        }
    }

    /// Returns at most nine problems; the last one tells how many more there were.
    pub fn into_vec(mut self) -> Vec<Problem> {
        if self.n_more > 0 {
            let what = format!("{} more problems", self.n_more);
            self.kept.push(Problem { path: "…".to_owned(), what });
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_kubernetes_writes_them() {
        let root = Path::Root("spec");
        let list = root.field("containers");
        let item = list.index(0);
        assert_eq!(item.key("cpu").to_string(), "spec.containers[0].cpu");
        assert_eq!(item.key("a.b/c").to_string(), "spec.containers[0][a.b/c]");
    }

    #[test]
    fn problems_are_bounded() {
        let mut problems = Problems::default();
        for _ in 0..1000 {
            problems.add(&Path::Root("spec"), "odd");
        }
        assert_eq!(problems.summary().unwrap(), "spec: odd (and 999 more)");
        assert_eq!(problems.into_vec().len(), KEPT_MAX + 1);
        assert_eq!(shown(&"x\n".repeat(100)).chars().count(), SHOWN_MAX + 1);
    }
}
