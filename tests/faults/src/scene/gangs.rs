//! Gangs, past the proxy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_stand::try_wait_for;
use serde_json::Value;

use super::{Scene, check};
use crate::failed::{Failed, Outcome};
use crate::objects::pod_group;

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// What Berth writes on the binds of a commit: group, attempt, members.
const NOTE: &str = "berth.dev/plan";

impl Scene {
    /// Creates a group that needs all of these members, in this order: the group comes first, last or
    /// in between, as it is drawn.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn create_gang(&self, group: &str, members: &[Value]) -> Outcome {
        let before = usize::try_from(self.draw(members.len() as u64 + 1)).unwrap_or_default();
        let (earlier, later) = members.split_at(before);
        earlier.iter().try_for_each(|pod| self.create(pod).map(drop))?;
        self.create(&pod_group(group, u32::try_from(members.len()).unwrap_or_default()))?;
        later.iter().try_for_each(|pod| self.create(pod).map(drop))
    }

    /// Returns the members of a group that are there and do not go.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn members(&self, group: &str) -> Outcome<Vec<Value>> {
        let mut pods = self.api.list(PODS)?;
        pods.retain(|pod| {
            let is_member = pod["spec"]["schedulingGroup"]["podGroupName"] == group;
            is_member && pod["metadata"]["deletionTimestamp"].is_null()
        });
        Ok(pods)
    }

    /// Returns how many members of a group have a node.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn members_bound(&self, group: &str) -> Outcome<usize> {
        Ok(self.members(group)?.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count())
    }

    /// Waits until as many members as this have a node.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn gang_bound(&self, group: &str, members: usize, deadline: Duration) -> Outcome {
        let mut bound = 0;
        let whole = try_wait_for(deadline, "the gang is bound", || {
            bound = self.members_bound(group).ok()?;
            (bound == members).then_some(())
        });
        whole.map_err(|late| Failed::Wrong(format!("{late}; {group}: {bound} of {members}")))
    }

    /// Checks for so long that no member of a group gets a node.
    ///
    /// # Errors
    /// [`Failed::Wrong`].
    pub fn stays_unbound(&self, group: &str, time: Duration) -> Outcome {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let bound = self.members_bound(group)?;
            check(bound == 0, format!("{bound} members of {group} are bound"))?;
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Deletes all events, so that those of an earlier repeat say nothing.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn forget_events(&self) -> Outcome {
        self.delete_all(EVENTS)
    }

    /// Tells whether an event says that a group is below its minimum.
    pub fn is_told_below(&self, group: &str) -> bool {
        let about = format!("default/{group} ");
        let says = |event: &Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "BelowMinimum" && message.contains(&about)
        };
        self.api.list(EVENTS).unwrap_or_default().iter().any(says)
    }

    /// Checks that each member's bind carried a note that names the group, and how many belong to the
    /// commit: all members, or those that were bound with it when it completed the group.
    ///
    /// # Errors
    /// [`Failed::Wrong`].
    pub fn notes_agree(&self, group: &str, members: usize) -> Outcome {
        let path = format!("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/{group}");
        let object = self.api.get(&path)?;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let mut bound_with: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.members(group)? {
            let note = &pod["metadata"]["annotations"][NOTE];
            let name = &pod["metadata"]["name"];
            let Some(note) = note.as_str() else {
                return Err(Failed::Wrong(format!("{name} was bound without a note")));
            };
            *bound_with.entry(note.to_owned()).or_default() += 1;
        }
        for (note, bound) in &bound_with {
            let parts: Vec<&str> = note.split('/').collect();
            let of = parts.last().and_then(|of| of.parse::<usize>().ok()).unwrap_or_default();
            let agrees = parts.len() == 3 && parts[0] == uid && (of == members || of == *bound);
            check(agrees, format!("notes of {group} ({uid}) disagree: {bound_with:?}"))?;
        }
        Ok(())
    }
}
