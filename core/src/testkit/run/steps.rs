//! What happens in a case, statement by statement: events, and plans of the plugin's own.

use crate::framework::Work;
use crate::snapshot::{Change, ClusterEvent, Overlay};
use crate::testkit::words::Line;
use crate::testkit::{each, pods, statement};
use crate::types::{PodUid, Text, Timestamp};

use super::look::Look;
use super::{Scene, show};

pub(super) enum Step {
    Event(Box<ClusterEvent>),
    /// The plugin places the pod.
    Plan {
        pod: PodUid,
        node: Text,
    },
    /// The pod's plan is taken back.
    Forget(PodUid),
}

pub(super) fn read(text: &str) -> Result<Vec<Step>, String> {
    each(text, step)
}

fn step(line: &Line, created: Timestamp) -> Result<Step, String> {
    Ok(match line.kind.as_str() {
        "plan" => {
            let node = Text::from(line.value("on").ok_or("a plan needs a node: on=a")?);
            Step::Plan { pod: pods::uid_of(line)?, node }
        }
        "-plan" => Step::Forget(pods::uid_of(line)?),
        _ => Step::Event(Box::new(statement(line, created)?)),
    })
}

impl Scene {
    /// Returns what it changed.
    pub(super) fn take(&mut self, step: Step) -> Result<Vec<Change>, String> {
        match step {
            Step::Event(event) => Ok(self.cluster.fold(*event)),
            Step::Plan { pod, node } => self.plan(&pod, &node).map(|()| Vec::new()),
            Step::Forget(pod) => {
                let mut changes = self.cluster.forget(&pod);
                changes.extend(self.cluster.forget_claims(&pod));
                Ok(changes)
            }
        }
    }

    fn plan(&mut self, uid: &PodUid, node: &Text) -> Result<(), String> {
        let pod = self.cluster.pod(uid).map(|record| record.pod.clone());
        let pod = pod.ok_or_else(|| format!("a plan for pod {uid}, which isn't there"))?;
        let idx = self.cluster.nodes().index(node);
        let idx = idx.ok_or_else(|| format!("a plan for node {node}, which isn't there"))?;
        self.declare(&pod);
        let look = Look::new(&self.plugins[..1], &self.cluster, &pod);
        let mut overlay = Overlay::new(&mut self.cluster);
        overlay.assume(uid, idx);
        if let Some(plugin) = &self.plugins[0].points.reserve {
            let reserved =
                plugin.reserve(&pod, &mut overlay, &look.state, idx, &mut Work::unlimited());
            reserved.map_err(|reason| format!("{uid}: not reserved: {}", show::texts(&reason)))?;
        }
        overlay.commit();
        Ok(())
    }
}
