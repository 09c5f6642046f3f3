//! `leaderElection` and `clientConnection`.

use berth_core::framework::args::{ArgError, Args};
use berth_core::types::{Span, Value};

use super::message::{REQUIRED, go_duration, int32, invalid, invalid_text, string, string_or};
use super::{ClientConnection, LeaderElection};

impl Default for LeaderElection {
    fn default() -> LeaderElection {
        LeaderElection {
            leader_elect: true,
            lease_duration: Span::from_secs(15),
            renew_deadline: Span::from_secs(10),
            retry_period: Span::from_secs(2),
            resource_lock: "leases".into(),
            resource_name: "kube-scheduler".into(),
            resource_namespace: "kube-system".into(),
        }
    }
}

impl Default for ClientConnection {
    fn default() -> ClientConnection {
        ClientConnection {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".into(),
            qps: 50.0,
            burst: 100,
        }
    }
}

/// Reads `leaderElection`.
pub(super) fn leader_election(root: &Args) -> LeaderElection {
    let default = LeaderElection::default();
    let Some(args) = root.object("leaderElection") else { return default };
    let leader_elect = args.bool("leaderElect", default.leader_elect);
    let span = |key, default| positive_span(&args, key, default, leader_elect);
    let read = LeaderElection {
        leader_elect,
        lease_duration: span("leaseDuration", default.lease_duration),
        renew_deadline: span("renewDeadline", default.renew_deadline),
        retry_period: span("retryPeriod", default.retry_period),
        resource_lock: string_or(&args, "resourceLock", &default.resource_lock),
        resource_name: string_or(&args, "resourceName", &default.resource_name),
        resource_namespace: string_or(&args, "resourceNamespace", &default.resource_namespace),
    };
    args.finish();
    for problem in read.problems() {
        args.error(&problem.path, problem.message);
    }
    read
}

/// Reads a duration; zero and absent mean the default, and so does a negative one, which is an
/// error if it is used.
fn positive_span(args: &Args, key: &str, default: Span, used: bool) -> Span {
    match args.duration_ms(key) {
        None | Some(0) => default,
        Some(ms) => u64::try_from(ms).map(Span).unwrap_or_else(|_| {
            if used {
                args.error(key, invalid_text(&string(args, key), "must be greater than zero"));
            }
            default
        }),
    }
}

impl LeaderElection {
    /// Returns what is inconsistent, with paths below `leaderElection`. Command-line flags change
    /// these fields after the file was read, so whoever applies them asks again.
    pub fn problems(&self) -> Vec<ArgError> {
        let mut problems = Vec::new();
        if !self.leader_elect {
            return problems;
        }
        let mut wrong =
            |path: &str, message| problems.push(ArgError { path: path.to_owned(), message });
        if self.resource_lock != "leases" {
            let detail = "resourceLock value must be \"leases\"";
            wrong("resourceLock", invalid_text(&self.resource_lock, detail));
        }
        let names = [
            ("resourceName", &self.resource_name),
            ("resourceNamespace", &self.resource_namespace),
        ];
        for (key, _) in names.iter().filter(|(_, name)| name.is_empty()) {
            wrong(key, REQUIRED.to_owned());
        }
        if self.lease_duration <= self.renew_deadline {
            let renew = go_duration(self.renew_deadline);
            let detail = format!("must be greater than `RenewDeadline` ({renew})");
            wrong("leaseDuration", invalid_text(&go_duration(self.lease_duration), detail));
        }
        // client-go's elector refuses it: a try may take the period and its jitter.
        let (renew, retry) = (u128::from(self.renew_deadline.0), u128::from(self.retry_period.0));
        if renew * 10 <= retry * 12 {
            let detail = "must be greater than retryPeriod*JitterFactor (1.2)";
            wrong("renewDeadline", invalid_text(&go_duration(self.renew_deadline), detail));
        }
        problems
    }
}

/// Reads `clientConnection`.
pub(super) fn client_connection(root: &Args) -> ClientConnection {
    let default = ClientConnection::default();
    let Some(args) = root.object("clientConnection") else { return default };
    let burst = int32(&args, "burst").filter(|&burst| burst != 0).unwrap_or(default.burst);
    if burst < 0 {
        args.error("burst", invalid(burst, "must be non-negative"));
    }
    let read = ClientConnection {
        kubeconfig: string(&args, "kubeconfig"),
        accept_content_types: string(&args, "acceptContentTypes"),
        content_type: string_or(&args, "contentType", &default.content_type),
        qps: number(&args, "qps").filter(|&qps| qps != 0.0).unwrap_or(default.qps),
        burst,
    };
    args.finish();
    read
}

fn number(args: &Args, key: &str) -> Option<f64> {
    match args.raw(key)? {
        Value::Int(i) => Some(*i as f64),
        Value::Float(x) => Some(*x),
        Value::Null => None,
        other => {
            args.error(key, format!("must be a number, not {}", other.shape()));
            None
        }
    }
}
