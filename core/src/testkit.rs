//! A text notation of clusters, and a runner that shows what one plugin says about them.
//!
//! Case files (`plugins/tests/cases/*.md`, [`case`]) are written in it. One statement a line,
//! words separated by spaces; a word is `key`, `key=value` or `key="value with spaces"`; `#`
//! starts a comment. Lists are separated by commas. The tables in [`nodes`], [`pods`], [`objects`],
//! [`devices`], [`claims`], [`groups`] and [`numa`] have every key with its meaning; adding one is one line there.
//!
//! ```text
//! node a  cpu=4 mem=8Gi gpu=8 labels=zone=z1,disk=ssd taints=k=v:NoSchedule images=app:v1=90Mi
//! pod  x  on=a cpu=1 ports=80                       placed: it takes its place on the node
//! pod  s  on=a share=500x2 gpus=0,3                 it has half of two GPUs by annotation
//! pod  p  cpu=500m tol=k=v:NoSchedule select=disk=ssd affinity="zone in z1,z2 | gpu > 4"
//! pvc  data bound=pv1 class=fast                    pv, class, csinode, attachment, namespace,
//! service web select=app=web                        rc, replicaset, statefulset likewise
//! slice s node=a pool=a devices="gpu-0..3 model=H100 mem:80Gi; nic-0 type=nic"
//! deviceclass gpu select="device.driver == 'gpu.example.com'"
//! claim c wants="r: 2 gpu where attr.model == H100" allocated="r gpu.example.com/a/gpu-0"
//! taintrule t device=gpu-3 taint=sick:NoSchedule
//! group g min=3 parent=all                         a PodGroup; with of-groups one of groups
//! numa a policy=single cell="cpu=4/8 gpu=1/4" cell="cpu=8/8 gpu=4/4"
//! ```
//!
//! In a block of changes the same statements add an object or replace it as a whole, and `-node a`,
//! `-pod x`, `-pvc data` … delete it. Cases also have `plan x on=a` and `-plan x`, see [`run`].
//!
//! Quantities: `500m`, `2`, `1.5`, with `k M G T Ki Mi Gi Ti`. Requirements on labels: `key=value`,
//! `key in a,b`, `key notin a,b`, `key exists`, `key absent`, `key > 4`, `key < 4`, joined by `;`;
//! node terms are joined by `|`, and the key `@name` is the field metadata.name.

pub mod amounts;
pub mod case;
pub mod claims;
pub mod devices;
pub mod expressions;
pub mod groups;
pub mod literal;
pub mod nodes;
pub mod numa;
pub mod objects;
pub mod pods;
pub mod run;
pub mod selectors;
pub mod words;

use std::sync::Arc;

use crate::snapshot::{Cluster, ClusterEvent, SelectorCompiler};
use crate::types::{Pod, PodUid, Text, Timestamp};

use words::Line;

/// Parses statements into events, in their order.
///
/// # Errors
/// The first line that can't be read, with its text.
pub fn parse(text: &str) -> Result<Vec<ClusterEvent>, String> {
    each(text, statement)
}

fn each<T>(
    text: &str,
    read: impl Fn(&Line, Timestamp) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for (at, raw) in text.lines().enumerate() {
        let Some(line) = Line::read(raw).map_err(|e| format!("{e} in `{raw}`"))? else { continue };
        // Later lines are younger pods, as if the file had been applied from top to bottom.
        let created = Timestamp(at as u64 * 1000);
        all.push(read(&line, created).map_err(|e| format!("{e} in `{raw}`"))?);
    }
    Ok(all)
}

fn statement(line: &Line, created: Timestamp) -> Result<ClusterEvent, String> {
    match line.kind.as_str() {
        "node" => Ok(ClusterEvent::NodeApplied(nodes::read(line)?)),
        "-node" => {
            let uid = line.value("uid").map_or(Text::default(), Text::from);
            Ok(ClusterEvent::NodeDeleted { name: line.name.clone(), uid })
        }
        "pod" => Ok(ClusterEvent::PodApplied(Box::new(pods::read(line, created)?))),
        "-pod" => Ok(ClusterEvent::PodDeleted { uid: pods::uid_of(line)? }),
        _ => objects::read(line),
    }
}

/// Folds statements into a new ledger, whose device selectors are in the tiny language of
/// [`expressions`].
///
/// # Errors
/// As [`parse`].
pub fn cluster(text: &str) -> Result<Cluster, String> {
    cluster_with(text, expressions::tiny())
}

/// As [`cluster`], with device selectors in a language of the caller's.
///
/// # Errors
/// As [`parse`].
pub fn cluster_with(text: &str, selectors: Arc<dyn SelectorCompiler>) -> Result<Cluster, String> {
    let mut cluster = Cluster::default();
    cluster.set_selector_compiler(selectors);
    for event in parse(text)? {
        cluster.fold(event);
    }
    Ok(cluster)
}

/// Returns a pod by the name it has in the notation (namespace `default` unless `ns/name`).
pub fn pod(cluster: &Cluster, name: &str) -> Option<Pod> {
    cluster.pod(&PodUid(Text::from(name))).map(|record| record.pod.clone())
}

#[cfg(test)]
mod tests;
