//! Distances, of places that are written down.

use super::*;
use crate::types::topology::Nic;

/// Two GPUs on each of two sockets; a card beside the first, one behind the same switches as the second, and
/// one on the other socket.
fn node() -> Option<Arc<NodeTopology>> {
    let nic = |name: &str, gbs: [u16; 4]| Nic { name: name.into(), gbs: gbs.into() };
    let nics = [
        nic("a", [pcie::SWITCH, pcie::CELL, pcie::SYSTEM, pcie::SYSTEM]),
        nic("b", [pcie::BRIDGE, pcie::SWITCHES, pcie::SYSTEM, pcie::SYSTEM]),
        nic("c", [pcie::SYSTEM, pcie::SYSTEM, pcie::CELL, pcie::CELL]),
    ];
    let topology = NodeTopology::new(4, |_, _| 900, Vec::new(), Vec::new());
    Some(Arc::new(topology.with_nics(nics)))
}

fn somewhere() -> Where {
    Where { gpu: None, nic: None, root: None, cell: None }
}

fn gpu(at: usize) -> Where {
    Where { gpu: Some(at), ..somewhere() }
}

fn nic(at: usize) -> Where {
    Where { nic: Some(at), ..somewhere() }
}

fn at(root: u16, cell: u16) -> Where {
    Where { root: Some(root), cell: Some(cell), ..somewhere() }
}

/// Returns the places of `of` in order of their distance; equals side by side.
fn nearest(neighbours: &Neighbours, of: &[u32], picked: &[u32], free: &[u32]) -> Vec<Vec<u32>> {
    let distance = |it: u32| neighbours.distance(it, picked, free.iter().copied());
    let mut all = of.to_vec();
    all.sort_by_key(|it| distance(*it));
    all.chunk_by(|a, b| distance(*a) == distance(*b)).map(<[u32]>::to_vec).collect()
}

#[test]
fn cards_come_in_order_of_what_lies_between() {
    let places = vec![gpu(0), gpu(1), gpu(2), gpu(3), nic(0), nic(1), nic(2), somewhere()];
    let all = Neighbours { topology: node(), places };
    let cards = [4, 5, 6, 7];
    assert_eq!(nearest(&all, &cards, &[0], &[]), [vec![4], vec![5], vec![6, 7]]);
    assert_eq!(nearest(&all, &cards, &[1], &[]), [vec![5], vec![4], vec![6, 7]]);
    assert_eq!(nearest(&all, &cards, &[3], &[]), [vec![6], vec![4, 5, 7]]);
    // Beside one of two GPUs is nearer than not quite beside both.
    assert_eq!(nearest(&all, &cards, &[0, 1], &[])[0], [4]);
    // The next one is for the GPU that has none.
    assert_eq!(nearest(&all, &[5, 6], &[0, 2, 4], &[]), [vec![6], vec![5]]);
    // GPUs go where there is a card; of what nobody knows where it is nothing is made.
    assert_eq!(nearest(&all, &[0, 1, 2, 3], &[], &[5, 6]), [vec![1], vec![0], vec![2, 3]]);
    assert_eq!(nearest(&all, &[0, 1, 2, 3], &[7], &[4])[0], [0]);
    assert_eq!(nearest(&all, &[0, 1, 2, 3], &[], &[7]).len(), 1);
}

#[test]
fn attributes_say_so_too() {
    let on = |gpu: usize, root: u16, cell: u16| Where { gpu: Some(gpu), ..at(root, cell) };
    let places = vec![on(0, 0, 0), on(1, 1, 1), at(0, 0), at(5, 1), at(6, 0), somewhere()];
    let bare = Neighbours { topology: None, places };
    let cards = [2, 3, 4, 5];
    assert_eq!(nearest(&bare, &cards, &[0], &[]), [vec![2], vec![4], vec![3, 5]]);
    assert_eq!(nearest(&bare, &cards, &[1], &[]), [vec![3], vec![2, 4, 5]]);
    assert_eq!(nearest(&bare, &[0, 1], &[], &[3, 5]), [vec![1], vec![0]]);
}

#[test]
fn a_node_without_cards_makes_no_difference() {
    let topology = Arc::new(NodeTopology::new(2, |_, _| 900, Vec::new(), Vec::new()));
    let places = vec![gpu(0), gpu(1), somewhere(), somewhere()];
    let all = Neighbours { topology: Some(topology), places };
    assert_eq!(nearest(&all, &[2, 3], &[0], &[]).len(), 1);
    assert_eq!(nearest(&all, &[0, 1], &[2], &[3]).len(), 1);
    assert_eq!(all.gpu(9), None);
}
