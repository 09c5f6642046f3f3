//! `slice`, `deviceclass` and `taintrule` statements.
//!
//! The devices of a slice are separated by `;`, each is a name and words. Besides the keys of
//! the table `DEVICE` a word is an attribute `name=value` or a capacity `name:quantity`. An attribute is
//! `true`, `8`, a string (`H100`, `'8'`), `version(1.2.3)`, or a list of one kind, `[0+1]`. A
//! capacity may have a policy: `mem:80Gi(default=1Gi,min=1Gi,max=40Gi,step=1Gi)`,
//! `mem:80Gi(default=10Gi,one-of=10Gi+20Gi)`. `gpu-0..7` stands for eight devices, and `#` in their
//! words for the number.

use std::sync::Arc;

use crate::types::device::{
    AttributeValue, Attributes, Capacity, Consumption, CounterSet, DeviceModel, DeviceTaint,
    DeviceTaintEffect, OpaqueConfig, Placement, TaintedDevices,
};
use crate::types::{Device, DeviceClass, DeviceTaintRule, ResourceSlice, Text, Timestamp};

use super::amounts::{amounts, attribute, capacity, effect};
use super::words::{self, Key, Line};
use super::{literal, selectors};

const SLICE: &[Key<ResourceSlice>] = &[
    ("driver", "spec.driver; gpu.example.com unless given", |s, v| set(&mut s.driver, v.into())),
    ("pool", "its pool; the slice's name unless given", |s, v| set(&mut s.pool, v.into())),
    ("gen", "the pool's generation; 1 unless given", |s, v| {
        set(&mut s.generation, words::number(v)?)
    }),
    ("of", "how many slices the generation has; 1 unless given", |s, v| {
        set(&mut s.slice_count, words::number(v)?)
    }),
    ("uid", "slice-<name> unless given", |s, v| set(&mut s.uid, v.into())),
    ("rv", "its resourceVersion; 0: not known", |s, v| {
        set(&mut s.resource_version, words::number(v)?)
    }),
    ("node", "spec.nodeName", |s, v| set(&mut s.placement, Placement::Node(v.into()))),
    ("nodes", "spec.nodeSelector: node terms", |s, v| {
        set(&mut s.placement, Placement::Selector(Arc::new(selectors::node_selector(v)?)))
    }),
    ("all", "allNodes", |s, _| set(&mut s.placement, Placement::AllNodes)),
    ("per-device", "perDeviceNodeSelection", |s, _| set(&mut s.placement, Placement::PerDevice)),
    ("devices", "see above", |s, v| set(&mut s.devices, devices(v)?)),
    ("counters", "sharedCounters: \"set counter=8 counter=80Gi; set …\"", |s, v| {
        set(&mut s.counter_sets, parts(v).map(counter_set).collect::<Result<_, _>>()?)
    }),
    ("skip", "skipNodeOperations: a,b", |s, v| set(&mut s.skip_node_operations, words::texts(v))),
    ("problem", "why it can't be understood", |s, v| set(&mut s.problem, Some(v.into()))),
];

/// Reads a slice. Without a placement it is of a kind that isn't known.
pub fn slice(line: &Line) -> Result<ResourceSlice, String> {
    let mut slice = ResourceSlice {
        name: line.name.clone(),
        uid: format!("slice-{}", line.name).into(),
        resource_version: 0,
        driver: "gpu.example.com".into(),
        pool: line.name.clone(),
        generation: 1,
        slice_count: 1,
        placement: Placement::Unknown,
        devices: Vec::new(),
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    };
    words::apply(line, SLICE, &mut slice, words::unknown)?;
    Ok(slice)
}

const CLASS: &[Key<DeviceClass>] = &[
    ("select", "an expression; may be repeated", |class, v| {
        class.selectors.push(v.into());
        Ok(())
    }),
    ("config", "\"driver key: value\"; may be repeated", |class, v| {
        class.config.push(config(v)?);
        Ok(())
    }),
    ("extended", "spec.extendedResourceName", |c, v| set(&mut c.extended_resource, Some(v.into()))),
    ("created", "when, in seconds", |c, v| {
        set(&mut c.created, Timestamp(words::number::<u64>(v)? * 1000))
    }),
    ("rv", "its resourceVersion; 0: not known", |c, v| {
        set(&mut c.resource_version, words::number(v)?)
    }),
    ("problem", "why it can't be understood", |c, v| set(&mut c.problem, Some(v.into()))),
];

pub fn class(line: &Line) -> Result<DeviceClass, String> {
    let mut class = DeviceClass { name: line.name.clone(), ..DeviceClass::default() };
    words::apply(line, CLASS, &mut class, words::unknown)?;
    Ok(class)
}

const RULE: &[Key<DeviceTaintRule>] = &[
    ("taint", "key=value:Effect", |rule, v| set(&mut rule.taint, taint(v)?)),
    ("driver", "of the devices", |r, v| set(&mut selected(r).driver, Some(v.into()))),
    ("pool", "of the devices", |r, v| set(&mut selected(r).pool, Some(v.into()))),
    ("device", "of the devices", |r, v| set(&mut selected(r).device, Some(v.into()))),
    ("everything", "an empty selector", |r, _| {
        selected(r);
        Ok(())
    }),
    ("rv", "its resourceVersion; 0: not known", |r, v| {
        set(&mut r.resource_version, words::number(v)?)
    }),
];

/// Reads a taint rule. One that says nothing of devices selects none.
pub fn rule(line: &Line) -> Result<DeviceTaintRule, String> {
    let effect = DeviceTaintEffect::None;
    let mut rule = DeviceTaintRule {
        name: line.name.clone(),
        resource_version: 0,
        selector: None,
        taint: DeviceTaint { key: Text::default(), value: Text::default(), effect },
    };
    words::apply(line, RULE, &mut rule, words::unknown)?;
    Ok(rule)
}

fn selected(rule: &mut DeviceTaintRule) -> &mut TaintedDevices {
    rule.selector.get_or_insert_default()
}

/// A device while its words are read.
#[derive(Clone, Default)]
struct Draft {
    name: Text,
    attributes: Vec<(Text, AttributeValue)>,
    capacity: Vec<Capacity>,
    taints: Vec<DeviceTaint>,
    consumes: Vec<Consumption>,
    model: DeviceModel,
}

const DEVICE: &[Key<Draft>] = &[
    ("shared", "allowMultipleAllocations", |d, _| set(&mut d.model.multi_allocatable, true)),
    ("binds", "bindsToNode", |d, _| set(&mut d.model.binds_to_node, true)),
    ("ready", "bindingConditions: a,b", |d, v| {
        set(&mut d.model.binding_conditions, words::texts(v).into())
    }),
    ("fails", "bindingFailureConditions: a,b", |d, v| {
        set(&mut d.model.binding_failure_conditions, words::texts(v).into())
    }),
    ("taint", "key=value:Effect; may be repeated", |d, v| {
        d.taints.push(taint(v)?);
        Ok(())
    }),
    ("uses", "of a counter set: set(counter=1,counter=10Gi); may be repeated", |d, v| {
        d.consumes.push(consumption(v)?);
        Ok(())
    }),
    ("node", "nodeName of the device", |d, v| {
        set(&mut d.model.placement, Some(Placement::Node(v.into())))
    }),
    ("nodes", "nodeSelector of the device: one requirement, key=value", |d, v| {
        let selector = Arc::new(selectors::node_selector(v)?);
        set(&mut d.model.placement, Some(Placement::Selector(selector)))
    }),
    ("all", "allNodes of the device", |d, _| {
        set(&mut d.model.placement, Some(Placement::AllNodes))
    }),
    ("unsupported", "a field that isn't supported", |d, v| {
        set(&mut d.model.unsupported, Some(v.into()))
    }),
];

fn devices(value: &str) -> Result<Vec<Device>, String> {
    let mut drafts = Vec::new();
    for part in parts(value) {
        for text in numbered(part)? {
            drafts.push(draft(&text)?);
        }
    }
    Ok(modelled(drafts))
}

/// Writes out `gpu-0..7 uuid=id-#` as eight devices.
fn numbered(part: &str) -> Result<Vec<String>, String> {
    let (name, rest) = part.split_once(' ').unwrap_or((part, ""));
    let Some((first, last)) = name.split_once("..") else { return Ok(vec![part.to_owned()]) };
    let digits = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let first: u32 = words::number(&first[digits.len()..])?;
    let last: u32 = words::number(last)?;
    let device = |n: u32| format!("{digits}{n} {}", rest.replace('#', &n.to_string()));
    Ok((first..=last).map(device).collect())
}

fn draft(text: &str) -> Result<Draft, String> {
    let mut split = text.split_whitespace();
    let name = Text::from(split.next().ok_or("a device needs a name")?);
    let words = split.map(words::key_and_value).collect();
    let mut draft = Draft { name: name.clone(), ..Draft::default() };
    let line = Line { kind: "device".into(), name, words };
    words::apply(&line, DEVICE, &mut draft, |draft, key, value| {
        if key.contains(':') {
            let word = if value.is_empty() { key.to_owned() } else { format!("{key}={value}") };
            draft.capacity.push(capacity(&word)?);
        } else {
            draft.attributes.push((key.into(), attribute(value)?));
        }
        Ok(())
    })?;
    draft.attributes.sort();
    draft.capacity.sort();
    Ok(draft)
}

/// Puts what devices have in common where it is kept once, as the decoder does.
fn modelled(drafts: Vec<Draft>) -> Vec<Device> {
    let everywhere = |attribute: &(Text, AttributeValue)| {
        drafts.iter().all(|draft| draft.attributes.contains(attribute))
    };
    let first = drafts.first().map(|draft| &draft.attributes[..]).unwrap_or_default();
    let common: Vec<_> = first.iter().filter(|a| everywhere(a)).cloned().collect();
    let mut models: Vec<Arc<DeviceModel>> = Vec::new();
    let mut device = |draft: Draft| {
        let own = draft.attributes.iter().filter(|a| !common.contains(a)).cloned();
        let own: Arc<Attributes> = own.collect();
        let model = DeviceModel {
            attributes: common.clone().into(),
            capacity: draft.capacity.into(),
            taints: draft.taints.into(),
            ..draft.model
        };
        let known = models.iter().find(|known| ***known == model).cloned();
        let model = known.unwrap_or_else(|| {
            models.push(Arc::new(model));
            models[models.len() - 1].clone()
        });
        Device { name: draft.name, model, own, consumes: draft.consumes.into() }
    };
    drafts.clone().into_iter().map(&mut device).collect()
}

fn consumption(text: &str) -> Result<Consumption, String> {
    let (set, counters) = text.split_once('(').ok_or("set(counter=quantity) is needed")?;
    let counters = amounts(counters.trim_end_matches(')'))?;
    Ok(Consumption { set: set.into(), counters: counters.into() })
}

fn counter_set(text: &str) -> Result<CounterSet, String> {
    let (name, counters) = text.split_once(' ').unwrap_or((text, ""));
    let counters = amounts(&counters.split_whitespace().collect::<Vec<_>>().join(","))?;
    Ok(CounterSet { name: name.into(), counters: counters.into() })
}

/// Reads `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Result<DeviceTaint, String> {
    let (left, right) = text.rsplit_once(':').ok_or("a taint needs an effect")?;
    let (key, value) = left.split_once('=').unwrap_or((left, ""));
    Ok(DeviceTaint { key: key.into(), value: value.into(), effect: effect(right) })
}

/// Reads `driver key: value`, or `[request,request] driver key: value`.
pub(super) fn config(text: &str) -> Result<OpaqueConfig, String> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (requests, rest) = bracketed.unwrap_or(("", text));
    let (driver, parameters) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let parameters = literal::parse(parameters)?;
    Ok(OpaqueConfig { requests: words::texts(requests), driver: driver.into(), parameters })
}

/// Splits at `;`; an empty part is left out.
pub(super) fn parts(value: &str) -> impl Iterator<Item = &str> {
    value.split(';').map(str::trim).filter(|part| !part.is_empty())
}

pub(super) fn set<T>(field: &mut T, value: T) -> Result<(), String> {
    *field = value;
    Ok(())
}
