//! Pods, groups and topologies as text, for case files.

use berth::wire::Problem;
use berth_core::types::group::{
    Dialect, DisruptionMode, GroupHint, GroupKind, PodGroup, Quorum, Spread, SubGroup,
    SubGroupMembers, TopologyConstraint,
};
use berth_core::types::tree::{Level, NodeMatch, TopologyShape};
use berth_core::types::{LabelSelector, Pod, TopologyObject};

/// Returns one line: what the pod says in the dialect.
pub(super) fn pod(pod: &Pod, dialect: Dialect) -> String {
    let hint = pod.group_hints().iter().find(|hint| hint.dialect == dialect);
    let said = hint.map_or("in no group".to_owned(), said);
    let facts = pod.gang.as_ref().map_or(String::new(), |gang| {
        let plan = gang.plan.as_ref().map(|plan| format!("plan {plan}"));
        let at = |what: &str, time: Option<berth_core::types::Timestamp>| {
            time.map(|time| format!("{what} at {} ms", time.0))
        };
        let facts = [plan, at("scheduled", gang.scheduled), at("runs", gang.running)];
        facts.into_iter().flatten().map(|fact| format!("; {fact}")).collect()
    });
    format!("pod {}: {said}{facts}\n", pod.name)
}

fn said(hint: &GroupHint) -> String {
    let mut said = format!("in group {}", hint.name);
    if let Some(min_member) = hint.min_member {
        said += &format!(", of {min_member} members");
    }
    if hint.needs_object {
        said += ", which has an object";
    }
    if let Some(role) = &hint.role {
        said += &format!(", as {role}");
    }
    for constraint in &hint.topology {
        said += &format!(", {}", topology(constraint));
    }
    for limit in &hint.spread {
        said += &format!(", {}", spread(limit));
    }
    if let Some(problem) = &hint.problem {
        said += &format!("; problem: {problem}");
    }
    said
}

/// Returns a line for each thing that the object says.
pub(super) fn group(group: &PodGroup) -> String {
    let mut lines = vec![headline(group)];
    lines.extend(group.sub_groups.iter().map(sub_group));
    lines.extend(group.topology.iter().map(topology));
    lines.extend(group.spread.iter().map(spread));
    lines.extend(group.claims.iter().map(|claim| {
        let from = if claim.from_template { "from template" } else { "is" };
        format!("claim {} {from} {}", claim.name, claim.source)
    }));
    lines.extend(group.claim_statuses.iter().map(|(name, claim)| match claim {
        Some(claim) => format!("made for claim {name}: {claim}"),
        None => format!("nothing needed for claim {name}"),
    }));
    lines.extend(group.told.as_ref().map(|told| {
        let last = if group.settled { ", for good" } else { "" };
        format!("says {:?} {:?}{last}", told.phase, &*told.message)
    }));
    lines.extend(group.problem.as_ref().map(|problem| format!("problem: {problem}")));
    let first = lines.remove(0);
    let rest: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("{first}\n{rest}")
}

fn topology(constraint: &TopologyConstraint) -> String {
    let mode = if constraint.required { "required" } else { "preferred" };
    let slice = constraint.slice.map_or(String::new(), |n| format!(" for each {n} members"));
    let span = constraint.span.as_ref();
    let span = span.map_or(String::new(), |it| format!(" with all pods of {}", requirements(it)));
    format!("{mode} topology {}{slice}{span}", constraint.level)
}

fn spread(limit: &Spread) -> String {
    format!("at most {} in one {}", limit.at_most, limit.level)
}

/// Returns a line for each level or member that is read, and for each that is not.
pub(super) fn tree(object: &TopologyObject, problems: &[Problem]) -> String {
    let mut lines = match &object.shape {
        TopologyShape::Levels(levels) => {
            let named = |it: &Level| match &it.name {
                Some(name) => format!("level {} called {name}", it.label),
                None => format!("level {}", it.label),
            };
            levels.iter().map(named).collect()
        }
        TopologyShape::HyperNode(it) => {
            let name = it.tier_name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
            let mut lines = vec![format!("tier {}{name}", it.tier)];
            lines.extend(it.nodes.iter().map(|node| match node {
                NodeMatch::Name(name) => format!("node {name}"),
                NodeMatch::Pattern(pattern) => format!("nodes {pattern:?}"),
                NodeMatch::Labels(selector) => format!("nodes with {}", requirements(selector)),
            }));
            lines.extend(it.parts.iter().map(|part| format!("all of {part}")));
            lines
        }
    };
    lines.extend(problems.iter().map(|problem| format!("problem: {problem}")));
    lines.extend(object.problem.as_ref().map(|_| "counts as if it were not there".to_owned()));
    let rest: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("topology {}\n{rest}", object.key.name)
}

fn requirements(selector: &LabelSelector) -> String {
    let of = |r: &berth_core::types::Requirement| format!("{} {:?}", r.key, r.values);
    selector.requirements.iter().map(of).collect::<Vec<_>>().join(" and ")
}

fn headline(group: &PodGroup) -> String {
    let of = match group.key.kind {
        GroupKind::Pods => "members",
        GroupKind::Groups => "groups",
    };
    let needs = match group.quorum {
        Quorum::None => "no minimum".to_owned(),
        Quorum::AtLeast(n) => format!("at least {n} {of}"),
        Quorum::SubGroups(n) => format!("at least {n} sub-groups"),
    };
    let parent = group.parent.as_ref().map(|parent| format!("in {parent}"));
    let priority = group.priority.map(|priority| format!("priority {priority}"));
    let policy = group.preemption_policy.map(|policy| format!("{policy:?}"));
    let uneven = group.uneven_priorities.then(|| "members' own priorities".to_owned());
    let all = group.disruption == DisruptionMode::All;
    let disruption = all.then(|| "all or none as victims".to_owned());
    let deadline = group.deadline.map(|span| format!("deadline {} ms", span.as_millis()));
    let more = [parent, priority, policy, uneven, disruption, deadline].into_iter().flatten();
    let more: String = more.map(|text| format!(", {text}")).collect();
    format!("group {}: {needs}{more}", group.key)
}

fn sub_group(sub_group: &SubGroup) -> String {
    let SubGroup { name, parent, members, min_member, min_groups, topology } = sub_group;
    let who = match members {
        SubGroupMembers::Role(role) => format!("as {role}"),
        SubGroupMembers::Labels { selector, keys } => {
            let selector = selector.as_ref().map_or("all".to_owned(), requirements);
            format!("with {selector} by [{}]", keys.join(", "))
        }
    };
    let groups = min_groups.map_or(String::new(), |n| format!(", {n} of them"));
    let near: String = topology.iter().map(|it| format!(", {}", self::topology(it))).collect();
    let parent = parent.as_ref().map_or(String::new(), |parent| format!(" in {parent}"));
    format!("sub-group {name}{parent}: members {who}, at least {min_member} each{groups}{near}")
}
