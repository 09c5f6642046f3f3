//! /healthz, /livez and /readyz: named checks, and what they have said so far.
//!
//! Source: apiserver/pkg/server/healthz/healthz.go, component-base/metrics/prometheus/slis; the
//! checks of each path are those of cmd/kube-scheduler/app/server.go.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use tracing::info;

use super::answer::{Answer, error, no_sniff, text};

/// Says what is wrong, for the log and the page of that check alone.
pub type CheckFn = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the checks look at.
#[derive(Clone)]
pub struct Probes {
    /// None: there is no leader election.
    pub leader_election: Option<CheckFn>,
    /// Whether the process is ending.
    pub ending: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether every watched kind has been listed and reached the engine, or what is missing.
    pub synced: CheckFn,
}

struct Check {
    name: &'static str,
    run: CheckFn,
}

/// The checks of the three paths, and how often each came out how.
pub struct Health {
    /// Path without its slash.
    checks: BTreeMap<&'static str, Vec<Check>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By name and type: whether the last one was good.
    last: BTreeMap<(&'static str, &'static str), bool>,
    /// By name, status and type, the order in which labels are printed.
    total: BTreeMap<(&'static str, &'static str, &'static str), u64>,
}

impl Health {
    pub fn new(probes: Probes) -> Health {
        let Probes { leader_election, ending, synced } = probes;
        let ping = || Check { name: "ping", run: Arc::new(|| Ok(())) };
        let leader = || {
            let run = leader_election.clone()?;
            Some(Check { name: "leaderElection", run })
        };
        let shutdown = move || match ending() {
            true => Err("process is shutting down".to_owned()),
            false => Ok(()),
        };
        let shutdown = Check { name: "shutdown", run: Arc::new(shutdown) };
        let synced = move || {
            synced().map_err(|missing| format!("handlers are not fully synchronized: {missing}"))
        };
        let synced = Check { name: "sched-handler-sync", run: Arc::new(synced) };
        let mut readyz: Vec<Check> = leader().into_iter().collect();
        readyz.extend([shutdown, synced]);
        let checks = BTreeMap::from([
            ("healthz", vec![leader().unwrap_or_else(ping)]),
            ("livez", vec![ping()]),
            ("readyz", readyz),
        ]);
        Health { checks, seen: Mutex::new(Seen::default()) }
    }

    /// Returns every path that is served.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (path, checks) in &self.checks {
            paths.push(format!("/{path}"));
            paths.extend(checks.iter().map(|check| format!("/{path}/{}", check.name)));
        }
        paths
    }

    /// Answers one of [`Health::paths`].
    pub(super) fn answer(&self, path: &str, query: &str) -> Answer {
        let path = path.trim_start_matches('/');
        let (root, name) = path.split_once('/').unwrap_or((path, ""));
        let Some((root, checks)) = self.checks.get_key_value(root) else {
            return error(StatusCode::NOT_FOUND, "404 page not found");
        };
        if name.is_empty() {
            return self.all(root, checks, query);
        }
        match checks.iter().find(|check| check.name == name).map(|check| (check.run)()) {
            Some(Ok(())) => text("ok"),
            Some(Err(problem)) => {
                let message = format!("internal server error: {problem}");
                error(StatusCode::INTERNAL_SERVER_ERROR, &message)
            }
            None => error(StatusCode::NOT_FOUND, "404 page not found"),
        }
    }

    fn all(&self, root: &'static str, checks: &[Check], query: &str) -> Answer {
        let excluded = values(query, "exclude");
        let mut unknown = excluded.clone();
        let (mut report, mut problems) = (String::new(), Vec::new());
        for Check { name, run } in checks {
            if excluded.contains(*name) {
                unknown.remove(*name);
                report += &format!("[+]{name} excluded: ok\n");
                continue;
            }
            let outcome = run();
            self.observe(name, root, outcome.is_ok());
            match outcome {
                Ok(()) => report += &format!("[+]{name} ok\n"),
                // Everybody may see this page, so only the log says why.
                Err(problem) => {
                    report += &format!("[-]{name} failed: reason withheld\n");
                    problems.push(format!("{name}: {problem}"));
                }
            }
        }
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            report +=
                &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
        }
        if !problems.is_empty() {
            info!(check = root, problems = problems.join("; "), "health check failed");
            let message = format!("{report}{root} check failed");
            return error(StatusCode::INTERNAL_SERVER_ERROR, &message);
        }
        if values(query, "verbose").is_empty() {
            return no_sniff(text("ok"));
        }
        no_sniff(text(format!("{report}{root} check passed\n")))
    }

    fn observe(&self, name: &'static str, root: &'static str, good: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last.insert((name, root), good);
        let status = if good { "success" } else { "error" };
        *seen.total.entry((name, status, root)).or_default() += 1;
    }

    /// Forgets what was counted.
    pub(super) fn reset(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::default();
    }

    /// Returns what was counted, in Prometheus' text format.
    pub(super) fn metrics(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = String::new();
        if !seen.last.is_empty() {
            page += "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a \
                     single healthcheck.\n# TYPE kubernetes_healthcheck gauge\n";
        }
        for ((name, root), good) in &seen.last {
            let labels = format!("{{name=\"{name}\",type=\"{root}\"}}");
            let _ = writeln!(page, "kubernetes_healthcheck{labels} {}", u8::from(*good));
        }
        if !seen.total.is_empty() {
            page += "# HELP kubernetes_healthchecks_total [STABLE] This metric records the \
                     results of all healthcheck.\n# TYPE kubernetes_healthchecks_total counter\n";
        }
        for ((name, status, root), count) in &seen.total {
            let labels = format!("{{name=\"{name}\",status=\"{status}\",type=\"{root}\"}}");
            let _ = writeln!(page, "kubernetes_healthchecks_total{labels} {count}");
        }
        page
    }
}

/// Returns the values of a key, each once; a key without a value has the empty one.
fn values(query: &str, key: &str) -> std::collections::BTreeSet<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.to_owned()).collect()
}

#[cfg(test)]
mod tests;
