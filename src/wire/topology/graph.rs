//! A node as a graph: GPUs, NVSwitches, PCIe switches, NUMA cells and NICs, with bandwidth on the edges.

use std::ops::Add;

use berth_core::types::topology::{Nic, pcie};
use berth_core::types::{NodeTopology, Text};
use petgraph::algo::dijkstra;
use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::unionfind::UnionFind;
use petgraph::visit::{EdgeFiltered, EdgeRef};

/// What stands at a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vertex {
    Gpu,
    NvSwitch,
    /// A PCIe switch, or several of them.
    PcieSwitch,
    /// A host bridge, or those of a NUMA cell.
    Cell,
    System,
    Nic,
}

/// GPUs come first, by their index, then NICs.
#[derive(Debug)]
pub(super) struct Graph {
    graph: UnGraph<Vertex, u16>,
    n_gpus: usize,
    nics: Vec<Text>,
    cells: Vec<Option<u16>>,
    roots: Vec<Option<u16>>,
}

impl Graph {
    /// Returns GPUs, and NICs after them, that have nothing in common but the system that they are in.
    pub(super) fn new(n_gpus: usize, nics: Vec<Text>) -> Graph {
        let mut graph = UnGraph::default();
        let kinds =
            (0..n_gpus + nics.len()).map(|at| if at < n_gpus { Vertex::Gpu } else { Vertex::Nic });
        let members: Vec<NodeIndex> = kinds.map(|kind| graph.add_node(kind)).collect();
        let system = graph.add_node(Vertex::System);
        for member in members {
            graph.add_edge(member, system, pcie::SYSTEM);
        }
        Graph { graph, n_gpus, nics, cells: vec![None; n_gpus], roots: vec![None; n_gpus] }
    }

    /// Links two GPUs, or a NIC and a GPU.
    pub(super) fn link(&mut self, a: usize, b: usize, gbs: u16) {
        self.graph.add_edge(NodeIndex::new(a), NodeIndex::new(b), gbs);
    }

    /// Puts GPUs on one NVSwitch, or several that work as one.
    pub(super) fn nvswitch(&mut self, gpus: &[usize], gbs: u16) {
        self.join(gpus, Vertex::NvSwitch, gbs);
    }

    /// Puts GPUs and NICs on one PCIe root, with such bandwidth between them.
    pub(super) fn root(&mut self, number: usize, members: &[usize], gbs: u16) {
        self.join(members, Vertex::PcieSwitch, gbs);
        for gpu in members.iter().filter(|member| **member < self.n_gpus) {
            self.roots[*gpu] = u16::try_from(number).ok();
        }
    }

    /// Puts GPUs into one NUMA cell.
    pub(super) fn cell(&mut self, number: u16, gpus: &[usize]) {
        self.join(gpus, Vertex::Cell, pcie::CELL);
        for gpu in gpus {
            self.cells[*gpu] = Some(number);
        }
    }

    /// Returns what chains of pairs join; those that nothing joins are left out.
    pub(super) fn joined(&self, pairs: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut union = UnionFind::<usize>::new(self.graph.node_count());
        for (a, b) in pairs {
            union.union(*a, *b);
        }
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); self.graph.node_count()];
        for (member, label) in union.into_labeling().into_iter().enumerate() {
            groups[label].push(member);
        }
        groups.retain(|group| group.len() > 1);
        groups
    }

    /// Puts GPUs and NICs behind one vertex, with such bandwidth between them.
    pub(super) fn join(&mut self, members: &[usize], kind: Vertex, gbs: u16) {
        let joint = self.graph.add_node(kind);
        for member in members {
            self.graph.add_edge(NodeIndex::new(*member), joint, gbs);
        }
    }

    /// Works out the bandwidth of each pair: of the widest way that goes through no other GPU or NIC.
    pub(super) fn topology(&self) -> NodeTopology {
        let gbs: Vec<Vec<u16>> = (0..self.n_gpus).map(|gpu| self.widths(gpu)).collect();
        let (cells, roots) = (self.cells.clone(), self.roots.clone());
        let nics = self.nics.iter().zip(self.n_gpus..);
        let nics = nics.map(|(name, at)| Nic { name: name.clone(), gbs: self.widths(at).into() });
        NodeTopology::new(self.n_gpus, |a, b| gbs[a][b], cells, roots).with_nics(nics)
    }

    /// Returns what a GPU or NIC has to each GPU.
    fn widths(&self, from: usize) -> Vec<u16> {
        let start = NodeIndex::new(from);
        let ends = |at: NodeIndex| matches!(self.graph[at], Vertex::Gpu | Vertex::Nic);
        let passes = |at: NodeIndex| at == start || !ends(at);
        let open = EdgeFiltered::from_fn(&self.graph, |edge| passes(edge.source()));
        let narrow = dijkstra(&open, start, None, |edge| Narrowness(u16::MAX - edge.weight()));
        let width = |gpu| narrow.get(&NodeIndex::new(gpu)).map_or(0, |n| u16::MAX - n.0);
        (0..self.n_gpus).map(width).collect()
    }
}

/// The length of a way, if the narrowest part is all that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Narrowness(u16);

impl Add for Narrowness {
    type Output = Narrowness;

    fn add(self, other: Narrowness) -> Narrowness {
        Narrowness(self.0.max(other.0))
    }
}
