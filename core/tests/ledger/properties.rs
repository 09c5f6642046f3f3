//! Random histories: incremental equals from-scratch, what-if leaves no trace, versions tell.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::snapshot::devices::gather::NodePool;
use berth_core::snapshot::{Cluster, ClusterEvent, DeviceEvent, NodeIdx, Overlay, Version};
use berth_core::testkit::{expressions, parse};
use berth_core::types::{Node, PodUid, Text};
use proptest::prelude::*;

use crate::history::{Edit, Step, Writer, allocation, key, pod, step, unborn};
use crate::model::{EXPRESSIONS, Objects, pool_seen, seen};

/// The ledger under test beside the objects, with what it has said so far.
struct Told {
    cluster: Cluster,
    objects: Objects,
    history: Vec<ClusterEvent>,
    /// What a node saw at a version of its own and of the pools that any node may see.
    views: BTreeMap<(Version, Version), String>,
}

/// What a node sees, by pool.
type View = BTreeMap<Text, String>;

fn views(cluster: &Cluster) -> BTreeMap<NodeIdx, View> {
    let devices = cluster.devices();
    // Taint rules and selections have versions of their own.
    let bare = Cluster::default();
    let seen = |pool: NodePool<'_>| {
        let left = pool.counter_left(devices, &"c".into(), &"m".into());
        (pool.name.clone(), format!("{} {left:?}", pool_seen(&bare, &pool)))
    };
    let view = |node: &Node| devices.pools_on(node).into_iter().map(seen).collect();
    cluster.nodes().iter().map(|(idx, node)| (idx, view(node))).collect()
}

fn versions(cluster: &Cluster) -> (Vec<Version>, Version, Version) {
    let nodes = (0..cluster.nodes().capacity()).map(|at| NodeIdx(at as u32));
    let nodes = nodes.map(|idx| cluster.nodes().slot(idx).version).collect();
    (nodes, cluster.devices().wide_version(), cluster.devices().classes_version())
}

/// Everything, versions included.
fn all(cluster: &mut Cluster) -> String {
    let records: Vec<Version> = cluster.devices().claims().map(|record| record.version).collect();
    format!("{:?} {:?} {records:?} {:?}", seen(cluster), versions(cluster), views(cluster))
}

impl Told {
    fn new() -> Told {
        let mut cluster = Cluster::default();
        cluster.set_selector_compiler(expressions::tiny());
        let (objects, history, views) = Default::default();
        let mut told = Told { cluster, objects, history, views };
        parse("pod placed on=n0")
            .expect("it is well formed")
            .into_iter()
            .for_each(|e| told.fold(e));
        told
    }

    fn fold(&mut self, event: ClusterEvent) {
        let mut concerned = BTreeSet::new();
        let moved = self.watch(|told| {
            let was = told.objects.clone();
            told.objects.apply(&event);
            drop(told.cluster.fold(event.clone()));
            if let ClusterEvent::Devices(event) = &event {
                let mut pools = was.pools_of(event);
                pools.extend(told.objects.pools_of(event));
                concerned = was.nodes_of(&pools);
                concerned.extend(told.objects.nodes_of(&pools));
            }
        });
        if let ClusterEvent::Devices(_) = &event {
            let strangers: Vec<&Text> = moved.iter().filter(|n| !concerned.contains(*n)).collect();
            assert!(strangers.is_empty(), "{strangers:?} looked at anew for {event:?}");
        }
        let before = all(&mut self.cluster);
        assert!(self.cluster.fold(event.clone()).is_empty(), "repeated: {event:?}");
        assert_eq!(before, all(&mut self.cluster), "repeated: {event:?}");
        self.history.push(event);
    }

    /// Does something, and checks that versions tell who sees devices differently after it.
    /// Returns the nodes whose version has moved.
    fn watch(&mut self, change: impl FnOnce(&mut Told)) -> Vec<Text> {
        let (was, before) = (views(&self.cluster), versions(&self.cluster));
        let wide_before = self.objects.clone();
        let shared = |cluster: &Cluster| -> String {
            let (classes, rules) = (cluster.devices().classes(), cluster.devices().rules());
            format!("{:?} {:?}", classes.collect::<Vec<_>>(), rules.collect::<Vec<_>>())
        };
        let classes = shared(&self.cluster);
        change(self);
        assert!(classes == shared(&self.cluster) || before.2 != versions(&self.cluster).2);
        let (is, after) = (views(&self.cluster), versions(&self.cluster));
        let moved = |idx: NodeIdx| before.0.get(idx.at()) != after.0.get(idx.at());
        for (idx, view) in &is {
            let Some(old) = was.get(idx) else { continue };
            let pools = view.keys().chain(old.keys()).filter(|p| view.get(*p) != old.get(*p));
            for pool in pools {
                let wide = wide_before.wide("d", pool) || self.objects.wide("d", pool);
                let told = moved(*idx) || wide && before.1 != after.1;
                let name = &self.cluster.nodes().slot(*idx).name;
                assert!(told, "{name} sees pool {pool} differently: {old:?} {view:?}");
            }
        }
        let nodes = is.keys().filter(|idx| moved(**idx));
        let nodes = nodes.map(|idx| self.cluster.nodes().slot(*idx).name.clone()).collect();
        note_views(&mut self.views, &self.cluster);
        nodes
    }

    fn what_if(&mut self, edits: &[Edit], back_to: u8, keep: bool) {
        let before = all(&mut self.cluster);
        let was = self.objects.clone();
        let mut overlay = Overlay::new(&mut self.cluster);
        let mut marks = vec![(overlay.checkpoint(), self.objects.clone(), String::new())];
        for edit in edits {
            match edit {
                Edit::Evict => drop(overlay.evict(&PodUid("placed".into()))),
                Edit::Plan { claim, pod: name, grants } => {
                    let (key, pod, allocation) = (key(*claim), pod(*name), allocation(grants));
                    let noted = overlay.plan_claim(&key, &allocation, &pod);
                    assert_eq!(noted, self.objects.plan(&key, &allocation, &pod));
                }
                Edit::PlanNew { claim, pod: name, grants } => {
                    let (claim, allocation) = (unborn(*claim, *name), allocation(grants));
                    let noted = overlay.plan_new_claim(&claim, &allocation, &pod(*name));
                    assert_eq!(noted, self.objects.plan_new(&claim, &allocation, &pod(*name)));
                }
            }
            note_views(&mut self.views, overlay.cluster());
            let now = format!("{:?} {:?}", versions(overlay.cluster()), views(overlay.cluster()));
            marks.push((overlay.checkpoint(), self.objects.clone(), now));
        }
        let (mark, objects, then) = marks.swap_remove(usize::from(back_to) % marks.len());
        overlay.rollback(mark);
        let now = format!("{:?} {:?}", versions(overlay.cluster()), views(overlay.cluster()));
        if !then.is_empty() {
            assert_eq!(then, now, "a rollback brings back what was at the mark");
        }
        if keep {
            overlay.commit();
            self.objects = objects;
            self.objects.note_charges();
            note_views(&mut self.views, &self.cluster);
        } else {
            drop(overlay);
            self.objects = was;
            assert_eq!(before, all(&mut self.cluster), "an overlay leaves no trace");
        }
    }

    /// An old event says nothing of what has been replaced since. Classes and rules have no UID:
    /// of one that is gone nobody can tell.
    fn late(&mut self, which: u8) {
        let Some(event) = self.history.get(usize::from(which) % self.history.len().max(1)) else {
            return;
        };
        let tells = match event {
            ClusterEvent::Devices(DeviceEvent::ClassApplied(class)) => {
                self.objects.classes.contains_key(&class.name)
            }
            ClusterEvent::Devices(DeviceEvent::TaintRuleApplied(rule)) => {
                self.objects.rules.contains_key(&rule.name)
            }
            ClusterEvent::Devices(
                DeviceEvent::ClassDeleted { .. } | DeviceEvent::TaintRuleDeleted { .. },
            ) => false,
            ClusterEvent::Devices(_) => true,
            _ => false,
        };
        if tells {
            let event = event.clone();
            let before = all(&mut self.cluster);
            let changes = self.cluster.fold(event.clone());
            assert!(changes.is_empty(), "{changes:?} by the late {event:?}");
            assert_eq!(before, all(&mut self.cluster), "late: {event:?}");
        }
    }

    fn declare(&mut self, steps: u8) {
        let mut left = u64::from(steps) * 20;
        for expression in EXPRESSIONS {
            self.cluster.declare_selector(&expression.into(), &mut |steps| {
                let enough = left > 0;
                left = left.saturating_sub(steps);
                enough
            });
        }
    }
}

/// A version stands for one view.
fn note_views(views: &mut BTreeMap<(Version, Version), String>, cluster: &Cluster) {
    for (idx, view) in self::views(cluster) {
        let at = (cluster.nodes().slot(idx).version, cluster.devices().wide_version());
        let view = format!("{view:?}");
        let known = views.entry(at).or_insert_with(|| view.clone());
        assert_eq!(*known, view, "a version stands for one view");
    }
}

fn incremental_equals_from_scratch(steps: Vec<Step>) {
    let mut told = Told::new();
    let mut writer = Writer::default();
    for step in steps {
        match &step {
            Step::WhatIf { edits, back_to, keep } => told.what_if(edits, *back_to, *keep),
            Step::Forget { pod: name } => {
                told.watch(|told| {
                    told.cluster.forget_claims(&pod(*name));
                    told.objects.forget(&pod(*name));
                });
            }
            Step::Late { which } => told.late(*which),
            Step::Declare { steps } => told.declare(*steps),
            _ => {
                if let Some(event) = writer.event(&step, &told.objects) {
                    told.fold(event);
                }
            }
        }
        told.objects.check_counters(&told.cluster);
        told.objects.check_holders(&told.cluster);
        told.objects.check_special(&told.cluster);
    }
    assert_eq!(seen(&mut told.cluster), seen(&mut told.objects.rebuilt()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_folded_step_by_step_equals_one_rebuilt_from_the_objects(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        incremental_equals_from_scratch(steps);
    }
}
