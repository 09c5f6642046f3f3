//! What was gathered, in the order in which it was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::auditor::Replica;
use crate::decode::{DecodeError, decode};
use crate::moment::Moment;
use crate::objects::{Name, Object};
use crate::wire::Target;

/// Problems of one sort that are told in full; the rest is counted.
const TOLD: usize = 5;

/// One key's new state at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: i64,
    pub(crate) received: Moment,
    pub(crate) key: Arc<str>,
    /// Nothing when the key was deleted.
    pub(crate) object: Option<Object>,
}

/// etcd's history, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Only of kinds that are judged.
    pub(crate) list: Vec<Change>,
    /// The newest revision that was read.
    pub(crate) read_to: i64,
    pub(crate) revisions: u64,
    /// Until when it is known that nothing else has happened.
    pub(crate) followed_to: Moment,
    /// Values that tell nothing.
    pub(crate) skipped: u64,
    /// What makes the verdict worth less.
    pub(crate) problems: Vec<String>,
    known: BTreeSet<Arc<str>>,
}

impl Changes {
    /// Takes the next event; `value` is nothing for a deletion.
    pub(crate) fn push(
        &mut self,
        revision: i64,
        received: Moment,
        key: &str,
        value: Option<&[u8]>,
    ) {
        if revision > self.read_to {
            self.read_to = revision;
            self.revisions += 1;
        }
        self.followed_to = self.followed_to.max(received);
        let object = match value.map(decode) {
            None if self.known.contains(key) => None,
            None | Some(Ok(None)) => return,
            Some(Ok(Some(object))) => Some(object),
            Some(Err(error)) => return self.skip(revision, key, &error),
        };
        let key = self.known.get(key).map_or_else(|| Arc::from(key), Arc::clone);
        self.known.insert(Arc::clone(&key));
        self.list.push(Change { revision, received, key, object });
    }

    /// The server keeps a few values of its own that are no JSON; an object that cannot be read
    /// leaves a hole in the verdict.
    fn skip(&mut self, revision: i64, key: &str, error: &DecodeError) {
        self.skipped += 1;
        if !matches!(error, DecodeError::NoJson(_)) {
            self.problem(format!("{key} at revision {revision} was not read: {error}"));
        }
    }

    pub(crate) fn problem(&mut self, text: String) {
        if self.problems.len() < TOLD {
            self.problems.push(text);
        }
    }
}

/// One request of the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) user: String,
    /// Kubernetes' verb, such as `create`.
    pub(crate) verb: String,
    pub(crate) target: Target,
    pub(crate) received: Moment,
    /// When it was answered and with which status. Nothing if the server ended before.
    pub(crate) answer: Option<(Moment, u16)>,
    /// It showed a pod, or all, as the store had it then.
    pub(crate) is_fresh_read: bool,
}

impl Request {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.answer.is_some_and(|(_, status)| (200..300).contains(&status))
    }
}

/// One request seen on the wire, on the time axis.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) user: String,
    pub(crate) method: String,
    pub(crate) target: Target,
    pub(crate) body: crate::wire::WireBody,
    pub(crate) at: Moment,
    pub(crate) answer: Option<(Moment, u16)>,
}

/// All that a verdict is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) changes: Changes,
    /// Sorted by the time at which they were received.
    pub(crate) requests: Vec<Request>,
    pub(crate) has_audit_log: bool,
    pub(crate) skipped_log_lines: u64,
    /// Sorted by the time at which they were sent.
    pub(crate) sent: Vec<Sent>,
    pub(crate) faults_ended: Option<Moment>,
    pub(crate) replicas: Vec<Replica>,
}

impl History {
    pub(crate) fn replica(&self, user: &str) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.user == user)
    }
}

/// When each pod lived, by name: names come again, UIDs don't.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    by_name: BTreeMap<Name, Vec<Life>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) uid: String,
    pub(crate) born: Moment,
    pub(crate) gone: Option<Moment>,
    /// Revision of each version, and whether it was bound.
    pub(crate) versions: Vec<(i64, bool)>,
}

impl Lives {
    pub(crate) fn of(changes: &[Change]) -> Self {
        let mut lives = Self::default();
        let mut names: BTreeMap<&str, &Name> = BTreeMap::new();
        for change in changes {
            match &change.object {
                Some(Object::Pod(pod)) => {
                    names.insert(&change.key, &pod.name);
                    lives.lived(&pod.name, &pod.uid, change, pod.node.is_some());
                }
                Some(_) => {}
                None => {
                    let ended = names.get(&*change.key).and_then(|name| lives.last(name));
                    if let Some(life) = ended {
                        life.gone = Some(change.received);
                    }
                }
            }
        }
        lives
    }

    fn last(&mut self, name: &Name) -> Option<&mut Life> {
        self.by_name.get_mut(name)?.last_mut()
    }

    fn lived(&mut self, name: &Name, uid: &str, change: &Change, is_bound: bool) {
        let lives = self.by_name.entry(name.clone()).or_default();
        if lives.last().is_none_or(|life| life.uid != uid) {
            let (uid, born) = (uid.to_owned(), change.received);
            lives.push(Life { uid, born, gone: None, versions: Vec::new() });
        }
        if let Some(life) = lives.last_mut() {
            life.versions.push((change.revision, is_bound));
        }
    }

    /// Returns the pod that had this name at this time, or the one that had it last before.
    pub(crate) fn at(&self, name: &Name, moment: Moment) -> Option<&Life> {
        let lives = self.by_name.get(name)?;
        lives.iter().rev().find(|life| life.born <= moment).or(lives.first())
    }

    pub(crate) fn with_uid(&self, name: &Name, uid: &str) -> Option<&Life> {
        self.by_name.get(name)?.iter().find(|life| life.uid == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_json_are_counted_and_unreadable_objects_are_told() {
        let mut changes = Changes::default();
        changes.push(2, Moment(0), "/registry/ranges/x", Some(b"\x08\x01"));
        changes.push(3, Moment(0), "compact_rev_key", Some(b"17 "));
        changes.push(4, Moment(0), "/registry/ships/a", Some(br#"{"kind":"Ship"}"#));
        assert_eq!((changes.revisions, changes.read_to), (3, 4));
        assert_eq!((changes.skipped, changes.problems.len()), (2, 0));

        changes.push(5, Moment(0), "/registry/pods/default/a", Some(b"k8s\0\n\x09"));
        assert_eq!((changes.skipped, changes.problems.len()), (3, 1));
        assert!(changes.problems[0].contains("revision 5"), "{:?}", changes.problems);
        assert!(changes.list.is_empty());
    }
}
