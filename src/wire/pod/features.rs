//! Which node features a spec needs (KEP-5328).

use berth_core::types::Text;

use super::SPEC;
use crate::wire::field::{Field, List};
use crate::wire::k8s::pod as k8s;
use crate::wire::reading::Reading;

const BIND_MOUNT_OPTIONS: &str = "VolumeBindMountOptions";
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
const USER_NAMESPACES_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

/// Returns the features, sorted.
///
/// These three are all that 1.37's registry infers for scheduling; its other six concern updates
/// or the kubelet alone. Fields of disabled gates don't reach us, as the API server drops them.
///
/// Source: component-helpers v0.37.2, `nodedeclaredfeatures/features/registry.go`.
pub(super) fn required(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> Vec<Text> {
    let containers = || items(&spec.containers).chain(items(&spec.init_containers));
    let mut features = Vec::new();
    if containers().any(restarts_all) {
        features.push(reading.tables.intern(RESTART_ALL));
    }
    let host_users = reading.opt(&SPEC.field("hostUsers"), &spec.host_users).copied();
    let host_network = reading.flag(&SPEC.field("hostNetwork"), &spec.host_network);
    if host_network && host_users == Some(false) {
        features.push(reading.tables.intern(USER_NAMESPACES_HOST_NETWORK));
    }
    if containers().chain(items(&spec.ephemeral_containers)).any(has_mount_options) {
        features.push(reading.tables.intern(BIND_MOUNT_OPTIONS));
    }
    features
}

fn restarts_all(container: &k8s::Container) -> bool {
    items(&container.restart_policy_rules)
        .any(|rule| rule.action.value().is_some_and(|action| action == "RestartAllContainers"))
}

fn has_mount_options(container: &k8s::Container) -> bool {
    items(&container.volume_mounts)
        .any(|mount| mount.bind_mount_options.value().is_some_and(|options| !options.is_empty()))
}

fn items<T>(list: &Field<List<T>>) -> impl Iterator<Item = &T> {
    list.value().into_iter().flatten().filter_map(Field::value)
}
