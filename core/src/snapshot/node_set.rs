//! Sets of nodes, as bits by dense index.

use super::nodes::NodeIdx;

/// A set of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
    len: usize,
}

impl NodeSet {
    pub fn insert(&mut self, node: NodeIdx) {
        let (word, bit) = (node.at() / 64, 1u64 << (node.at() % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub fn remove(&mut self, node: NodeIdx) {
        let (word, bit) = (node.at() / 64, 1u64 << (node.at() % 64));
        if let Some(w) = self.words.get_mut(word) {
            self.len -= usize::from(*w & bit != 0);
            *w &= !bit;
        }
    }

    pub fn contains(&self, node: NodeIdx) -> bool {
        let (word, bit) = (node.at() / 64, 1u64 << (node.at() % 64));
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the nodes in index order.
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(NodeIdx((at * 64) as u32 + bit))
            })
        })
    }
}

impl FromIterator<NodeIdx> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIdx>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}
