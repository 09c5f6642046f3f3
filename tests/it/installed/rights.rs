//! No rule in the manifests is wider than what kube-scheduler has.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use super::{objects, of_kind, read, root, second, texts};

/// One thing that may be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(super) group: String,
    pub(super) resource: String,
    /// Empty: objects of any name.
    pub(super) name: String,
    pub(super) verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{} {}", self.verb, self.resource, self.group, self.name)
    }
}

/// What Berth has and kube-scheduler's roles don't, with the reason.
const EXTRA: [(&str, &str); 3] = [
    ("get leases.coordination.k8s.io berth", "its own Lease; kube-scheduler's is named after it"),
    ("watch leases.coordination.k8s.io berth", "the same"),
    ("update leases.coordination.k8s.io berth", "the same"),
];

/// The roles that are bound, as scope and role, with the reason.
const BOUND: [(&str, &str); 5] = [
    ("ClusterRoleBinding to ClusterRole berth", "what it schedules is everywhere"),
    ("ClusterRoleBinding to ClusterRole berth-groups-native", "so are groups"),
    ("ClusterRoleBinding to ClusterRole berth-groups-take-back", "and their members"),
    ("RoleBinding in berth-system to Role berth-leader-election", "its Lease"),
    (
        "RoleBinding in kube-system to Role extension-apiserver-authentication-reader",
        "the CAs of callers at the secure port; the API server binds kube-scheduler to it too",
    ),
];

pub(crate) fn right(group: &str, resource: &str, name: &str, verb: &str) -> Right {
    let [group, resource, name, verb] = [group, resource, name, verb].map(str::to_owned);
    Right { group, resource, name, verb }
}

/// Every combination; without names, objects of any name.
fn product(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> Vec<Right> {
    let names = if names.is_empty() { &[""] } else { names };
    let mut rights = Vec::new();
    for (group, resource) in groups.iter().flat_map(|g| resources.iter().map(move |r| (g, r))) {
        for (name, verb) in names.iter().flat_map(|n| verbs.iter().map(move |v| (n, v))) {
            rights.push(right(group, resource, name, verb));
        }
    }
    rights
}

/// Reads a table of role, groups, resources, names and verbs.
fn table(text: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<Vec<&str>> = line.split('\t').map(|c| c.split(',').collect()).collect();
        let [_, groups, resources, names, verbs] = &columns[..] else {
            panic!("not five columns: {line:?}");
        };
        rights.extend(product(groups, resources, names, verbs));
    }
    rights
}

fn kube_schedulers() -> BTreeSet<Right> {
    table(&read(&root().join("tests/it/installed/kube-scheduler-rbac.tsv")))
}

/// The rights of all roles in the manifests.
pub(crate) fn granted() -> BTreeSet<Right> {
    granted_by(&objects(&second()))
}

/// The rights of all roles among these objects.
fn granted_by(objects: &[Value]) -> BTreeSet<Right> {
    let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
    let rules = roles.iter().flat_map(|role| role["rules"].as_array().expect("rules"));
    let rights = rules.flat_map(|rule| {
        let known = ["apiGroups", "resources", "resourceNames", "verbs"];
        let keys = rule.as_object().expect("a rule").keys();
        let odd: Vec<_> = keys.filter(|key| !known.contains(&key.as_str())).collect();
        assert!(odd.is_empty(), "a rule about something else: {odd:?}");
        let list = |key: &str| texts(&rule[key]);
        product(&list("apiGroups"), &list("resources"), &list("resourceNames"), &list("verbs"))
    });
    rights.collect()
}

#[test]
fn no_rule_is_wider_than_kube_schedulers() {
    let (granted, theirs) = (granted(), kube_schedulers());
    assert!(theirs.len() > 100, "the table is read: {}", theirs.len());
    let wider: Vec<String> =
        granted.difference(&theirs).map(|right| right.to_string().trim().to_owned()).collect();
    let mut explained: Vec<String> = EXTRA.iter().map(|(right, _)| (*right).to_owned()).collect();
    explained.sort();
    assert_eq!(wider, explained, "what kube-scheduler doesn't have, and what is explained");
    let all: Vec<&Right> = granted.iter().filter(|r| r.to_string().contains('*')).collect();
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn the_table_is_that_of_the_real_server() {
    let observed = root().join("../shared/facts/observed-1.37/rbac.tsv");
    if !observed.is_file() {
        eprintln!("skipped: no {}", observed.display());
        return;
    }
    assert_eq!(kube_schedulers(), table(&read(&observed)));
}

#[test]
fn only_known_roles_are_bound_and_only_to_berth() {
    let objects = objects(&second());
    let bindings =
        [of_kind(&objects, "ClusterRoleBinding"), of_kind(&objects, "RoleBinding")].concat();
    let mut bound = Vec::new();
    for binding in bindings {
        let [subject] = &binding["subjects"].as_array().expect("subjects")[..] else {
            panic!("not one subject: {binding}");
        };
        assert_eq!(
            subject,
            &json!({"kind": "ServiceAccount", "name": "berth", "namespace": "berth-system"})
        );
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&binding["metadata"]["namespace"]);
        let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
        let (kind, role) = (text(&binding["kind"]), &binding["roleRef"]);
        bound.push(format!("{kind}{place} to {} {}", text(&role["kind"]), text(&role["name"])));
    }
    bound.sort();
    let mut known: Vec<&str> = BOUND.iter().map(|(binding, _)| *binding).collect();
    known.sort_unstable();
    assert_eq!(bound, known);
}

#[test]
fn every_rule_says_why() {
    let (mut n_rules, mut silent) = (0, Vec::new());
    let second = ["rbac", "groups-native", "groups-take-back"].map(|it| format!("second/{it}"));
    let groups = ["coscheduling", "kai", "kueue", "volcano"].map(|it| format!("groups/{it}"));
    let topology = ["topology/node-resource-topology".to_owned()];
    for file in second.iter().chain(&groups).chain(&topology) {
        let text = read(&root().join(format!("manifests/{file}.yaml")));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for at in (1..lines.len()).filter(|at| lines[*at].starts_with("- apiGroups:")) {
            n_rules += 1;
            if !lines[at - 1].starts_with("# ") {
                silent.push(format!("{file}, line {}", at + 1));
            }
        }
    }
    assert!(n_rules > 15, "rules are found: {n_rules}");
    assert!(silent.is_empty(), "no comment above the rule: {silent:?}");
}

/// What NUMA cells need is in a role of its own, and that has nothing else.
#[test]
fn the_role_for_numa_cells_is_to_read_them() {
    let all = objects(&root().join("manifests/topology"));
    let read = ["get", "list", "watch"];
    let needs = read.map(|verb| right("topology.node.k8s.io", "noderesourcetopologies", "", verb));
    assert_eq!(granted_by(&all), BTreeSet::from(needs));
    assert_eq!(of_kind(&all, "ClusterRoleBinding").len(), 1);
}

/// What a dialect needs is in its own role, and that role has nothing else.
#[test]
fn each_dialect_has_a_role_of_its_own() {
    let others = objects(&root().join("manifests/groups"));
    let all = [objects(&second()), others].concat();
    for def in berth::wire::dialect::ALL {
        let needs: BTreeSet<Right> = berth::live::preflight::needs::of_dialect(def, None)
            .into_iter()
            .map(|need| {
                let name = need.name.unwrap_or_default();
                right(&need.group, &need.resource, &name, need.verb)
            })
            .collect();
        let name = format!("berth-groups-{}", def.dialect.name);
        let mut own = all.clone();
        own.retain(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == *name);
        assert_eq!(granted_by(&own), needs, "{name}");
        let bound = |object: &&Value| {
            object["kind"] == "ClusterRoleBinding" && object["roleRef"]["name"] == *name
        };
        assert_eq!(all.iter().any(|object| bound(&object)), !needs.is_empty(), "{name}");
    }
}
