//! Conventions by which pods and objects say what belongs together: one file each, one table.
//!
//! A dialect turns one object into what it says, purely: a pod into at most one [`GroupHint`], an
//! object of its own into a [`PodGroup`]. The ledger joins them. What can't be understood becomes a
//! `problem` of that hint or group, and its members wait.
//!
//! Adding one touches its file, a line of [`ALL`], and a file of cases in `tests/dialects`.
//!
//! Reading order: this file, [`versioned`] (kinds of objects and their versions), [`object`] (what objects
//! of groups have in common), `topology` (what pods say of it in whichever dialect), [`tree`] (objects
//! that describe topologies), then one dialect each.

pub mod coscheduling;
pub mod kai;
pub mod kueue;
pub mod native;
pub mod object;
mod topology;
pub mod tree;
pub mod versioned;
pub mod volcano;

use berth_core::types::group::{Dialect, GroupHint, GroupKind};
use berth_core::types::{Owner, PodUid, Text};

use super::field::Field;
use super::k8s::pod::SchedulingGroup;
use super::meta::Meta;
use super::reading::Reading;
use object::{GroupObject, ObjectDef};
use tree::{TreeDef, TreeObject};

/// A convention for groups.
pub struct DialectDef {
    pub dialect: Dialect,
    /// One line for users.
    pub summary: &'static str,
    /// Annotations of pods that it reads; others are skipped when a pod is decoded.
    annotations: &'static [&'static str],
    hint: fn(&PodWords<'_>, &mut Reading<'_>) -> Option<GroupHint>,
    /// Kinds of objects that make its groups. Without the first one on the server the dialect is
    /// off; none: pods say all there is.
    objects: &'static [&'static ObjectDef],
    /// The kind of objects by which it describes topologies. It may be there or not.
    tree: Option<&'static TreeDef>,
    /// The Lease of its own scheduler. While somebody holds that, the status of its objects is not
    /// ours to write.
    pub peer: Option<Peer>,
}

/// A Lease, as a scheduler is installed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub namespace: &'static str,
    pub name: &'static str,
}

/// Every dialect. The order is that of the hints of a pod; which one counts is said by its rank.
pub static ALL: [&DialectDef; 5] =
    [&native::DIALECT, &coscheduling::DIALECT, &volcano::DIALECT, &kai::DIALECT, &kueue::DIALECT];

impl DialectDef {
    /// Returns the dialect that a profile lists by this name.
    pub fn named(name: &str) -> Option<&'static DialectDef> {
        ALL.into_iter().find(|def| def.dialect.name == name)
    }

    /// Returns the kinds of its objects, each in the newest version.
    pub fn objects(&self) -> impl Iterator<Item = GroupObject> + use<> {
        self.objects.iter().map(|def| GroupObject::newest(def))
    }

    /// Returns the kind by which it describes topologies, in the newest version.
    pub fn tree(&self) -> Option<TreeObject> {
        self.tree.map(TreeObject::newest)
    }
}

/// Returns every kind of object that makes groups, in every version, newest first.
pub fn objects() -> impl Iterator<Item = GroupObject> {
    ALL.into_iter().flat_map(|def| def.objects()).flat_map(GroupObject::versions)
}

/// Returns every kind of object that describes topologies, in every version, newest first.
pub fn trees() -> impl Iterator<Item = TreeObject> {
    ALL.into_iter().filter_map(DialectDef::tree).flat_map(TreeObject::versions)
}

/// Returns the kind of the objects that make groups of a dialect, in the newest version.
pub fn object_of(dialect: Dialect, makes: GroupKind) -> Option<GroupObject> {
    DialectDef::named(dialect.name)?.objects().find(|object| object.makes() == makes)
}

/// Tells whether some dialect reads this annotation of pods.
pub(super) fn reads_annotation(key: &str) -> bool {
    topology::ANNOTATIONS.contains(&key) || ALL.iter().any(|def| def.annotations.contains(&key))
}

/// What a dialect may read of a pod: it changes only while the pod has no node, or never.
pub(super) struct PodWords<'a> {
    pub(super) meta: &'a Meta,
    pub(super) scheduling_group: &'a Field<SchedulingGroup>,
    /// The controller.
    pub(super) owner: Option<&'a Owner>,
    pub(super) uid: &'a PodUid,
}

impl<'a> PodWords<'a> {
    /// Returns a label's value, `None` if it is absent or empty.
    fn label(&self, key: &str) -> Option<&'a str> {
        let labels = self.meta.object.labels.as_ref()?;
        labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// As [`PodWords::label`], of an annotation.
    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.meta.annotation(key).filter(|value| !value.is_empty())
    }
}

/// Returns what a pod says in each dialect.
pub(super) fn hints(words: &PodWords<'_>, reading: &mut Reading<'_>) -> Vec<GroupHint> {
    let mut hints: Vec<GroupHint> =
        ALL.iter().filter_map(|def| (def.hint)(words, reading)).collect();
    if hints.is_empty() {
        return hints;
    }
    let constraints = topology::constraints(words, reading);
    let spread = topology::spread(words.meta, reading);
    for hint in &mut hints {
        match (&constraints, &spread) {
            (Ok(constraints), Ok(spread)) => {
                hint.topology.clone_from(constraints);
                hint.spread.clone_from(spread);
            }
            (Err(problem), _) | (_, Err(problem)) => {
                hint.problem = hint.problem.take().or_else(|| Some(problem.clone()));
            }
        }
    }
    hints
}

/// Reads a number of members, as text.
///
/// # Errors
/// Why it is none.
fn count(key: &str, value: &str, least: u32) -> Result<u32, Text> {
    let wrong = || {
        let value = super::problem::shown(value);
        let what =
            format!("annotation {key} must be a number of at least {least}, not \"{value}\"");
        Text::from(what)
    };
    value.trim().parse().ok().filter(|count| *count >= least).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use berth_core::types::group::Rank;
    use serde_json::json;

    use super::*;
    use crate::wire::{Kind, Object, Tables, decode};

    /// Which of them counts, and that they disagree, is the ledger's to say.
    #[test]
    fn all_that_a_pod_says_is_kept_in_the_order_of_the_table() {
        let metadata = json!({
            "name": "torn", "namespace": "default",
            "labels": {
                "scheduling.x-k8s.io/pod-group": "old", "kueue.x-k8s.io/pod-group-name": "k",
            },
            "annotations": {
                "scheduling.k8s.io/group-name": "new", "pod-group-name": "tune",
                "kueue.x-k8s.io/pod-group-total-count": "2",
            },
        });
        let spec = json!({"schedulingGroup": {"podGroupName": "train"}, "containers": []});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        let decoded = decode(Kind::Pod, pod, &mut Tables::default()).unwrap();
        let Object::Pod(pod) = decoded.object else { panic!("{:?}", decoded.object) };
        let said = pod.group_hints().iter().map(|hint| (hint.dialect.name, &*hint.name));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                ("native", "train"),
                ("coscheduling", "old"),
                ("volcano", "new"),
                ("kai", "tune"),
                ("kueue", "k")
            ]
        );
        assert!(pod.problem.is_none() && pod.group_hints().iter().all(|it| it.problem.is_none()));
    }

    #[test]
    fn a_megabyte_of_annotation_is_a_short_problem_of_its_pod() {
        let long = "rack=1,".repeat(150_000);
        let slices = format!("[{}]", "{\"topology\":\"rack\",\"size\":1},".repeat(40_000));
        let annotations = [
            ("berth.dev/topology-spread", &long),
            ("berth.dev/topology-span", &long),
            ("kueue.x-k8s.io/podset-slice-required-topology-constraints", &slices),
            ("kai.scheduler/segment-size", &long),
        ];
        for (key, text) in annotations {
            let mut metadata = json!({
                "name": "long", "namespace": "default",
                "labels": {"kueue.x-k8s.io/pod-group-name": "k"},
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2", key: text},
            });
            if key.starts_with("kai") {
                let of = "kai.scheduler/segment-topology-required-placement";
                metadata["annotations"][of] = json!("rack");
            }
            let spec = json!({"containers": []});
            let pod =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
            let decoded = decode(Kind::Pod, pod, &mut Tables::default()).unwrap();
            let Object::Pod(pod) = decoded.object else { panic!("{:?}", decoded.object) };
            let problem = pod.group_hints()[0].problem.as_deref().unwrap_or_default();
            assert!(problem.contains(key) && problem.len() < 1000, "{key}: {problem:.300}");
        }
    }

    #[test]
    fn every_dialect_is_found_by_its_name_and_every_object_by_what_it_makes() {
        let names: BTreeSet<&str> = ALL.iter().map(|def| def.dialect.name).collect();
        assert_eq!(names.len(), ALL.len());
        for def in ALL {
            assert!(DialectDef::named(def.dialect.name).is_some_and(|it| std::ptr::eq(it, def)));
            for object in def.objects() {
                assert_eq!(object.dialect(), def.dialect);
                assert_eq!(object_of(object.dialect(), object.makes()), Some(object));
                assert!(object.versions().all(|version| version.family() == object));
            }
            let tree = def.tree();
            assert!(tree.is_none_or(|tree| tree.dialect() == def.dialect));
            assert!(tree.is_none_or(|tree| tree.versions().all(|it| it.family() == tree)));
            assert_eq!(def.peer.is_some(), def.objects().any(GroupObject::is_told), "whose status");
        }
        assert!(DialectDef::named("slurm").is_none());
        // Only Kubernetes' own counts without being asked for, and nothing beats it.
        let native: Vec<_> = ALL.iter().filter(|def| def.dialect.rank == Rank::Native).collect();
        assert!(matches!(&native[..], [def] if def.dialect.name == "native"));
    }
}
