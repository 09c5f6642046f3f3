//! How the GPUs of one node are linked: bandwidth by pair, and what follows from it.

use std::cmp::Reverse;

use super::Text;

/// GPUs that one node has at most.
pub const GPUS_MAX: usize = 72;

/// What two GPUs have that no faster link connects, by where the path goes. Figures are both
/// directions of PCIe 3.0 ×16, less what lies between; within a node only their order counts.
/// Unit: GB/s.
pub mod pcie {
    /// Through one switch.
    pub const SWITCH: u16 = 32;
    /// Through several switches.
    pub const SWITCHES: u16 = 28;
    /// Through a host bridge.
    pub const BRIDGE: u16 = 24;
    /// Between host bridges of one NUMA cell.
    pub const CELL: u16 = 20;
    /// Between NUMA cells.
    pub const SYSTEM: u16 = 16;
}

/// A set of GPUs of one node, by their index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuSet(pub u128);

impl GpuSet {
    /// Returns the first `n` GPUs.
    pub fn first(n: usize) -> GpuSet {
        GpuSet((1_u128 << n.min(GPUS_MAX)) - 1)
    }

    pub fn insert(&mut self, gpu: usize) {
        self.0 |= 1 << gpu;
    }

    pub fn with(self, gpu: usize) -> GpuSet {
        GpuSet(self.0 | 1 << gpu)
    }

    pub fn contains(self, gpu: usize) -> bool {
        self.0 >> gpu & 1 == 1
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn and(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & other.0)
    }

    pub fn or(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 | other.0)
    }

    pub fn without(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & !other.0)
    }

    pub fn is_within(self, other: GpuSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Of sets of one size, that with the lower indices is less.
    pub fn rank(self) -> impl Ord {
        Reverse(self.0.reverse_bits())
    }

    /// Returns the indices, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let at = rest.trailing_zeros() as usize;
            rest &= rest.checked_sub(1)?;
            Some(at)
        })
    }
}

impl FromIterator<usize> for GpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(gpus: I) -> GpuSet {
        gpus.into_iter().fold(GpuSet::default(), GpuSet::with)
    }
}

/// A network card, and how near the GPUs of its node are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nic {
    /// As the node calls it, such as `mlx5_0`.
    pub name: Text,
    /// By GPU, one of [`pcie`]. Unit: GB/s.
    pub gbs: Box<[u16]>,
}

/// The GPUs of a node, by index, and how they are linked. Nodes that are built alike are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTopology {
    len: usize,
    /// By pair, each in both orders. Unit: GB/s, both directions together.
    gbs: Box<[u16]>,
    cells: Box<[Option<u16>]>,
    roots: Box<[Option<u16>]>,
    islands: Box<[GpuSet]>,
    nested: Box<[GpuSet]>,
    nics: Box<[Nic]>,
}

impl NodeTopology {
    /// Makes it of the bandwidth of each pair (in either order, the larger counts) and, where they
    /// are known, the NUMA cell and the PCIe root of each GPU. GPUs beyond [`GPUS_MAX`] don't count.
    pub fn new(
        len: usize,
        bandwidth: impl Fn(usize, usize) -> u16,
        cells: Vec<Option<u16>>,
        roots: Vec<Option<u16>>,
    ) -> NodeTopology {
        let len = len.min(GPUS_MAX);
        let pair = |at: usize| match (at / len, at % len) {
            (a, b) if a == b => 0,
            (a, b) => bandwidth(a, b).max(bandwidth(b, a)),
        };
        let gbs: Box<[u16]> = (0..len * len).map(pair).collect();
        let mut levels = gbs.to_vec();
        levels.sort_unstable();
        levels.dedup();
        let mut nested: Vec<GpuSet> = Vec::new();
        for level in &levels {
            nested.extend(components(len, &gbs, *level).into_iter().filter(|c| c.len() < len));
        }
        nested.retain(|island| island.len() > 1);
        nested.sort_by_key(|island| (island.len(), island.rank()));
        nested.dedup();
        let slowest = levels.iter().copied().find(|level| *level > 0);
        let linked = levels.iter().copied().find(|level| *level > pcie::SWITCH);
        let above = slowest.and_then(|slow| levels.iter().copied().find(|level| *level > slow));
        let islands = linked
            .or(above)
            .map_or_else(|| vec![GpuSet::first(len)], |level| components(len, &gbs, level));
        let fitted = |mut of: Vec<Option<u16>>| {
            of.resize(len, None);
            of.into_boxed_slice()
        };
        NodeTopology {
            len,
            gbs,
            cells: fitted(cells),
            roots: fitted(roots),
            islands: islands.into(),
            nested: nested.into(),
            nics: Box::default(),
        }
    }

    /// Adds the network cards, in the node's order. What one doesn't say of a GPU is the slowest way.
    pub fn with_nics(mut self, nics: impl IntoIterator<Item = Nic>) -> NodeTopology {
        let fitted = |nic: Nic| {
            let mut gbs = nic.gbs.into_vec();
            gbs.resize(self.len, pcie::SYSTEM);
            Nic { gbs: gbs.into(), ..nic }
        };
        self.nics = nics.into_iter().map(fitted).collect();
        self
    }

    /// Number of GPUs.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Unit: GB/s, both directions together.
    pub fn bandwidth(&self, a: usize, b: usize) -> u16 {
        self.gbs[a * self.len + b]
    }

    /// Returns the bandwidth of a GPU to each.
    pub fn row(&self, gpu: usize) -> &[u16] {
        &self.gbs[gpu * self.len..(gpu + 1) * self.len]
    }

    /// Returns what tells two apart whose GPUs aren't linked alike.
    pub fn links(&self) -> impl Ord {
        (self.len, &self.gbs)
    }

    pub fn cell(&self, gpu: usize) -> Option<u16> {
        self.cells[gpu]
    }

    pub fn root(&self, gpu: usize) -> Option<u16> {
        self.roots[gpu]
    }

    /// Returns the islands: GPUs that reach each other over NVLink or, where there is none, faster
    /// than the slowest way. Every GPU is in one; in order of the first.
    pub fn islands(&self) -> &[GpuSet] {
        &self.islands
    }

    /// Returns the islands at every level of bandwidth, the smallest first: of several GPUs, but not
    /// of all. Pairs in one PCIe switch are islands within those of a NUMA cell.
    pub fn nested(&self) -> &[GpuSet] {
        &self.nested
    }

    /// Returns the network cards that are known of.
    pub fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// Returns the parts that remain if only links of at least `gbs` count.
    pub fn components(&self, gbs: u16) -> Vec<GpuSet> {
        components(self.len, &self.gbs, gbs)
    }
}

/// In order of the first.
fn components(len: usize, gbs: &[u16], level: u16) -> Vec<GpuSet> {
    let mut rest = GpuSet::first(len);
    let mut found = Vec::new();
    while let Some(seed) = rest.iter().next() {
        let (mut whole, mut edge) = (GpuSet::default().with(seed), vec![seed]);
        while let Some(at) = edge.pop() {
            let linked = |to: &usize| gbs[at * len + to] >= level && *to != at;
            for to in rest.without(whole).iter().filter(linked) {
                whole.insert(to);
                edge.push(to);
            }
        }
        rest = rest.without(whole);
        found.push(whole);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(sets: &[GpuSet]) -> Vec<Vec<usize>> {
        sets.iter().map(|set| set.iter().collect()).collect()
    }

    fn linked(len: usize, bandwidth: impl Fn(usize, usize) -> u16) -> NodeTopology {
        NodeTopology::new(len, bandwidth, Vec::new(), Vec::new())
    }

    #[test]
    fn islands_are_what_nvlink_joins() {
        let pairs = linked(4, |a, b| match (a / 2, b / 2) {
            (x, y) if x == y => 600,
            _ => pcie::CELL,
        });
        assert_eq!(sets(pairs.islands()), [[0, 1], [2, 3]]);
        assert_eq!(pairs.bandwidth(1, 0), 600);
        assert_eq!(pairs.bandwidth(1, 1), 0);
    }

    #[test]
    fn without_nvlink_they_are_what_is_nearer_than_the_rest() {
        let cells = linked(8, |a, b| match (a / 2 == b / 2, a / 4 == b / 4) {
            (true, _) => pcie::SWITCH,
            (_, true) => pcie::CELL,
            _ => pcie::SYSTEM,
        });
        assert_eq!(sets(cells.islands()), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        let nested = sets(cells.nested());
        assert_eq!(nested[..4], [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(nested[4..], [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn equal_fabrics_are_one_island() {
        let equal = linked(GPUS_MAX, |_, _| 1800);
        assert_eq!(equal.islands(), [GpuSet::first(GPUS_MAX)]);
        assert!(equal.nested().is_empty());
        assert_eq!(linked(1, |_, _| 0).islands().len(), 1);
        assert!(linked(0, |_, _| 0).is_empty());
    }

    #[test]
    fn of_two_sets_that_with_the_lower_indices_is_less() {
        let set = |gpus: &[usize]| gpus.iter().copied().collect::<GpuSet>();
        assert!(set(&[0, 7]).rank() < set(&[1, 2]).rank());
        assert!(set(&[1, 2]).rank() < set(&[1, 3]).rank());
        assert_eq!(set(&[3, 1]).iter().collect::<Vec<_>>(), [1, 3]);
    }
}
