//! Objects by which dialects describe topologies: levels that are node labels (Kueue, KAI), and domains
//! that list their nodes (Volcano's HyperNodes).
//!
//! Source: kueue.x-k8s.io and kai.scheduler, types of Topology; volcano.sh/apis, topology/v1alpha1, and
//! what its scheduler makes of members: pkg/scheduler/api/hyper_node_info.go.

use std::collections::BTreeSet;

use berth_core::types::tree::{HyperNode, Level, NamePattern, NodeMatch, TopologyShape};
use berth_core::types::{Text, TopologyKey, TopologyObject};
use serde::Deserialize;

use super::object::{SPEC, number};
use super::versioned::{Definition, Names, Versioned};
use crate::wire::field::{Field, List};
use crate::wire::k8s::selector::LabelSelector;
use crate::wire::k8s::wire;
use crate::wire::meta::Meta;
use crate::wire::problem::{Path, Problem, shown};
use crate::wire::reading::Reading;
use crate::wire::tables::Tables;

/// As the definitions of the objects have it.
const LEVELS_MAX: usize = 16;
/// Bytes of a label's key, prefix and all.
const LABEL_BYTES_MAX: usize = 317;

/// The kind of objects by which a dialect describes topologies. None of them is ever written.
pub struct TreeDef {
    /// All versions have the same content.
    pub(super) names: Names,
    /// [`levels`] or [`hyper_node`].
    pub(super) read: fn(&mut Reading<'_>, &Spec) -> TopologyShape,
}

impl TreeDef {
    pub(super) fn key(&self, name: Text) -> TopologyKey {
        TopologyKey { dialect: self.names.dialect.name, name }
    }
}

/// A dialect has one such kind.
impl Definition for TreeDef {
    type Makes = ();

    fn names(&self) -> &Names {
        &self.names
    }

    fn makes(&self) {}
}

/// Such a kind, in one version.
pub type TreeObject = Versioned<TreeDef>;

/// An object as it was read.
pub struct TreeRead {
    pub meta: Meta,
    pub object: TopologyObject,
    pub problems: Vec<Problem>,
}

impl TreeObject {
    pub fn key(self, name: Text) -> TopologyKey {
        self.def.key(name)
    }

    /// Reads an object. All but broken JSON is read; members that can't be understood are left out.
    ///
    /// # Errors
    /// It is no JSON object.
    pub fn read(self, json: &str, tables: &mut Tables) -> Result<TreeRead, serde_json::Error> {
        let wire: Wire = serde_json::from_str(json)?;
        let mut reading = Reading::of(tables);
        let name = reading.name(&wire.metadata);
        let nothing = Spec::default();
        let spec = reading.required(&SPEC, &wire.spec).unwrap_or(&nothing);
        let shape = (self.def.read)(&mut reading, spec);
        let problems = reading.finish();
        // Half of the levels would make other domains, half of the members make a smaller one.
        let fatal = |problem: &&Problem| {
            matches!(shape, TopologyShape::Levels(_)) || !problem.path.starts_with("spec.members")
        };
        let problem = problems.iter().find(fatal).map(|problem| Text::from(problem.to_string()));
        let object = TopologyObject {
            key: self.key(name),
            uid: wire.metadata.object.uid.as_deref().unwrap_or_default().into(),
            resource_version: wire.metadata.resource_version(),
            shape,
            problem,
        };
        Ok(TreeRead { object, problems, meta: wire.metadata })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: Meta,
    spec: Field<Spec>,
}

wire! {
    pub struct Spec {
        levels: Field<List<WireLevel>>,
        tier: Field<i64>,
        tier_name: Field<String>,
        members: Field<List<Member>>,
    }

    pub struct WireLevel {
        node_label: Field<String>,
        alias: Field<String>,
    }

    pub struct Member {
        r#type: Field<String>,
        selector: Field<Selector>,
    }

    pub struct Selector {
        exact_match: Field<ExactMatch>,
        regex_match: Field<RegexMatch>,
        label_match: Field<LabelSelector>,
    }

    pub struct ExactMatch {
        name: Field<String>,
    }

    pub struct RegexMatch {
        pattern: Field<String>,
    }
}

/// Kueue's and KAI's Topology.
pub(super) fn levels(reading: &mut Reading<'_>, spec: &Spec) -> TopologyShape {
    let at = SPEC.field("levels");
    if spec.levels.is_absent() {
        reading.problem(&at, "is missing");
    }
    let (mut levels, mut seen) = (Vec::new(), BTreeSet::new());
    reading.each(&at, &spec.levels, |reading, at, level| {
        let label_at = at.field("nodeLabel");
        let label = reading.required_text(&label_at, &level.node_label);
        let name = reading.opt_text(&at.field("alias"), &level.alias);
        if label.len() > LABEL_BYTES_MAX {
            reading.problem(&label_at, format_args!("has {} bytes", label.len()));
        }
        if !seen.insert(label.clone()) {
            reading.problem(&label_at, format_args!("{} stands twice", shown(&label)));
        }
        levels.push(Level { label, name });
    });
    if levels.len() > LEVELS_MAX {
        reading
            .problem(&at, format_args!("{} levels; at most {LEVELS_MAX} are read", levels.len()));
    }
    TopologyShape::Levels(levels)
}

/// Volcano's HyperNode.
pub(super) fn hyper_node(reading: &mut Reading<'_>, spec: &Spec) -> TopologyShape {
    let at = SPEC.field("tier");
    if spec.tier.is_absent() {
        reading.problem(&at, "is missing");
    }
    let mut it = HyperNode {
        tier: number(reading, &at, &spec.tier, 0).unwrap_or(0),
        tier_name: reading.opt_text(&SPEC.field("tierName"), &spec.tier_name),
        ..HyperNode::default()
    };
    reading.each(&SPEC.field("members"), &spec.members, |reading, at, member| {
        let none = Selector::default();
        let selector_at = at.field("selector");
        let selector = reading.required(&selector_at, &member.selector).unwrap_or(&none);
        let type_at = at.field("type");
        match reading.required(&type_at, &member.r#type).map_or("", String::as_str) {
            "" => {}
            "Node" => nodes(reading, &selector_at, selector, &mut it.nodes),
            "HyperNode" => it.parts.extend(part(reading, &selector_at, selector)),
            other => reading.unknown(&type_at, other),
        }
    });
    TopologyShape::HyperNode(it.into())
}

/// What several kinds of selectors in one mean is put together. A label selector without
/// requirements means no node.
fn nodes(reading: &mut Reading<'_>, at: &Path<'_>, wire: &Selector, nodes: &mut Vec<NodeMatch>) {
    if let Some(name) = exact_name(reading, at, wire) {
        nodes.push(NodeMatch::Name(name));
    }
    let regex_at = at.field("regexMatch");
    if let Some(regex) = reading.opt(&regex_at, &wire.regex_match) {
        let pattern_at = regex_at.field("pattern");
        // Long ones are not kept.
        let pattern = reading.required(&pattern_at, &regex.pattern);
        match pattern.map(|pattern| NamePattern::new(Text::from(pattern.as_str()))) {
            Some(Ok(pattern)) => nodes.push(NodeMatch::Pattern(pattern)),
            Some(Err(problem)) => reading.problem(&pattern_at, problem),
            None => {}
        }
    }
    let labels = reading.label_selector(&at.field("labelMatch"), &wire.label_match);
    nodes.extend(labels.filter(|selector| !selector.is_empty()).map(NodeMatch::Labels));
    let Selector { exact_match, regex_match, label_match } = wire;
    if exact_match.is_absent() && regex_match.is_absent() && label_match.is_absent() {
        reading.problem(at, "has none of exactMatch, regexMatch and labelMatch");
    }
}

fn part(reading: &mut Reading<'_>, at: &Path<'_>, selector: &Selector) -> Option<Text> {
    if selector.exact_match.is_absent() {
        reading.problem(at, "names no HyperNode: only exactMatch does");
    }
    exact_name(reading, at, selector)
}

fn exact_name(reading: &mut Reading<'_>, at: &Path<'_>, selector: &Selector) -> Option<Text> {
    let at = at.field("exactMatch");
    let exact = reading.opt(&at, &selector.exact_match)?;
    let name = reading.required_text(&at.field("name"), &exact.name);
    (!name.is_empty()).then_some(name)
}
