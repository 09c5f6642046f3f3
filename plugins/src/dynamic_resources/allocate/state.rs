//! What has been picked so far, and what that leaves.

use super::problem::Problem;
use super::values::{common, meet};

#[derive(Debug, Default)]
pub(super) struct State {
    /// In the order in which they were made.
    pub(super) picks: Vec<Pick>,
    /// Devices of each claim, in the order in which they were picked.
    pub(super) in_claim: Vec<Vec<u32>>,
    /// What is left of each counter. Unit: billionths.
    pub(super) left: Vec<i128>,
    /// What is left of each capacity of shared devices. Unit: billionths.
    pub(super) rooms: Vec<i128>,
    /// How often each device was picked, administrators' picks left out.
    pub(super) uses: Vec<u16>,
    pub(super) rules: Vec<RuleState>,
}

/// A device picked for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) ask: u32,
    /// Place among the candidates.
    pub(super) at: u32,
}

/// What the picks that a constraint covers have as their values.
#[derive(Debug, Default)]
pub(super) struct RuleState {
    /// For equal values: what all have in common, after each pick. For different values: what each
    /// pick has.
    pub(super) values: Vec<Vec<u32>>,
}

impl State {
    pub(super) fn new(problem: &Problem) -> State {
        let rules = problem.rules.iter().map(|_| RuleState::default());
        State {
            picks: Vec::new(),
            in_claim: vec![Vec::new(); problem.n_claims],
            left: problem.counters.left.clone(),
            rooms: problem.rooms.clone(),
            uses: vec![0; problem.devices.len()],
            rules: rules.collect(),
        }
    }

    /// Tells whether a candidate can be picked as things stand.
    pub(super) fn free(&self, problem: &Problem, ask: u32, at: u32) -> bool {
        let admin = problem.profile(ask).admin;
        let candidate = problem.candidate(ask, at);
        let device = &problem.devices[candidate.device as usize];
        let uses = self.uses[candidate.device as usize];
        if self.in_use(problem, ask, candidate.device) {
            return false;
        }
        if !admin && !device.charged && uses == 0 {
            let draws = problem.draws_of(candidate.device);
            if !problem.counters.fit(&self.left, draws) {
                return false;
            }
        }
        if let (Some(amounts), false) = (candidate.amounts, admin) {
            let rooms = &self.rooms[problem.room_of(candidate.device)];
            let amounts = &problem.amounts[amounts as usize];
            if rooms.iter().zip(amounts).any(|(room, amount)| amount > room) {
                return false;
            }
        }
        self.meets_rules(problem, ask, candidate.device)
    }

    /// Tells whether a device goes with what the constraints that cover a request have seen.
    pub(super) fn meets_rules(&self, problem: &Problem, ask: u32, device: u32) -> bool {
        let rules = &problem.asks[ask as usize].rules;
        rules.iter().all(|rule| self.meets(problem, *rule, device))
    }

    /// A device that isn't shared is had by one request of the pod, and by an administrator of each
    /// other claim. One that is shared is had once by a request.
    fn in_use(&self, problem: &Problem, ask: u32, device: u32) -> bool {
        if problem.devices[device as usize].shared {
            let of_ask = self.picks.iter().rev().take_while(|pick| pick.ask == ask);
            return of_ask.into_iter().any(|p| problem.candidate(ask, p.at).device == device);
        }
        let uses = self.uses[device as usize];
        (uses > 0 && !problem.profile(ask).admin)
            || self.in_claim[problem.asks[ask as usize].claim as usize].contains(&device)
    }

    fn meets(&self, problem: &Problem, rule: u32, device: u32) -> bool {
        let kind = &problem.rules[rule as usize];
        let values = problem.columns[kind.column as usize].of(device);
        let known = &self.rules[rule as usize].values;
        if values.is_empty() {
            return false;
        }
        match kind.distinct {
            true => known.iter().all(|known| !meet(known, values)),
            false => known.last().is_none_or(|known| meet(known, values)),
        }
    }

    /// Picks a candidate that nothing stands against.
    pub(super) fn pick(&mut self, problem: &Problem, ask: u32, at: u32) {
        let candidate = problem.candidate(ask, at);
        let device = candidate.device as usize;
        let wanted = &problem.asks[ask as usize];
        if !problem.profile(ask).admin {
            if self.uses[device] == 0 && !problem.devices[device].charged {
                problem.counters.charge(&mut self.left, problem.draws_of(candidate.device));
            }
            self.uses[device] += 1;
            self.add_room(problem, candidate.device, candidate.amounts, -1);
        }
        self.add_values(problem, ask, candidate.device);
        self.in_claim[wanted.claim as usize].push(candidate.device);
        self.picks.push(Pick { ask, at });
    }

    /// Has the constraints that cover a request see a device.
    pub(super) fn add_values(&mut self, problem: &Problem, ask: u32, device: u32) {
        for rule in &problem.asks[ask as usize].rules {
            let kind = &problem.rules[*rule as usize];
            let values = problem.columns[kind.column as usize].of(device);
            let known = &mut self.rules[*rule as usize].values;
            let values = match known.last() {
                Some(last) if !kind.distinct => common(last, values),
                Some(_) | None => values.to_vec(),
            };
            known.push(values);
        }
    }

    /// Takes back the last pick.
    pub(super) fn unpick(&mut self, problem: &Problem) {
        let Some(Pick { ask, at }) = self.picks.pop() else { return };
        let candidate = problem.candidate(ask, at);
        let device = candidate.device as usize;
        let wanted = &problem.asks[ask as usize];
        self.in_claim[wanted.claim as usize].pop();
        for rule in &wanted.rules {
            self.rules[*rule as usize].values.pop();
        }
        if problem.profile(ask).admin {
            return;
        }
        self.add_room(problem, candidate.device, candidate.amounts, 1);
        self.uses[device] -= 1;
        if self.uses[device] == 0 && !problem.devices[device].charged {
            problem.counters.refund(&mut self.left, problem.draws_of(candidate.device));
        }
    }

    fn add_room(&mut self, problem: &Problem, device: u32, amounts: Option<u32>, sign: i128) {
        let Some(amounts) = amounts else { return };
        let amounts = &problem.amounts[amounts as usize];
        for (room, amount) in self.rooms[problem.room_of(device)].iter_mut().zip(amounts) {
            *room += sign * amount;
        }
    }
}
