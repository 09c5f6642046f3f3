//! `group` statements: objects of Kubernetes' own groups, of pods or of groups.

use crate::snapshot::GroupEvent;
use crate::types::group::{GroupClaim, GroupKind, NATIVE, PodGroup, Quorum, TopologyConstraint};
use crate::types::{GroupKey, Span, Text};

use super::words::{self, Key, Line};

const KEYS: &[Key<PodGroup>] = &[
    ("ns", "its namespace; `default` unless given", |_, _| Ok(())),
    ("min", "how many members it needs; without, none", |group, v| {
        group.quorum = Quorum::AtLeast(words::number(v)?);
        Ok(())
    }),
    ("of-groups", "its members are groups", |_, _| Ok(())),
    ("parent", "the group of groups that it is in", |group, v| {
        group.parent = Some(v.into());
        Ok(())
    }),
    ("deadline", "of its wait at the barrier, in seconds", |group, v| {
        group.deadline = Some(Span::from_secs(words::number(v)?));
        Ok(())
    }),
    ("claims", "resource claims: name=claim", |group, v| claims(group, v, false)),
    ("templates", "resource claims from templates: name=template", |group, v| {
        claims(group, v, true)
    }),
    ("made", "what was made of them: name=claim, or name if none is needed", |group, v| {
        let made = |(name, claim): (Text, Text)| (name, (!claim.is_empty()).then_some(claim));
        group.claim_statuses = words::pairs(v).into_iter().map(made).collect();
        Ok(())
    }),
    ("required", "a required topology: the node label", |group, v| {
        group.topology.push(TopologyConstraint::required(v.into()));
        Ok(())
    }),
    ("preferred", "a preferred topology: the node label", |group, v| {
        group.topology.push(TopologyConstraint::preferred(v.into()));
        Ok(())
    }),
];

fn claims(group: &mut PodGroup, value: &str, from_template: bool) -> Result<(), String> {
    let claim = |(name, source)| GroupClaim { name, source, from_template };
    group.claims.extend(words::pairs(value).into_iter().map(claim));
    Ok(())
}

/// Reads `group` and `-group`.
pub fn read(line: &Line) -> Result<GroupEvent, String> {
    let key = key(line);
    if line.kind == "-group" {
        return Ok(GroupEvent::Deleted { key, uid: Text::default() });
    }
    let uid = format!("group-{}", line.name);
    let mut group = PodGroup { quorum: Quorum::None, ..PodGroup::gang(key, uid, 0) };
    words::apply(line, KEYS, &mut group, words::unknown)?;
    Ok(GroupEvent::Applied(Box::new(group)))
}

fn key(line: &Line) -> GroupKey {
    let kind = line.value("of-groups").map_or(GroupKind::Pods, |_| GroupKind::Groups);
    let namespace = Text::from(line.value("ns").unwrap_or("default"));
    GroupKey { dialect: NATIVE, kind, namespace, name: line.name.clone() }
}
