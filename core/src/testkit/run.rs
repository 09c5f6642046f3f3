//! Runs one plugin on a case: what it answers at each of its points, as text.
//!
//! For every pending pod, in order of UID: its gate, PreFilter's answer, then node by node the
//! verdict with raw score and normalised score, or what the later points say. After that one line
//! a change and pod with the queueing hint. A hint that sleeps through a change which made the pod
//! fit is answered with `MISSED`, which no case may expect.

mod look;
mod show;

use std::fmt::Write;

use crate::framework::{
    Args, Gate, Hint, HintContext, PluginDef, Points, PostFilterAnswer, Ranked, Registry,
};
use crate::snapshot::{Change, Cluster, Overlay, Place};
use crate::types::{Pod, PodUid, Text};

use super::case::{Case, CaseFile};
use super::literal;

use look::Look;

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

/// Returns what the file's plugin answers to `case`.
///
/// # Errors
/// What of the case can't be read.
pub fn run(registry: Registry, file: &CaseFile, case: &Case) -> Result<String, String> {
    let find = |name: &str| registry.find(name).ok_or_else(|| format!("no plugin {name:?}"));
    let subject = match build(find(&file.plugin)?, &case.args) {
        Ok(built) => built,
        Err(errors) => return Ok(errors),
    };
    let mut plugins = vec![subject];
    for name in &case.with {
        plugins.push(build(find(name)?, "")?);
    }
    let cluster = super::cluster(&case.cluster)?;
    let mut scene = Scene { cluster, plugins, text: String::new() };
    for pod in scene.pending() {
        scene.answer(&pod);
    }
    scene.order();
    for event in super::parse(&case.changes)? {
        scene.change(event);
    }
    Ok(scene.text)
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
            for query in classify.class_part(pod, &self.cluster).queries {
                self.cluster.declare(&query);
            }
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
        let look = Look::new(&self.plugins, &self.cluster, pod);
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
        } else {
            self.nowhere(pod, &look);
        }
    }

    /// The points after a node is chosen, for each node that fits.
    fn placed(&mut self, pod: &Pod, look: &Look) {
        for node in look.feasible().iter() {
            let on = format!("{} on {}", pod.uid, self.cluster.nodes().slot(node).name);
            if let Some(plugin) = self.subject().reserve.clone() {
                let mut overlay = Overlay::new(&mut self.cluster);
                overlay.assume(&pod.uid, node);
                let answer = plugin.reserve(pod, &mut overlay, node);
                drop(overlay);
                match answer {
                    Ok(()) => self.say(format!("{on}: reserved")),
                    Err(reason) => {
                        self.say(format!("{on}: not reserved: {}", show::texts(&reason)))
                    }
                }
            }
            if let Some(plugin) = self.subject().permit.clone() {
                let answer = plugin.permit(pod, &self.cluster, node, pod.created);
                self.say(format!("{on}: permit {answer:?}"));
            }
            if let Some(plugin) = self.subject().pre_bind.clone() {
                for stage in plugin.pre_bind(pod, &self.cluster, node, pod.created) {
                    self.say(format!("{on}: before bind {stage:?}"));
                }
            }
            if let Some(plugin) = self.subject().bind.clone()
                && let Some(write) = plugin.bind(pod, &self.cluster, node)
            {
                self.say(format!("{on}: write {} {}", write.label, show::op(&write.op)));
            }
        }
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

    /// Folds one event and shows the hint of each pod that waited before it.
    fn change(&mut self, event: crate::snapshot::ClusterEvent) {
        let waiting: Vec<(PodUid, bool)> = self
            .pending()
            .iter()
            .map(|pod| {
                self.declare(pod);
                (pod.uid.clone(), self.held(pod))
            })
            .collect();
        for change in self.cluster.fold(event) {
            for (uid, held) in &waiting {
                self.hint(uid, *held, &change);
            }
        }
    }

    fn hint(&mut self, uid: &PodUid, held: bool, change: &Change) {
        let Some(plugin) = self.subject().interest.clone() else { return };
        let Some(record) = self.cluster.pod(uid).filter(|r| r.place == Place::Nowhere) else {
            return;
        };
        let pod = record.pod.clone();
        self.declare(&pod);
        let hint = plugin.hint(HintContext { pod: &pod, cluster: &self.cluster }, change);
        let word = match hint {
            Hint::Queue => "queue",
            Hint::Skip if held && !self.held(&pod) => "skip MISSED: it is let through by now",
            Hint::Skip => "skip",
        };
        let what: Text = show::change(change, &self.cluster);
        self.say(format!("{uid}: {what} -> {word}"));
    }

    /// Tells whether the plugin that the case is about holds the pod back.
    fn held(&self, pod: &Pod) -> bool {
        let gate = self.subject().pre_enqueue.as_ref();
        let gated = gate.is_some_and(|plugin| plugin.gate(pod, &self.cluster) != Gate::Open);
        gated || !Look::new(&self.plugins[..1], &self.cluster, pod).fits_somewhere()
    }
}
