//! Authorization checks: Kubernetes declares them in every environment, so they pass the checker,
//! but no device selector has a value to call them on.

use super::table::{Binding, Library};

pub(super) fn declare(library: &mut Library) {
    for (name, signature) in [
        ("path", "authorizer, string: pathcheck"),
        ("group", "authorizer, string: groupcheck"),
        ("serviceAccount", "authorizer, string, string: authorizer"),
        ("resource", "groupcheck, string: resourcecheck"),
        ("subresource", "resourcecheck, string: resourcecheck"),
        ("namespace", "resourcecheck, string: resourcecheck"),
        ("name", "resourcecheck, string: resourcecheck"),
        ("check", "pathcheck, string: decision"),
        ("check", "resourcecheck, string: decision"),
        ("errored", "decision: bool"),
        ("error", "decision: string"),
        ("allowed", "decision: bool"),
        ("reason", "decision: string"),
        ("fieldSelector", "resourcecheck, string: resourcecheck"),
        ("labelSelector", "resourcecheck, string: resourcecheck"),
    ] {
        library.member(name, name, signature, Binding::None);
    }
}
