//! Claims: what may be written to them, and what must be so while their pods run (I1, I12, I14).

use std::collections::{BTreeMap, BTreeSet};

use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::DeviceEvent;
use berth_core::types::claim::{Allocation, ClaimKey, ClaimRef, Consumer, DeviceId};
use berth_core::types::{Node, Pod, PodUid, ResourceClaim, Text};

use super::grants::{Grants, foreign};
use super::stock::Stock;

/// What is wrong: the invariant, and how it is broken.
pub(super) type Wrong = (&'static str, String);

/// Claims and devices as somebody knows them: the world's log, or a process.
#[derive(Debug, Default)]
pub(super) struct Book {
    claims: BTreeMap<ClaimKey, ResourceClaim>,
    /// UIDs of claims that are gone.
    gone: BTreeSet<Text>,
    pub(super) grants: Grants,
    pub(super) stock: Stock,
}

impl Book {
    pub(super) fn claim(&self, key: &ClaimKey) -> Option<&ResourceClaim> {
        self.claims.get(key)
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.claims.values()
    }

    /// Follows an event; one that is older than what is known says nothing. Says what is granted
    /// beyond what there is.
    pub(super) fn fold(&mut self, event: &DeviceEvent) -> Option<String> {
        self.stock.fold(event);
        match event {
            DeviceEvent::SliceApplied(slice) => {
                self.grants.shows(slice);
                None
            }
            DeviceEvent::ClaimApplied(claim) => {
                let known = self.claims.get(&claim.key);
                let newer = known.is_none_or(|k| k.resource_version < claim.resource_version);
                if !newer || self.gone.contains(&claim.uid) {
                    return None;
                }
                let other = known.filter(|known| known.uid != claim.uid).map(|k| k.uid.clone());
                if let Some(other) = other {
                    self.grants.replace(&other, false, None);
                }
                self.claims.insert(claim.key.clone(), (**claim).clone());
                let allocation = claim.allocation.as_deref();
                self.grants.replace(&claim.uid, foreign(claim), allocation)
            }
            DeviceEvent::ClaimDeleted { key, uid } => {
                self.gone.insert(uid.clone());
                if self.claims.get(key).is_some_and(|claim| claim.uid == *uid) {
                    self.claims.remove(key);
                    self.grants.replace(uid, false, None);
                }
                None
            }
            _ => None,
        }
    }

    /// Says what a pod lacks of its claims that may be bound to `node`.
    pub(super) fn unready(&self, pod: &Pod, node: &Node) -> Option<String> {
        keys(pod).into_iter().find_map(|(entry, key)| {
            let Some(key) = key else { return Some(format!("{entry} has no claim")) };
            let why = lacks(self.claims.get(&key), pod, node)?;
            Some(format!("claim {key} {why}"))
        })
    }
}

impl Book {
    fn outdated(&self, claim: &ClaimRef, version: u64) -> Option<Wrong> {
        let known = self.claims.get(&claim.key).filter(|known| known.uid == claim.uid);
        let Some(known) = known else {
            return Some(("I10", format!("{} is written, known to be gone", claim.key)));
        };
        (version < known.resource_version).then(|| {
            let seen = known.resource_version;
            ("I10", format!("{} is written at {version}, seen {seen}", claim.key))
        })
    }

    /// I1, I14: nothing is granted that the process knows to be held, or not to be there. A write
    /// that repeats one whose answer was lost may find that the device is not there any more:
    /// what it repeats may have been committed.
    fn ungrantable(
        &self,
        claim: &ClaimRef,
        allocation: &Allocation,
        sent: Option<&Allocation>,
    ) -> Option<Wrong> {
        let again = sent.is_some_and(|sent| sent.grants_as(allocation));
        allocation.results.iter().find_map(|result| {
            if let Some(holder) = self.grants.holder(result, &claim.uid).filter(|_| !again) {
                let text = format!("{} gets {}, {holder} has it", claim.key, result.id);
                return Some(("I1", text));
            }
            let why = self.stock.grantable(&result.id).err().filter(|_| !again)?;
            Some(("I14", format!("{} gets {}: {why}", claim.key, result.id)))
        })
    }
}

/// Says why a pod that uses the claim must not be on `node`.
fn lacks(claim: Option<&ResourceClaim>, pod: &Pod, node: &Node) -> Option<&'static str> {
    let Some(claim) = claim else { return Some("is not there") };
    let Some(allocation) = &claim.allocation else { return Some("is not allocated") };
    if !claim.reserved_for_pod(&pod.uid) {
        return Some("is not reserved for it");
    }
    let selector = allocation.node_selector.as_ref();
    let fits = selector.is_none_or(|selector| selector.matches(&node.name, &node.labels));
    (!fits).then_some("is for another node")
}

/// Returns the pod's entries with the claims that they stand for, none if it is not made yet.
pub(super) fn keys(pod: &Pod) -> Vec<(Text, Option<ClaimKey>)> {
    let key = |name: &Text| ClaimKey { namespace: pod.namespace.clone(), name: name.clone() };
    let made = |entry: &Text| {
        let status = pod.claim_statuses.iter().find(|(name, _)| name == entry);
        status.and_then(|(_, name)| name.as_ref()).map(key)
    };
    let entries = pod.spec.claims.iter();
    entries
        .map(|entry| match entry.from_template {
            true => (entry.name.clone(), made(&entry.name)),
            false => (entry.name.clone(), Some(key(&entry.source))),
        })
        .collect()
}

/// What the auditor knows of claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// By the world's log.
    pub(super) world: Book,
    /// By what the process was told.
    pub(super) seen: Book,
    /// By what it had been told when its last turn ended: what has come since may have come after
    /// the decision.
    before: Book,
    /// What has come since.
    fresh: Vec<DeviceEvent>,
    /// Claims that a fault has changed under their pods, by UID.
    pub(super) tampered: BTreeSet<Text>,
    /// The pods that such a claim was for.
    pub(super) robbed: BTreeSet<PodUid>,
    /// What the process has sent for each claim.
    sent: BTreeMap<ClaimRef, Allocation>,
    /// Claims that it has written to, and for whom.
    touched: BTreeSet<ClaimRef>,
    served: BTreeSet<PodUid>,
    /// What the process has spoken of, and devices in two claims, of which it has to.
    told: BTreeSet<String>,
    to_tell: BTreeSet<DeviceId>,
}

impl Claims {
    pub(super) fn restarted(&mut self) {
        self.seen = Book::default();
        self.before = Book::default();
        self.fresh.clear();
        self.sent.clear();
        self.served.clear();
        self.touched.clear();
        self.told.clear();
        self.to_tell.clear();
    }

    pub(super) fn delivered(&mut self, event: &DeviceEvent) {
        self.seen.fold(event);
        self.fresh.push(event.clone());
        if let DeviceEvent::ClaimApplied(claim) = event {
            self.to_tell.extend(self.seen.grants.conflicts(claim));
        }
    }

    pub(super) fn noticed(&mut self, subject: &str) {
        self.told.insert(subject.to_owned());
    }

    /// The process has had its turn. F24: a device that two claims have is told at once.
    pub(super) fn polled(&mut self) -> Option<Wrong> {
        for event in std::mem::take(&mut self.fresh) {
            self.before.fold(&event);
        }
        self.untold()
    }

    /// Says why the process must not bind the pod: it is so by all that the process may have known
    /// when it decided.
    pub(super) fn unready(&self, pod: &Pod, node: &Node) -> Option<String> {
        keys(pod).into_iter().find_map(|(entry, key)| {
            let Some(key) = key else { return Some(format!("{entry} has no claim")) };
            let why = lacks(self.before.claims.get(&key), pod, node)?;
            let told = self.fresh.iter().filter_map(|event| match event {
                DeviceEvent::ClaimApplied(claim) => Some(&**claim),
                _ => None,
            });
            let mut told = told.filter(|claim| claim.key == key);
            let ready = told.any(|claim| lacks(Some(claim), pod, node).is_none());
            (!ready).then(|| format!("claim {key} {why}"))
        })
    }

    fn untold(&mut self) -> Option<Wrong> {
        let to_tell = std::mem::take(&mut self.to_tell);
        let id = to_tell.into_iter().find(|id| !self.told.contains(&format!("device {id}")))?;
        Some(("F24", format!("{id} is in two claims, and nobody is told")))
    }

    /// Tells whether the process has written to one of the pod's claims.
    pub(super) fn begun(&self, pod: &PodUid) -> bool {
        self.served.contains(pod)
    }

    /// A process sends a write to a claim; `stopping`: after it was asked to stop.
    pub(super) fn sends(&mut self, op: &Op, stopping: bool) -> Option<Wrong> {
        let Op::Claim { claim, resource_version, write } = op else { return None };
        self.world.grants.note_obscure(&self.seen.grants);
        let wrong = |book: &Book| match write {
            ClaimWrite::Read | ClaimWrite::Release { .. } => None,
            ClaimWrite::Protect { .. } => book.outdated(claim, *resource_version),
            ClaimWrite::Allocate { allocation, .. } => {
                let sent = self.sent.get(claim);
                book.outdated(claim, *resource_version)
                    .or_else(|| book.ungrantable(claim, allocation.as_deref()?, sent))
            }
        };
        let wrong = wrong(&self.before).and_then(|_| wrong(&self.seen));
        let grants = matches!(write, ClaimWrite::Protect { .. } | ClaimWrite::Allocate { .. });
        if grants && self.touched.insert(claim.clone()) && stopping {
            return Some(("F39", format!("{} is written first after SIGTERM", claim.key)));
        }
        if let ClaimWrite::Allocate { allocation, pod, .. } = write {
            self.served.insert(pod.uid.clone());
            let sent = allocation.as_deref().map(|allocation| (claim.clone(), allocation.clone()));
            self.sent.extend(sent);
        }
        wrong
    }

    /// Follows the world's log. `runs` tells whether a pod is on a node of ours.
    pub(super) fn logged(
        &mut self,
        event: &DeviceEvent,
        runs: &dyn Fn(&PodUid) -> bool,
    ) -> Option<Wrong> {
        let lost = match event {
            DeviceEvent::ClaimApplied(claim) => self.taken_away(claim, runs),
            _ => None,
        };
        let over = self.world.fold(event).map(|text| ("I1", text));
        lost.or(over)
    }

    /// I12: while a pod runs its claims are allocated, and reserved for it.
    fn taken_away(&self, claim: &ResourceClaim, runs: &dyn Fn(&PodUid) -> bool) -> Option<Wrong> {
        let before = self.world.claims.get(&claim.key).filter(|before| before.uid == claim.uid)?;
        if self.tampered.contains(&claim.uid) {
            return None;
        }
        let users = before.reserved_for.iter().filter_map(|consumer| match consumer {
            Consumer::Pod(uid) => Some(uid),
            Consumer::PodGroup { .. } | Consumer::Other { .. } => None,
        });
        let kept = |uid: &&PodUid| claim.allocation.is_some() && claim.reserved_for_pod(uid);
        let loser = users.filter(|uid| runs(uid)).find(|uid| !kept(uid))?;
        Some(("I12", format!("{loser} runs and loses claim {}", claim.key)))
    }

    /// I12 at a bind's commit. What a fault has done to the claim is not held against anybody.
    pub(super) fn bound(&self, pod: &Pod, node: &Node) -> Option<Wrong> {
        let text = self.world.unready(pod, node)?;
        let excused = self.robbed.contains(&pod.uid);
        (!excused).then(|| ("I12", format!("{} is bound: {text}", pod.name)))
    }
}
