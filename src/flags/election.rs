//! Flags on leader election. They count before the configuration file.

use berth_core::types::Span;
use clap::ArgAction;

use crate::config::LeaderElection;

use super::values::{Shown, duration, go_bool, shown_duration};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Leader election flags")]
pub struct ElectionFlags {
    /// Decide only while holding the lease [default: true]
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set
    )]
    leader_elect: Option<bool>,
    /// How long others wait after the last renewal before they take the lease [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Option<Span>,
    /// How long the leader tries to renew before it gives up [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Option<Span>,
    /// The kind of object that is the lock; only leases [default: leases]
    #[arg(long, value_name = "KIND")]
    leader_elect_resource_lock: Option<String>,
    /// The name of the lease [default: kube-scheduler]
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// The namespace of the lease [default: kube-system]
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// How long to wait between tries [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Option<Span>,
}

impl ElectionFlags {
    /// Sets what the command line names, and checks the outcome.
    ///
    /// # Errors
    /// What is inconsistent then.
    pub(super) fn apply(&self, election: &mut LeaderElection) -> Result<(), String> {
        fn set<T: Clone>(target: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                target.clone_from(value);
            }
        }
        set(&mut election.leader_elect, &self.leader_elect);
        set(&mut election.lease_duration, &self.leader_elect_lease_duration);
        set(&mut election.renew_deadline, &self.leader_elect_renew_deadline);
        set(&mut election.resource_lock, &self.leader_elect_resource_lock);
        set(&mut election.resource_name, &self.leader_elect_resource_name);
        set(&mut election.resource_namespace, &self.leader_elect_resource_namespace);
        set(&mut election.retry_period, &self.leader_elect_retry_period);
        self.refuse_zero(election.leader_elect)?;
        let problems: Vec<String> =
            election.problems().iter().map(|problem| format!("leaderElection.{problem}")).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// Zero means the default in a file only.
    fn refuse_zero(&self, elects: bool) -> Result<(), String> {
        let spans = [
            ("lease-duration", self.leader_elect_lease_duration),
            ("renew-deadline", self.leader_elect_renew_deadline),
            ("retry-period", self.leader_elect_retry_period),
        ];
        match spans.iter().find(|(_, span)| elects && *span == Some(Span::ZERO)) {
            Some((name, _)) => Err(format!("--leader-elect-{name} must be greater than zero")),
            None => Ok(()),
        }
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let default = LeaderElection::default();
        let span = |given: Option<Span>, default| shown_duration(given.unwrap_or(default));
        let text = |given: &Option<String>, default| given.clone().unwrap_or(default);
        let lease = span(self.leader_elect_lease_duration, default.lease_duration);
        let renew = span(self.leader_elect_renew_deadline, default.renew_deadline);
        let namespace = text(&self.leader_elect_resource_namespace, default.resource_namespace);
        vec![
            ("leader-elect", self.leader_elect.unwrap_or(default.leader_elect).to_string()),
            ("leader-elect-lease-duration", lease),
            ("leader-elect-renew-deadline", renew),
            (
                "leader-elect-resource-lock",
                text(&self.leader_elect_resource_lock, default.resource_lock),
            ),
            (
                "leader-elect-resource-name",
                text(&self.leader_elect_resource_name, default.resource_name),
            ),
            ("leader-elect-resource-namespace", namespace),
            (
                "leader-elect-retry-period",
                span(self.leader_elect_retry_period, default.retry_period),
            ),
        ]
    }
}
