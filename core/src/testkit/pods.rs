//! `pod` statements. A pod without `on=` is pending: the runner asks the plugin about it.
//!
//! Containers are called c0, c1, … in the order of init containers, the line's own, the others.

use std::sync::Arc;

use crate::types::gpu_share::GpuNumbers;
use crate::types::group::{GroupHint, NATIVE};
use crate::types::numa::{AlignedContainer, Alignment, Stage, aligned_amounts};
use crate::types::pod::PodSpec;
use crate::types::requests::PodContainers;
use crate::types::resources::may_be_devices;
use crate::types::{
    ContainerExtended, ContainerRequests, ExtendedAmount, GpuShare, HostPort, ImageId, Labels,
    Owner, Phase, Pod, PodAffinityTerm, PodClaim, PodUid, PreemptionPolicy, PreferredTerm,
    Protocol, ShareSize, SpreadConstraint, Text, Timestamp, VolumeSource,
};

use super::selectors;
use super::words::{self, Key, Line};

/// A pod while its words are read.
#[derive(Default)]
pub struct Draft {
    pub pod: Pod,
    pub spec: PodSpec,
    pub containers: PodContainers,
    /// The first container: `cpu=1 mem=1Gi` of the line itself.
    pub first: ContainerRequests,
    pub guaranteed: bool,
}

type Done = Result<(), String>;

const KEYS: &[Key<Draft>] = &[
    ("on", "the node it is placed on", |d, v| set(&mut d.pod.node_name, Some(v.into()))),
    ("ns", "its namespace; `default` unless given", |d, v| set(&mut d.pod.namespace, v.into())),
    ("uid", "its UID", |d, v| set(&mut d.pod.uid, PodUid(v.into()))),
    ("labels", "k=v,k=v", |d, v| set(&mut d.pod.labels, Labels::new(words::pairs(v)))),
    ("prio", "its priority", |d, v| set(&mut d.pod.priority, words::number(v)?)),
    ("never", "preemptionPolicy: Never", |d, _| {
        set(&mut d.pod.preemption_policy, PreemptionPolicy::Never)
    }),
    ("created", "when, in seconds; the line's number unless given", |d, v| {
        set(&mut d.pod.created, Timestamp(words::number::<u64>(v)? * 1000))
    }),
    ("started", "when it started, in seconds", |d, v| {
        set(&mut d.pod.started, Some(Timestamp(words::number::<u64>(v)? * 1000)))
    }),
    ("gates", "scheduling gates: a,b", |d, v| set(&mut d.pod.gates, words::texts(v))),
    ("nominated", "the node it is nominated to", |d, v| {
        set(&mut d.pod.nominated_node, Some(v.into()))
    }),
    ("terminating", "it has a deletionTimestamp", |d, _| set(&mut d.pod.terminating, true)),
    ("refused", "why its kubelet has refused it", |d, v| {
        d.pod.phase = Phase::Failed;
        set(&mut d.pod.refused, Some(v.into()))
    }),
    ("ended", "its phase is Succeeded", |d, _| set(&mut d.pod.phase, Phase::Succeeded)),
    ("owner", "its controller: ReplicaSet/name", |d, v| set(&mut d.pod.owner, Some(owner(v)?))),
    ("group", "spec.schedulingGroup.podGroupName", |d, v| {
        d.pod.add_group_hint(GroupHint::of_object(NATIVE, v.into()));
        Ok(())
    }),
    ("problem", "why it can't be understood", |d, v| set(&mut d.pod.problem, Some(v.into()))),
    (
        "share",
        "of GPUs, by annotation: thousandths or memory, and of how many: 500, 10240MiB, 500x2",
        |d, v| set(&mut d.spec.gpu_share, Some(Ok(share(v)?))),
    ),
    ("bad-share", "what is wrong with the annotations", |d, v| {
        set(&mut d.spec.gpu_share, Some(Err(v.into())))
    }),
    ("gpus", "which GPUs of its node its share is of, where it is bound: 0,3", |d, v| {
        let numbers = GpuNumbers::parse(v, ',').ok_or("numbers are needed")?;
        set(&mut d.pod.gpu_numbers, Some(numbers))
    }),
    ("guaranteed", "its class is Guaranteed: CPUs and memory are aligned too", |d, _| {
        set(&mut d.guaranteed, true)
    }),
    ("scheduler", "spec.schedulerName", |d, v| set(&mut d.spec.scheduler_name, v.into())),
    ("container", "one more container: \"cpu=1 mem=1Gi\"", |d, v| {
        d.containers.main.push(words::container(v)?);
        Ok(())
    }),
    ("init", "an init container", |d, v| {
        d.containers.init.push(words::container(v)?);
        Ok(())
    }),
    ("sidecar", "an init container that stays", |d, v| {
        let own = ContainerRequests { sidecar: true, ..words::container(v)? };
        d.containers.init.push(own);
        Ok(())
    }),
    ("overhead", "spec.overhead: \"cpu=250m\"", |d, v| {
        set(&mut d.containers.overhead, words::container(v)?.requests)
    }),
    ("select", "spec.nodeSelector: k=v,k=v", |d, v| {
        d.spec.node_selector = words::pairs(v);
        d.spec.node_selector.sort();
        Ok(())
    }),
    ("affinity", "required node terms: \"zone in a,b; gpu exists | @name in n\"", |d, v| {
        set(&mut d.spec.node_affinity.required, Some(selectors::node_selector(v)?))
    }),
    ("prefer", "a preferred node term with its weight: \"10 zone in a\"", |d, v| {
        let (weight, term) = v.split_once(' ').ok_or("a weight and a term are needed")?;
        let term = selectors::node_term(term)?;
        let preferred = PreferredTerm { weight: words::number(weight)?, term };
        d.spec.node_affinity.preferred.push(preferred);
        Ok(())
    }),
    ("tol", "tolerations: k=v:Effect,k,*,k<5", |d, v| {
        let read = words::list(v).map(selectors::toleration);
        set(&mut d.spec.tolerations, read.collect::<Result<_, _>>()?)
    }),
    ("spread", "see `spread`; may be repeated", |d, v| {
        d.spec.spread.push(spread(v)?);
        Ok(())
    }),
    ("near", "required pod affinity: \"topologyKey requirements [from ns1,ns2]\"", |d, v| {
        d.spec.required_affinity.push(pod_term(v)?);
        Ok(())
    }),
    ("apart", "required pod anti-affinity, likewise", |d, v| {
        d.spec.required_anti_affinity.push(pod_term(v)?);
        Ok(())
    }),
    ("preferred-pod-terms", "how many preferred pod terms it has", |d, v| {
        set(&mut d.spec.preferred_pod_terms, words::number(v)?)
    }),
    ("ports", "host ports: 80,127.0.0.1:53/UDP", |d, v| {
        set(&mut d.spec.host_ports, words::list(v).map(port).collect::<Result<_, _>>()?)
    }),
    ("images", "of its containers: a,b:v1", |d, v| {
        set(&mut d.spec.images, words::list(v).map(ImageId::of).collect())
    }),
    ("image-volumes", "references of image volumes", |d, v| {
        set(&mut d.spec.image_volumes, words::list(v).map(ImageId::of).collect())
    }),
    ("features", "node features that it requires", |d, v| {
        d.spec.required_features = words::texts(v);
        d.spec.required_features.sort();
        Ok(())
    }),
    ("pvc", "claims of volumes: a,b", |d, v| {
        volumes(d, v, |name| Ok(VolumeSource::Claim { name: name.into() }))
    }),
    ("ephemeral", "generic ephemeral volumes: a,b", |d, v| {
        volumes(d, v, |volume| Ok(VolumeSource::Ephemeral { volume: volume.into() }))
    }),
    ("gce", "GCE disks: a,b:ro", |d, v| {
        volumes(d, v, |v| {
            let (name, read_only) = read_only(v);
            Ok(VolumeSource::GcePersistentDisk { name, read_only })
        })
    }),
    ("ebs", "AWS volumes: a,b", |d, v| {
        volumes(d, v, |id| Ok(VolumeSource::AwsElasticBlockStore { volume_id: id.into() }))
    }),
    ("iscsi", "by IQN: a,b:ro", |d, v| {
        volumes(d, v, |v| {
            let (iqn, read_only) = read_only(v);
            Ok(VolumeSource::Iscsi { iqn, read_only })
        })
    }),
    ("rbd", "monitor+monitor/pool/image[:ro]", |d, v| volumes(d, v, rbd)),
    ("csi", "inline CSI volumes: driver/volume", |d, v| {
        volumes(d, v, |v| {
            let (driver, volume) = v.rsplit_once('/').ok_or("driver/volume is needed")?;
            Ok(VolumeSource::InlineCsi { driver: driver.into(), volume: volume.into() })
        })
    }),
    ("claims", "resource claims: name=claim", |d, v| claims(d, v, false)),
    ("templates", "resource claims from templates: name=template", |d, v| claims(d, v, true)),
    ("made", "what was made of them: name=claim, or name if none is needed", |d, v| {
        let made = |(name, claim): (Text, Text)| (name, (!claim.is_empty()).then_some(claim));
        set(&mut d.pod.claim_statuses, words::pairs(v).into_iter().map(made).collect())
    }),
];

/// Reads a pod. Keys that the table lacks are requests of its first container.
pub fn read(line: &Line, created: Timestamp) -> Result<Pod, String> {
    let mut draft = Draft::default();
    draft.pod.name = line.name.clone();
    draft.pod.namespace = "default".into();
    draft.pod.uid = uid_of(line)?;
    draft.pod.created = created;
    words::apply(line, KEYS, &mut draft, |d, key, value| {
        words::set_request(&mut d.first, key, value)
    })?;
    let Draft { mut pod, mut spec, mut containers, first, guaranteed } = draft;
    containers.main.insert(0, first);
    spec.requests = containers.requests();
    spec.extended = extended(&containers);
    spec.alignment = alignment(&containers, guaranteed);
    pod.usage = Arc::new(spec.requests.clone());
    pod.spec = Arc::new(spec);
    Ok(pod)
}

fn alignment(containers: &PodContainers, guaranteed: bool) -> Option<Box<Alignment>> {
    let init = containers.init.iter().map(|own| match own.sidecar {
        true => (own, Stage::Sidecar),
        false => (own, Stage::Init),
    });
    let all = init.chain(containers.main.iter().map(|own| (own, Stage::Main)));
    let aligned = all.map(|(own, stage)| AlignedContainer {
        amounts: aligned_amounts(&own.requests, guaranteed),
        stage,
    });
    Alignment::of(aligned.filter(|own| !own.amounts.is_zero()).collect())
}

/// Returns the containers that ask for resources which a device class may back.
fn extended(containers: &PodContainers) -> Vec<ContainerExtended> {
    let init = containers.init.iter().map(|own| (own, !own.sidecar));
    let all = init.chain(containers.main.iter().map(|own| (own, false)));
    let asking = all.zip(0..).map(|((own, ends), index)| {
        let container = format!("c{index}").into();
        ContainerExtended { container, index, ends, resources: extended_amounts(own) }
    });
    asking.filter(|own| !own.resources.is_empty()).collect()
}

fn extended_amounts(own: &ContainerRequests) -> Vec<ExtendedAmount> {
    let mut amounts: Vec<(&str, i64)> = own.requests.iter().collect();
    amounts.sort();
    let devices = amounts.into_iter().zip(0..).filter(|((name, _), _)| may_be_devices(name));
    let entry = |((name, amount), index): ((&str, i64), u32)| ExtendedAmount {
        resource: name.into(),
        amount,
        index,
    };
    devices.map(entry).collect()
}

/// Returns the UID of a pod: its name, with the namespace before it unless that is `default`.
pub fn uid_of(line: &Line) -> Result<PodUid, String> {
    let uid = match (line.value("uid"), line.value("ns")) {
        (Some(uid), _) => Text::from(uid),
        (None, Some(ns)) if ns != "default" => format!("{ns}/{}", line.name).into(),
        (None, _) => line.name.clone(),
    };
    Ok(PodUid(uid))
}

fn set<T>(field: &mut T, value: T) -> Done {
    *field = value;
    Ok(())
}

fn share(text: &str) -> Result<GpuShare, String> {
    let (size, n_gpus) = text.split_once('x').unwrap_or((text, "1"));
    let size = match size.strip_suffix("MiB") {
        Some(mib) => ShareSize::Mib(words::number(mib)?),
        None => ShareSize::Milli(words::number(size)?),
    };
    Ok(GpuShare { size, n_gpus: words::number(n_gpus)? })
}

fn owner(text: &str) -> Result<Owner, String> {
    let (kind, name) = text.split_once('/').ok_or("kind/name is needed")?;
    Ok(Owner { kind: kind.into(), name: name.into(), uid: text.into() })
}

/// Reads `topologyKey skew=1 [soft] [min-domains=2] [ignore-affinity] [honor-taints]
/// [match-keys=a,b] requirements`; the requirements come last.
fn spread(text: &str) -> Result<SpreadConstraint, String> {
    let (topology_key, mut rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut constraint = SpreadConstraint {
        max_skew: 1,
        topology_key: topology_key.into(),
        hard: true,
        selector: None,
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
        match_label_keys: Vec::new(),
    };
    loop {
        rest = rest.trim();
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let (key, value) = words::key_and_value(word);
        match key.as_str() {
            "skew" => constraint.max_skew = words::number(&value)?,
            "soft" => constraint.hard = false,
            "min-domains" => constraint.min_domains = Some(words::number(&value)?),
            "ignore-affinity" => constraint.honor_node_affinity = false,
            "honor-taints" => constraint.honor_node_taints = true,
            "match-keys" => constraint.match_label_keys = words::texts(&value),
            "" => return Ok(constraint),
            _ => {
                constraint.selector = Some(selectors::label_selector(rest)?);
                return Ok(constraint);
            }
        }
        rest = after;
    }
}

/// Reads `topologyKey requirements [from ns1,ns2] [from ns requirements on the namespace]`.
fn pod_term(text: &str) -> Result<PodAffinityTerm, String> {
    let (topology_key, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut parts = rest.split(" from ");
    let selector = match parts.next().map(str::trim) {
        None | Some("") => None,
        Some(requirements) => Some(selectors::label_selector(requirements)?),
    };
    let mut term = PodAffinityTerm {
        topology_key: topology_key.into(),
        selector,
        namespaces: Vec::new(),
        namespace_selector: None,
    };
    for part in parts {
        match part.trim().strip_prefix("ns ") {
            Some(selector) => term.namespace_selector = Some(selectors::label_selector(selector)?),
            None => term.namespaces = words::texts(part),
        }
    }
    Ok(term)
}

fn port(text: &str) -> Result<HostPort, String> {
    let (address, protocol) = text.rsplit_once('/').unwrap_or((text, "TCP"));
    let (ip, port) = address.rsplit_once(':').unwrap_or(("0.0.0.0", address));
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => return Err(format!("unknown protocol {protocol:?}")),
    };
    Ok(HostPort { ip: ip.into(), protocol, port: words::number(port)? })
}

fn volumes(
    draft: &mut Draft,
    value: &str,
    read: impl Fn(&str) -> Result<VolumeSource, String>,
) -> Done {
    for item in words::list(value) {
        draft.spec.volumes.push(read(item)?);
    }
    Ok(())
}

fn read_only(text: &str) -> (Text, bool) {
    match text.strip_suffix(":ro") {
        Some(name) => (name.into(), true),
        None => (text.into(), false),
    }
}

fn rbd(text: &str) -> Result<VolumeSource, String> {
    let (rest, read_only) = read_only(text);
    let parts: Vec<&str> = rest.split('/').collect();
    let [monitors, pool, image] = parts.as_slice() else {
        return Err("monitors/pool/image is needed".into());
    };
    let monitors = monitors.split('+').map(Text::from).collect();
    Ok(VolumeSource::Rbd { monitors, pool: (*pool).into(), image: (*image).into(), read_only })
}

fn claims(draft: &mut Draft, value: &str, from_template: bool) -> Done {
    for (name, source) in words::pairs(value) {
        draft.spec.claims.push(PodClaim { name, source, from_template });
    }
    Ok(())
}
