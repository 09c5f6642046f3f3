//! Sets of nodes, as bits by dense index.

use super::nodes::NodeIdx;

/// A set of nodes. It takes room for the span of its indices, so a rack of many is small.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    /// The first word that is kept.
    first: usize,
    words: Vec<u64>,
    len: usize,
}

impl NodeSet {
    pub fn insert(&mut self, node: NodeIdx) {
        let (word, bit) = place(node);
        if self.words.is_empty() {
            self.first = word;
        } else if word < self.first {
            self.words.splice(..0, std::iter::repeat_n(0, self.first - word));
            self.first = word;
        }
        let at = word - self.first;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.len += usize::from(self.words[at] & bit == 0);
        self.words[at] |= bit;
    }

    pub fn remove(&mut self, node: NodeIdx) {
        let (word, bit) = place(node);
        let at = word.checked_sub(self.first);
        if let Some(w) = at.and_then(|at| self.words.get_mut(at)) {
            self.len -= usize::from(*w & bit != 0);
            *w &= !bit;
        }
    }

    pub fn contains(&self, node: NodeIdx) -> bool {
        let (word, bit) = place(node);
        self.word(word) & bit != 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the nodes in index order.
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        (self.first..).zip(&self.words).flat_map(|(word, bits)| {
            let mut rest = *bits;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(NodeIdx((word * 64) as u32 + bit))
            })
        })
    }

    /// Takes the nodes of another set in. Cost: the span of both.
    pub fn extend(&mut self, other: &NodeSet) {
        if self.words.is_empty() {
            self.clone_from(other);
            return;
        }
        let end = |set: &NodeSet| set.first + set.words.len();
        let (first, end) = (self.first.min(other.first), end(self).max(end(other)));
        let words: Vec<u64> = (first..end).map(|at| self.word(at) | other.word(at)).collect();
        let len = words.iter().map(|word| word.count_ones() as usize).sum();
        *self = NodeSet { first, words, len };
    }

    /// Returns the nodes that are in both. Cost: the span of this one.
    pub fn intersection(&self, other: &NodeSet) -> NodeSet {
        self.combined(other, |own, other| own & other)
    }

    /// Returns the nodes that are in this one only. Cost: its span.
    pub fn difference(&self, other: &NodeSet) -> NodeSet {
        self.combined(other, |own, other| own & !other)
    }

    fn combined(&self, other: &NodeSet, combine: impl Fn(u64, u64) -> u64) -> NodeSet {
        let word = |(at, own): (usize, &u64)| combine(*own, other.word(self.first + at));
        let words: Vec<u64> = self.words.iter().enumerate().map(word).collect();
        let len = words.iter().map(|word| word.count_ones() as usize).sum();
        NodeSet { first: self.first, words, len }
    }

    fn word(&self, at: usize) -> u64 {
        let at = at.checked_sub(self.first);
        at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }
}

/// Returns the index of the node's word, and its bit.
fn place(node: NodeIdx) -> (usize, u64) {
    (node.at() / 64, 1u64 << (node.at() % 64))
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &NodeSet) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for NodeSet {}

impl FromIterator<NodeIdx> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIdx>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(of: &BTreeSet<u32>) -> NodeSet {
        of.iter().copied().map(NodeIdx).collect()
    }

    fn numbers(set: &NodeSet) -> Vec<u32> {
        set.iter().map(|node| node.0).collect()
    }

    proptest! {
        /// In whatever order nodes come and go it is what a set of their numbers is.
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..400), 0..60)) {
            let (mut own, mut plain) = (NodeSet::default(), BTreeSet::new());
            for (comes, node) in steps {
                if comes {
                    own.insert(NodeIdx(node));
                    plain.insert(node);
                } else {
                    own.remove(NodeIdx(node));
                    plain.remove(&node);
                }
            }
            prop_assert_eq!(own.len(), plain.len());
            prop_assert_eq!(&own, &set(&plain), "however it came about");
            prop_assert_eq!(numbers(&own), plain.iter().copied().collect::<Vec<_>>());
            prop_assert!((0..400).all(|at| own.contains(NodeIdx(at)) == plain.contains(&at)));
        }

        #[test]
        fn two_of_them_are_combined(
            one in prop::collection::btree_set(0u32..400, 0..40),
            other in prop::collection::btree_set(0u32..400, 0..40),
        ) {
            let both: BTreeSet<u32> = one.intersection(&other).copied().collect();
            let only: BTreeSet<u32> = one.difference(&other).copied().collect();
            prop_assert_eq!(set(&one).intersection(&set(&other)), set(&both));
            prop_assert_eq!(set(&one).difference(&set(&other)), set(&only));
            let mut all = set(&one);
            all.extend(&set(&other));
            prop_assert_eq!(all, set(&one.union(&other).copied().collect()));
        }
    }
}
