//! The checker convicts: wrong grants, each made of a right one.

use std::collections::BTreeSet;

use super::checker::{Wrong, check};
use super::generate::{self, Dice};
use super::instance::Instance;
use super::oracle::{Allocated, Oracle, Outcome};

/// Makes a right grant wrong; false if it can't be done here.
type Spoil = fn(&mut Instance, &mut [Allocated], &mut Dice) -> bool;

/// What is done to a grant, and one thing that the checker must find.
const SPOILS: [(Spoil, Wrong); 12] = [
    (drop_one, Wrong::Count),
    (repeat, Wrong::TooMany),
    (forget_classes, Wrong::Unknown),
    (select_nothing, Wrong::NotSelected),
    (somebody_holds_it, Wrong::Taken),
    (twice, Wrong::Taken),
    (taint_it, Wrong::Tainted),
    (nobody_offers_it, Wrong::NotOffered),
    (claim_admin, Wrong::Admin),
    (record_too_little, Wrong::Capacity),
    (take_the_counters, Wrong::Counters),
    (ask_for_agreement, Wrong::Constraint),
];

#[test]
fn wrong_grants_are_convicted() {
    let Some(oracle) = Oracle::build_or_skip() else { return };
    let instances: Vec<Instance> = (0..1_000).map(generate::instance).collect();
    let mut convicted = BTreeSet::new();
    for (seed, theirs) in (0_u64..).zip(oracle.ask(&instances)) {
        if theirs.outcome != Outcome::Allocated {
            continue;
        }
        for (spoil, wrong) in SPOILS {
            let mut instance = generate::instance(seed);
            let mut grants = theirs.allocations.clone();
            if !check(&instance, &grants).is_empty()
                || !spoil(&mut instance, &mut grants, &mut Dice::new(seed, "spoil"))
            {
                continue;
            }
            let found: BTreeSet<Wrong> =
                check(&instance, &grants).iter().map(|v| v.wrong).collect();
            assert!(found.contains(&wrong), "seed {seed}: {wrong:?} is not among {found:?}");
            convicted.insert(wrong);
        }
    }
    assert_eq!(convicted, SPOILS.iter().map(|(_, wrong)| *wrong).collect());
}

/// Returns the place of a grant, by claim and within it.
fn any(grants: &[Allocated], dice: &mut Dice) -> Option<(usize, usize)> {
    let places = grants.iter().enumerate();
    let places = places.flat_map(|(claim, of)| (0..of.grants.len()).map(move |at| (claim, at)));
    let places: Vec<(usize, usize)> = places.collect();
    (!places.is_empty()).then(|| *dice.pick(&places))
}

fn drop_one(_: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    grants[claim].grants.remove(at);
    true
}

fn repeat(_: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let again = grants[claim].grants[at].clone();
    grants[claim].grants.extend(std::iter::repeat_n(again, 32));
    true
}

fn forget_classes(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    made.classes.clear();
    any(grants, dice).is_some()
}

fn select_nothing(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    for class in &mut made.classes {
        class.selectors.push("false".into());
    }
    any(grants, dice).is_some()
}

fn somebody_holds_it(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let grant = &grants[claim].grants[at];
    if grant.admin {
        return false;
    }
    made.held.push(generate::dedicated(&grant.id));
    true
}

fn twice(_: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let again = grants[claim].grants[at].clone();
    grants[claim].grants.insert(at, again);
    true
}

fn taint_it(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let grant = &grants[claim].grants[at];
    made.rules = vec![generate::rule_on(&grant.id)];
    grant.tolerations == 0
}

fn nobody_offers_it(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let id = &grants[claim].grants[at].id;
    made.slices.retain(|slice| slice.driver != id.driver || slice.pool != id.pool);
    true
}

fn claim_admin(_: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let grant = &mut grants[claim].grants[at];
    grant.admin = !grant.admin;
    true
}

fn record_too_little(_: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    match grants[claim].grants[at].consumed.first_mut() {
        Some((_, amount)) => *amount -= 1,
        None => return false,
    }
    true
}

fn take_the_counters(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, at)) = any(grants, dice) else { return false };
    let grant = &grants[claim].grants[at];
    let pool = |s: &berth_core::types::ResourceSlice| {
        s.driver == grant.id.driver && s.pool == grant.id.pool
    };
    let draws = made.slices.iter().filter(|slice| pool(slice)).flat_map(|slice| &slice.devices);
    let draws = draws.filter(|device| device.name == grant.id.device);
    let draws = draws.flat_map(|device| device.consumes.iter()).next().is_some();
    let held = made.held.iter().any(|held| held.id == grant.id);
    if grant.admin || held || !draws {
        return false;
    }
    for set in made.slices.iter_mut().filter(|s| pool(s)).flat_map(|s| &mut s.counter_sets) {
        let none = super::instance::quantity("0");
        set.counters = set.counters.iter().map(|(name, _)| (name.clone(), none.clone())).collect();
    }
    true
}

fn ask_for_agreement(made: &mut Instance, grants: &mut [Allocated], dice: &mut Dice) -> bool {
    let Some((claim, _)) = any(grants, dice) else { return false };
    generate::constrain(&mut made.claims[claim], "nowhere.example.com/attribute");
    true
}
