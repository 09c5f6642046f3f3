//! Fake plugins. They keep nothing; what they do is asked of them by labels.
//!
//! | plugin | label | what it does |
//! |---|---|---|
//! | Order | | priority, then time, on `priority-queue` |
//! | Shares | | the namespace that has least goes first (asks the ledger) |
//! | Gate | `gate=x` | PreEnqueue holds the pod until a pod `x` exists |
//! | Early | `early=no`, `pending=x` | PreFilter turns it away; says Pending until a pod `x` exists |
//! | Cpu | | Filter: free CPU; wakes on freed or added CPU |
//! | Refusals | | Filter: nodes whose kubelet has refused such a pod; wakes when that ends |
//! | Picky | `wants=l`, `panic=filter` | Filter: nodes with label `l`; registered for nothing |
//! | Alone | `alone=n` | Filter by an index: at most n placed pods with label `alone` in the cluster |
//! | Rank | node `rank=n` | Score n; fails at `rank=panic` |
//! | Hold | `reserve=no` | Reserve refuses |
//! | Hold | `reserve-steps=n` | Reserve takes n steps |
//! | Permit | `permit=x` | waits ten minutes for a pod `x`; rejects when a pod `not-x` exists |
//! | Prepare | `create=p` | PreBind: creates `p…`, then patches what was created |
//! | Gangs | hints | rules for groups: native and counted ones, binds not tried first |
//! | Trying | hints | as Gangs, but binds are tried first where needed |
//! | Racks | | domains of a group by a node label; a wish may end in all nodes |
//! | Evict | `evict=a,b` | PostFilter: names these victims, wherever the first is |
//! | Binder | | binds |

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::framework::plan::NameOf;
use berth_core::framework::{
    Args, Bind, ClassPart, Classify, Cycle, CycleState, Filter, Gate, GroupRules, Hint,
    HintContext, Interest, Op, Permit, PermitAnswer, PluginDef, Points, PostFilter,
    PostFilterAnswer, PreBind, PreEnqueue, PreFilter, PreFilterAnswer, Preflight, QueueOrdering,
    QueueSort, Ranked, Reads, Reason, Reserve, Room, Score, StageDraft, Verdict, Work, WriteDraft,
};
use berth_core::snapshot::{Change, Cluster, CountQuery, IndexRef, NodeIdx, Overlay, ResourceId};
use berth_core::types::selector::{Operator, Requirement};
use berth_core::types::{LabelSelector, Pod, PodUid, Span, Text, Timestamp, Value};
use priority_queue::PriorityQueue;

pub(crate) static ALL: &[&PluginDef] = &[
    &def("Order", |_, p| p.queue_sort(Arc::new(Order))),
    &def("Shares", |_, p| p.queue_sort(Arc::new(Shares))),
    &def("Gate", |_, p| {
        p.pre_enqueue(Arc::new(Gated));
        p.interest(Arc::new(Gated));
    }),
    &def("Early", |_, p| {
        p.pre_filter(Arc::new(Early));
        p.classify(Arc::new(LabelsMatter));
        p.interest(Arc::new(Early));
    }),
    &def("Cpu", |_, p| {
        p.filter(Arc::new(Cpu));
        p.room(Arc::new(Cpu));
        p.interest(Arc::new(Cpu));
    }),
    &crate::racks::RACKS,
    &def("Refusals", |_, p| {
        p.filter(Arc::new(Refusals));
        p.interest(Arc::new(Refusals));
    }),
    &def("Picky", |_, p| {
        p.filter(Arc::new(Picky));
        p.classify(Arc::new(LabelsMatter));
    }),
    &def("Alone", |_, p| {
        p.filter(Arc::new(Alone));
        p.classify(Arc::new(Alone));
        p.interest(Arc::new(Alone));
    }),
    &def("Rank", |_, p| p.score(Arc::new(Rank))),
    &def("Hold", |_, p| p.reserve(Arc::new(Hold))),
    &def("Permit", |_, p| {
        p.permit(Arc::new(Permits));
        p.interest(Arc::new(Permits));
    }),
    &def("Gangs", |_, p| p.groups(rules(Preflight::Never))),
    &def("Trying", |_, p| p.groups(rules(Preflight::WhereNeeded))),
    &def("Prepare", |_, p| p.pre_bind(Arc::new(Prepare))),
    &def("Evict", |_, p| p.post_filter(Arc::new(Evict))),
    &def("Binder", |_, p| p.bind(Arc::new(Binder))),
    &crate::device_plugins::CLAIMS,
    &crate::device_plugins::SLOW,
    &crate::device_plugins::SELECTS,
    &crate::gpu_shares::PARTS,
];

pub(crate) const fn def(name: &'static str, build: fn(&Args, &mut Points)) -> PluginDef {
    PluginDef { name, summary: "", missing: None, build }
}

/// What the test's profiles say of groups.
fn rules(preflight: Preflight) -> GroupRules {
    GroupRules {
        plugin: "Gangs",
        scheduler_names: BTreeSet::new(),
        dialects: ["native", "counted", "other"].map(Text::from).into(),
        deadline: Span::from_secs(300),
        preflight,
        take_back_after: Some(Span::from_secs(30)),
        take_back_unowned: false,
        hold_for: Span::from_secs(300),
    }
}

pub(crate) fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.labels.value(key).map(Text::as_str)
}

fn exists(cluster: &Cluster, name: &str) -> bool {
    cluster.pod(&PodUid(name.into())).is_some()
}

fn when(helps: bool) -> Hint {
    if helps { Hint::Queue } else { Hint::Skip }
}

struct LabelsMatter;

impl Classify for LabelsMatter {
    fn class_part(&self, pod: &Pod, _cluster: &Cluster) -> ClassPart {
        assert_ne!(label(pod, "panic"), Some("classify"), "asked to fail");
        let texts = ["wants", "early", "pending", "panic"].map(|key| label(pod, key).unwrap_or(""));
        ClassPart { texts: texts.map(Text::from).to_vec(), ..ClassPart::default() }
    }
}

struct Order;

impl QueueSort for Order {
    fn ordering(&self) -> Box<dyn QueueOrdering> {
        Box::new(ByPriority::default())
    }
}

#[derive(Default)]
struct ByPriority(PriorityQueue<u64, (i32, Reverse<Timestamp>, Reverse<u64>), Fixed>);

type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

impl QueueOrdering for ByPriority {
    fn push(&mut self, r: Ranked) {
        self.0.push(r.entry, (r.priority, Reverse(r.enqueued), Reverse(r.entry)));
    }

    fn remove(&mut self, entry: u64) -> bool {
        self.0.remove(&entry).is_some()
    }

    fn pop(&mut self, _cluster: &Cluster) -> Option<u64> {
        self.0.pop().map(|(entry, _)| entry)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

struct Shares;

impl QueueSort for Shares {
    fn ordering(&self) -> Box<dyn QueueOrdering> {
        Box::new(ByShare(Vec::new()))
    }
}

/// Ranks move with each placement: nothing is cached.
struct ByShare(Vec<Ranked>);

impl QueueOrdering for ByShare {
    fn push(&mut self, ranked: Ranked) {
        self.0.push(ranked);
    }

    fn remove(&mut self, entry: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|ranked| ranked.entry != entry);
        self.0.len() < before
    }

    fn pop(&mut self, cluster: &Cluster) -> Option<u64> {
        let share = |ranked: &Ranked| {
            let namespace = cluster.pod(&ranked.leader).map(|r| r.pod.namespace.clone());
            let placed = cluster.pods().filter(|record| record.place.node().is_some());
            placed.filter(|record| Some(&record.pod.namespace) == namespace.as_ref()).count()
        };
        let rank = |(_, ranked): &(usize, &Ranked)| (share(ranked), ranked.entry);
        let (at, _) = self.0.iter().enumerate().min_by_key(rank)?;
        Some(self.0.remove(at).entry)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

struct Gated;

impl PreEnqueue for Gated {
    fn gate(&self, pod: &Pod, cluster: &Cluster) -> Gate {
        match label(pod, "gate") {
            Some(key) if !exists(cluster, key) => {
                let told = label(pod, "gate-told") != Some("no");
                Gate::Closed { message: format!("waits for {key}").into(), told }
            }
            _ => Gate::Open,
        }
    }
}

impl Interest for Gated {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let key = label(cx.pod, "gate");
        when(matches!(change, Change::PodAdded { uid } if Some(uid.0.as_str()) == key))
    }
}

struct Early;

impl PreFilter for Early {
    fn pre_filter(&self, cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        match (label(cycle.pod, "early"), label(cycle.pod, "pending")) {
            (Some("no"), _) => PreFilterAnswer::Unresolvable(Reason::of("turned away early")),
            (Some("broken"), _) => PreFilterAnswer::Broken("can't be answered".into()),
            (_, Some(key)) if !exists(cycle.cluster, key) => {
                PreFilterAnswer::Pending(Reason::of("something is in motion"))
            }
            _ => PreFilterAnswer::Skip,
        }
    }
}

impl Interest for Early {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let key = label(cx.pod, "pending");
        when(matches!(change, Change::PodAdded { uid } if Some(uid.0.as_str()) == key))
    }
}

struct Cpu;

impl Filter for Cpu {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let nodes = cycle.cluster.nodes();
        let has = nodes.allocatable(ResourceId::CPU, node);
        let free = has - nodes.requested(ResourceId::CPU, node);
        match cycle.pod.spec.requests.real.cpu_milli {
            wanted if wanted <= free => Verdict::Fit,
            wanted if wanted > has => Verdict::Unresolvable(Reason::of("Insufficient cpu")),
            _ => Verdict::Unschedulable(Reason::of("Insufficient cpu")),
        }
    }
}

impl Room for Cpu {
    fn room(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> u32 {
        let nodes = cycle.cluster.nodes();
        let id = ResourceId::CPU;
        let free = nodes.allocatable(id, node) - nodes.requested(id, node);
        match cycle.pod.spec.requests.real.cpu_milli {
            0 => u32::MAX,
            wanted => u32::try_from(free / wanted).unwrap_or(0),
        }
    }
}

impl Interest for Cpu {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        assert_ne!(label(cx.pod, "panic"), Some("hint"), "asked to fail");
        when(match change {
            Change::PodFreed { .. } | Change::NodeAdded { .. } => true,
            Change::NodeUpdated { aspects, .. } => aspects.allocatable,
            _ => false,
        })
    }
}

struct Refusals;

impl Filter for Refusals {
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        match cycle.cluster.refusal(&cycle.pod.spec, node) {
            None => Verdict::Fit,
            Some(reason) => Verdict::Unresolvable(Reason::from(reason.clone())),
        }
    }
}

impl Interest for Refusals {
    fn hint(&self, _: HintContext<'_>, change: &Change) -> Hint {
        match change {
            Change::NodeUpdated { aspects, .. } if aspects.admission => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

struct Picky;

impl Filter for Picky {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        assert_ne!(label(cycle.pod, "panic"), Some("filter"), "asked to fail");
        let Some(wanted) = label(cycle.pod, "wants") else { return Verdict::Fit };
        let node = cycle.cluster.nodes().node(node).expect("only nodes are asked about");
        if node.labels.value("broken").is_some() {
            return Verdict::Broken("the node's data is bad".into());
        }
        if node.labels.value(wanted).is_some() {
            Verdict::Fit
        } else {
            Verdict::Unresolvable(Reason::from(Text::from(format!("node(s) had no {wanted}"))))
        }
    }
}

struct Alone;

impl Alone {
    fn query(pod: &Pod) -> Option<CountQuery> {
        label(pod, "alone")?;
        let exists =
            Requirement { key: "alone".into(), operator: Operator::Exists, values: Vec::new() };
        let selector = LabelSelector { requirements: vec![exists] };
        Some(CountQuery { namespace: pod.namespace.clone(), selector })
    }
}

impl Classify for Alone {
    fn class_part(&self, pod: &Pod, _cluster: &Cluster) -> ClassPart {
        let texts = label(pod, "alone").into_iter().map(Text::from).collect();
        ClassPart { queries: Alone::query(pod).into_iter().collect(), texts, ..Default::default() }
    }
}

impl Filter for Alone {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, _node: NodeIdx) -> Verdict {
        let Some(query) = Alone::query(cycle.pod) else { return Verdict::Fit };
        let limit = label(cycle.pod, "alone").and_then(|n| n.parse().ok()).unwrap_or(0);
        let column = cycle.cluster.count(&query).expect("declared before the cycle");
        let nodes = cycle.cluster.nodes().iter();
        let placed: u32 = nodes.map(|(node, _)| column.on(node)).sum();
        if placed < limit { Verdict::Fit } else { Verdict::Unschedulable("too many alike".into()) }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        assert_ne!(label(cycle.pod, "panic"), Some("reads"), "asked to fail");
        // It counts on nodes that there are, so it depends on which there are, too.
        let of = |query| [IndexRef::Counts(query), IndexRef::Topology];
        Reads { indexes: Alone::query(cycle.pod).into_iter().flat_map(of).collect() }
    }
}

impl Interest for Alone {
    fn hint(&self, _cx: HintContext<'_>, change: &Change) -> Hint {
        when(matches!(change, Change::PodFreed { .. }))
    }
}

struct Rank;

impl Score for Rank {
    fn score(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> i64 {
        let node = cycle.cluster.nodes().node(node).expect("only nodes are scored");
        assert_ne!(node.labels.value("rank").map(Text::as_str), Some("panic"), "asked to fail");
        node.labels.value("rank").and_then(|rank| rank.parse().ok()).unwrap_or(0)
    }
}

struct Hold;

impl Reserve for Hold {
    fn reserve(
        &self,
        pod: &Pod,
        _overlay: &mut Overlay<'_>,
        _state: &CycleState,
        _node: NodeIdx,
        work: &mut Work,
    ) -> Result<(), Reason> {
        work.spend(label(pod, "reserve-steps").and_then(|n| n.parse().ok()).unwrap_or(0));
        if label(pod, "reserve") == Some("no") { Err("nothing to hold".into()) } else { Ok(()) }
    }
}

struct Permits;

impl Permit for Permits {
    fn permit(&self, pod: &Pod, cluster: &Cluster, _: NodeIdx, now: Timestamp) -> PermitAnswer {
        match label(pod, "permit") {
            Some("no") => PermitAnswer::Reject("not permitted".into()),
            Some(key) if exists(cluster, &format!("not-{key}")) => {
                PermitAnswer::Reject("permit withdrawn".into())
            }
            Some(key) if !exists(cluster, key) => PermitAnswer::Wait {
                until: now + Span::from_secs(600),
                reason: format!("{key} did not come in time").into(),
            },
            _ => PermitAnswer::Allow,
        }
    }
}

impl Interest for Permits {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let key = label(cx.pod, "permit");
        when(match change {
            Change::PodAdded { uid } => Some(uid.0.as_str()) == key,
            // Any pod that leaves, so that a pod's own release would wake it.
            Change::PodFreed { .. } => true,
            _ => false,
        })
    }
}

struct Prepare;

impl PreBind for Prepare {
    fn pre_bind(&self, pod: &Pod, _: &Cluster, _: NodeIdx, _: Timestamp) -> Vec<StageDraft> {
        assert_ne!(label(pod, "panic"), Some("pre-bind"), "asked to fail");
        let Some(prefix) = label(pod, "create") else { return Vec::new() };
        let created = || NameOf::FromWrite("create".into());
        let (kind, namespace) = (Text::from("Thing"), pod.namespace.clone());
        let create = WriteDraft {
            label: "create".into(),
            op: Op::Create {
                kind: kind.clone(),
                namespace: namespace.clone(),
                name: NameOf::Known(prefix.into()),
                generate_name: true,
                body: Value::Null,
            },
            undo: Some(Op::Delete {
                kind: kind.clone(),
                namespace: namespace.clone(),
                name: created(),
            }),
            read_back: None,
        };
        let patch = |body: i64| Op::Patch {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: created(),
            subresource: None,
            resource_version: 0,
            body: Value::Int(body),
        };
        let patch = WriteDraft { undo: Some(patch(0)), ..WriteDraft::plain("patch", patch(1)) };
        vec![StageDraft::Writes(vec![create]), StageDraft::Writes(vec![patch])]
    }
}

struct Evict;

impl PostFilter for Evict {
    fn post_filter(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        _verdicts: &dyn Fn(NodeIdx) -> Verdict,
        _fits: &dyn Fn(&Cluster, &Pod, NodeIdx) -> bool,
    ) -> PostFilterAnswer {
        let Some(names) = label(pod, "evict") else {
            return PostFilterAnswer::Unschedulable("preemption: nobody to evict.".into());
        };
        let victims: Vec<PodUid> = names.split(',').map(|name| PodUid(name.into())).collect();
        let first = overlay.cluster().pod(&victims[0]).and_then(|record| record.place.node());
        let Some(node) = first else { return PostFilterAnswer::Unresolvable("gone".into()) };
        // What is left behind here is rolled back by the engine.
        assert!(overlay.evict(&victims[0]));
        PostFilterAnswer::Evict { node, victims }
    }
}

struct Binder;

impl Bind for Binder {
    fn bind(&self, pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Option<WriteDraft> {
        assert_ne!(label(pod, "panic"), Some("bind"), "asked to fail");
        if label(pod, "bind") == Some("nobody") {
            return None;
        }
        let node = cluster.nodes().slot(node).name.clone();
        let op =
            Op::Bind { pod: pod.reference(), node, resource_version: 0, plan: None, gpus: None };
        Some(WriteDraft::plain(format!("bind {}", pod.uid), op))
    }
}
