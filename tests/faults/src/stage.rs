//! On what kind of control plane a row is played.

use std::time::Duration;

use berth_audit::{LeaseRule, Replica};
use berth_stand::{Options, User};
use serde_json::{Value, json};

/// The users that schedulers come in as; a row starts as many as it wants.
pub(crate) const REPLICAS: [&str; 3] = ["replica-1", "replica-2", "replica-3"];

/// Rows with settings of the same name share a control plane.
#[derive(Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    /// What the schedulers run for, if they do.
    pub election: Option<Election>,
    /// Changes how the stand is started.
    pub options: fn(&mut Options),
}

impl Setting {
    /// One scheduler, no election, everybody may do everything.
    pub const PLAIN: Setting = Setting { name: "plain", election: None, options: |_| {} };
    /// Up to three schedulers that run for one Lease.
    pub const ELECTING: Setting =
        Setting { name: "electing", election: Some(ELECTION), options: |_| {} };
    /// The same with the times of kube-scheduler's defaults.
    pub const ELECTING_BY_DEFAULT: Setting = Setting {
        name: "electing-by-default",
        election: Some(Election {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            ..ELECTION
        }),
        options: |_| {},
    };

    /// All groups, a history that a checker can read, and a token for each replica.
    pub(crate) fn stand_options(&self) -> Options {
        let user =
            |name: &str| User { name: name.to_owned(), groups: vec!["system:masters".to_owned()] };
        let mut options = Options {
            users: REPLICAS.map(user).to_vec(),
            keep_history: true,
            json_storage: true,
            audit_log: true,
            ..Options::all_groups()
        };
        (self.options)(&mut options);
        options
    }

    pub(crate) fn replicas(&self) -> Vec<Replica> {
        let replica = |user: &str| Replica {
            user: user.to_owned(),
            scheduler_names: vec!["default-scheduler".to_owned()],
            lease: self.election.map(|election| election.rule()),
        };
        REPLICAS.map(replica).to_vec()
    }
}

/// The Lease that electing schedulers run for; all settings have the same, with their own times.
#[derive(Clone, Copy, Debug)]
pub struct Election {
    pub namespace: &'static str,
    pub name: &'static str,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

/// Short, because many repeats wait for its end; long enough for a machine that is busy.
pub const ELECTION: Election = Election {
    namespace: "kube-system",
    name: "campaign",
    lease_duration: Duration::from_secs(4),
    renew_deadline: Duration::from_secs(3),
    retry_period: Duration::from_secs(1),
};

impl Election {
    /// Returns the path of the Lease.
    pub fn path(&self) -> String {
        let Election { namespace, name, .. } = self;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }

    /// Returns the `?timeout` of a leader's writes, for which a successor waits.
    pub(crate) fn write_timeout(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline).min(Duration::from_secs(5))
    }

    pub(crate) fn configuration(&self) -> Value {
        let seconds = |time: Duration| format!("{}s", time.as_secs());
        json!({
            "leaderElect": true,
            "resourceNamespace": self.namespace,
            "resourceName": self.name,
            "leaseDuration": seconds(self.lease_duration),
            "renewDeadline": seconds(self.renew_deadline),
            "retryPeriod": seconds(self.retry_period),
        })
    }

    fn rule(&self) -> LeaseRule {
        LeaseRule {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
        }
    }
}
