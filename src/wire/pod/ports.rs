//! Host ports and images of a pod's containers.

use berth_core::types::{HostPort, ImageId, Protocol};

use super::SPEC;
use super::containers::is_sidecar;
use crate::wire::field::Field;
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

/// Returns the ports that containers and sidecars take on the node.
pub(super) fn host_ports(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> Vec<HostPort> {
    let host_network = spec.host_network.value().copied().unwrap_or(false);
    let mut ports = Vec::new();
    for (field, list, all) in
        [("containers", &spec.containers, true), ("initContainers", &spec.init_containers, false)]
    {
        for (i, container) in list.value().into_iter().flatten().enumerate() {
            let Field::Is(container) = container else { continue };
            if all || is_sidecar(container) {
                let list_at = SPEC.field(field);
                let at = list_at.index(i);
                reading.each(&at.field("ports"), &container.ports, |reading, at, port| {
                    ports.extend(host_port(reading, at, port, host_network));
                });
            }
        }
    }
    ports
}

fn host_port(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::ContainerPort,
    host_network: bool,
) -> Option<HostPort> {
    let mut port_at = at.field("hostPort");
    let mut port = reading.opt(&port_at, &wire.host_port).copied().unwrap_or(0);
    if port == 0 && host_network {
        port_at = at.field("containerPort");
        port = reading.opt(&port_at, &wire.container_port).copied().unwrap_or(0);
    }
    if port == 0 {
        return None;
    }
    let Ok(port) = u16::try_from(port) else {
        reading.problem(&port_at, format_args!("{port} is not a port number"));
        return None;
    };
    let ip = reading.opt_text(&at.field("hostIP"), &wire.host_ip);
    Some(HostPort {
        ip: ip.unwrap_or_else(|| reading.tables.intern("0.0.0.0")),
        protocol: protocol(reading, &at.field("protocol"), &wire.protocol)?,
        port,
    })
}

fn protocol(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    protocol: &Field<String>,
) -> Option<Protocol> {
    match reading.opt(at, protocol).map_or("", String::as_str) {
        "" | "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        other => {
            reading.unknown(at, other);
            None
        }
    }
}

pub(super) fn images(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> Vec<ImageId> {
    let mut images = Vec::new();
    for (field, list) in
        [("containers", &spec.containers), ("initContainers", &spec.init_containers)]
    {
        for (i, container) in list.value().into_iter().flatten().enumerate() {
            let Field::Is(container) = container else { continue };
            let list_at = SPEC.field(field);
            let at = list_at.index(i);
            let image = reading.opt(&at.field("image"), &container.image);
            images.push(ImageId::of(image.map_or("", String::as_str)));
        }
    }
    images
}
