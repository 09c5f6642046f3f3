//! Groups of a random cluster: what makes them, who their members are, and what users do to them.

use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::claim::ClaimSpec;
use berth_core::types::group::{
    Dialect, GroupHint, GroupKey, GroupKind, NATIVE, PodGroup, Rank, SubGroup,
};
use berth_core::types::{
    ClaimKey, Labels, Pod, PodClaim, PodSpec, ResourceClaim, Span, Text, Timestamp,
};

use crate::jobs::Job;
use crate::kubelet::RUNS_MS;

use super::shape::{GPU, one_in, pick};
use super::{Action, DeviceAction, USERS, Workload, shape};

/// Groups that have an object and are named by a label.
pub const LABELLED: Dialect = Dialect { rank: Rank::Explicit, name: "coscheduling" };
/// Groups whose pods say how many there are.
pub const COUNTED: Dialect = Dialect { rank: Rank::Counted, name: "kueue" };

const NAMESPACE: &str = "default";

/// What happens to groups that nobody schedules.
#[derive(Clone, Debug)]
pub enum GangAction {
    Create(Box<PodGroup>),
    Delete(GroupKey),
    SetMin {
        group: GroupKey,
        min: u32,
    },
    Start(Box<Job>),
    Scale {
        job: Text,
        replicas: usize,
    },
    End(Text),
    /// One of the pods of this name's beginning is deleted.
    DeleteOne(Text),
    /// Two groups come at once that ask for the same.
    Rivals(GroupKey, GroupKey),
    /// Binds of the pods of this name's beginning are not refused any more.
    Allow(Text),
    /// Another scheduler's pod is done with the claim.
    GiveBack {
        claim: ClaimKey,
        by: Text,
    },
}

/// A group in the making.
struct Gang {
    key: GroupKey,
    members: Vec<Pod>,
    min: u32,
    /// It has a controller.
    owned: bool,
    sub_groups: Vec<SubGroup>,
    parent: Option<Text>,
    at: Timestamp,
}

impl Workload {
    pub(super) fn gangs(&mut self, rng: &mut Rng, start: Timestamp, devices: bool) {
        let count = 3 + rng.below(5);
        for number in 0..count {
            let at = start + Span(rng.below(USERS.0 / 2));
            let gang = gang(rng, number, at, devices);
            let twin = one_in(rng, 5).then(|| rival(&gang, number));
            if let Some(twin) = twin {
                let rivals = GangAction::Rivals(gang.key.clone(), twin.key.clone());
                self.actions.push((at, Action::Gangs(rivals)));
                self.gang(rng, twin);
            }
            self.gang(rng, gang);
        }
        if one_in(rng, 4) {
            self.composite(rng, start);
        }
    }

    /// A group of groups.
    fn composite(&mut self, rng: &mut Rng, start: Timestamp) {
        let at = start + Span(rng.below(USERS.0 / 2));
        let key = GroupKey {
            dialect: NATIVE,
            kind: GroupKind::Groups,
            namespace: NAMESPACE.into(),
            name: "all".into(),
        };
        let parts = 2;
        let wanted = 1 + rng.below(parts) as u32;
        for number in 0..parts {
            let mut gang = gang(rng, 20 + number, at, false);
            gang.key.dialect = NATIVE;
            gang.members.truncate(3);
            gang.min = gang.min.min(gang.members.len() as u32);
            gang.parent = Some(key.name.clone());
            rename(&mut gang, NATIVE);
            for pod in &mut gang.members {
                pod.priority = 0;
            }
            self.gang(rng, gang);
        }
        let object = PodGroup::gang(key, "", wanted);
        self.gangs_at(at + Span(rng.below(3000)), GangAction::Create(Box::new(object)));
    }

    fn gangs_at(&mut self, at: Timestamp, action: GangAction) {
        self.actions.push((at, Action::Gangs(action)));
    }

    fn gang(&mut self, rng: &mut Rng, gang: Gang) {
        let at = gang.at;
        if gang.key.dialect != COUNTED {
            self.object(rng, &gang);
        }
        self.changes(rng, &gang);
        let name = gang.key.name.clone();
        let replicas = gang.members.len();
        self.shared_claims(rng, &gang);
        if gang.owned {
            let (pods, eager) = (gang.members, one_in(rng, 3));
            let job = Job { name: name.clone(), pods, replicas, eager };
            self.gangs_at(at + Span(rng.below(3000)), GangAction::Start(Box::new(job)));
            if one_in(rng, 5) {
                let then = at + Span(rng.below(USERS.0));
                let replicas = 1 + rng.below(replicas as u64) as usize;
                self.gangs_at(then, GangAction::Scale { job: name.clone(), replicas });
            }
            if one_in(rng, 5) {
                let then = at + Span(5000 + rng.below(USERS.0));
                self.gangs_at(then, GangAction::End(name));
            }
            return;
        }
        let late = if one_in(rng, 4) { rng.below(25_000) } else { 0 };
        let never = one_in(rng, 12);
        for (number, pod) in gang.members.into_iter().enumerate() {
            let after = if number == 0 { Span(late) } else { Span(rng.below(2000)) };
            if number > 0 || !never {
                self.actions.push((at + after, Action::Create(Box::new(pod))));
            }
        }
    }

    /// The object comes before or after the pods, or never.
    fn object(&mut self, rng: &mut Rng, gang: &Gang) {
        let mut object = PodGroup::gang(gang.key.clone(), "", gang.min);
        object.sub_groups.clone_from(&gang.sub_groups);
        object.parent.clone_from(&gang.parent);
        object.words.scheduled = one_in(rng, 2);
        object.words.why = !one_in(rng, 4);
        let after = match rng.below(12) {
            0 => return,
            1 | 2 => Span(3000 + rng.below(20_000)),
            _ => Span(rng.below(1500)),
        };
        self.gangs_at(gang.at + after, GangAction::Create(Box::new(object)));
    }

    /// What users change of the group later on.
    fn changes(&mut self, rng: &mut Rng, gang: &Gang) {
        let later = |rng: &mut Rng| gang.at + Span(rng.below(60_000));
        let name = gang.key.name.clone();
        if one_in(rng, 6) {
            let min = 1 + rng.below(gang.members.len() as u64 + 1) as u32;
            let action = GangAction::SetMin { group: gang.key.clone(), min };
            self.gangs_at(later(rng), action);
        }
        if one_in(rng, 15) {
            self.gangs_at(later(rng), GangAction::Delete(gang.key.clone()));
        }
        for _ in 0..rng.below(3) {
            let at = gang.at + Span(rng.below(USERS.0));
            self.gangs_at(at, GangAction::DeleteOne(format!("{name}-").into()));
        }
        for pod in gang.members.iter().filter(|pod| !pod.gates.is_empty()) {
            self.actions.push((later(rng), Action::Ungate(pod.name.clone())));
        }
    }

    /// Somebody makes the claim that members share.
    fn shared_claims(&mut self, rng: &mut Rng, gang: &Gang) {
        let entries = gang.members.iter().flat_map(|pod| &pod.spec.claims);
        let Some(entry) = entries.into_iter().find(|entry| !entry.from_template) else { return };
        let spec = self.templates.get("one-gpu").cloned();
        let Some(spec) = spec else { return };
        let claim = claim_of(&entry.source, spec);
        let at = gang.at + Span(rng.below(2000));
        let action = DeviceAction::CreateClaim(Box::new(claim));
        self.actions.push((at, Action::Devices(action)));
    }
}

fn claim_of(name: &Text, spec: Arc<ClaimSpec>) -> ResourceClaim {
    let key = ClaimKey { namespace: NAMESPACE.into(), name: name.clone() };
    ResourceClaim { key, spec, ..ResourceClaim::default() }
}

fn gang(rng: &mut Rng, number: u64, at: Timestamp, devices: bool) -> Gang {
    let dialect = pick(rng, &[NATIVE, NATIVE, NATIVE, LABELLED, COUNTED]);
    let key = GroupKey {
        dialect,
        kind: GroupKind::Pods,
        namespace: NAMESPACE.into(),
        name: format!("gang-{number:02}").into(),
    };
    let size = 2 + rng.below(5);
    let min = if one_in(rng, 3) { 1 + rng.below(size) } else { size };
    let owned = !one_in(rng, 3);
    let shape = spec(rng, devices, &key.name);
    let leader = if one_in(rng, 4) { spec(rng, false, &key.name) } else { Arc::clone(&shape) };
    let priority = pick(rng, &[0, 0, 10, 100]);
    let runs = one_in(rng, 2).then(|| 5000 + rng.below(90_000));
    let members = (0..size).map(|member| {
        let leads = member == 0;
        let mut pod = pod(rng, &key, member, if leads { &leader } else { &shape }, owned);
        pod.priority = priority;
        pod.labels = labels(runs);
        pod.add_group_hint(hint(&key, min as u32, leads));
        pod
    });
    let members = members.collect();
    let mut gang =
        Gang { key, members, min: min as u32, owned, sub_groups: Vec::new(), parent: None, at };
    if dialect == LABELLED && one_in(rng, 2) && size > 2 {
        gang.sub_groups = vec![
            SubGroup::of_role("master".into(), 1),
            SubGroup::of_role("worker".into(), 1 + rng.below(size - 1) as u32),
        ];
    }
    gang
}

/// The same once more, under another name.
fn rival(gang: &Gang, number: u64) -> Gang {
    let mut twin = Gang {
        key: GroupKey { name: format!("twin-{number:02}").into(), ..gang.key.clone() },
        members: gang.members.clone(),
        min: gang.min,
        owned: gang.owned,
        sub_groups: gang.sub_groups.clone(),
        parent: None,
        at: gang.at,
    };
    rename(&mut twin, gang.key.dialect);
    for (at, pod) in twin.members.iter_mut().enumerate() {
        let suffix = if twin.owned { "-" } else { "" };
        pod.name = format!("{}-{at}{suffix}", twin.key.name).into();
    }
    twin
}

/// Gives the members hints of the gang's key and dialect.
fn rename(gang: &mut Gang, dialect: Dialect) {
    gang.key.dialect = dialect;
    for (at, pod) in gang.members.iter_mut().enumerate() {
        pod.gang = None;
        pod.add_group_hint(hint(&gang.key, gang.min, at == 0));
    }
}

fn hint(key: &GroupKey, min: u32, leads: bool) -> GroupHint {
    let counted = key.dialect == COUNTED;
    let role = if leads { "master" } else { "worker" };
    GroupHint {
        min_member: counted.then_some(min),
        needs_object: !counted,
        role: (key.dialect == LABELLED).then(|| role.into()),
        ..GroupHint::of_object(key.dialect, key.name.clone())
    }
}

fn spec(rng: &mut Rng, devices: bool, name: &Text) -> Arc<PodSpec> {
    let shape = shape::spec(rng);
    let mut spec = (*shape).clone();
    if one_in(rng, 2) {
        spec.spread.clear();
    }
    if spec.requests.real.amount(GPU) == 16 {
        spec.requests.real.set(&GPU.into(), 8);
    }
    if devices && one_in(rng, 2) {
        let template = pick(rng, &["one-gpu", "one-gpu", "two-gpus", "mig", "either", "nic"]);
        let (source, from_template) = match one_in(rng, 6) {
            true => (format!("shared-{name}").into(), false),
            false => (Text::from(template), true),
        };
        spec.requests.real.set(&GPU.into(), 0);
        spec.claims.push(PodClaim { name: "dev".into(), source, from_template });
    }
    Arc::new(spec)
}

fn pod(rng: &mut Rng, key: &GroupKey, member: u64, spec: &Arc<PodSpec>, owned: bool) -> Pod {
    let suffix = if owned { "-" } else { "" };
    let gated = !owned && one_in(rng, 15);
    Pod {
        namespace: NAMESPACE.into(),
        name: format!("{}-{member}{suffix}", key.name).into(),
        usage: Arc::new(spec.requests.clone()),
        gates: if gated { vec!["hold".into()] } else { Vec::new() },
        spec: Arc::clone(spec),
        ..Pod::default()
    }
}

fn labels(runs: Option<u64>) -> Labels {
    let runs = runs.map(|runs| (RUNS_MS.into(), Text::from(runs.to_string())));
    Labels::new(runs.into_iter().collect())
}
