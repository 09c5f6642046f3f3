//! Devices that are judged as sets.

use std::sync::Arc;

use berth_core::framework::{DeviceOrder, DeviceSets, SetRating, Work};
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::Pod;
use berth_core::types::claim::{ConstraintKind, DeviceDemand};

use super::super::testing::*;
use super::super::{Found, Options, Preference, Solutions};
use super::random::Dice;

/// Judges by what each pair of devices costs; by name, the last letter counts.
#[derive(Clone, Debug)]
struct Costs(Arc<Vec<Vec<u64>>>);

impl Costs {
    fn random(dice: &mut Dice, n: usize) -> Costs {
        let row = |dice: &mut Dice| (0..n).map(|_| dice.below(5) as u64).collect();
        Costs(Arc::new((0..n).map(|_| row(dice)).collect()))
    }

    fn of(&self, set: &[usize]) -> u64 {
        let pairs = set.iter().flat_map(|a| set.iter().map(move |b| (*a.min(b), *a.max(b))));
        pairs.filter(|(a, b)| a != b).map(|(a, b)| self.0[a][b]).sum()
    }
}

impl DeviceOrder for Costs {
    fn ranks(&self, _: &Pod, _: &Cluster, _: NodeIdx, _: &[NodeDevice<'_>]) -> Vec<i64> {
        Vec::new()
    }

    fn sets(
        &self,
        _: &Pod,
        _: &Cluster,
        _: NodeIdx,
        devices: &[NodeDevice<'_>],
    ) -> Option<Arc<dyn DeviceSets>> {
        let numbers = devices.iter().map(|it| number(&it.device.name)).collect();
        Some(Arc::new(Judge { costs: self.clone(), numbers }))
    }
}

fn number(name: &str) -> usize {
    name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

#[derive(Debug)]
struct Judge {
    costs: Costs,
    numbers: Vec<usize>,
}

impl DeviceSets for Judge {
    fn counts(&self, _: u32) -> bool {
        true
    }

    fn rate(&self, picked: &[u32], candidates: &[u32], open: usize) -> Option<SetRating> {
        let of = |set: &[u32]| set.iter().map(|at| self.numbers[*at as usize]).collect::<Vec<_>>();
        let (picked, mut more) = (of(picked), of(candidates));
        more.sort_unstable();
        more.dedup();
        let sets = subsets(&more, open).into_iter();
        let costs = sets.map(|set| self.costs.of(&[picked.clone(), set].concat()));
        costs.min().map(|apart| SetRating { apart, ..SetRating::default() })
    }
}

fn subsets(of: &[usize], size: usize) -> Vec<Vec<usize>> {
    let all = (0..1_usize << of.len()).filter(|bits| bits.count_ones() as usize == size);
    let set = |bits: usize| of.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
    all.map(|bits| set(bits).map(|(_, it)| *it).collect()).collect()
}

fn chosen(world: &mut World, claims: &[Arc<DeviceDemand>], costs: &Costs) -> Vec<usize> {
    let preference = Preference { pod: Pod::default(), orders: vec![Arc::new(costs.clone())] };
    let mut search = world.search(claims, false).preferring(preference);
    let found = search.run(&world.cluster, &mut Work::unlimited()).unwrap().unwrap();
    let mut chosen: Vec<usize> =
        found.claims.iter().flatten().map(|result| number(&result.id.device)).collect();
    chosen.sort_unstable();
    chosen
}

#[test]
fn the_set_that_is_taken_is_the_best_one() {
    let mut dice = Dice(0x5eed);
    for _ in 0..200 {
        let n = 2 + dice.below(8);
        let names: Vec<String> = (0..n).map(|at| format!("d{at}")).collect();
        let mut world = World::of(names.iter().map(|name| device(name)).collect());
        let mut free: Vec<usize> = (0..n).collect();
        for _ in 0..dice.below(3).min(n - 1) {
            let held = free.remove(dice.below(free.len()));
            world.hold(&format!("d{held}"), None);
        }
        let costs = Costs::random(&mut dice, n);
        let size = 1 + dice.below(free.len());
        let best = subsets(&free, size).iter().map(|set| costs.of(set)).min().unwrap();
        let first = 1 + dice.below(size);
        let several = |sizes: &[usize]| {
            let requests = sizes.iter().filter(|size| **size > 0).enumerate();
            requests.map(|(at, size)| count(&format!("r{at}"), *size as i64)).collect::<Vec<_>>()
        };
        // In one request, in two of a claim, in two claims.
        let whole = vec![one(count("r", size as i64))];
        let split = several(&[first, size - first]);
        let of_one = vec![claim(split.iter().cloned().map(exactly).collect())];
        let of_two: Vec<_> = split.into_iter().map(one).collect();
        for claims in [whole, of_one, of_two] {
            let chosen = chosen(&mut world, &claims, &costs);
            assert_eq!((chosen.len(), costs.of(&chosen)), (size, best), "{chosen:?} {costs:?}");
        }
    }
}

#[test]
fn of_those_that_a_constraint_admits_it_is_the_best_too() {
    let mut dice = Dice(0xca11);
    for _ in 0..100 {
        let n = 4 + dice.below(5);
        let sides: Vec<usize> = (0..n).map(|_| dice.below(2)).collect();
        let made = sides.iter().enumerate();
        let made = made.map(|(at, side)| device(&format!("d{at}")).text("side", ["l", "r"][*side]));
        let mut world = World::of(made.collect());
        let costs = Costs::random(&mut dice, n);
        let on = |side| (0..n).filter(|at| sides[*at] == side).collect::<Vec<usize>>();
        let size = 2 + dice.below(2);
        let sets = [0, 1].into_iter().flat_map(|side| subsets(&on(side), size));
        let Some(best) = sets.map(|set| costs.of(&set)).min() else { continue };
        let claims = [under(one(count("r", size as i64)), ConstraintKind::Match, "side")];
        let chosen = chosen(&mut world, &claims, &costs);
        assert_eq!(costs.of(&chosen), best, "{chosen:?} {sides:?} {costs:?}");
    }
}

/// Others of the group want devices of one kind, so how many of these are taken tells solutions apart.
#[test]
fn other_solutions_come_best_set_first() {
    let mut dice = Dice(0x0dd);
    for _ in 0..100 {
        let n = 4 + dice.below(4);
        let kinds: Vec<usize> = (0..n).map(|_| dice.below(2)).collect();
        let made = kinds.iter().enumerate();
        let made = made.map(|(at, kind)| device(&format!("d{at}")).text("kind", ["x", "y"][*kind]));
        let mut world = World::of(made.collect());
        let costs = Costs::random(&mut dice, n);
        let wanted = [one(count("r", 2))];
        let others = [one(of_kind(request("s"), "y"))];
        world.declare(&others);
        let preference = Preference { pod: Pod::default(), orders: vec![Arc::new(costs.clone())] };
        let mut search = world.search(&wanted, false).preferring(preference.clone());
        let first = search.run(&world.cluster, &mut Work::unlimited()).unwrap().unwrap();
        let options = Options { first_fit: false, steps_max: 10_000_000 };
        let place = (&world.cluster, world.node);
        let mut rest =
            Solutions::besides(&first, place, &wanted, &others, options, Some(&preference))
                .unwrap();
        let set = |found: &Found| -> Vec<usize> {
            found.claims.iter().flatten().map(|result| number(&result.id.device)).collect()
        };
        let of_y = |set: &[usize]| set.iter().filter(|at| kinds[**at] == 1).count();
        let mut told = vec![set(&first)];
        while let Some(found) = rest.find_next(&mut Work::unlimited()).unwrap().unwrap() {
            told.push(set(&found));
        }
        let numbers: Vec<usize> = told.iter().map(|set| of_y(set)).collect();
        let possible = |n_y: &usize| {
            let sets = subsets(&(0..n).collect::<Vec<_>>(), 2).into_iter();
            sets.filter(|set| of_y(set) == *n_y).count() > 0
        };
        let costs_told: Vec<u64> = told.iter().map(|set| costs.of(set)).collect();
        assert!(costs_told.is_sorted(), "{costs_told:?} {told:?} {kinds:?}");
        let mut kinds_told = numbers.clone();
        kinds_told.sort_unstable();
        assert_eq!(kinds_told, (0..=2).filter(possible).collect::<Vec<_>>(), "{told:?} {kinds:?}");
    }
}
