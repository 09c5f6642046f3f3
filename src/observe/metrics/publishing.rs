//! What the engine holds, copied into gauges by its own thread once a second.

use berth_core::engine::Engine;
use berth_core::queue::QueueCounts;

use super::handles::{NO_LABELS, raise};
use super::recording::Recorder;
use super::render::set;

impl Recorder {
    /// Cost: O(nodes + services + slices + waiting entries), once a second at most.
    pub(super) fn publish(&mut self, engine: &Engine) {
        self.publish_ledger(engine);
        self.publish_queue(engine);
        self.publish_arrivals(engine);
        self.publish_held(engine);
        self.publish_calls(engine);
        let families = self.metrics.families();
        let (plans, unconfirmed) = engine.under_way();
        set(&families.plans, NO_LABELS, plans as f64);
        set(&families.unconfirmed, NO_LABELS, unconfirmed as f64);
        let classes = engine.class_counts();
        set(&families.classes, NO_LABELS, classes.classes as f64);
        set(&families.class_tables, NO_LABELS, classes.tables as f64);
        set(&families.class_bytes, NO_LABELS, classes.bytes as f64);
        raise(&families.class_hits, NO_LABELS, classes.hits as f64);
        raise(&families.class_misses, NO_LABELS, classes.misses as f64);
        raise(&families.class_evictions, NO_LABELS, classes.evictions as f64);
    }

    fn publish_ledger(&self, engine: &Engine) {
        let (families, sizes) = (self.metrics.families(), engine.cluster().sizes());
        let cache = [
            ("nodes", sizes.nodes),
            ("pods", sizes.placed_pods),
            ("assumed_pods", sizes.assumed_pods),
        ];
        for (kind, count) in cache {
            set(&families.cache_size, &[kind], count as f64);
        }
        let ledger = [
            ("nodes", sizes.nodes),
            ("pods", sizes.pods),
            ("nominated_pods", sizes.nominated_pods),
            ("namespaces", sizes.namespaces),
            ("services", sizes.services),
            ("controllers", sizes.controllers),
            ("persistentvolumeclaims", sizes.claims),
            ("persistentvolumes", sizes.volumes),
            ("storageclasses", sizes.storage_classes),
            ("csinodes", sizes.csi_nodes),
            ("volumeattachments", sizes.attachments),
            ("resourceslices", sizes.resource_slices),
            ("devices", sizes.devices),
            ("resourceclaims", sizes.resource_claims),
            ("deviceclasses", sizes.device_classes),
        ];
        for (kind, count) in ledger {
            set(&families.ledger, &[kind], count as f64);
        }
    }

    fn publish_queue(&mut self, engine: &Engine) {
        let (queue, families) = (engine.queue(), self.metrics.families());
        for (name, pods) in by_name(queue.pod_counts()) {
            set(&families.pending_pods, &[name], pods as f64);
        }
        let (all, groups) = (by_name(queue.counts()), by_name(queue.group_counts()));
        for ((name, all), (_, groups)) in all.into_iter().zip(groups) {
            let own = all.saturating_sub(groups);
            set(&families.queued_entities, &[name, "pod"], own as f64);
            set(&families.queued_entities, &[name, "podgroup"], groups as f64);
        }
        let events = queue.in_flight_events();
        for gone in self.changes.iter().filter(|event| !events.contains_key(*event)) {
            set(&families.inflight_events, &[gone], 0.0);
        }
        for (event, count) in &events {
            set(&families.inflight_events, &[event], *count as f64);
        }
        self.changes.extend(events.into_keys());
    }

    fn publish_arrivals(&self, engine: &Engine) {
        let families = self.metrics.families();
        let mut pods = std::collections::BTreeMap::new();
        for arrivals in engine.queue().arrivals() {
            let kind = if arrivals.grouped { "podgroup" } else { "pod" };
            let labels = [arrivals.event, arrivals.queue, kind];
            raise(&families.incoming_entities, &labels, arrivals.entries as f64);
            *pods.entry((arrivals.event, arrivals.queue)).or_insert(0) += arrivals.pods;
        }
        for ((event, queue), pods) in pods {
            raise(&families.incoming_pods, &[event, queue], pods as f64);
        }
    }

    fn publish_held(&mut self, engine: &Engine) {
        let (held, gauges) =
            (engine.queue().held_by(), &self.metrics.families().unschedulable_pods);
        self.held.extend(held.keys().copied());
        for key in &self.held {
            let Some(profile) = engine.profiles().get(key.0) else { continue };
            let pods = held.get(key).copied().unwrap_or_default();
            set(gauges, &[key.1, &profile.scheduler_name], pods as f64);
        }
    }

    fn publish_calls(&self, engine: &Engine) {
        let counters = &self.metrics.families().plugin_calls;
        for profile in engine.profiles() {
            for (point, plugin, calls) in profile.calls() {
                if calls > 0 {
                    raise(counters, &[point, plugin, &profile.scheduler_name], calls as f64);
                }
            }
        }
    }
}

fn by_name(counts: QueueCounts) -> [(&'static str, usize); 4] {
    [
        ("active", counts.active),
        ("backoff", counts.backoff),
        ("unschedulable", counts.unschedulable),
        ("gated", counts.gated),
    ]
}
