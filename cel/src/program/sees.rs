//! What of a device a selector can look at.

use std::collections::BTreeSet;

use crate::plan::{Attribute, Base, Key, Node, Qualifier};
use crate::value::Value;

/// Attributes and capacities by domain and name.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// What can't be told from the text: anything.
    everything: bool,
    attributes: Names,
    capacity: Names,
}

#[derive(Debug, Default)]
struct Names {
    /// Maps that are handed on whole.
    domains: BTreeSet<Box<str>>,
    names: BTreeSet<(Box<str>, Box<str>)>,
}

impl Names {
    fn have(&self, domain: &str, name: &str) -> bool {
        let is = |(of, known): &(Box<str>, Box<str>)| **of == *domain && **known == *name;
        self.domains.contains(domain) || self.names.iter().any(is)
    }
}

impl Sight {
    pub(crate) fn of(root: &Node) -> Sight {
        let mut sight = Sight::default();
        sight.node(root);
        sight
    }

    pub(crate) fn has_attribute(&self, domain: &str, name: &str) -> bool {
        self.everything || self.attributes.have(domain, name)
    }

    pub(crate) fn has_capacity(&self, domain: &str, name: &str) -> bool {
        self.everything || self.capacity.have(domain, name)
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Const(_) | Node::Settled(..) => {}
            Node::Attribute(attribute) | Node::Has(attribute) => self.attribute(attribute),
            Node::And(pair)
            | Node::Or(pair)
            | Node::Equal(pair)
            | Node::NotEqual(pair)
            | Node::Or2(pair, _) => self.nodes(&**pair),
            Node::NotFalse(node) | Node::Member(node, _) | Node::Append(_, node) => self.node(node),
            Node::Call(call) => self.nodes(&call.args),
            Node::Match(found) => self.nodes(&found.args),
            Node::List(parts) => parts.iter().for_each(|part| self.node(&part.value)),
            Node::Map(parts) => parts.iter().for_each(|part| {
                self.node(&part.key);
                self.node(&part.value);
            }),
            Node::Insert(_, nodes) => self.nodes(nodes),
            Node::Fold(fold) => {
                let parts = [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result];
                parts.into_iter().for_each(|part| self.node(part));
            }
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    fn attribute(&mut self, attribute: &Attribute) {
        match &attribute.base {
            Base::Device => self.device(&attribute.qualifiers),
            Base::Slot(_) => {}
            Base::Node(node) => self.node(node),
            Base::Ternary(condition, branches) => {
                self.node(condition);
                for branch in branches.iter() {
                    // Keys come after the branch.
                    match (&branch.base, branch.qualifiers.is_empty()) {
                        (Base::Device, true) => self.device(&attribute.qualifiers),
                        _ => self.attribute(branch),
                    }
                }
            }
        }
        for qualifier in &attribute.qualifiers {
            match &qualifier.key {
                Key::Const(_) => {}
                Key::Attribute(attribute) => self.attribute(attribute),
                Key::Node(node) => self.node(node),
            }
        }
    }

    fn device(&mut self, qualifiers: &[Qualifier]) {
        let known = match text(qualifiers.first()) {
            Some("driver" | "allowMultipleAllocations") => return,
            Some("attributes") => &mut self.attributes,
            Some("capacity") => &mut self.capacity,
            Some(_) | None => {
                self.everything = true;
                return;
            }
        };
        match (text(qualifiers.get(1)), text(qualifiers.get(2))) {
            (Some(domain), Some(name)) => {
                known.names.insert((domain.into(), name.into()));
            }
            (Some(domain), None) => {
                known.domains.insert(domain.into());
            }
            (None, _) => self.everything = true,
        }
    }
}

/// Returns a key that is known from the text.
fn text(qualifier: Option<&Qualifier>) -> Option<&str> {
    match &qualifier?.key {
        Key::Const(Value::Text(text)) => Some(text),
        Key::Const(_) | Key::Attribute(_) | Key::Node(_) => None,
    }
}
