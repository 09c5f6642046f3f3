//! The selector that default constraints count by: what the services and the controller of a pod
//! select.

use std::collections::BTreeMap;

use berth_core::snapshot::Cluster;
use berth_core::types::workload::{PodSelectorOwner, SelectorKind};
use berth_core::types::{LabelSelector, Pod, Requirement, Text};

use super::constraints::canonical;

/// Returns the selectors of the services that select the pod and of the ReplicationController,
/// ReplicaSet or StatefulSet that owns it, all ANDed; empty without any.
///
/// Source: `DefaultSelector` of upstream's plugins/helper/spread.go (1.37). It also compares the
/// owner's API group, which a pod's [`Owner`](berth_core::types::Owner) doesn't tell.
pub(super) fn default_selector(pod: &Pod, cluster: &Cluster) -> LabelSelector {
    // Services and ReplicationControllers have plain label sets; of one key the later value stays.
    let mut labels: BTreeMap<Text, Requirement> = BTreeMap::new();
    let mut requirements = Vec::new();
    // In order of kind: services come before controllers.
    for owner in cluster.selector_owners(&pod.namespace) {
        let counts = match owner.kind {
            SelectorKind::Service => owner.selector.selects(&pod.labels),
            SelectorKind::ReplicationController
            | SelectorKind::ReplicaSet
            | SelectorKind::StatefulSet => controls(owner, pod),
        };
        if !counts {
            continue;
        }
        let selected = owner.selector.requirements.iter().cloned();
        match owner.kind {
            SelectorKind::Service | SelectorKind::ReplicationController => {
                labels.extend(selected.map(|requirement| (requirement.key.clone(), requirement)));
            }
            SelectorKind::ReplicaSet | SelectorKind::StatefulSet => requirements.extend(selected),
        }
    }
    requirements.extend(labels.into_values());
    canonical(LabelSelector { requirements })
}

fn controls(owner: &PodSelectorOwner, pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|o| o.kind == owner.kind.as_str() && o.name == owner.name)
}

#[cfg(test)]
mod tests {
    use berth_core::snapshot::ClusterEvent;
    use berth_core::types::{Labels, Owner};

    use super::*;

    fn owner(kind: SelectorKind, name: &str, key: &str, value: &str) -> ClusterEvent {
        ClusterEvent::SelectorOwnerApplied(PodSelectorOwner {
            kind,
            namespace: "ns".into(),
            name: name.into(),
            selector: LabelSelector::equals(key, value),
        })
    }

    fn check(kind: &str, name: &str, expected: &[(&str, &str)]) {
        let mut cluster = Cluster::default();
        cluster.fold(owner(SelectorKind::Service, "s1", "app", "a"));
        cluster.fold(owner(SelectorKind::Service, "s2", "app", "b"));
        cluster.fold(owner(SelectorKind::Service, "s3", "tier", "web"));
        cluster.fold(owner(SelectorKind::ReplicaSet, "rs", "hash", "1"));
        cluster.fold(owner(SelectorKind::ReplicaSet, "other", "hash", "2"));
        cluster.fold(owner(SelectorKind::ReplicationController, "rc", "app", "z"));
        let pod = Pod {
            namespace: "ns".into(),
            labels: Labels::new(vec![("app".into(), "a".into()), ("tier".into(), "web".into())]),
            owner: Some(Owner { kind: kind.into(), name: name.into(), uid: Text::default() }),
            ..Pod::default()
        };
        let found = default_selector(&pod, &cluster);
        let found: Vec<(&str, &str)> =
            found.requirements.iter().map(|r| (&*r.key, &*r.values[0])).collect();
        assert_eq!(found, expected, "{kind}/{name}");
    }

    #[test]
    fn matching_services_and_the_controller_are_anded() {
        let services = [("app", "a"), ("tier", "web")];
        check("Job", "j", &services);
        check("ReplicaSet", "rs", &[("app", "a"), ("hash", "1"), ("tier", "web")]);
        check("StatefulSet", "rs", &services);
        check("ReplicationController", "rc", &[("app", "z"), ("tier", "web")]);
    }

    #[test]
    fn other_namespaces_do_not_count() {
        let mut cluster = Cluster::default();
        cluster.fold(owner(SelectorKind::Service, "s1", "app", "a"));
        let labels = Labels::new(vec![("app".into(), "a".into())]);
        let pod = Pod { namespace: "other".into(), labels, ..Pod::default() };
        assert!(default_selector(&pod, &cluster).is_empty());
    }
}
