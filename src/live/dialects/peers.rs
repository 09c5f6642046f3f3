//! Whether the scheduler that a dialect comes from leads: it writes the status of its groups then.
//!
//! One Lease a dialect is watched, and read when it may have changed; no write asks for itself.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{info, warn};

use super::Dialects;
use crate::live::client::Api;
use crate::live::lease::Rules;
use crate::live::lease::moment::Moment;
use crate::live::lease::record::{self, Record};
use crate::live::lease::run::look;
use crate::wire::dialect::DialectDef;

const ANSWER: Duration = Duration::from_secs(10);
/// Without a word from the watch the Lease is read so often.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// A Lease that can't be read is tried again so soon.
const RETRY: Duration = Duration::from_secs(10);
const TELL_AGAIN: Duration = Duration::from_secs(3600);

/// Keeps `dialects` told, for ever. A dialect without a Lease needs none of this.
pub(super) async fn follow(api: Api, dialects: Dialects, def: &'static DialectDef) {
    let Some(peer) = def.peer else { return };
    let rules = Rules {
        namespace: peer.namespace.to_owned(),
        name: peer.name.to_owned(),
        // Of the watch only: where nobody renews, a new one every five minutes will do.
        lease_duration: Duration::from_secs(150),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let (tell, changes) = watch::channel(String::new());
    let following = Following { api: api.clone(), rules: rules.clone(), complained: None };
    let never = tokio::select! {
        never = look::look(api, rules, tell) => never,
        never = following.run(dialects, def, changes) => never,
    };
    match never {}
}

struct Following {
    api: Api,
    rules: Rules,
    complained: Option<Instant>,
}

impl Following {
    async fn run(
        mut self,
        dialects: Dialects,
        def: &DialectDef,
        mut changes: watch::Receiver<String>,
    ) -> Infallible {
        let mut holder = Holder::default();
        loop {
            let wait = self.step(&mut holder, &dialects, def).await;
            // While it is held each renewal is a change; that it goes on is of no interest.
            let held = holder.holds(Moment::now());
            let changed = async {
                if held || changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let _ = tokio::time::timeout(wait, changed).await;
        }
    }

    /// Reads the Lease once, and returns when to read it again.
    async fn step(
        &mut self,
        holder: &mut Holder,
        dialects: &Dialects,
        def: &DialectDef,
    ) -> Duration {
        let now = Moment::now();
        match self.read().await {
            Ok(record) => {
                self.complained = None;
                let wait = holder.see(record, now);
                self.settle(dialects, def, holder);
                wait.unwrap_or(LOOK_AGAIN)
            }
            Err(problem) => {
                // Not to know is not to write.
                dialects.known().ours.remove(&def.dialect);
                self.complain(def, &problem);
                RETRY
            }
        }
    }

    fn settle(&self, dialects: &Dialects, def: &DialectDef, holder: &Holder) {
        let ours = !holder.holds(Moment::now());
        let mut known = dialects.known();
        let changed = match ours {
            true => known.ours.insert(def.dialect),
            false => known.ours.remove(&def.dialect),
        };
        drop(known);
        let (dialect, lease) = (def.dialect.name, self.shown());
        match (changed, ours) {
            (true, true) => info!(dialect, %lease, "nobody leads there: its groups are told by us"),
            (true, false) => info!(dialect, %lease, "somebody leads there and tells its groups"),
            (false, _) => {}
        }
    }

    /// `None` if there is no such Lease.
    async fn read(&self) -> Result<Option<Record>, String> {
        let call = record::read_call(&self.rules, ANSWER);
        let answer = self.api.call(&call, ANSWER).await;
        let answer = answer.map_err(|error| error.message().to_owned())?;
        if answer.status.as_u16() == 404 {
            return Ok(None);
        }
        if !answer.status.is_success() {
            let failure = answer.failure();
            return Err(format!("{} ({})", failure.message, failure.code));
        }
        let object = serde_json::from_slice(&answer.body).ok();
        object.and_then(Record::read).map(Some).ok_or("the Lease can't be read".to_owned())
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.rules.namespace, self.rules.name)
    }

    fn complain(&mut self, def: &DialectDef, problem: &str) {
        if self.complained.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
            let (dialect, lease) = (def.dialect.name, self.shown());
            warn!(
                dialect, %lease, %problem,
                "it can't be told whether the dialect's own scheduler leads; its groups are not told"
            );
            self.complained = Some(Instant::now());
        }
    }
}

/// Who holds a Lease, by our own clock: a holder counts as long as it was seen to renew.
#[derive(Default)]
pub(super) struct Holder {
    seen: Option<Record>,
    changed: Moment,
}

impl Holder {
    /// Takes in what a read found. Returns when somebody who holds it now won't any more unless he
    /// renews; none if nobody does.
    pub(super) fn see(&mut self, record: Option<Record>, now: Moment) -> Option<Duration> {
        let spec = |record: &Option<Record>| record.as_ref().map(|record| record.spec().clone());
        if spec(&self.seen) != spec(&record) {
            self.changed = now;
        }
        self.seen = record;
        let left = self.left(now);
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn holds(&self, now: Moment) -> bool {
        !self.left(now).is_zero()
    }

    fn left(&self, now: Moment) -> Duration {
        match &self.seen {
            Some(record) if !record.holder.is_empty() => {
                record.duration.saturating_sub(now.at_least_since(self.changed))
            }
            Some(_) | None => Duration::ZERO,
        }
    }
}
