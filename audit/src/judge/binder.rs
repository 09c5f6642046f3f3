//! Who bound a pod, and when that was decided.

use std::collections::BTreeMap;

use crate::history::{History, Lives, Request, Sent};
use crate::judge::Limits;
use crate::moment::Moment;
use crate::objects::{Name, Pod};

/// Whose bind it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binder {
    Replica(String),
    /// Somebody who is not judged.
    Foreign(String),
    /// There is no log, or it does not tell.
    Unknown,
}

/// A request that says definitely that nothing was done.
///
/// Any storage error becomes a 409, and a write whose answer was one may be there.
/// Source: observed on kube-apiserver 1.37: 26 of 143 such answers to binds had been committed.
pub(crate) fn is_definite_no(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 409)
}

pub(crate) struct Binders<'a> {
    history: &'a History,
    lives: &'a Lives,
    limits: &'a Limits,
    logged: BTreeMap<&'a Name, Vec<&'a Request>>,
    sent: BTreeMap<&'a Name, Vec<&'a Sent>>,
}

impl<'a> Binders<'a> {
    pub(crate) fn new(history: &'a History, lives: &'a Lives, limits: &'a Limits) -> Self {
        let mut logged: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let is_bind = |request: &&Request| request.verb == "create" && request.target.is_binding();
        for request in history.requests.iter().filter(is_bind) {
            logged.entry(&request.target.name).or_default().push(request);
        }
        let mut sent: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let is_bind = |sent: &&Sent| sent.method == "POST" && sent.target.is_binding();
        for request in history.sent.iter().filter(is_bind) {
            sent.entry(&request.target.name).or_default().push(request);
        }
        Self { history, lives, limits, logged, sent }
    }

    /// Returns who bound `pod`, as etcd's event of it was received, and when it was sent: the
    /// earliest that is known.
    pub(crate) fn of(&self, pod: &Pod, received: Moment) -> (Binder, Moment) {
        let Some(request) = self.request(pod, received) else {
            return (Binder::Unknown, received);
        };
        let slack = self.limits.clock_slack;
        let came = request.received.min(received);
        let on_wire = self.sent.get(&pod.name).into_iter().flatten().rev();
        let same = on_wire.filter(|sent| sent.user == request.user);
        let at = same.map(|sent| sent.at).find(|at| *at <= came + slack);
        let user = request.user.clone();
        let binder = match self.history.replica(&user) {
            Some(_) => Binder::Replica(user),
            None if self.history.replicas.is_empty() => Binder::Replica(user),
            None => Binder::Foreign(user),
        };
        (binder, at.map_or(came, |at| at.min(came)))
    }

    /// Only one request can have bound it: the one that was told so, else the last of a replica
    /// that was not told no.
    fn request(&self, pod: &Pod, received: Moment) -> Option<&'a Request> {
        let slack = self.limits.clock_slack;
        let born = self.lives.with_uid(&pod.name, &pod.uid).map(|life| life.born);
        let in_its_life = |request: &&&Request| {
            born.is_none_or(|born| request.received + slack >= born)
                && request.received <= received + slack
        };
        let logged = self.logged.get(&pod.name)?.iter().filter(in_its_life);
        let open =
            |request: &&&&Request| request.answer.is_none_or(|(_, status)| !is_definite_no(status));
        let is_replica = |request: &&&&Request| self.history.replica(&request.user).is_some();
        let open: Vec<_> = logged.filter(|request| open(&request)).collect();
        let told = open.iter().rev().find(|request| request.succeeded());
        let ours = || open.iter().rev().find(|request| is_replica(request));
        told.or_else(ours).or(open.last()).map(|request| **request)
    }
}
