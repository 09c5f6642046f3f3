//! Short ways to make objects.

use std::sync::Arc;

use berth_core::framework::profile_spec::{Enabled, PluginSet};
use berth_core::framework::{Profile, ProfileSpec, Registry};
use berth_core::types::group::{Dialect, GroupKind, NATIVE, Rank};
use berth_core::types::{
    GroupHint, GroupKey, Labels, Node, Owner, Pod, PodClaim, PodGroup, PodRequests, PodSpec,
    PodUid, Resources, Text, Timestamp,
};

use crate::plugins::ALL;

pub(crate) const SCHEDULER: &str = "berth";

/// The plugins of most stories.
pub(crate) const USUAL: &[&str] = &[
    "Order", "Gate", "Gangs", "Early", "Cpu", "Picky", "Alone", "Rank", "Hold", "Permit",
    "Prepare", "Binder",
];

pub(crate) fn profile(plugins: &[&str], percentage: i32) -> Profile {
    let enabled = plugins.iter().map(|name| Enabled::new(name, 1)).collect();
    let mut spec = ProfileSpec {
        scheduler_name: SCHEDULER.into(),
        percentage_of_nodes_to_score: Some(percentage),
        path: "profiles[0]".into(),
        ..ProfileSpec::default()
    };
    spec.plugins.multi_point = PluginSet { enabled, disabled: Vec::new() };
    Profile::build(&spec, Registry(ALL)).expect("the profile is sound")
}

pub(crate) fn node(name: &str, cpu: i64) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-of-{name}").into(),
        allocatable: Resources { cpu_milli: cpu * 1000, ..Resources::default() },
        pods_max: 110,
        ..Node::default()
    }
}

pub(crate) fn labelled(mut node: Node, labels: &[(&str, &str)]) -> Node {
    node.labels = labels_of(labels);
    node
}

pub(crate) fn labels_of(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(k, v)| (Text::from(*k), Text::from(*v))).collect()
}

/// A pod that asks for `cpu` CPUs.
pub(crate) fn pod(name: &str, cpu: i64) -> Pod {
    let real = Resources { cpu_milli: cpu * 1000, ..Resources::default() };
    let requests =
        PodRequests { nonzero_cpu_milli: real.cpu_milli, real, ..PodRequests::default() };
    Pod {
        uid: PodUid(name.into()),
        namespace: "default".into(),
        name: name.into(),
        resource_version: 1,
        created: Timestamp(0),
        usage: Arc::new(requests.clone()),
        spec: Arc::new(PodSpec {
            scheduler_name: SCHEDULER.into(),
            requests,
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

pub(crate) trait With: Sized {
    fn label(self, key: &str, value: &str) -> Self;
    fn priority(self, priority: i32) -> Self;
    fn on(self, node: &str) -> Self;
    fn namespace(self, namespace: &str) -> Self;
    /// A member of a group of so many, which the pods themselves say.
    fn counted(self, group: &str, min: u32) -> Self;
    /// A member of a group that has an object.
    fn grouped(self, group: &str) -> Self;
    /// Made by a controller.
    fn owned(self) -> Self;
    /// With an entry of `resourceClaims` that names a claim.
    fn claim(self, entry: &str, name: &str) -> Self;
}

impl With for Pod {
    fn label(mut self, key: &str, value: &str) -> Pod {
        let added = [(Text::from(key), Text::from(value))];
        self.labels = self.labels.iter().cloned().chain(added).collect();
        self
    }

    fn priority(mut self, priority: i32) -> Pod {
        self.priority = priority;
        self
    }

    fn on(mut self, node: &str) -> Pod {
        self.node_name = Some(node.into());
        self
    }

    fn namespace(mut self, namespace: &str) -> Pod {
        self.namespace = namespace.into();
        self
    }

    fn counted(mut self, group: &str, min: u32) -> Pod {
        self.add_group_hint(GroupHint {
            min_member: Some(min),
            needs_object: false,
            ..GroupHint::of_object(COUNTED, group.into())
        });
        self
    }

    fn grouped(mut self, group: &str) -> Pod {
        self.add_group_hint(GroupHint::of_object(NATIVE, group.into()));
        self
    }

    fn owned(mut self) -> Pod {
        let (kind, name, uid) = ("Job".into(), "j".into(), "uid-of-j".into());
        self.owner = Some(Owner { kind, name, uid });
        self
    }

    fn claim(mut self, entry: &str, name: &str) -> Pod {
        let (name, source) = (entry.into(), name.into());
        let claim = PodClaim { name, source, from_template: false };
        Arc::make_mut(&mut self.spec).claims.push(claim);
        self
    }
}

/// A dialect in which pods say how many they are.
pub(crate) const COUNTED: Dialect = Dialect { rank: Rank::Counted, name: "counted" };

/// A native group that needs so many members.
pub(crate) fn gang(name: &str, min_member: u32) -> PodGroup {
    let (dialect, namespace, name) = (NATIVE, "default".into(), Text::from(name));
    let uid = format!("uid-of-{name}");
    PodGroup::gang(GroupKey { dialect, kind: GroupKind::Pods, namespace, name }, uid, min_member)
}
