//! Runs one plugin on a case: what it answers at each of its points, as text.
//!
//! For every pending pod, in order of UID: its gate, PreFilter's answer, then node by node the
//! verdict with raw score and normalised score, or what the later points say. Then, for every group,
//! the placements that there are, or their scores. After that one line
//! a change and pod with the queueing hint. A hint that sleeps through a change which made the pod
//! fit is answered with `MISSED`, which no case may expect.
//!
//! `plan x on=a` lets the plugin place the pod there: what it reserves stays held and is on its way
//! to the API server, as while an attempt's writes are under way. `-plan x` takes that back.

mod look;
mod placements;
mod show;
mod steps;

use std::fmt::Write;
use std::sync::Arc;

use crate::framework::{
    Args, Gate, Hint, HintContext, PluginDef, Points, PostFilterAnswer, Ranked, Registry, Work,
};
use crate::snapshot::{Change, Cluster, Membership, NodeIdx, Overlay, Place, SelectorCompiler};
use crate::types::{Pod, PodUid, Text};

use super::case::{Case, CaseFile};
use super::literal;

use look::Look;
use steps::Step;

/// A plugin with what it registered.
pub struct Built {
    pub name: &'static str,
    pub points: Points,
}

/// Builds a plugin with arguments in the notation of [`literal`].
///
/// # Errors
/// The plugin's own, one a line, with paths that start at `args`.
pub fn build(def: &PluginDef, args: &str) -> Result<Built, String> {
    let args = Args::new("args", &literal::parse(args)?);
    let mut points = Points::default();
    (def.build)(&args, &mut points);
    args.finish();
    let errors = args.take_errors();
    if errors.is_empty() {
        return Ok(Built { name: def.name, points });
    }
    Err(errors.iter().map(|error| format!("{error}\n")).collect())
}

/// Returns what the file's plugin answers to `case`. `selectors` understands device selectors.
///
/// # Errors
/// What of the case can't be read.
pub fn run(
    registry: Registry,
    selectors: Arc<dyn SelectorCompiler>,
    file: &CaseFile,
    case: &Case,
) -> Result<String, String> {
    let find = |name: &str| registry.find(name).ok_or_else(|| format!("no plugin {name:?}"));
    let subject = match build(find(&file.plugin)?, &case.args) {
        Ok(built) => built,
        Err(errors) => return Ok(errors),
    };
    let mut plugins = vec![subject];
    for name in &case.with {
        plugins.push(build(find(name)?, case.args_of.get(name).map_or("", String::as_str))?);
    }
    let mut cluster = Cluster::default();
    cluster.set_selector_compiler(selectors);
    plugins.iter().for_each(|built| honour_dialects(&mut cluster, &built.points));
    if let Some(rules) = plugins.iter().find_map(|built| built.points.packing.clone()) {
        cluster.set_packing(rules);
    }
    if let Some(rules) = plugins.iter().find_map(|built| built.points.fabric.clone()) {
        cluster.set_fabric(rules);
    }
    if plugins.iter().any(|built| built.points.gpu_shares) {
        cluster.keep_gpu_shares();
    }
    let mut scene = Scene { cluster, plugins, text: String::new() };
    for step in steps::read(&case.cluster)? {
        scene.take(step)?;
    }
    let pending = scene.pending();
    // As for the members of a group, before the first is placed.
    pending.iter().for_each(|pod| scene.declare(pod));
    pending.iter().for_each(|pod| scene.answer(pod));
    scene.order();
    scene.place_groups();
    for step in steps::read(&case.changes)? {
        scene.change(step)?;
    }
    Ok(scene.text)
}

/// Pods name no scheduler unless their line does.
fn honour_dialects(cluster: &mut Cluster, points: &Points) {
    let Some(rules) = &points.groups else { return };
    for name in [&Text::default()].into_iter().chain(&rules.scheduler_names) {
        cluster.groups_mut().honour(name.clone(), rules.dialects.clone());
    }
}

struct Scene {
    cluster: Cluster,
    /// The plugin that the case is about comes first.
    plugins: Vec<Built>,
    text: String,
}

impl Scene {
    fn subject(&self) -> &Points {
        &self.plugins[0].points
    }

    fn pending(&self) -> Vec<Pod> {
        let waits = |pod: &Pod, place| place == Place::Nowhere && !pod.finished();
        let records = self.cluster.pods().filter(|record| waits(&record.pod, record.place));
        records.map(|record| record.pod.clone()).collect()
    }

    fn say(&mut self, line: impl AsRef<str>) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{}", line.as_ref());
    }

    fn declare(&mut self, pod: &Pod) {
        for at in 0..self.plugins.len() {
            let Some(classify) = self.plugins[at].points.classify.clone() else { continue };
            let part = classify.class_part(pod, &self.cluster);
            part.queries.iter().for_each(|query| self.cluster.declare(query));
            for selector in &part.selectors {
                self.cluster.declare_selector(selector, &mut |_| true);
            }
            part.packing.iter().for_each(|demand| self.cluster.declare_demand(demand));
            part.gpus.iter().for_each(|size| self.cluster.declare_gpus(usize::from(*size)));
        }
    }

    fn answer(&mut self, pod: &Pod) {
        self.declare(pod);
        let name = &pod.uid.0;
        if let Some(plugin) = self.subject().pre_enqueue.clone() {
            match plugin.gate(pod, &self.cluster) {
                Gate::Open => self.say(format!("{name}: gate open")),
                Gate::Closed { message, told } => {
                    let who = if told { "told by us" } else { "told by the API server" };
                    self.say(format!("{name}: gate closed ({who}): {message}"));
                }
            }
        }
        let mut look = Look::new(&self.plugins, &self.cluster, pod);
        if let Some(line) = show::pre_filter(&look.answer, &self.cluster) {
            self.say(format!("{name}: prefilter {line}"));
        }
        let scores = look.scores(self.subject(), &self.cluster, pod);
        if scores.is_none() && self.subject().score.is_some() && look.fits_somewhere() {
            self.say(format!("{name}: score skipped"));
        }
        for line in show::nodes(&look, self.subject(), scores.as_deref(), &self.cluster) {
            self.say(format!("{name} on {line}"));
        }
        if look.fits_somewhere() {
            self.placed(pod, &look);
        } else if !look.broken() {
            self.nowhere(pod, &look);
        }
    }

    /// The points after a node is chosen, for each node that fits, as an attempt goes through them:
    /// each sees what the one before has taken.
    fn placed(&mut self, pod: &Pod, look: &Look) {
        for node in look.feasible().iter() {
            let on = format!("{} on {}", pod.uid, self.cluster.nodes().slot(node).name);
            let mut overlay = Overlay::new(&mut self.cluster);
            overlay.assume(&pod.uid, node);
            let lines = after_choice(&self.plugins[0].points, &mut overlay, pod, look, node);
            drop(overlay);
            lines.iter().for_each(|line| self.say(format!("{on}: {line}")));
            if self.cluster.groups().membership(pod) != Membership::Alone {
                self.other_ways(pod, look, node).iter().for_each(|way| self.say(way));
            }
        }
    }

    /// The ways on a node besides the first, which a group may need.
    fn other_ways(&mut self, pod: &Pod, look: &Look, node: NodeIdx) -> Vec<String> {
        let Some(point) = self.subject().reserve.clone() else { return Vec::new() };
        let on = format!("{} on {}", pod.uid, self.cluster.nodes().slot(node).name);
        let mut ways = Vec::new();
        for nth in 1.. {
            let mut overlay = Overlay::new(&mut self.cluster);
            overlay.assume(&pod.uid, node);
            let mut work = Work::unlimited();
            let other = point.reserve_other(pod, &mut overlay, &look.state, node, nth, &mut work);
            match other.unwrap_or(Ok(false)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => {
                    ways.push(format!("{on}: way {nth}: {}", show::texts(&reason)));
                    break;
                }
            }
            let planned = overlay.cluster().devices().planned_by(&pod.uid);
            ways.extend(planned.map(|claim| format!("{on}: way {nth}: {}", show::held(claim))));
            let gpus = overlay.cluster().gpus_given(&pod.uid);
            ways.extend(gpus.map(|gpus| format!("{on}: way {nth}: GPUs {gpus}")));
        }
        ways
    }

    /// What is said of a pod that fits on no node.
    fn nowhere(&mut self, pod: &Pod, look: &Look) {
        let name = &pod.uid.0;
        if let Some(plugin) = self.subject().post_filter.clone() {
            let plugins = &self.plugins;
            let fits = |cluster: &Cluster, pod: &Pod, node| {
                Look::new(plugins, cluster, pod).feasible().contains(node)
            };
            let mut overlay = Overlay::new(&mut self.cluster);
            let verdicts = |node| look.verdict(node);
            let answer = plugin.post_filter(pod, &mut overlay, &verdicts, &fits);
            drop(overlay);
            let line = match answer {
                PostFilterAnswer::Evict { node, victims } => {
                    let node = &self.cluster.nodes().slot(node).name;
                    let victims: Vec<&str> = victims.iter().map(|v| v.0.as_str()).collect();
                    format!("evict {} from {node}", victims.join(" "))
                }
                PostFilterAnswer::Write(ops, text) => {
                    let ops: Vec<String> = ops.iter().map(show::op).collect();
                    format!("{}: {text}", ops.join("; "))
                }
                PostFilterAnswer::Unschedulable(text) => format!("unschedulable: {text}"),
                PostFilterAnswer::Unresolvable(text) => format!("unresolvable: {text}"),
            };
            self.say(format!("{name}: postfilter {line}"));
        }
        if let Some(plugin) = self.subject().explain.clone() {
            let cycle = crate::framework::Cycle { pod, cluster: &self.cluster };
            if let Some(text) = plugin.explain(cycle, &look.state) {
                self.say(format!("{name}: explained: {text}"));
            }
        }
    }

    /// The order in which a queue sort plugin lets the pending pods go.
    fn order(&mut self) {
        let Some(plugin) = self.subject().queue_sort.clone() else { return };
        let mut ordering = plugin.ordering();
        let pending = self.pending();
        for (entry, pod) in pending.iter().enumerate() {
            ordering.push(Ranked {
                entry: entry as u64,
                priority: pod.priority,
                enqueued: pod.created,
                leader: pod.uid.clone(),
            });
        }
        let mut names: Vec<&str> = Vec::new();
        while let Some(entry) = ordering.pop(&self.cluster) {
            names.push(&pending[entry as usize].uid.0);
        }
        self.say(format!("order: {}", names.join(" ")));
    }

    /// Takes one step and shows the hint of each pod that waited before it.
    fn change(&mut self, step: Step) -> Result<(), String> {
        let waiting: Vec<(PodUid, bool)> = self
            .pending()
            .iter()
            .map(|pod| {
                self.declare(pod);
                (pod.uid.clone(), self.held(pod))
            })
            .collect();
        let changes = self.take(step)?;
        let hints: Vec<Vec<Option<Hint>>> = changes
            .iter()
            .map(|change| waiting.iter().map(|(uid, _)| self.hint(uid, change)).collect())
            .collect();
        for (change, hinted) in changes.iter().zip(&hints) {
            for (at, (uid, held)) in waiting.iter().enumerate() {
                // One of the changes that come together is enough.
                let woken = hints.iter().any(|hinted| hinted[at] == Some(Hint::Queue));
                let what: Text = show::change(change, &self.cluster);
                let word = match hinted[at] {
                    None => continue,
                    Some(Hint::Queue) => "queue",
                    Some(Hint::Skip) if *held && !woken && self.let_through(uid) => {
                        "skip MISSED: it is let through by now"
                    }
                    Some(Hint::Skip) => "skip",
                };
                self.say(format!("{uid}: {what} -> {word}"));
            }
        }
        Ok(())
    }

    /// Returns nothing for a pod that doesn't wait any more.
    fn hint(&mut self, uid: &PodUid, change: &Change) -> Option<Hint> {
        let plugin = self.subject().interest.clone()?;
        let pod = self.waits(uid)?;
        self.declare(&pod);
        Some(plugin.hint(HintContext { pod: &pod, cluster: &self.cluster }, change))
    }

    fn let_through(&self, uid: &PodUid) -> bool {
        self.waits(uid).is_some_and(|pod| !self.held(&pod))
    }

    fn waits(&self, uid: &PodUid) -> Option<Pod> {
        let record = self.cluster.pod(uid).filter(|record| record.place == Place::Nowhere);
        record.map(|record| record.pod.clone())
    }

    /// Tells whether the plugin that the case is about holds the pod back.
    fn held(&self, pod: &Pod) -> bool {
        let gate = self.subject().pre_enqueue.as_ref();
        let gated = gate.is_some_and(|plugin| plugin.gate(pod, &self.cluster) != Gate::Open);
        gated || !Look::new(&self.plugins[..1], &self.cluster, pod).fits_somewhere()
    }
}

/// Asks Reserve, and if that doesn't refuse, Permit, PreBind and Bind.
fn after_choice(
    plugin: &Points,
    overlay: &mut Overlay<'_>,
    pod: &Pod,
    look: &Look,
    node: NodeIdx,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(point) = &plugin.reserve {
        match point.reserve(pod, overlay, &look.state, node, &mut Work::unlimited()) {
            Ok(()) => {
                let held: Vec<String> =
                    overlay.cluster().devices().planned_by(&pod.uid).map(show::held).collect();
                let reserved = match overlay.cluster().gpus_given(&pod.uid) {
                    Some(gpus) => format!("reserved GPUs {gpus}"),
                    None => "reserved".to_owned(),
                };
                lines.extend([reserved].into_iter().chain(held));
            }
            Err(reason) => return vec![format!("not reserved: {}", show::texts(&reason))],
        }
    }
    let cluster = overlay.cluster();
    if let Some(point) = &plugin.permit {
        lines.push(format!("permit {:?}", point.permit(pod, cluster, node, pod.created)));
    }
    if let Some(point) = &plugin.pre_bind {
        let stages = point.pre_bind(pod, cluster, node, pod.created);
        lines.extend(stages.iter().flat_map(|stage| show::stage(stage, cluster)));
    }
    if let Some(write) = plugin.bind.as_ref().and_then(|point| point.bind(pod, cluster, node)) {
        lines.push(format!("write {} {}", write.label, show::op(&write.op)));
    }
    lines
}
