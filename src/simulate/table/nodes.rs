//! The upper part: nodes by pool, each with its bar and its pods.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::types::claim::Consumer;
use berth_core::types::group::NATIVE;
use berth_core::types::resources::CPU;
use berth_core::types::{ClaimKey, Node, Pod, PodUid, Resources, SharingNode, Text};

use super::super::islands::Islands;
use super::amounts::{gpus, is_part, label, n_gpus, share_milli, shown, shown_milli, sum};
use super::islands::lines as island_lines;
use super::paint::{Paint, Piece, Style, cells, cut, joined, padded, plain, width, wrap};
use super::pods::{pods, shorten};
use super::words::{counted, counted_i64};
use super::{View, WIDTH};

const NAME_MAX: usize = 40;
/// Cells of a CPU bar: CPUs are too many for one each.
const CPU_CELLS: i64 = 8;

/// Last parts of the labels that name a node's pool, such as `cloud.google.com/gke-nodepool`.
const POOL_LABELS: [&str; 6] =
    ["agentpool", "gke-nodepool", "node-pool", "nodegroup", "nodepool", "pool"];

/// The label that NVIDIA's feature discovery puts on GPU nodes.
const PRODUCT: &str = "nvidia.com/gpu.product";

/// A node with what is used of it.
pub(super) struct Usage<'a> {
    pub(super) node: &'a Node,
    pool: String,
    before: Resources,
    used: Resources,
    /// Its GPUs are given out by annotations.
    sharing: Option<SharingNode>,
    /// Of those. Unit: thousandths of a GPU.
    shared_before: i64,
    shared_used: i64,
    pub(super) pods: Vec<Sitting<'a>>,
}

/// A pod on a node.
pub(super) struct Sitting<'a> {
    pub(super) pod: &'a Pod,
    /// It was placed now.
    pub(super) now: bool,
    /// The names of the devices that it may use, as its claims have them.
    pub(super) devices: Vec<&'a Text>,
    /// What it has of each of its GPUs, where annotations divide them. Unit: thousandths.
    pub(super) share_milli: Option<i64>,
}

impl Usage<'_> {
    pub(super) fn gpus_total(&self) -> i64 {
        let shared = self.sharing.map_or(0, |sharing| i64::from(sharing.n_gpus));
        n_gpus(&self.node.allocatable).saturating_add(shared)
    }

    /// Unit: thousandths of a GPU.
    pub(super) fn milli_before(&self) -> i64 {
        n_gpus(&self.before).saturating_mul(1000).saturating_add(self.shared_before)
    }

    /// Unit: thousandths of a GPU.
    pub(super) fn milli_used(&self) -> i64 {
        n_gpus(&self.used).saturating_mul(1000).saturating_add(self.shared_used)
    }

    /// Returns the devices of the pods that were placed now.
    fn fresh(&self) -> BTreeSet<&Text> {
        let fresh = self.pods.iter().filter(|sitting| sitting.now);
        fresh.flat_map(|sitting| sitting.devices.iter().copied()).collect()
    }
}

/// Returns the nodes by pool and name; pools with GPUs go first.
pub(super) fn usages<'a>(view: &View<'a>) -> Vec<Usage<'a>> {
    let usage = |node: &'a Node| Usage {
        node,
        pool: pool(node),
        before: Resources::default(),
        used: Resources::default(),
        sharing: SharingNode::of(node).ok(),
        shared_before: 0,
        shared_used: 0,
        pods: Vec::new(),
    };
    let mut usages: Vec<Usage<'_>> = view.nodes.iter().map(usage).collect();
    usages.sort_by_cached_key(|u| (u.gpus_total() == 0, u.pool.clone(), natural(&u.node.name)));
    let at: BTreeMap<&str, usize> =
        usages.iter().enumerate().map(|(at, usage)| (&*usage.node.name, at)).collect();
    let mut devices = devices(view);
    for pod in view.pods.iter().filter(|pod| !pod.finished()) {
        let Some(at) = pod.node_name.as_ref().and_then(|node| at.get(&**node)) else { continue };
        let usage = &mut usages[*at];
        let now = view.placed.contains(&pod.uid);
        usage.used.add(&pod.usage.real);
        if !now {
            usage.before.add(&pod.usage.real);
        }
        let devices = devices.remove(&pod.uid).unwrap_or_default();
        let share = pod.gpu_share().zip(usage.sharing);
        let share_milli = share.map(|(share, node)| share_milli(&share, &node));
        let all = share.map_or(0, |(share, _)| i64::from(share.n_gpus)) * share_milli.unwrap_or(0);
        usage.shared_used += all;
        usage.shared_before += if now { 0 } else { all };
        usage.pods.push(Sitting { pod, now, devices, share_milli });
    }
    for usage in &mut usages {
        usage
            .pods
            .sort_by_cached_key(|it| (it.now, it.pod.namespace.clone(), natural(&it.pod.name)));
    }
    usages
}

/// Returns the devices of the claims that each pod uses.
fn devices<'a>(view: &View<'a>) -> BTreeMap<&'a PodUid, Vec<&'a Text>> {
    let mut devices: BTreeMap<&PodUid, Vec<&Text>> = BTreeMap::new();
    for claim in view.claims {
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        let names: Vec<&Text> = results.map(|result| &result.id.device).collect();
        for user in &claim.reserved_for {
            match user {
                Consumer::Pod(uid) => devices.entry(uid).or_default().extend(&names),
                Consumer::PodGroup { name, .. } => {
                    let uses = |pod: &&Pod| is_in(pod, name) && names_claim(pod, &claim.key);
                    for pod in view.pods.iter().filter(uses) {
                        devices.entry(&pod.uid).or_default().extend(&names);
                    }
                }
                Consumer::Other { .. } => {}
            }
        }
    }
    devices
}

fn is_in(pod: &Pod, group: &Text) -> bool {
    pod.group_hints().iter().any(|hint| hint.dialect == NATIVE && hint.name == *group)
}

fn names_claim(pod: &Pod, claim: &ClaimKey) -> bool {
    let made = pod.claim_statuses.iter().filter_map(|(_, made)| made.as_ref());
    let named = pod.spec.claims.iter().filter(|entry| !entry.from_template);
    pod.namespace == claim.namespace
        && made.chain(named.map(|entry| &entry.source)).any(|name| *name == claim.name)
}

fn pool(node: &Node) -> String {
    let names_pool =
        |key: &str| key.rsplit_once('/').is_some_and(|(_, name)| POOL_LABELS.contains(&name));
    let labelled = node.labels.iter().find(|(key, _)| names_pool(key)).map(|(_, value)| value);
    let labelled = labelled.or_else(|| node.labels.value(PRODUCT)).filter(|name| !name.is_empty());
    let shared = SharingNode::of(node).map_or(0, |sharing| i64::from(sharing.n_gpus));
    match labelled {
        Some(name) => plain(name),
        None if shared > 0 => counted_i64(shared, "GPU") + " each",
        None => match gpus(&node.allocatable).first() {
            Some((name, amount)) if label(name).is_empty() => counted_i64(*amount, "GPU") + " each",
            Some((name, amount)) => format!("{amount} {} each", plain(label(name))),
            None => "without GPUs".to_owned(),
        },
    }
}

/// Orders `node-2` before `node-10`: numbers within a name count as numbers.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(end);
        parts.push((text.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    parts
}

/// One bar of a node.
struct Gauge {
    before: i64,
    used: i64,
    cells: i64,
    total: i64,
    text: String,
}

impl Gauge {
    fn of(name: &str, usage: &Usage<'_>, n_cells: impl Fn(i64) -> i64, label: &str) -> Gauge {
        let total = usage.node.allocatable.amount(name);
        let used = usage.used.amount(name);
        let text = format!("{}/{} {label}", shown(name, used), shown(name, total));
        Gauge {
            before: usage.before.amount(name),
            used,
            cells: n_cells(total),
            total,
            text: text.trim_end().to_owned(),
        }
    }
}

impl Gauge {
    /// Of GPUs that annotations divide.
    fn shared(usage: &Usage<'_>, node: SharingNode) -> Gauge {
        let n_gpus = i64::from(node.n_gpus);
        Gauge {
            before: usage.shared_before,
            used: usage.shared_used,
            cells: cells(n_gpus),
            total: n_gpus * 1000,
            text: format!("{}/{n_gpus}", shown_milli(usage.shared_used)),
        }
    }
}

/// GPUs if the node has or had any, else CPUs.
fn gauges(usage: &Usage<'_>) -> Vec<Gauge> {
    let mut all = usage.node.allocatable.clone();
    all.raise_to(&usage.used);
    let counted = gpus(&all).into_iter();
    let counted = counted.map(|(name, _)| Gauge::of(name, usage, cells, &plain(label(name))));
    let gauges: Vec<Gauge> =
        usage.sharing.map(|it| Gauge::shared(usage, it)).into_iter().chain(counted).collect();
    if gauges.is_empty() {
        return vec![Gauge::of(CPU, usage, |_| CPU_CELLS, "CPUs")];
    }
    gauges
}

/// Widths of the columns.
struct Columns {
    name: usize,
    cells: usize,
    text: usize,
}

impl Columns {
    fn of(usages: &[Usage<'_>]) -> Columns {
        let names = usages.iter().map(|u| width(&plain(&u.node.name)).min(NAME_MAX));
        let gauges: Vec<Gauge> = usages.iter().flat_map(gauges).collect();
        let cells = gauges.iter().map(|g| usize::try_from(g.cells).unwrap_or(0));
        let texts = gauges.iter().map(|g| width(&g.text));
        Columns {
            name: names.max().unwrap_or(0).max(4),
            cells: cells.max().unwrap_or(0),
            text: texts.max().unwrap_or(0),
        }
    }

    /// Where the list of pods begins.
    fn pods(&self) -> usize {
        2 + self.name + 2 + (self.cells + 2) + 1 + self.text + 2
    }
}

/// Returns the lines of all nodes.
pub(super) fn lines(usages: &[Usage<'_>], islands: &Islands, paint: Paint) -> Vec<String> {
    if usages.is_empty() {
        return vec!["No nodes.".to_owned()];
    }
    let columns = Columns::of(usages);
    let names = |it: &Sitting<'_>| !it.devices.is_empty() || it.pod.gpu_numbers.is_some();
    let with_devices = usages.iter().flat_map(|usage| &usage.pods).any(names);
    let titles = titles(&columns, with_devices);
    let mut lines = vec![paint.show(&Piece::new(titles, Style::Dim))];
    for pool in usages.chunk_by(|a, b| a.pool == b.pool) {
        lines.push(String::new());
        lines.push(heading(pool, paint));
        for usage in pool {
            lines.extend(node_lines(usage, pool, &columns, paint));
            if let Some(islands) = islands.get(&usage.node.name) {
                lines.extend(island_lines(islands, &usage.fresh(), paint));
            }
        }
    }
    lines
}

fn titles(columns: &Columns, with_devices: bool) -> String {
    let name = padded("NODE".to_owned(), 4, columns.name + 2);
    let used = padded("IN USE".to_owned(), 6, columns.pods() - 2 - columns.name - 2);
    let devices = if with_devices { ", [devices]" } else { "" };
    format!("  {name}{used}PODS (×GPUs{devices}, + placed now)")
}

fn heading(pool: &[Usage<'_>], paint: Paint) -> String {
    let Some(first) = pool.first() else { return String::new() };
    let name = cut(&title(first, pool), WIDTH - 40);
    let total = sum(pool.iter().map(Usage::gpus_total));
    let mut text = format!(" · {}", counted(pool.len(), "node"));
    if total > 0 {
        let used = shown_milli(sum(pool.iter().map(Usage::milli_used)));
        let parts = pool.iter().any(|u| gpus(&u.node.allocatable).iter().any(|g| is_part(g.0)));
        let all = if parts { format!("{total} GPUs and parts") } else { counted_i64(total, "GPU") };
        text += &format!(" · {used} of {all} in use");
    }
    paint.show(&Piece::new(name, Style::Bold)) + &paint.show(&Piece::new(text, Style::Dim))
}

/// The pool's name, with the GPUs that all of its nodes have.
fn title(first: &Usage<'_>, pool: &[Usage<'_>]) -> String {
    let product = |usage: &Usage<'_>| usage.node.labels.value(PRODUCT).map(|name| plain(name));
    match product(first) {
        Some(name)
            if name != first.pool && pool.iter().all(|u| product(u).as_ref() == Some(&name)) =>
        {
            format!("{} ({name})", first.pool)
        }
        _ => first.pool.clone(),
    }
}

fn node_lines(
    usage: &Usage<'_>,
    pool: &[Usage<'_>],
    columns: &Columns,
    paint: Paint,
) -> Vec<String> {
    let name = cut(&plain(&usage.node.name), NAME_MAX);
    let mut left = Vec::new();
    for (at, gauge) in gauges(usage).iter().enumerate() {
        let name = if at == 0 { name.as_str() } else { "" };
        let name = padded(name.to_owned(), width(name), columns.name + 2);
        let bar = paint.bar(gauge.before, gauge.used, gauge.cells, gauge.total);
        let bar_wide = usize::try_from(gauge.cells).unwrap_or(0) + 2;
        let bar = padded(bar, bar_wide, columns.cells + 3);
        let text = padded(gauge.text.clone(), width(&gauge.text), columns.text + 2);
        left.push(format!("  {name}{bar}{text}"));
    }
    let mut right = wrap(pods(usage, pool), WIDTH.saturating_sub(columns.pods()).max(20));
    shorten(&mut right);
    let n_lines = left.len().max(right.len());
    let blank = " ".repeat(columns.pods());
    let line = |at: usize| {
        let left = left.get(at).unwrap_or(&blank);
        format!("{left}{}", right.get(at).map_or(String::new(), |line| joined(line, paint)))
    };
    (0..n_lines).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["n-10", "n-2", "n-2a", "m", "n"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["m", "n", "n-2", "n-2a", "n-10"]);
    }
}
