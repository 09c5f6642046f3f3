//! How the GPUs of a node are linked: an annotation on the node, or a catalogue by product.
//!
//! The annotation is what `nvidia-smi topo -m` prints ([`smi`]) or a short form of our own
//! ([`short`]). Either becomes a graph ([`graph`]), from which the bandwidth of each pair is worked
//! out. Texts are read once: nodes are written every few seconds, and many are built alike.

mod catalogue;
mod graph;
mod short;
mod smi;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::types::{Labels, NodeTopology};

/// The annotation.
pub const GPU_TOPOLOGY: &str = "berth.dev/gpu-topology";

/// Longer texts aren't looked at: 72 GPUs and as many NICs have 100 kB. Unit: bytes.
const LENGTH_MAX: usize = 128 << 10;
/// Texts that are remembered; when there are more all are forgotten.
const TEXTS_MAX: usize = 2_048;

const PRODUCT: &str = "nvidia.com/gpu.product";
const COUNT: &str = "nvidia.com/gpu.count";

/// What is wrong with a text, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TopologyProblem(String);

impl TopologyProblem {
    fn new(what: impl Into<String>) -> TopologyProblem {
        TopologyProblem(what.into())
    }
}

/// What was read of a text.
type Answer = Result<Arc<NodeTopology>, TopologyProblem>;

/// Topologies by the text that they were read from.
#[derive(Debug, Default)]
pub struct Topologies {
    texts: BTreeMap<Box<str>, Answer>,
    products: BTreeMap<(&'static str, usize), Arc<NodeTopology>>,
}

impl Topologies {
    /// Returns what the annotation says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_text(&mut self, text: &str) -> Answer {
        if text.len() > LENGTH_MAX {
            let kib = text.len() >> 10;
            let what = format!(
                "is {kib} KiB long, which is more than the {} KiB that are read; \
                 write the short form instead, for example \"nvswitch 0-7:900\"",
                LENGTH_MAX >> 10
            );
            return Err(TopologyProblem(what));
        }
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let read = if smi::is_matrix(text) { smi::read(text) } else { short::read(text) };
        let answer = read.map(|graph| self.shared(graph.topology()));
        if self.texts.len() >= TEXTS_MAX {
            self.texts.clear();
        }
        self.texts.insert(text.into(), answer.clone());
        answer
    }

    /// Returns what the labels of feature discovery tell, where the product leaves no choice.
    pub fn of_labels(&mut self, labels: &Labels) -> Option<Arc<NodeTopology>> {
        let count = labels.value(COUNT)?.parse().ok()?;
        let name = catalogue::known(labels.value(PRODUCT)?, count)?;
        if let Some(known) = self.products.get(&(name, count)) {
            return Some(Arc::clone(known));
        }
        let topology = self.shared(catalogue::graph(name, count)?.topology());
        self.products.insert((name, count), Arc::clone(&topology));
        Some(topology)
    }

    /// Nodes that are built alike share one.
    fn shared(&self, topology: NodeTopology) -> Arc<NodeTopology> {
        let known = self.texts.values().flatten().chain(self.products.values());
        let same = known.into_iter().find(|known| ***known == topology);
        same.cloned().unwrap_or_else(|| Arc::new(topology))
    }

    /// Forgets what no node has any more.
    pub fn purge(&mut self) {
        self.texts.retain(|_, answer| match answer {
            Ok(topology) => Arc::strong_count(topology) > 1,
            Err(_) => false,
        });
    }
}
