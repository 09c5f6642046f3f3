//! Whether ledger and API server agree on an object, and whether the ledger agrees with itself.

use std::collections::BTreeMap;
use std::fmt::Debug;

use berth_core::types::{Node, Pod, Text};

use super::picture::{Content, Id, Picture, Taken};

/// Characters of one value in the log.
const VALUE_MAX: usize = 300;

/// What ledger and API server say of one object. Texts are for the log, and hold neither
/// environment values nor annotations: the ledger keeps none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub ledger: String,
    pub server: String,
}

/// The result of one look at an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// It changed while it was looked at: nothing can be said.
    Moving,
    Differs(Difference),
}

/// Compares an object in the ledger with what the server had said of it a moment before.
///
/// `before` is the version in the picture that was taken before the server was asked, 0 if there is
/// none: a server that is behind that one has lost something.
pub fn judge(ledger: Option<&Content>, server: Option<&Content>, before: u64) -> Verdict {
    let (ours, theirs) = match (ledger, server) {
        (None, None) => return Verdict::Same,
        (Some(ours), Some(theirs)) => (ours, theirs),
        (ours, theirs) => return differs(presence(ours), presence(theirs)),
    };
    let (v_ours, v_theirs) = (ours.version(), theirs.version());
    if v_ours == v_theirs {
        return match ours == theirs {
            true => Verdict::Same,
            false => differs(fields(ours, theirs), fields(theirs, ours)),
        };
    }
    if v_ours > v_theirs && before <= v_theirs {
        return Verdict::Moving;
    }
    let said = |version, mine, other| {
        let fields = fields(mine, other);
        format!("resourceVersion={version} {fields}").trim_end().to_owned()
    };
    differs(said(v_ours, ours, theirs), said(v_theirs, theirs, ours))
}

fn differs(ledger: String, server: String) -> Verdict {
    Verdict::Differs(Difference { ledger, server })
}

fn presence(content: Option<&Content>) -> String {
    match content {
        None => "absent".to_owned(),
        Some(Content::Pod(pod)) => format!("resourceVersion={} {}", pod.resource_version, on(pod)),
        Some(content) => format!("resourceVersion={}", content.version()),
    }
}

fn on(pod: &Pod) -> String {
    format!("node={} phase={:?}", pod.node_name.as_deref().unwrap_or("none"), pod.phase)
}

/// Returns what `mine` says in the fields in which it differs from `other`.
fn fields(mine: &Content, other: &Content) -> String {
    match (mine, other) {
        (Content::Node(mine), Content::Node(other)) => node_fields(mine, other),
        (Content::Pod(mine), Content::Pod(other)) => pod_fields(mine, other),
        (mine, _) => cut(format!("{mine:?}")),
    }
}

/// Collects `name=value` of what differs.
#[derive(Default)]
struct Fields(Vec<String>);

impl Fields {
    fn compare<T: PartialEq + Debug>(&mut self, name: &str, mine: &T, other: &T) {
        if mine != other {
            self.0.push(cut(format!("{name}={mine:?}")));
        }
    }

    /// Says what the version alone doesn't; "other fields" if nothing named differs.
    fn said(self, differ: bool) -> String {
        match self.0.is_empty() && differ {
            true => "other fields differ".to_owned(),
            false => self.0.join(" "),
        }
    }
}

fn node_fields(mine: &Node, other: &Node) -> String {
    let mut fields = Fields::default();
    fields.compare("uid", &mine.uid, &other.uid);
    fields.compare("allocatable", &mine.allocatable, &other.allocatable);
    fields.compare("pods", &mine.pods_max, &other.pods_max);
    fields.compare("unschedulable", &mine.unschedulable, &other.unschedulable);
    fields.compare("taints", &mine.taints, &other.taints);
    fields.compare("labels", &mine.labels, &other.labels);
    let same_version = Node { resource_version: other.resource_version, ..mine.clone() };
    fields.said(same_version != *other)
}

fn pod_fields(mine: &Pod, other: &Pod) -> String {
    let mut fields = Fields::default();
    fields.compare("node", &mine.node_name, &other.node_name);
    fields.compare("phase", &mine.phase, &other.phase);
    fields.compare("terminating", &mine.terminating, &other.terminating);
    fields.compare("requests", &mine.usage.real, &other.usage.real);
    fields.compare("priority", &mine.priority, &other.priority);
    fields.compare("nominatedNode", &mine.nominated_node, &other.nominated_node);
    fields.compare("schedulingGates", &mine.gates, &other.gates);
    fields.compare("labels", &mine.labels, &other.labels);
    let same_version = Pod { resource_version: other.resource_version, ..mine.clone() };
    fields.said(same_version != *other)
}

/// Returns the nodes on which the ledger counts something else than its own pods take there, with
/// what is counted and what they take.
pub fn miscounted(picture: &Picture) -> Vec<(Text, Difference)> {
    let mut recounted: BTreeMap<&Text, Taken> = BTreeMap::new();
    for (id, node) in &picture.places {
        if let Some(Content::Pod(pod)) = picture.objects.get(id) {
            recounted.entry(node).or_default().add(&pod.usage);
        }
    }
    let nothing = Taken::default();
    let counted = |node| picture.taken.get(node).unwrap_or(&nothing);
    let nodes = picture.taken.keys().chain(recounted.keys().copied());
    let nodes: std::collections::BTreeSet<&Text> = nodes.collect();
    let pairs = nodes
        .into_iter()
        .map(|node| (node, counted(node), recounted.get(node).unwrap_or(&nothing)));
    let wrong = pairs.filter(|(_, counted, recounted)| counted != recounted);
    wrong
        .map(|(node, counted, recounted)| {
            let (ledger, server) = (cut(format!("{counted:?}")), cut(format!("{recounted:?}")));
            (node.clone(), Difference { ledger, server })
        })
        .collect()
}

/// Returns the pods whose place is not what their own object says. An assumed place has no object
/// that says so yet.
pub fn misplaced(picture: &Picture) -> Vec<(Id, Difference)> {
    let pods = picture.objects.iter().filter_map(|(id, content)| match content {
        Content::Pod(pod) => Some((id, pod)),
        _ => None,
    });
    let wrong = pods.filter_map(|(id, pod)| {
        let place = picture.places.get(id);
        let said = pod.node_name.as_ref().filter(|_| !pod.finished());
        let assumed = picture.assumed.contains_key(id) && said.is_none();
        (place != said && !assumed).then(|| {
            let ledger = format!("counted on {}", place.map_or("no node", |node| node));
            (id.clone(), Difference { ledger, server: on(pod) })
        })
    });
    wrong.collect()
}

fn cut(text: String) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
