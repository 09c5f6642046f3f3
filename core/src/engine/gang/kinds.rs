//! Which kind of member comes next, where that decides: a member whose place hangs on how many others
//! are in a domain may fit only after them, or only before.
//!
//! Where it decides, each kind that is left has its turn at a decision before that counts as a dead
//! end.

use std::collections::{BTreeMap, BTreeSet};

use super::{Gang, Trial, Turn};

impl Gang {
    /// Notes which members are alike: of one class, and in the same parts. `counts`: the place of some
    /// hangs on how many others are in a domain.
    pub(super) fn note_kinds(&mut self, counts: bool) {
        let mut kinds: BTreeMap<(usize, &[usize]), usize> = BTreeMap::new();
        let mut kind_of = BTreeMap::new();
        for (class, members) in self.kinds.iter().enumerate() {
            for member in members {
                let next = kinds.len();
                let units = &self.view.members[*member].units[..];
                kind_of.insert(*member, *kinds.entry((class, units)).or_insert(next));
            }
        }
        self.order_decides = counts && kinds.len() > 1;
        self.kind_of = kind_of;
    }

    /// Has a member of another kind decided next, after every node was tried for `member` in vain.
    /// False if all kinds had their turn.
    pub(super) fn other_kind_next(&mut self, member: usize, trial: &mut Trial) -> bool {
        if !self.order_decides {
            return false;
        }
        let next = self.frames.len();
        trial.kinds.extend(self.kind_of.get(&member));
        let mut waiting = BTreeSet::new();
        let mut found = None;
        for (at, turn) in self.order.iter().enumerate().skip(next) {
            match turn {
                Turn::Domain(unit) => waiting.extend([*unit]),
                Turn::Member(other) => {
                    let had = self.kind_of.get(other).is_none_or(|kind| trial.kinds.contains(kind));
                    if had {
                        continue;
                    }
                    if self.view.members[*other].units.iter().any(|unit| waiting.contains(unit)) {
                        // It would need a placement first, which is not gone into.
                        self.unproven = true;
                    } else {
                        found = found.or(Some(at));
                    }
                }
            }
        }
        let Some(at) = found else { return false };
        self.order[next..=at].rotate_right(1);
        let (conflicts, kinds) = (std::mem::take(&mut trial.conflicts), trial.kinds.clone());
        self.trial = Some(Trial { conflicts, kinds, ..Trial::default() });
        true
    }
}
