//! What is done to the requests that a rule chooses, and a count of what took effect.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_stand::{TimedOut, try_wait_for};
use tokio::sync::watch;

use super::request::{Asked, Requests};

/// How a connection is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// TCP is closed; TLS says nothing.
    #[default]
    Close,
    /// A TLS alert out of turn, then as above. client-go takes it for no ordinary end.
    Alert,
}

/// What happens to a request, and when that counts as effective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing but the rule's hold or delay. Counts when the request goes on.
    #[default]
    Pass,
    /// It never reaches the server, and its sender hears nothing. Always counts.
    CutRequest(Ending),
    /// It never reaches the server; the connection stays open in silence. Always counts.
    DropRequest,
    /// It never reaches the server, which seems to answer so. Always counts.
    Refuse { status: u16, retry_after_s: Option<u32> },
    /// The server does it; its sender hears nothing. Counts if the server said yes.
    CutAnswer(Ending),
    /// As [`Fault::CutAnswer`], but the connection stays open in silence.
    DropAnswer,
    /// The server does it, and seems to answer so. Counts if the server said yes.
    ReplaceStatus(u16),
    /// The answer's body is cut after so many bytes. Counts if there were more.
    Truncate(usize),
    /// The answer's body comes in pieces of so many bytes, each after a pause. Counts if there is
    /// more than one.
    Slow { bytes: usize, pause: Duration },
}

/// Which requests, and what happens to them.
#[derive(Clone, Default)]
pub struct Rule {
    requests: Requests,
    pub(super) fault: Fault,
    pub(super) hold: bool,
    pub(super) hold_answer: bool,
    pub(super) delay: Duration,
}

impl Rule {
    pub fn on(requests: Requests) -> Rule {
        Rule { requests, ..Rule::default() }
    }

    pub fn then(self, fault: Fault) -> Rule {
        Rule { fault, ..self }
    }

    /// Keeps the request from the server until [`Injection::release`].
    pub fn hold(self) -> Rule {
        Rule { hold: true, ..self }
    }

    /// Keeps the answer, which the server has given already, until [`Injection::release`].
    pub fn hold_answer(self) -> Rule {
        Rule { hold_answer: true, ..self }
    }

    /// Keeps the request from the server so long.
    pub fn delay(self, delay: Duration) -> Rule {
        Rule { delay, ..self }
    }
}

/// The rules in force.
#[derive(Default)]
pub(super) struct Rules {
    active: Mutex<Vec<Arc<Active>>>,
}

/// A rule in force, with what it did so far.
pub(super) struct Active {
    pub(super) rule: Rule,
    fulfilled: AtomicU64,
    chosen: AtomicU64,
    held: AtomicU64,
    effective: AtomicU64,
    released: watch::Sender<bool>,
}

impl Rules {
    pub(super) fn add(rules: &Arc<Rules>, rule: Rule) -> Injection {
        let active = Arc::new(Active {
            rule,
            fulfilled: AtomicU64::new(0),
            chosen: AtomicU64::new(0),
            held: AtomicU64::new(0),
            effective: AtomicU64::new(0),
            released: watch::Sender::new(false),
        });
        rules.lock().push(Arc::clone(&active));
        Injection { active, rules: Arc::clone(rules) }
    }

    /// Returns the oldest rule that chooses this request.
    pub(super) fn choose(&self, asked: &Asked) -> Option<Arc<Active>> {
        self.lock().iter().find(|active| active.chooses(asked)).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Active>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn chooses(&self, asked: &Asked) -> bool {
        if !self.rule.requests.fulfils(asked) {
            return false;
        }
        let turn = self.fulfilled.fetch_add(1, SeqCst) + 1;
        let chosen = self.rule.requests.turns.include(turn);
        if chosen {
            self.chosen.fetch_add(1, SeqCst);
        }
        chosen
    }

    pub(super) fn took_effect(&self) {
        self.effective.fetch_add(1, SeqCst);
    }

    /// Waits until the rule lets go.
    pub(super) async fn hold(&self) {
        self.held.fetch_add(1, SeqCst);
        // The sender lives in self, so this ends by a release only.
        let _ = self.released.subscribe().wait_for(|released| *released).await;
    }
}

/// A rule in force. Dropping it ends the rule and lets go what it holds.
pub struct Injection {
    active: Arc<Active>,
    rules: Arc<Rules>,
}

impl Injection {
    /// Returns how many requests the rule chose.
    pub fn chosen(&self) -> u64 {
        self.active.chosen.load(SeqCst)
    }

    /// Returns how many requests and answers were held so far.
    pub fn held(&self) -> u64 {
        self.active.held.load(SeqCst)
    }

    /// Returns how often the fault took effect; when that is stands at [`Fault`].
    pub fn effective(&self) -> u64 {
        self.active.effective.load(SeqCst)
    }

    /// Lets go what is held, and holds nothing more.
    pub fn release(&self) {
        self.active.released.send_replace(true);
    }

    /// Waits until a request or answer is held.
    ///
    /// # Errors
    /// [`TimedOut`].
    pub fn wait_held(&self, deadline: Duration) -> Result<(), TimedOut> {
        try_wait_for(deadline, "the request is held", || (self.held() > 0).then_some(()))
    }

    /// Waits until the fault has taken effect `n` times.
    ///
    /// # Errors
    /// [`TimedOut`].
    pub fn wait_effective(&self, n: u64, deadline: Duration) -> Result<(), TimedOut> {
        let what = format!("the fault takes effect {n} times");
        try_wait_for(deadline, &what, || (self.effective() >= n).then_some(()))
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.rules.lock().retain(|active| !Arc::ptr_eq(active, &self.active));
        self.release();
    }
}
