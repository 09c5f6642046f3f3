//! What the auditor is told, what it finds, and what is kept for people.

use std::fs;

use berth_audit::{Limits, Observer, Violation, WireAnswer, WireBody, WireWrite};
use serde_json::json;

use super::Scene;
use crate::failed::{Failed, Outcome};
use crate::proxy::{Exchange, Told};
use crate::{ELECTION, SOON};

impl Scene {
    /// Returns the violations since the last call.
    ///
    /// # Errors
    /// [`Failed::Audit`] if the auditor lags behind, [`Failed::Wrong`] if it lacks evidence.
    pub(crate) fn judge(&mut self) -> Outcome<Vec<Violation>> {
        self.auditor.caught_up(SOON)?;
        let write_timeout = self.setting.election.unwrap_or(ELECTION).write_timeout();
        let limits = Limits { write_timeout, ..Limits::default() };
        let report = self.auditor.judge_by(&limits);
        if !report.problems.is_empty() {
            return Err(Failed::Wrong(format!("the auditor's evidence has gaps:\n{report}")));
        }
        let mut new = Vec::new();
        for violation in report.violations {
            // A text may hold times that grow.
            let text = violation.revision.map_or(violation.text.clone(), |_| String::new());
            let key = (violation.revision, format!("{:?} {text}", violation.invariant));
            if !self.counted.contains(&key) {
                self.counted.push(key);
                new.push(violation);
            }
        }
        Ok(new)
    }

    /// Copies the logs of the servers beside those of the schedulers.
    pub(crate) fn keep_logs(&self) {
        for name in ["etcd.log", "kube-apiserver.log", "audit.log"] {
            // What is missing is missing.
            let _ = fs::copy(self.stand.folder().join(name), self.folder.join(name));
        }
        let lines: Vec<String> = self.proxy.exchanges(0).iter().map(line).collect();
        let _ = fs::write(self.folder.join("proxy.log"), lines.join("\n"));
    }
}

/// One line a request, for who looks for what went wrong.
fn line(exchange: &Exchange) -> String {
    let Exchange { asked, server, told, .. } = exchange;
    let target = asked.target().map(|node| format!(" -> {node}")).unwrap_or_default();
    let ago = exchange.at.elapsed().as_secs_f32();
    json!({
        "seconds_ago": ago, "user": asked.user, "request": format!("{}{target}", asked.line()),
        "server": server, "told": format!("{told:?}"),
    })
    .to_string()
}

/// Tells the auditor of a request. Watches and lists say nothing of single writes.
pub(super) fn tell(observer: &Observer, exchange: &Exchange) {
    let asked = &exchange.asked;
    if !asked.is_write() && asked.name.is_empty() {
        return;
    }
    let answer = match (exchange.told, exchange.told_at) {
        (Told::Status(status), Some(at)) => Some(WireAnswer { status, at }),
        _ => None,
    };
    observer.observe(WireWrite {
        user: asked.user.clone(),
        sent: exchange.at,
        method: asked.method.clone(),
        path: match asked.query.is_empty() {
            true => asked.path.clone(),
            false => format!("{}?{}", asked.path, asked.query),
        },
        body: WireBody::read(&asked.body),
        answer,
    });
}
