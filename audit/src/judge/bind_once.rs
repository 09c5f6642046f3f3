//! I3: one target a pod, until that is known to have failed.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{History, Lives, Request, Sent};
use crate::judge::Limits;
use crate::judge::author::is_definite_no;
use crate::moment::Moment;
use crate::objects::Name;
use crate::report::{Invariant, Report};
use crate::wire::WireBody;
use crate::world::Step;

/// A pod that has a node keeps it.
pub(crate) fn step(step: &Step<'_>, report: &mut Report) {
    let (Some(old), Some(new)) = (step.old_pod(), step.new_pod()) else { return };
    if old.uid == new.uid && old.node.is_some() && old.node != new.node {
        let (from, to) = (old.node.as_deref(), new.node.as_deref());
        let [from, to] = [from, to].map(|node| node.unwrap_or("nowhere"));
        let text = format!("{} went from {from} to {to}", new.name);
        report.convict(Invariant::I3, step.change.revision, text);
    }
}

/// One bind on the wire.
struct Bind<'a> {
    sent: &'a Sent,
    name: Name,
    node: &'a str,
    resource_version: Option<i64>,
}

/// Judges what a proxy has seen.
pub(crate) fn sent(history: &History, lives: &Lives, limits: &Limits, report: &mut Report) {
    let mut by_uid: BTreeMap<String, Vec<Bind<'_>>> = BTreeMap::new();
    let mut unread = 0;
    for sent in history.sent.iter().filter(|sent| is_bind(sent)) {
        match read_bind(sent, lives) {
            Some((uid, bind)) => by_uid.entry(uid).or_default().push(bind),
            None => unread += 1,
        }
    }
    if unread > 0 {
        let text =
            format!("{unread} binds on the wire were no JSON, I3 does not know their target");
        report.problems.push(text);
    }
    let evidence = Evidence::new(history, limits);
    for (uid, binds) in &by_uid {
        judge_pod(uid, binds, &evidence, lives, report);
    }
}

/// Judges the binds of one pod, in the order in which they were sent. A target that is refused may
/// be tried thousands of times, so what was refused is looked at no more.
fn judge_pod(
    uid: &str,
    binds: &[Bind<'_>],
    evidence: &Evidence<'_>,
    lives: &Lives,
    report: &mut Report,
) {
    let (mut open, mut told_of) = (Vec::<&Bind<'_>>::new(), BTreeSet::new());
    for later in binds {
        open.retain(|earlier| !evidence.was_refused(earlier, later));
        let culprit = open.iter().find(|earlier| {
            earlier.node != later.node && !evidence.settles(earlier, later, uid, lives)
        });
        if let Some(earlier) = culprit
            && told_of.insert((earlier.sent.at, later.node))
        {
            report.convict(Invariant::I3, None, told(earlier, later));
        }
        open.push(later);
    }
}

fn is_bind(sent: &Sent) -> bool {
    sent.method == "POST" && sent.target.is_binding()
}

fn read_bind<'a>(sent: &'a Sent, lives: &Lives) -> Option<(String, Bind<'a>)> {
    let WireBody::Bind { pod, uid, resource_version, node } = &sent.body else { return None };
    let mut name = sent.target.name.clone();
    if name.name.is_empty() {
        name.name = pod.clone()?;
    }
    let known = || lives.at(&name, sent.at).map(|life| life.uid.clone());
    let uid = uid.clone().or_else(known).unwrap_or_default();
    let resource_version = *resource_version;
    Some((uid, Bind { sent, name, node, resource_version }))
}

fn told(earlier: &Bind<'_>, later: &Bind<'_>) -> String {
    let answer = match earlier.sent.answer {
        Some((_, status)) => format!("answered {status}"),
        None => "never answered".to_owned(),
    };
    format!(
        "{} was sent to {} at {} by {}, while a bind to {}, sent at {} by {} and {answer}, was open",
        later.name,
        later.node,
        later.sent.at,
        later.sent.user,
        earlier.node,
        earlier.sent.at,
        earlier.sent.user
    )
}

/// What may show a sender that a bind has failed.
struct Evidence<'a> {
    limits: &'a Limits,
    /// Reads that tell how the pod is in the store, by user and pod; those of all pods have no
    /// name. With their beginning and end.
    reads: BTreeMap<(&'a str, &'a Name), BTreeSet<(Moment, Moment)>>,
    all: Name,
}

impl<'a> Evidence<'a> {
    fn new(history: &'a History, limits: &'a Limits) -> Self {
        let mut reads: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for request in &history.requests {
            if let Some(end) = shown_pod(request) {
                let key = (request.user.as_str(), &request.target.name);
                reads.entry(key).or_default().insert((request.received, end));
            }
        }
        for sent in &history.sent {
            let is_read = sent.method == "GET" || sent.method == "PATCH" || sent.method == "PUT";
            if let (true, Some((end, status))) = (is_read && is_pod(sent), sent.answer)
                && (status < 300 || (status == 404 && sent.method == "GET"))
            {
                let key = (sent.user.as_str(), &sent.target.name);
                reads.entry(key).or_default().insert((sent.at, end));
            }
        }
        Self { limits, reads, all: Name::default() }
    }

    /// Whether the sender of `later` knew that `earlier`, which was not refused, is not and will
    /// not be committed.
    fn settles(&self, earlier: &Bind<'_>, later: &Bind<'_>, uid: &str, lives: &Lives) -> bool {
        self.was_read_between(earlier, later) || is_fenced_off(earlier, later, uid, lives)
    }

    fn was_refused(&self, earlier: &Bind<'_>, later: &Bind<'_>) -> bool {
        earlier.sent.answer.is_some_and(|(at, status)| {
            is_definite_no(status) && at <= later.sent.at + self.limits.clock_slack
        })
    }

    fn was_read_between(&self, earlier: &Bind<'_>, later: &Bind<'_>) -> bool {
        let slack = self.limits.clock_slack;
        let from = earlier.sent.answer.map_or(earlier.sent.at, |(at, _)| at) - slack;
        let to = later.sent.at + slack;
        let from = from.max(earlier.sent.at);
        let user = later.sent.user.as_str();
        let lists = Name { namespace: later.name.namespace.clone(), ..Name::default() };
        [&later.name, &lists, &self.all].into_iter().any(|name| {
            let reads = self.reads.get(&(user, name)).into_iter().flatten();
            reads.into_iter().any(|(begun, ended)| *begun >= from && *ended <= to)
        })
    }
}

/// A bind that insists on a version can't be committed once the pod has a newer one. Whoever
/// insists on that newer one, in which the pod is free, knows.
fn is_fenced_off(earlier: &Bind<'_>, later: &Bind<'_>, uid: &str, lives: &Lives) -> bool {
    let (Some(old), Some(new)) = (earlier.resource_version, later.resource_version) else {
        return false;
    };
    let life = lives.with_uid(&later.name, uid);
    let is_free = life.is_some_and(|life| life.versions.contains(&(new, false)));
    new > old && is_free
}

/// Returns when a request had shown its sender how the pod is in the store, if it had. The answer
/// to a patch shows it too. A watch that begins with everything has no end.
fn shown_pod(request: &Request) -> Option<Moment> {
    let target = &request.target;
    if !target.group.is_empty() || target.resource != "pods" || target.is_binding() {
        return None;
    }
    let is_patch = matches!(request.verb.as_str(), "patch" | "update");
    match request.verb.as_str() {
        "watch" if request.is_fresh_read => Some(request.received),
        _ if request.is_fresh_read || is_patch => {
            let (end, status) = request.answer?;
            let is_told = status < 300 || (status == 404 && request.is_fresh_read);
            is_told.then_some(end)
        }
        _ => None,
    }
}

fn is_pod(sent: &Sent) -> bool {
    let target = &sent.target;
    target.group.is_empty() && target.resource == "pods" && !target.name.name.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builder::{Builder, pod_path};
    use crate::report::Invariant::I3;
    use crate::wire::WireBody;

    fn with_pod() -> Builder {
        let mut history = Builder::new();
        history.pod("a").stored();
        history
    }

    #[test]
    fn another_target_while_the_first_is_open_is_convicted() {
        for answer in [None, Some(409), Some(500), Some(504), Some(201)] {
            let mut history = with_pod();
            history.sent_bind("a", "n-1", None, answer).sent_bind("a", "n-2", None, Some(201));
            let text = history.convict(I3);
            assert!(text.contains("default/a was sent to n-2"), "{text}");
        }
    }

    #[test]
    fn the_same_target_may_be_tried_again() {
        let mut history = with_pod();
        history.sent_bind("a", "n-1", None, None).sent_bind("a", "n-1", None, Some(409));
        history.acquit();
    }

    #[test]
    fn a_definite_no_frees_the_pod() {
        for answer in [403, 404, 422] {
            let mut history = with_pod();
            history.sent_bind("a", "n-1", None, Some(answer));
            history.sent_bind("a", "n-2", None, Some(201)).acquit();
        }
    }

    #[test]
    fn a_read_in_between_decides_if_it_is_the_senders_and_of_this_pod() {
        for (user, pod, verb, frees) in [
            ("berth-0", "a", "get", true),
            ("berth-1", "a", "get", false),
            ("berth-0", "b", "get", false),
            ("berth-0", "a", "delete", false),
        ] {
            let mut history = with_pod();
            history.sent_bind("a", "n-1", None, None).wait(1.0);
            history.logged(user, verb, &pod_path(pod), Some(200)).wait(1.0);
            history.sent_bind("a", "n-2", None, Some(201));
            assert_eq!(history.judge().is_clean(), frees, "{user} {verb} {pod}");
        }
    }

    #[test]
    fn a_list_or_a_read_on_the_wire_decides_too_and_a_failed_read_does_not() {
        let mut history = with_pod();
        history.sent_bind("a", "n-1", None, None).wait(1.0);
        history.logged("berth-0", "list", "/api/v1/pods", Some(200)).wait(1.0);
        history.sent_bind("a", "n-2", None, None).wait(1.0);
        history.sent("berth-0", "GET", &pod_path("a"), WireBody::Other, Some(200)).wait(1.0);
        history.sent_bind("a", "n-3", None, None).acquit();

        history.wait(1.0).logged("berth-0", "get", &pod_path("a"), Some(500)).wait(1.0);
        history.sent_bind("a", "n-4", None, None);
        // Of both binds that were open.
        assert_eq!(history.judge().of(I3).len(), 1);
    }

    #[test]
    fn a_read_before_the_answer_decides_nothing() {
        let mut history = with_pod();
        history.logged("berth-0", "get", &pod_path("a"), Some(200)).wait(1.0);
        history.sent_bind("a", "n-1", None, None).wait(1.0).sent_bind("a", "n-2", None, None);
        history.convict(I3);
    }

    #[test]
    fn a_bind_to_a_newer_free_version_fences_the_older_off() {
        let mut history = with_pod();
        let old = history.revision();
        history.sent_bind("a", "n-1", Some(old), None);
        history.pod("a").told_why();
        let new = history.revision();
        history.sent_bind("a", "n-2", Some(new), Some(201)).acquit();

        history.sent_bind("a", "n-3", Some(new), Some(409));
        history.convict(I3);
    }

    #[test]
    fn a_pod_of_the_same_name_is_another_one() {
        let mut history = with_pod();
        history.sent_bind("a", "n-1", None, None);
        history.pod("a").gone();
        history.pod("a").stored();
        history.sent_bind("a", "n-2", None, Some(201)).acquit();
    }

    #[test]
    fn a_bind_that_cannot_be_read_is_told() {
        let mut history = with_pod();
        let path = format!("{}/binding", pod_path("a"));
        history.sent("berth-0", "POST", &path, WireBody::Other, None);
        let report = history.judge();
        assert_eq!((report.violations.len(), report.problems.len()), (0, 1), "{report}");
    }

    #[test]
    fn a_pod_does_not_change_its_node() {
        let mut history = Builder::new();
        history.node("n-1", 8).node("n-2", 8);
        history.pod("a").bound("n-1").with(json!({"spec": {"nodeName": "n-2"}})).stored();
        let at = history.revision();
        assert_eq!(
            history.convict(I3),
            format!("I3 at revision {at}: default/a went from n-1 to n-2")
        );
    }
}
