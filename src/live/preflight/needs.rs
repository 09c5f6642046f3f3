//! What Berth must be allowed to do, request by request, and what for.

use super::super::kinds;
use crate::live::lease::Rules;
use crate::wire::Kind;
use crate::wire::dialect::{DialectDef, Peer};

/// One right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Empty for the core group.
    pub group: String,
    /// With its subresource, such as `pods/binding`.
    pub resource: String,
    pub verb: &'static str,
    /// None: everywhere.
    pub namespace: Option<String>,
    /// None: whatever its name.
    pub name: Option<String>,
    pub needed_for: &'static str,
    /// Needed only where the server has this kind.
    pub of_kind: Option<Kind>,
}

/// What is run, as far as rights hang on it.
#[derive(Clone)]
pub struct Features {
    pub kinds: Vec<Kind>,
    /// Their kinds are beside the others.
    pub dialects: Vec<&'static DialectDef>,
    /// Pods are evicted for others.
    pub preemption: bool,
    /// Groups that can't be completed are taken back.
    pub taking_back: bool,
    /// Volumes are bound.
    pub volume_binding: bool,
    pub lease: Option<Rules>,
}

/// Returns what the scheduler itself needs.
pub fn of_scheduler(features: &Features) -> Vec<Need> {
    let mut needs: Vec<Need> = features.kinds.iter().flat_map(|kind| of_kind(*kind)).collect();
    if features.kinds.contains(&Kind::ResourceClaim) {
        needs.extend(of_claims());
    }
    needs.extend(features.dialects.iter().flat_map(|def| of_dialect(def, features.lease.as_ref())));
    let core = |resource, verb, needed_for| anywhere("", resource, verb, needed_for);
    needs.push(core("pods/binding", "create", "binding pods"));
    needs.push(core("pods/status", "patch", "PodScheduled conditions, and settling lost binds"));
    if features.preemption {
        needs.push(core("pods", "delete", "preemption"));
    }
    if features.taking_back {
        needs.push(core("pods", "delete", "taking back groups that can't be completed"));
    }
    for verb in ["create", "patch"] {
        needs.push(anywhere("events.k8s.io", "events", verb, "events"));
    }
    if features.volume_binding {
        needs.push(core("persistentvolumeclaims", "patch", "binding volumes"));
        needs.push(core("persistentvolumes", "patch", "binding volumes"));
    }
    needs.extend(features.lease.iter().flat_map(of_election));
    needs
}

/// The kinds are asked for by the table that the watches are started from, so none is left out.
fn of_kind(kind: Kind) -> impl Iterator<Item = Need> {
    let path = kinds::list_path(kind);
    let group = match path.strip_prefix("/apis/").and_then(|rest| rest.split_once('/')) {
        Some((group, _)) => group.to_owned(),
        None => String::new(),
    };
    let verbs = [
        ("list", "watching what is scheduled"),
        ("watch", "watching what is scheduled"),
        ("get", "settling lost binds, and SIGUSR2's comparison"),
    ];
    verbs.into_iter().map(move |(verb, needed_for)| Need {
        group: group.clone(),
        resource: kinds::plural(kind),
        verb,
        namespace: None,
        name: None,
        needed_for,
        of_kind: Some(kind),
    })
}

/// Since Kubernetes 1.36 the part of a claim's status that says what is allocated and to whom it is
/// reserved has a right of its own, beside the one for the status.
fn of_claims() -> impl Iterator<Item = Need> {
    let claims = [
        ("resourceclaims", "patch", "keeping claims that devices are allocated to"),
        ("resourceclaims/status", "patch", "allocating devices"),
        ("resourceclaims/binding", "patch", "allocating devices, since Kubernetes 1.36"),
        ("resourceclaims", "create", "devices for extended resources"),
        ("resourceclaims", "delete", "devices for extended resources"),
    ];
    claims.into_iter().map(|(resource, verb, needed_for)| Need {
        of_kind: Some(Kind::ResourceClaim),
        ..anywhere("resource.k8s.io", resource, verb, needed_for)
    })
}

/// Returns what a dialect needs: its objects are read, the status of groups is written, and the Lease of its
/// own scheduler tells whether that is ours to do. `own` is the Lease that Berth itself runs for.
pub fn of_dialect(def: &DialectDef, own: Option<&Rules>) -> Vec<Need> {
    let mut needs: Vec<Need> =
        def.tree().into_iter().flat_map(|tree| of_kind(Kind::Tree(tree))).collect();
    for object in def.objects() {
        let kind = Kind::Group(object);
        needs.extend(of_kind(kind));
        if !object.is_told() {
            continue;
        }
        let status = if object.has_status() { "/status" } else { "" };
        let group = object.api_version().split('/').next().unwrap_or_default();
        let resource = format!("{}{status}", object.resource());
        let status = anywhere(group, &resource, "patch", "telling how a group stands");
        needs.push(Need { of_kind: Some(kind), ..status });
    }
    let is_own = |peer: &Peer| {
        own.is_some_and(|own| own.namespace == peer.namespace && own.name == peer.name)
    };
    for peer in def.peer.iter().filter(|peer| !is_own(peer)) {
        let what_for = "not writing what the dialect's own scheduler writes";
        needs.extend(["get", "watch"].map(|verb| Need {
            namespace: Some(peer.namespace.to_owned()),
            name: Some(peer.name.to_owned()),
            of_kind: def.objects().next().map(Kind::Group),
            ..anywhere("coordination.k8s.io", "leases", verb, what_for)
        }));
    }
    needs
}

fn of_election(rules: &Rules) -> Vec<Need> {
    let lease = |verb, name: Option<&str>| Need {
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        verb,
        namespace: Some(rules.namespace.clone()),
        name: name.map(str::to_owned),
        needed_for: "leader election",
        of_kind: None,
    };
    let mut needs = vec![lease("create", None)];
    for verb in ["get", "update", "watch"] {
        needs.push(lease(verb, Some(&rules.name)));
    }
    let events = anywhere("", "events", "create", "events about the Lease");
    needs.push(Need { namespace: Some(rules.namespace.clone()), ..events });
    needs
}

/// Returns what the secure port needs to tell who asks; `lookup`: it reads the API server's own
/// configuration of that.
pub fn of_authentication(lookup: bool) -> Vec<Need> {
    let what_for = "telling who asks the secure port";
    let mut needs = vec![anywhere("authentication.k8s.io", "tokenreviews", "create", what_for)];
    if lookup {
        needs.push(Need {
            namespace: Some("kube-system".to_owned()),
            name: Some("extension-apiserver-authentication".to_owned()),
            ..anywhere("", "configmaps", "get", what_for)
        });
    }
    needs
}

/// Returns what the secure port needs to tell who may see what.
pub fn of_authorization() -> Vec<Need> {
    let what_for = "telling who may see what on the secure port";
    vec![anywhere("authorization.k8s.io", "subjectaccessreviews", "create", what_for)]
}

fn anywhere(group: &str, resource: &str, verb: &'static str, needed_for: &'static str) -> Need {
    Need {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb,
        namespace: None,
        name: None,
        needed_for,
        of_kind: None,
    }
}
