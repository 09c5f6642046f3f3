//! `claim` statements.
//!
//! `wants` has the requests, separated by `;`: `name: 2 gpu where <expression> where <expression>`,
//! or, for `firstAvailable`, `name: big=2 gpu | small=1 gpu`. Before the number (or `all`; `?mode`
//! is a mode that isn't known) may stand `admin`; after the class the keys of the table `ASKED`.
//! `name: ?` is a request of no known kind.

use std::sync::Arc;

use crate::types::claim::{
    Allocation, AllocationMode, CLAIM_FINALIZER, ClaimKey, ClaimRequest, ClaimSpec, ConstraintKind,
    Consumer, DeviceConstraint, DeviceDemand, DeviceId, DeviceRequest, DeviceResult, DeviceStatus,
    DeviceToleration, ResourceClaim,
};
use crate::types::device::OpaqueConfig;
use crate::types::{PodUid, Text, Timestamp};

use super::amounts::{amounts, effect};
use super::devices::{config, parts, set};
use super::selectors;
use super::words::{self, Key, Line};

/// A claim while its words are read.
#[derive(Default)]
struct Draft {
    claim: ResourceClaim,
    demand: DeviceDemand,
    config: Vec<OpaqueConfig>,
    allocation: Option<Allocation>,
}

const CLAIM: &[Key<Draft>] = &[
    ("ns", "its namespace; `default` unless given", |d, v| {
        set(&mut d.claim.key.namespace, v.into())
    }),
    ("uid", "claim-<name> unless given", |d, v| set(&mut d.claim.uid, v.into())),
    ("rv", "its resourceVersion; 0: not known", |d, v| {
        set(&mut d.claim.resource_version, words::number(v)?)
    }),
    ("wants", "its requests, see above", |d, v| {
        set(&mut d.demand.requests, parts(v).map(request).collect::<Result<_, _>>()?)
    }),
    ("match", "matchAttribute: \"domain/name [of request,request]\"; may be repeated", |d, v| {
        constraint(d, ConstraintKind::Match, v)
    }),
    ("distinct", "distinctAttribute, likewise", |d, v| constraint(d, ConstraintKind::Distinct, v)),
    ("constraint", "of a kind that isn't known, likewise", |d, v| {
        constraint(d, ConstraintKind::Unknown, v)
    }),
    ("config", "\"[request,request] driver key: value\"; may be repeated", |d, v| {
        d.config.push(config(v)?);
        Ok(())
    }),
    ("allocated", "results: \"request driver/pool/device [key]; …\", keys in RESULT", |d, v| {
        let results = parts(v).map(result).collect::<Result<_, _>>()?;
        set(&mut allocation(d).results, results)
    }),
    ("usable", "status.allocation.nodeSelector: node terms", |d, v| {
        let selector = selectors::node_selector(v)?;
        set(&mut allocation(d).node_selector, Some(selector))
    }),
    ("allocated-at", "status.allocation.allocationTimestamp, in seconds", |d, v| {
        let at = Timestamp(words::number::<u64>(v)? * 1000);
        set(&mut allocation(d).timestamp, Some(at))
    }),
    ("reserved", "UIDs of pods: a,b", |d, v| {
        let pods = words::texts(v).into_iter().map(|uid| Consumer::Pod(PodUid(uid)));
        d.claim.reserved_for.extend(pods);
        Ok(())
    }),
    ("reserved-group", "name of a pod group", |d, v| {
        let (uid, name) = (format!("group-{v}").into(), v.into());
        d.claim.reserved_for.push(Consumer::PodGroup { uid, name });
        Ok(())
    }),
    ("reserved-other", "UID of something else", |d, v| {
        d.claim.reserved_for.push(Consumer::Other { uid: v.into() });
        Ok(())
    }),
    ("protected", "it has the finalizer of allocated claims", |d, _| {
        d.claim.finalizers.push(CLAIM_FINALIZER.into());
        Ok(())
    }),
    ("terminating", "it has a deletionTimestamp", |d, _| set(&mut d.claim.terminating, true)),
    ("owner", "UID of the pod that it was made for", |d, v| {
        set(&mut d.claim.owner_pod, Some(PodUid(v.into())))
    }),
    ("owner-group", "UID of the pod group that it was made for", |d, v| {
        set(&mut d.claim.owner_group, Some(v.into()))
    }),
    ("for-extended", "made by a scheduler for extended resources", |d, _| {
        set(&mut d.claim.extended_resources, true)
    }),
    ("status", "of devices: \"driver/pool/device [share=id] Condition=true; …\"", |d, v| {
        set(&mut d.claim.devices, parts(v).map(device_status).collect::<Result<_, _>>()?)
    }),
    ("problem", "why it can't be understood", |d, v| set(&mut d.claim.problem, Some(v.into()))),
];

/// Reads a claim.
pub fn read(line: &Line) -> Result<ResourceClaim, String> {
    let mut draft = Draft::default();
    draft.claim.key = key(line);
    draft.claim.uid = format!("claim-{}", line.name).into();
    words::apply(line, CLAIM, &mut draft, words::unknown)?;
    let Draft { mut claim, demand, config, allocation } = draft;
    claim.spec = Arc::new(ClaimSpec { demand: Arc::new(demand), config });
    claim.allocation = allocation.map(Arc::new);
    Ok(claim)
}

/// Returns the key that a statement is about.
pub fn key(line: &Line) -> ClaimKey {
    let namespace = Text::from(line.value("ns").unwrap_or("default"));
    ClaimKey { namespace, name: line.name.clone() }
}

fn allocation(draft: &mut Draft) -> &mut Allocation {
    draft.allocation.get_or_insert_default()
}

fn constraint(draft: &mut Draft, kind: ConstraintKind, text: &str) -> Result<(), String> {
    let (attribute, requests) = text.split_once(" of ").unwrap_or((text, ""));
    let requests = words::texts(requests);
    let attribute = attribute.trim().into();
    draft.demand.constraints.push(DeviceConstraint { requests, kind, attribute });
    Ok(())
}

fn request(text: &str) -> Result<ClaimRequest, String> {
    let (name, asked) = text.split_once(": ").ok_or("a request is `name: 1 class`")?;
    let first_available = asked.contains(" | ") || asked.ends_with(" |");
    let alternatives = asked.trim_end_matches(" |").split(" | ").filter(|asked| *asked != "?");
    let alternatives = alternatives.map(|asked| alternative(name, asked, first_available));
    let alternatives = alternatives.collect::<Result<_, _>>()?;
    Ok(ClaimRequest { name: name.into(), alternatives, first_available })
}

const ASKED: &[Key<DeviceRequest>] = &[
    ("tol", "tolerations: k=v:Effect,k,*", |r, v| set(&mut r.tolerations, tolerations(v))),
    ("cap", "capacity.requests: name=quantity,…", |r, v| set(&mut r.capacity, amounts(v)?)),
    ("unsupported", "a field that isn't supported", |r, v| set(&mut r.unsupported, Some(v.into()))),
];

fn alternative(parent: &str, text: &str, named: bool) -> Result<DeviceRequest, String> {
    let mut clauses = text.split(" where ").map(str::trim);
    let mut head = clauses.next().unwrap_or_default().split_whitespace().peekable();
    let selectors = clauses.map(Text::from).collect();
    let admin = head.next_if_eq(&"admin").is_some();
    let amount = head.next().unwrap_or_default();
    let (name, amount) = match (named, amount.split_once('=')) {
        (true, Some((own, amount))) => (format!("{parent}/{own}"), amount),
        (true, None) => return Err(format!("an alternative of {parent} has no name: {text:?}")),
        (false, _) => (parent.to_owned(), amount),
    };
    let mode = match (amount, amount.strip_prefix('?')) {
        ("all", _) => AllocationMode::All,
        (_, Some(mode)) => AllocationMode::Unknown(mode.into()),
        (count, None) => AllocationMode::ExactCount(words::number(count)?),
    };
    let class = Text::from(head.next().ok_or_else(|| format!("{text:?} names no class"))?);
    let words = head.map(words::key_and_value).collect();
    let line = Line { kind: "request".into(), name: class.clone(), words };
    let (tolerations, capacity, unsupported) = Default::default();
    let name = name.into();
    let mut request =
        DeviceRequest { name, class, selectors, mode, admin, tolerations, capacity, unsupported };
    words::apply(&line, ASKED, &mut request, words::unknown)?;
    Ok(request)
}

const RESULT: &[Key<DeviceResult>] = &[
    ("admin", "adminAccess", |r, _| set(&mut r.admin, true)),
    ("share", "shareID", |r, v| set(&mut r.share_id, Some(v.into()))),
    ("takes", "consumedCapacity: name=quantity,…", |r, v| set(&mut r.consumed, amounts(v)?)),
    ("tol", "tolerations", |r, v| set(&mut r.tolerations, tolerations(v))),
    ("ready", "bindingConditions: a,b", |r, v| set(&mut r.binding_conditions, words::texts(v))),
    ("fails", "bindingFailureConditions: a,b", |r, v| {
        set(&mut r.binding_failure_conditions, words::texts(v))
    }),
    ("skip", "skipNodeOperations: a,b", |r, v| set(&mut r.skip_node_operations, words::texts(v))),
];

/// Reads a result, such as `r gpu.example.com/n1/gpu-0 share=s takes=mem=10Gi`.
pub fn result(text: &str) -> Result<DeviceResult, String> {
    let mut split = text.split_whitespace();
    let request = Text::from(split.next().unwrap_or_default());
    let id = device_id(split.next().ok_or("a result is `request driver/pool/device`")?)?;
    let mut result = DeviceResult {
        request: request.clone(),
        id,
        admin: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    let words = split.map(words::key_and_value).collect();
    let line = Line { kind: "result".into(), name: request, words };
    words::apply(&line, RESULT, &mut result, words::unknown)?;
    Ok(result)
}

/// Reads `driver/pool/device`; the pool may have slashes of its own.
fn device_id(text: &str) -> Result<DeviceId, String> {
    let ends = text.split_once('/').zip(text.rsplit_once('/'));
    let Some(((driver, _), (front, device))) = ends.filter(|((d, _), (f, _))| d.len() < f.len())
    else {
        return Err(format!("{text:?} is not driver/pool/device"));
    };
    let pool = &front[driver.len() + 1..];
    Ok(DeviceId { driver: driver.into(), pool: pool.into(), device: device.into() })
}

fn tolerations(text: &str) -> Vec<DeviceToleration> {
    words::list(text).map(toleration).collect()
}

fn toleration(text: &str) -> DeviceToleration {
    let (left, right) = match text.rsplit_once(':') {
        Some((left, right)) => (left, Some(effect(right))),
        None => (text, None),
    };
    let (key, value, exists) = match left.split_once('=') {
        Some((key, value)) => (key, value, false),
        None if left == "*" => ("", "", true),
        None => (left, "", true),
    };
    let (key, value) = (key.into(), value.into());
    DeviceToleration { key, exists, value, effect: right, seconds: None }
}

fn device_status(text: &str) -> Result<DeviceStatus, String> {
    let mut split = text.split_whitespace();
    let id = device_id(split.next().unwrap_or_default())?;
    let mut status = DeviceStatus { id, share_id: None, conditions: Default::default() };
    for (key, value) in split.map(words::key_and_value) {
        if key == "share" {
            status.share_id = Some(value.into());
        } else {
            status.conditions.insert(key.into(), value == "true");
        }
    }
    Ok(status)
}
