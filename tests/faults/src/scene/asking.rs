//! What rows do and ask, past the proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_stand::{ApiClient, ApiError, try_wait_for};
use serde_json::{Value, json};

use super::Scene;
use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::objects::{gpu_pod, scheduled_condition};

/// Threads that create the pods of a burst: more than the server takes at once.
const CREATORS: usize = 8;

const PODS: &str = "/api/v1/namespaces/default/pods";

impl Scene {
    /// Creates any object, with its status.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn create(&self, object: &Value) -> Outcome<Value> {
        Ok(self.api.create_object(object)?)
    }

    /// Creates a pod that asks for so many GPUs.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn create_pod(&self, name: &str, gpus: u32) -> Outcome<Value> {
        Ok(self.api.create(PODS, &gpu_pod(name, gpus))?)
    }

    /// Creates `n` pods of one GPU as fast as the server takes them, and returns their names:
    /// `p-0` and so on.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn create_burst(&self, n: usize) -> Outcome<Vec<String>> {
        let names: Vec<String> = (0..n).map(|n| format!("p-{n}")).collect();
        let share = n.div_ceil(CREATORS).max(1);
        let created: Result<(), ApiError> = std::thread::scope(|scope| {
            let creators = names.chunks(share).map(|names| scope.spawn(|| burst(&self.api, names)));
            let creators: Vec<_> = creators.collect();
            let mut ended = creators.into_iter().map(|creator| creator.join());
            ended.try_for_each(|ended| ended.expect("a creator does not panic"))
        });
        created?;
        Ok(names)
    }

    /// Deletes a pod without a grace period.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn delete_pod(&self, name: &str) -> Outcome {
        self.api.delete_now(&format!("{PODS}/{name}"))?;
        Ok(())
    }

    /// Binds a pod from the side, as another scheduler would.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn bind_from_the_side(&self, pod: &str, node: &str) -> Outcome {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": "default", "name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.api.create(&format!("{PODS}/{pod}/binding"), &binding)?;
        Ok(())
    }

    /// Returns a pod as it is.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn read_pod(&self, name: &str) -> Outcome<Value> {
        Ok(self.api.get(&format!("{PODS}/{name}"))?)
    }

    /// Returns the node that the pod is bound to.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn node_of(&self, name: &str) -> Outcome<Option<String>> {
        Ok(node(&self.read_pod(name)?))
    }

    /// Waits until the pod is bound, and returns the node.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn bound(&self, name: &str) -> Outcome<String> {
        let bound = || self.node_of(name).ok().flatten();
        Ok(try_wait_for(SOON, &format!("{name} is bound"), bound)?)
    }

    /// Waits until PodScheduled has this reason, and returns the condition.
    ///
    /// # Errors
    /// [`Failed::TimedOut`]; [`Failed::Wrong`] if the pod is bound instead.
    pub fn told(&self, name: &str, reason: &str) -> Outcome<Value> {
        let told = || {
            let pod = self.read_pod(name).ok()?;
            let condition = scheduled_condition(&pod);
            match node(&pod) {
                Some(node) => Some(Err(node)),
                None => (condition["reason"] == reason).then_some(Ok(condition)),
            }
        };
        let told = try_wait_for(SOON, &format!("{name} is told {reason}"), told)?;
        told.map_err(|node| Failed::Wrong(format!("{name} is on {node}, not told {reason}")))
    }

    /// Returns how many pods are bound.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn n_bound(&self) -> Outcome<usize> {
        let pods = self.api.list(PODS)?;
        Ok(pods.iter().filter(|pod| node(pod).is_some()).count())
    }

    /// Waits until every pod is bound.
    ///
    /// # Errors
    /// [`Failed::Wrong`] with some that are not.
    pub fn all_bound(&self, deadline: Duration) -> Outcome {
        let mut waiting = Vec::new();
        let all = try_wait_for(deadline, "all pods are bound", || {
            let pods = self.api.list(PODS).ok()?;
            waiting = pods.iter().filter(|pod| node(pod).is_none()).map(shown).collect();
            waiting.is_empty().then_some(())
        });
        let count = waiting.len();
        waiting.truncate(3);
        all.map_err(|late| Failed::Wrong(format!("{late}; {count} wait, such as {waiting:#?}")))
    }

    /// Returns how many GPUs the bound pods of each node ask for together.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn gpus_by_node(&self) -> Outcome<BTreeMap<String, u64>> {
        let mut by_node = BTreeMap::new();
        for pod in self.api.list(PODS)? {
            let Some(node) = node(&pod) else { continue };
            let asked = &pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"];
            let asked = asked.as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            *by_node.entry(node).or_default() += asked;
        }
        Ok(by_node)
    }
}

fn burst(api: &ApiClient, names: &[String]) -> Result<(), ApiError> {
    names.iter().try_for_each(|name| api.create(PODS, &gpu_pod(name, 1)).map(drop))
}

fn node(pod: &Value) -> Option<String> {
    pod["spec"]["nodeName"].as_str().map(str::to_owned)
}

fn shown(pod: &Value) -> String {
    let condition = scheduled_condition(pod);
    format!("{}: {}", pod["metadata"]["name"], condition["message"])
}

/// Fails unless something holds.
///
/// # Errors
/// [`Failed::Wrong`] with the text.
pub fn check(holds: bool, otherwise: impl Into<String>) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(Failed::Wrong(otherwise.into())),
    }
}
