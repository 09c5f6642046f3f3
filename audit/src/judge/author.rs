//! Whose a write was, and when that was decided.

use std::collections::BTreeMap;

use crate::history::{History, Lives, Request, Sent};
use crate::judge::Limits;
use crate::moment::Moment;
use crate::objects::{Name, Pod};
use crate::wire::Target;

/// Whose write it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Replica(String),
    /// Somebody who is not judged.
    Foreign(String),
    /// There is no log, or it does not tell.
    Unknown,
}

impl Author {
    /// As a part of a sentence.
    pub(crate) fn shown(&self) -> String {
        match self {
            Author::Replica(user) | Author::Foreign(user) => format!(" by {user}"),
            Author::Unknown => String::new(),
        }
    }
}

/// A request that says definitely that nothing was done.
///
/// Any storage error becomes a 409, and a write whose answer was one may be there.
/// Source: observed on kube-apiserver 1.37: 26 of 143 such answers to binds had been committed.
pub(crate) fn is_definite_no(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 409)
}

/// Writes of one sort, by the name of what they write to.
pub(crate) struct Writes<'a> {
    history: &'a History,
    limits: &'a Limits,
    logged: BTreeMap<&'a Name, Vec<&'a Request>>,
    sent: BTreeMap<&'a Name, Vec<&'a Sent>>,
}

impl<'a> Writes<'a> {
    /// Writes to the statuses of claims.
    pub(crate) fn to_claims(history: &'a History, limits: &'a Limits) -> Self {
        let verbs = ["patch", "update"];
        Self::new(history, limits, &verbs, &["PATCH", "PUT"], Target::is_claim_status)
    }

    fn binds(history: &'a History, limits: &'a Limits) -> Self {
        Self::new(history, limits, &["create"], &["POST"], Target::is_binding)
    }

    fn new(
        history: &'a History,
        limits: &'a Limits,
        verbs: &[&str],
        methods: &[&str],
        is_it: impl Fn(&Target) -> bool,
    ) -> Self {
        let mut logged: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for request in &history.requests {
            if verbs.contains(&request.verb.as_str()) && is_it(&request.target) {
                logged.entry(&request.target.name).or_default().push(request);
            }
        }
        let mut sent: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for request in &history.sent {
            if methods.contains(&request.method.as_str()) && is_it(&request.target) {
                sent.entry(&request.target.name).or_default().push(request);
            }
        }
        Self { history, limits, logged, sent }
    }

    /// Returns who wrote what etcd's event told of, which was received at `received`, and when that
    /// was sent: the earliest that is known. `born`: when the object came to be.
    pub(crate) fn author(
        &self,
        name: &Name,
        born: Option<Moment>,
        received: Moment,
    ) -> (Author, Moment) {
        let Some(request) = self.request(name, born, received) else {
            return (Author::Unknown, received);
        };
        let slack = self.limits.clock_slack;
        let came = request.received.min(received);
        let on_wire = self.sent.get(name).into_iter().flatten().rev();
        let same = on_wire.filter(|sent| sent.user == request.user);
        let at = same.map(|sent| sent.at).find(|at| *at <= came + slack);
        let user = request.user.clone();
        let author = match self.history.replica(&user) {
            Some(_) => Author::Replica(user),
            None if self.history.replicas.is_empty() => Author::Replica(user),
            None => Author::Foreign(user),
        };
        (author, at.map_or(came, |at| at.min(came)))
    }

    /// The last that was told that it was done, else the last of a replica that was not told no.
    fn request(&self, name: &Name, born: Option<Moment>, received: Moment) -> Option<&'a Request> {
        let slack = self.limits.clock_slack;
        let in_its_life = |request: &&&Request| {
            born.is_none_or(|born| request.received + slack >= born)
                && request.received <= received + slack
        };
        let logged = self.logged.get(name)?.iter().filter(in_its_life);
        let open =
            |request: &&&&Request| request.answer.is_none_or(|(_, status)| !is_definite_no(status));
        let is_replica = |request: &&&&Request| self.history.replica(&request.user).is_some();
        let open: Vec<_> = logged.filter(|request| open(&request)).collect();
        let told = open.iter().rev().find(|request| request.succeeded());
        let ours = || open.iter().rev().find(|request| is_replica(request));
        told.or_else(ours).or(open.last()).map(|request| **request)
    }
}

/// Who bound which pod.
pub(crate) struct Binders<'a> {
    binds: Writes<'a>,
    lives: &'a Lives,
}

impl<'a> Binders<'a> {
    pub(crate) fn new(history: &'a History, lives: &'a Lives, limits: &'a Limits) -> Self {
        Self { binds: Writes::binds(history, limits), lives }
    }

    /// Returns who bound `pod`, as etcd's event of it was received, and when it was sent. Only one
    /// request can have bound it.
    pub(crate) fn of(&self, pod: &Pod, received: Moment) -> (Author, Moment) {
        let born = self.lives.with_uid(&pod.name, &pod.uid).map(|life| life.born);
        self.binds.author(&pod.name, born, received)
    }
}
