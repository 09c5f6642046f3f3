//! What must be so of claims and devices when nothing happens any more.

use berth_core::engine::Engine;
use berth_core::types::Pod;
use berth_core::types::claim::Consumer;

use crate::world::World;

use super::claims::Book;
use super::grants::foreign;

/// I12: nothing is allocated but to pods that are on a node.
pub(super) fn leaked(book: &Book, world: &World) -> Option<String> {
    let placed = |consumer: &Consumer| match consumer {
        Consumer::Pod(uid) => world.pod_by_uid(uid).is_some_and(|pod| pod.node_name.is_some()),
        Consumer::PodGroup { .. } | Consumer::Other { .. } => false,
    };
    for claim in book.claims() {
        let of = &claim.key;
        if foreign(claim) {
            return Some(format!("another scheduler's claim {of} is left"));
        }
        if claim.allocation.is_some() && !claim.reserved_for.iter().any(placed) {
            return Some(format!("claim {of} is allocated, and no pod of it is on a node"));
        }
        if let Some(idle) = claim.reserved_for.iter().find(|consumer| !placed(consumer)) {
            return Some(format!("claim {of} is reserved for {idle:?}, which is on no node"));
        }
    }
    None
}

/// I5: every pod on a node has its claims, unless a fault has taken them.
pub(super) fn bereft(book: &Book, world: &World, excused: &dyn Fn(&Pod) -> bool) -> Option<String> {
    let mut placed = world.pods().filter(|pod| pod.node_name.is_some() && !pod.finished());
    placed.find_map(|pod| {
        let node = world.node(pod.node_name.as_ref()?)?;
        let text = book.unready(pod, node).filter(|_| !excused(pod))?;
        Some(format!("{} is on {}, but {text}", pod.name, node.name))
    })
}

/// I11: what the ledger has of claims and devices is what the world has.
pub(super) fn differs(book: &Book, engine: &Engine) -> Option<String> {
    let devices = engine.cluster().devices();
    for claim in book.claims() {
        let Some(record) = devices.claim(&claim.key) else {
            return Some(format!("claim {} is missing in the ledger", claim.key));
        };
        if *record.claim != *claim {
            return Some(format!("claim {} is outdated in the ledger", claim.key));
        }
        if record.planned.is_some() {
            return Some(format!("claim {} has a plan, and none is under way", claim.key));
        }
    }
    let mut slices = book.stock.slices();
    if let Some(slice) = slices.find(|slice| !devices.slices().any(|known| known == *slice)) {
        return Some(format!("slice {} is missing or outdated in the ledger", slice.name));
    }
    let more = (devices.claims().count(), devices.slices().count());
    let (claims, slices) = (book.claims().count(), book.stock.slices().count());
    (more != (claims, slices)).then(|| "the ledger has a claim or slice too many".to_owned())
}
