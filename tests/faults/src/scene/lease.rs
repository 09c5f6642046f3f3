//! Who leads, as far as the proxy has seen it.

use berth_stand::try_wait_for;

use super::Scene;
use crate::failed::Outcome;
use crate::proxy::Exchange;
use crate::{ELECTION, SOON};

impl Scene {
    /// Waits until one of the schedulers that run holds the Lease, and returns its user.
    ///
    /// # Errors
    /// [`crate::Failed::TimedOut`].
    pub fn leader(&self) -> Outcome<String> {
        let leads = || {
            let exchanges = self.proxy.exchanges(0);
            let (number, last) =
                exchanges.iter().enumerate().rfind(|(_, exchange)| holder(exchange).is_some())?;
            let user = &last.asked.user;
            let runs = self.schedulers.iter().any(|scheduler| scheduler.user == *user);
            // One that was started again does not hold what the one before has held.
            let began = self.began.get(user).is_some_and(|began| *began <= number);
            (runs && began && !holder(last)?.is_empty()).then(|| user.clone())
        };
        Ok(try_wait_for(SOON, "a scheduler leads", leads)?)
    }
}

/// Returns whom a write to the Lease that was done has named; empty if it has released it.
pub fn holder(exchange: &Exchange) -> Option<String> {
    let asked = &exchange.asked;
    let done = exchange.server.is_some_and(|status| (200..300).contains(&status));
    if !done || !asked.is_write() || asked.resource != "leases" {
        return None;
    }
    let lease = asked.json();
    // One that is made is named by its body only.
    let ours = lease["metadata"]["name"] == ELECTION.name;
    ours.then(|| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}
