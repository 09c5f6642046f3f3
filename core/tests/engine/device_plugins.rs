//! Fake plugins for claims and for searches that take long.
//!
//! | plugin | label | what it does |
//! |---|---|---|
//! | Claims | `claims=a,b` | each of these claims gets a device of the node's; written before the bind |
//! | Claims | `group-claims=a` | likewise, but the pod's group has it |
//! | Claims | `prepared=30` | a driver has so many seconds to say that a device is `Ready` |
//! | Selects | `select=a | b` | Filter: fits where every expression selects a device of the node's |
//! | Slow | `slow=n` | Filter: looks for n steps at each node; fits on those without label `hard` |

use std::sync::Arc;

use berth_core::framework::plan::{LedgerCondition, Limit, Progress, Wait, WaitEvent};
use berth_core::framework::{
    ClaimWrite, ClassPart, Classify, Cycle, CycleState, Filter, Hint, HintContext, Interest, Op,
    PluginDef, PreBind, ReadBack, Reads, Reason, Reserve, StageDraft, Verdict, Work, WriteDraft,
};
use berth_core::snapshot::devices::claims::ClaimRecord;
use berth_core::snapshot::devices::gather::PoolState;
use berth_core::snapshot::devices::selections::Selected;
use berth_core::snapshot::{Change, Cluster, IndexRef, NodeIdx, Overlay};
use berth_core::types::claim::{Allocation, ClaimRef, Consumer, DeviceResult};
use berth_core::types::{ClaimKey, DeviceId, Pod, Span, Text, Timestamp};

use crate::plugins::{def, label};

pub(crate) const CLAIMS: PluginDef = def("Claims", |_, p| {
    p.filter(Arc::new(Claims));
    p.reserve(Arc::new(Claims));
    p.pre_bind(Arc::new(Claims));
    p.classify(Arc::new(Claims));
    p.interest(Arc::new(Claims));
});

pub(crate) const SLOW: PluginDef = def("Slow", |_, p| {
    p.filter(Arc::new(Slow));
    p.classify(Arc::new(Slow));
});

pub(crate) const SELECTS: PluginDef = def("Selects", |_, p| {
    p.filter(Arc::new(Selects));
    p.classify(Arc::new(Selects));
});

struct Claims;

fn keys(pod: &Pod) -> Vec<ClaimKey> {
    let lists = label(pod, "claims").into_iter().chain(label(pod, "group-claims"));
    let names = lists.flat_map(|names| names.split(','));
    names.map(|name| ClaimKey { namespace: pod.namespace.clone(), name: name.into() }).collect()
}

/// Returns who has a claim of the pod.
fn consumer(pod: &Pod, cluster: &Cluster, key: &ClaimKey) -> Consumer {
    let of_group = label(pod, "group-claims").is_some_and(|name| name == &*key.name);
    let hint = pod.group_hints().first().filter(|_| of_group);
    let group = hint.and_then(|hint| cluster.groups().object(&hint.key(&pod.namespace)));
    match group {
        Some(group) => Consumer::PodGroup { uid: group.uid.clone(), name: group.key.name.clone() },
        None => Consumer::Pod(pod.uid.clone()),
    }
}

fn records<'a>(pod: &Pod, cluster: &'a Cluster) -> Vec<Option<&'a ClaimRecord>> {
    keys(pod).iter().map(|key| cluster.devices().claim(key)).collect()
}

/// Returns the node's devices that nobody has, in order.
fn free(cluster: &Cluster, node: NodeIdx) -> Vec<DeviceId> {
    let Some(object) = cluster.nodes().node(node) else { return Vec::new() };
    let pools = cluster.devices().pools_on(object).into_iter();
    let complete = pools.filter(|pool| pool.state == PoolState::Complete);
    let free = complete.flat_map(|pool| {
        let (driver, name) = (pool.driver.clone(), pool.name.clone());
        let free = pool.devices.into_iter().filter(|device| device.taken.is_none());
        free.map(move |free| DeviceId {
            driver: driver.clone(),
            pool: name.clone(),
            device: free.device.name.clone(),
        })
    });
    free.collect()
}

/// Tells whether nobody else has what is planned for the claim.
fn held_alone(
    cluster: &Cluster,
    node: NodeIdx,
    record: &ClaimRecord,
    planned: &Allocation,
) -> bool {
    let Some(object) = cluster.nodes().node(node) else { return false };
    let pools = cluster.devices().pools_on(object);
    planned.results.iter().all(|result| {
        let devices = pools.iter().flat_map(|pool| &pool.devices);
        let mut taken = devices.filter(|d| d.device.name == result.id.device).map(|d| d.taken);
        taken.any(|t| t.is_some_and(|t| t.holders == [record.claim.uid.clone()]))
    })
}

impl Filter for Claims {
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        let mut wanted = 0;
        for record in records(cycle.pod, cycle.cluster) {
            let Some(record) = record else { return Verdict::Unresolvable("no such claim".into()) };
            match &record.planned {
                _ if record.claim.allocation.is_some() => {}
                None => wanted += 1,
                Some(planned)
                    if !planned.pods.contains(&cycle.pod.uid)
                        && label(cycle.pod, "group-claims").is_none() =>
                {
                    return Verdict::Unschedulable("claim is being allocated".into());
                }
                Some(planned) => {
                    if !held_alone(cycle.cluster, node, record, &planned.allocation) {
                        return Verdict::Unschedulable("device was taken".into());
                    }
                }
            }
        }
        let enough = free(cycle.cluster, node).len() >= wanted;
        if enough { Verdict::Fit } else { Verdict::Unschedulable("no free device".into()) }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        let indexes = if keys(cycle.pod).is_empty() { vec![] } else { vec![IndexRef::WideDevices] };
        Reads { indexes }
    }
}

impl Classify for Claims {
    /// Claims without an allocation are all alike.
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        let state = |record: Option<&ClaimRecord>| match record {
            None => -2,
            Some(record) if record.allocation().is_none() => -1,
            Some(record) => record.version.0.cast_signed(),
        };
        let numbers = records(pod, cluster).into_iter().map(state).collect();
        ClassPart { numbers, ..ClassPart::default() }
    }
}

impl Interest for Claims {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        match change {
            Change::Devices(_) if !keys(cx.pod).is_empty() => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

impl Reserve for Claims {
    fn reserve(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        _: &CycleState,
        node: NodeIdx,
        _: &mut Work,
    ) -> Result<(), Reason> {
        for key in keys(pod) {
            let cluster = overlay.cluster();
            let record = cluster.devices().claim(&key);
            let planned = record.and_then(|record| record.planned.as_ref());
            if let Some(planned) = planned.map(|planned| planned.allocation.clone()) {
                overlay.plan_claim(&key, &planned, &pod.uid);
                continue;
            }
            if record.is_some_and(|record| record.allocation().is_some()) {
                continue;
            }
            let Some(id) = free(cluster, node).into_iter().next() else {
                return Err("no free device".into());
            };
            if !overlay.plan_claim(&key, &granting(id), &pod.uid) {
                return Err("claim is being allocated".into());
            }
        }
        Ok(())
    }
}

pub(crate) fn granting(id: DeviceId) -> Arc<Allocation> {
    let result = DeviceResult {
        request: "r".into(),
        id,
        admin: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    Arc::new(Allocation { results: vec![result], ..Allocation::default() })
}

impl PreBind for Claims {
    fn pre_bind(&self, pod: &Pod, cluster: &Cluster, _: NodeIdx, _: Timestamp) -> Vec<StageDraft> {
        let records: Vec<&ClaimRecord> = records(pod, cluster).into_iter().flatten().collect();
        if records.is_empty() {
            return Vec::new();
        }
        let claim = |record: &ClaimRecord, write| Op::Claim {
            claim: record.claim.reference(),
            resource_version: 0,
            write,
        };
        let draft = |record: &ClaimRecord, label: &str, write, undo| {
            let consumer = consumer(pod, cluster, &record.claim.key);
            let claim_ref = record.claim.reference();
            let done = Arc::new(Done { claim: claim_ref, label: label.into(), consumer });
            WriteDraft {
                label: format!("{label} {} {}", record.claim.key.name, pod.name).into(),
                op: claim(record, write),
                undo,
                read_back: Some(ReadBack { read: claim(record, ClaimWrite::Read), done }),
            }
        };
        let protect = |record: &&ClaimRecord| {
            draft(record, "protect", ClaimWrite::Protect { finalizers: Vec::new() }, None)
        };
        let allocate = |record: &&ClaimRecord| {
            let allocation = record.planned.as_ref().map(|planned| planned.allocation.clone());
            let consumer = consumer(pod, cluster, &record.claim.key);
            let undo = ClaimWrite::Release { consumer: consumer.clone(), deallocate: true };
            let write = ClaimWrite::Allocate { allocation, pod: pod.reference(), consumer };
            draft(record, "allocate", write, Some(claim(record, undo)))
        };
        let mut stages = vec![
            StageDraft::Writes(records.iter().map(protect).collect()),
            StageDraft::Writes(records.iter().map(allocate).collect()),
        ];
        let prepared = label(pod, "prepared").and_then(|secs| secs.parse().ok());
        stages.extend(prepared.map(|secs| {
            let claims = records.iter().map(|record| record.claim.key.clone()).collect();
            StageDraft::Wait(Wait {
                condition: Arc::new(Ready { claims }),
                limit: Limit::For(Span::from_secs(secs)),
                on_expiry: "no driver came in time".into(),
                event: Some(WaitEvent {
                    pod: pod.reference(),
                    reason: "DriverPending",
                    note: "waits for its driver".into(),
                }),
            })
        }));
        stages
    }
}

/// Reached when the devices of all claims are ready.
#[derive(Debug)]
struct Ready {
    claims: Vec<ClaimKey>,
}

impl Ready {
    fn allocations<'a>(&self, cluster: &'a Cluster) -> Vec<(&'a ClaimRecord, &'a Allocation)> {
        let records = self.claims.iter().filter_map(|key| cluster.devices().claim(key));
        records.filter_map(|record| Some((record, &**record.claim.allocation.as_ref()?))).collect()
    }
}

impl LedgerCondition for Ready {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let ready = |(record, allocation): &(&ClaimRecord, &Allocation)| {
            allocation.results.iter().all(|it| record.claim.device_is(it, &"Ready".into()))
        };
        match self.allocations(cluster).iter().all(ready) {
            true => Progress::Reached,
            false => Progress::Waiting,
        }
    }

    fn since(&self, cluster: &Cluster) -> Option<Timestamp> {
        self.allocations(cluster).iter().filter_map(|(_, allocation)| allocation.timestamp).min()
    }
}

/// Reached when the claim has what the write with this label brings.
#[derive(Debug)]
struct Done {
    claim: ClaimRef,
    label: Text,
    consumer: Consumer,
}

impl LedgerCondition for Done {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let record = cluster.devices().claim(&self.claim.key);
        let Some(record) = record.filter(|record| record.claim.uid == self.claim.uid) else {
            return Progress::Failed("the claim is gone".into());
        };
        let claim = &record.claim;
        let done = match &*self.label {
            "protect" => !claim.finalizers.is_empty(),
            _ => claim.is_reserved_for(&self.consumer),
        };
        match done {
            true => Progress::Reached,
            false if claim.allocation.is_some() => {
                Progress::Failed("the claim was allocated by another".into())
            }
            false => Progress::Waiting,
        }
    }
}

struct Slow;

impl Slow {
    fn steps(pod: &Pod) -> u64 {
        label(pod, "slow").and_then(|steps| steps.parse().ok()).unwrap_or(0)
    }
}

/// Steps that were taken on a node before the search paused.
struct Paused(u64);

impl Filter for Slow {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        let verdict = self.search(cycle, state, node, &mut Work::unlimited());
        verdict.expect("there are steps without end")
    }

    fn search(
        &self,
        cycle: Cycle<'_>,
        _: &CycleState,
        node: NodeIdx,
        work: &mut Work,
    ) -> Option<Verdict> {
        let before = work.take::<Paused>().map_or(0, |paused| paused.0);
        let steps = (Slow::steps(cycle.pod) - before).min(work.left());
        work.spend(steps);
        if before + steps < Slow::steps(cycle.pod) {
            work.keep(Paused(before + steps));
            return None;
        }
        let node = cycle.cluster.nodes().node(node)?;
        let hard = node.labels.value("hard").is_some();
        Some(if hard { Verdict::Unresolvable("looked in vain".into()) } else { Verdict::Fit })
    }
}

impl Classify for Slow {
    fn class_part(&self, pod: &Pod, _: &Cluster) -> ClassPart {
        let numbers = vec![Slow::steps(pod).cast_signed()];
        ClassPart { numbers, ..ClassPart::default() }
    }
}

struct Selects;

/// Steps that a decision may take to have devices looked at.
pub(crate) const SELECTING_STEPS: u64 = 200_000;

impl Selects {
    fn expressions(pod: &Pod) -> impl Iterator<Item = Text> {
        label(pod, "select").into_iter().flat_map(|all| all.split(" | ").map(Text::from))
    }
}

impl Filter for Selects {
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        let devices = cycle.cluster.devices();
        let Some(object) = cycle.cluster.nodes().node(node) else {
            return Verdict::Unresolvable("no node".into());
        };
        let pools = devices.pools_on(object);
        for expression in Selects::expressions(cycle.pod) {
            let mut all = pools.iter().flat_map(|pool| &pool.devices).map(|device| {
                devices.selections().selected(&expression, device.slice_idx, device.at)
            });
            if all.clone().any(|selected| selected == Selected::Unknown) {
                return Verdict::Broken("not every device was looked at".into());
            }
            if !all.any(|selected| selected == Selected::Yes) {
                return Verdict::Unresolvable("no such device".into());
            }
        }
        Verdict::Fit
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        Reads { indexes: Selects::expressions(cycle.pod).map(IndexRef::Selections).collect() }
    }
}

impl Classify for Selects {
    fn class_part(&self, pod: &Pod, _: &Cluster) -> ClassPart {
        let selectors = Selects::expressions(pod).collect();
        ClassPart { selectors, ..ClassPart::default() }
    }

    fn selecting_steps_max(&self) -> u64 {
        SELECTING_STEPS
    }
}
