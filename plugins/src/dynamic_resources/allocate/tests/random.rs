//! Small random worlds and claims.

use std::sync::Arc;

use berth_core::types::ResourceSlice;
use berth_core::types::claim::{ConstraintKind, DeviceDemand, DeviceRequest};
use berth_core::types::device::AttributeValue;

use super::super::testing::*;

/// A small generator (xorshift), so that instances are the same everywhere.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

pub(super) fn random_world(dice: &mut Dice) -> World {
    let n = 2 + dice.below(5);
    let mut devices = Vec::new();
    for at in 0..n {
        let mut made = device(&format!("d{at}"));
        made = made.text("kind", ["x", "y", "z"][dice.below(3)]);
        made = match dice.below(4) {
            0 => made.list("side", &[["l", "m"][dice.below(2)], ["m", "r"][dice.below(2)]]),
            1 => made,
            at => made.text("side", ["l", "r"][at % 2]),
        };
        made = made.with("numa", AttributeValue::Int(dice.below(2) as i64));
        if dice.below(3) == 0 {
            made = made.capacity("memory", 4, None).shared();
        }
        if dice.below(2) == 0 {
            made =
                made.draws(["s1", "s2"][dice.below(2)], &[("a", dice.below(3) as i64), ("b", 1)]);
        }
        if dice.below(8) == 0 {
            made = made.tainted("k");
        }
        devices.push(made);
    }
    let mut world = World::new();
    let counters = [("a", 2), ("b", 2)];
    let counter_sets = vec![counter_set("s1", &counters), counter_set("s2", &counters)];
    world.slice(ResourceSlice { counter_sets, ..slice("s", devices) });
    if dice.below(3) == 0 {
        world.hold(&format!("d{}", dice.below(n)), None);
    }
    world
}

fn random_request(dice: &mut Dice, name: &str) -> DeviceRequest {
    let mut made = match dice.below(8) {
        0 => admin(name),
        1 => all(name),
        _ => count(name, 1 + dice.below(2) as i64),
    };
    if dice.below(2) == 0 {
        made = of_kind(made, ["x", "y", "z"][dice.below(3)]);
    }
    if dice.below(4) == 0 {
        made.capacity = vec![("memory".into(), gi(1 + dice.below(2) as i64))];
    }
    made
}

pub(super) fn random_claims(dice: &mut Dice) -> Vec<Arc<DeviceDemand>> {
    let n = 1 + dice.below(3);
    (0..n)
        .map(|_| {
            let requests = (0..1 + dice.below(2)).map(|at| {
                let name = format!("r{at}");
                match dice.below(4) {
                    0 => first_of(
                        &name,
                        vec![
                            DeviceRequest { admin: false, ..random_request(dice, "a") },
                            DeviceRequest { admin: false, ..random_request(dice, "b") },
                        ],
                    ),
                    _ => exactly(random_request(dice, &name)),
                }
            });
            let mut claim = claim(requests.collect());
            for _ in 0..dice.below(3) {
                let kind = [ConstraintKind::Match, ConstraintKind::Distinct][dice.below(2)];
                claim = under(claim, kind, ["kind", "side", "numa"][dice.below(3)]);
            }
            claim
        })
        .collect()
}
