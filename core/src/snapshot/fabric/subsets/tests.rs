//! Choices and guarantees, compared with all subsets.

use proptest::prelude::*;

use super::growing::Growing;
use super::*;
use crate::types::topology::pcie;

fn topology(len: usize, bandwidth: impl Fn(usize, usize) -> u16) -> Arc<NodeTopology> {
    Arc::new(NodeTopology::new(len, bandwidth, Vec::new(), Vec::new()))
}

fn set(gpus: &[usize]) -> GpuSet {
    gpus.iter().copied().collect()
}

/// The hybrid cube mesh of eight V100: two quads, in each a ring of double links and single ones
/// across, and a double link from each GPU to one of the other quad or a single one.
fn cube_mesh() -> Arc<NodeTopology> {
    let double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];
    let single = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)];
    topology(8, |a, b| match (a, b) {
        pair if double.contains(&pair) => 100,
        pair if single.contains(&pair) => 50,
        _ => pcie::SYSTEM,
    })
}

fn pairs_and_cells(len: usize) -> Arc<NodeTopology> {
    topology(len, |a, b| match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => 600,
        (_, true) => pcie::CELL,
        _ => pcie::SYSTEM,
    })
}

#[test]
fn the_cube_mesh_gives_its_double_links_and_its_quads() {
    let mesh = cube_mesh();
    let best = |size, free| Subsets::new(&mesh, size).best_of(free).unwrap();
    assert_eq!(best(2, GpuSet::first(8)).set, set(&[0, 3]));
    assert_eq!(best(4, GpuSet::first(8)).set, set(&[0, 1, 2, 3]));
    assert_eq!(best(4, GpuSet::first(8)).goodness, Goodness { least: 50, sum: 450 });
    assert_eq!(best(2, set(&[0, 5, 6])).set, set(&[5, 6]));
    assert_eq!(best(4, set(&[1, 4, 5, 6, 7])).set, set(&[4, 5, 6, 7]));
}

#[test]
fn what_is_broken_already_is_used_up() {
    let pairs = pairs_and_cells(8);
    let best = |size, free: &[usize]| Subsets::new(&pairs, size).best_of(set(free)).unwrap().set;
    assert_eq!(best(1, &[0, 1, 2, 3, 5, 6, 7]), set(&[5]));
    assert_eq!(best(2, &[0, 1, 2, 3, 6, 7]), set(&[6, 7]));
    assert_eq!(best(3, &[0, 1, 2, 3, 5, 6, 7]), set(&[5, 6, 7]));
}

#[test]
fn a_number_of_free_gpus_guarantees_what_the_worst_of_them_has() {
    let pairs = Subsets::new(&pairs_and_cells(8), 2);
    let least = |n| pairs.guaranteed(n).map(|goodness| goodness.least);
    // Four free GPUs may be one of each pair, five not.
    assert_eq!((least(1), least(2), least(4)), (None, Some(pcie::SYSTEM), Some(pcie::CELL)));
    assert_eq!((least(5), least(8)), (Some(600), Some(600)));
    let equal = topology(8, |_, _| 900);
    assert!((3..=8).all(|n| {
        Subsets::new(&equal, 3).guaranteed(n).unwrap().share_of(Subsets::new(&equal, 3).best())
            == 100
    }));
}

#[test]
fn seventy_two_equal_gpus_are_chosen_at_the_bound() {
    let rack = topology(72, |_, _| 1800);
    let subsets = Subsets::new(&rack, 36);
    let free = GpuSet::first(72).without(set(&[0, 5]));
    let best = subsets.best_of(free).unwrap();
    assert_eq!((best.set.len(), best.goodness), (36, subsets.best()));
    assert!(best.set.is_within(free));
    assert_eq!(subsets.guaranteed(36), Some(subsets.best()));
}

#[test]
fn of_trays_in_a_large_node_those_that_are_broken_are_used_first() {
    let trays = topology(72, |a, b| if a / 4 == b / 4 { 1800 } else { 100 });
    let best = |size, free| Subsets::new(&trays, size).best_of(free).unwrap().set;
    let free = GpuSet::first(72).without(set(&[8, 9]));
    assert_eq!(best(1, free), set(&[10]));
    assert_eq!(best(2, free), set(&[10, 11]));
    assert_eq!(best(4, free), set(&[0, 1, 2, 3]));
    assert_eq!(Subsets::new(&trays, 4).guaranteed(54).unwrap().least, 100);
    assert_eq!(Subsets::new(&trays, 4).guaranteed(55).unwrap().least, 1800);
}

/// All subsets, one by one.
fn exhaustive(topology: &NodeTopology, size: usize, picked: GpuSet, free: GpuSet) -> Option<Best> {
    aligned(topology, size, &Rails::NONE, picked, free)
}

fn aligned(
    topology: &NodeTopology,
    size: usize,
    rails: &Rails,
    picked: GpuSet,
    free: GpuSet,
) -> Option<Best> {
    let all = (0..1_u128 << topology.len()).map(GpuSet);
    let wanted = all.filter(|set| {
        set.len() == size && set.is_within(free.or(picked)) && picked.is_within(*set)
    });
    let rated = wanted.map(|set| Best {
        set,
        goodness: Goodness::of(topology, set),
        on_rail: rails.met(set),
        left_over: left_over(topology, set, free),
    });
    rated.min_by_key(|best| {
        (Reverse(best.goodness), Reverse(best.on_rail), best.left_over, best.set.rank())
    })
}

fn any_topology(len: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Arc<NodeTopology>> {
    let links = prop::collection::vec(prop::sample::select(vec![16, 16, 20, 32, 50, 100]), 16 * 16);
    (len, links, any::<bool>()).prop_map(|(len, links, grouped)| {
        topology(len, |a, b| match grouped && a / 4 == b / 4 {
            true => 600,
            false => links[a.min(b) * 16 + a.max(b)],
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_choice_is_the_best_of_all_subsets(
        topology in any_topology(2..=10),
        free in any::<u16>(),
        picked in any::<u16>(),
        size in 1..=8_usize,
    ) {
        let free = GpuSet(free.into()).and(GpuSet::first(topology.len()));
        let subsets = Subsets::new(&topology, size);
        let none = GpuSet::default();
        prop_assert_eq!(subsets.best_of(free), exhaustive(&topology, size, none, free));
        let picked = GpuSet(picked.into()).and(free);
        if picked.len() <= size {
            let with = subsets.best_with(picked, free, free);
            prop_assert_eq!(with, exhaustive(&topology, size, picked, free));
        }
    }

    #[test]
    fn of_sets_that_talk_equally_fast_it_is_the_one_that_others_have(
        topology in any_topology(2..=10),
        free in any::<u16>(),
        picked in any::<u16>(),
        had in prop::collection::vec(any::<u16>(), 0..4),
        size in 1..=8_usize,
    ) {
        let all = GpuSet::first(topology.len());
        let free = GpuSet(free.into()).and(all);
        let picked = GpuSet(picked.into()).and(free);
        let mut rails = Rails::NONE;
        had.iter().for_each(|set| rails.add(GpuSet((*set).into()).and(all)));
        for picked in [GpuSet::default(), picked] {
            if picked.len() > size {
                continue;
            }
            let subsets = Subsets::new(&topology, size);
            let expected = aligned(&topology, size, &rails, picked, free);
            prop_assert_eq!(subsets.best_on(&rails, picked, free, free), expected);
            // Sets that are grown are no worse for it than without.
            let rough = Subsets::rough(&topology, size);
            let (plain, on_rails) =
                (rough.best_with(picked, free, free), rough.best_on(&rails, picked, free, free));
            prop_assert_eq!(plain.is_some(), on_rails.is_some());
            if let (Some(plain), Some(on_rails)) = (plain, on_rails) {
                prop_assert!(on_rails.goodness >= plain.goodness);
                prop_assert_eq!(on_rails.goodness, Goodness::of(&topology, on_rails.set));
                prop_assert_eq!(on_rails.on_rail, rails.met(on_rails.set));
                let no_worse = on_rails.goodness > plain.goodness
                    || on_rails.on_rail >= rails.met(plain.set);
                prop_assert!(no_worse && picked.is_within(on_rails.set));
            }
        }
    }

    #[test]
    fn the_guarantee_is_the_worst_over_all_free_sets(
        topology in any_topology(2..=7),
        size in 1..=5_usize,
    ) {
        let subsets = Subsets::new(&topology, size);
        for n_free in size..=topology.len() {
            let sets = (0..1_u128 << topology.len()).map(GpuSet).filter(|set| set.len() == n_free);
            let worst = sets.map(|free| subsets.best_of(free).unwrap().goodness).min();
            prop_assert_eq!(subsets.guaranteed(n_free), worst);
        }
    }

    #[test]
    fn beyond_what_is_listed_nothing_is_promised_that_is_not_kept(
        topology in any_topology(4..=9),
        size in 1..=6_usize,
    ) {
        let subsets = Subsets::new(&topology, size);
        for n_free in size..=topology.len() {
            let promised = promised(&topology, size, n_free, subsets.best());
            prop_assert!(promised <= subsets.guaranteed(n_free).unwrap_or(promised));
        }
        if size <= topology.len() {
            let all = GpuSet::first(topology.len());
            let rough = Subsets::rough(&topology, size);
            let growing = Growing::new(&rough, &Rails::NONE, GpuSet::default(), all, all);
            let grown = growing.best().unwrap();
            prop_assert_eq!(grown.goodness, Goodness::of(&topology, grown.set));
            prop_assert!(grown.goodness <= subsets.best() && subsets.best().least <= growing.bound().least);
        }
    }
}

#[test]
fn sixteen_gpus_are_exact_too() {
    let topology = pairs_and_cells(16);
    for (size, free) in [(3, 0xfff7_u128), (8, 0xffff), (5, 0x7bde), (1, 0xeeee)] {
        let free = GpuSet(free);
        let exhaustive = exhaustive(&topology, size, GpuSet::default(), free);
        assert_eq!(Subsets::new(&topology, size).best_of(free), exhaustive);
    }
}

#[test]
fn of_trays_that_are_alike_one_is_tried_and_that_loses_nothing() {
    let trays = topology(72, |a, b| if a / 4 == b / 4 { 1800 } else { 100 });
    let mut dice = 0x9e37_79b9_7f4a_7c15_u128;
    for at in 0..200 {
        dice ^= dice << 49;
        dice ^= dice >> 31;
        dice ^= dice << 17;
        let free = GpuSet(dice).and(GpuSet::first(72));
        let size = at % 12 + 1;
        let subsets = Subsets::rough(&trays, size);
        let growing = Growing::new(&subsets, &Rails::NONE, GpuSet::default(), free, free);
        assert!(growing.seeds().count() <= 4, "as many as a tray may have left");
        let all = growing.island_seeds();
        let each = all.iter().filter_map(|seed| growing.grown(GpuSet::default().with(seed)));
        let best = each.min_by_key(|it| (Reverse(it.goodness), it.left_over));
        assert_eq!(growing.best(), best, "{size} of {free:?}");
    }
}

#[test]
fn on_rails_the_same_numbers_are_taken_in_large_nodes_too() {
    let rack = topology(72, |_, _| 1800);
    let trays = topology(72, |a, b| if a / 4 == b / 4 { 1800 } else { 100 });
    let had = set(&[40, 41, 42, 43]);
    let mut rails = Rails::NONE;
    rails.add(had);
    for topology in [rack, trays] {
        let subsets = Subsets::new(&topology, 4);
        let none = GpuSet::default();
        let best = |free| subsets.best_on(&rails, none, free, free).unwrap();
        let all = GpuSet::first(72);
        assert_eq!((best(all).set, best(all).on_rail), (had, 4));
        // Two are taken: the others are had only where that is as fast.
        let without = best(all.without(set(&[40, 41])));
        let whole = topology.bandwidth(0, 71) == 1800;
        assert_eq!(without.on_rail, if whole { 2 } else { 0 });
        assert_eq!(without.goodness, subsets.best());
    }
}
