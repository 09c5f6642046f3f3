//! Claims and devices, past the proxy.

use berth_stand::Patch;
use serde_json::{Value, json};

use super::Scene;
use crate::failed::{Failed, Outcome};
use crate::objects::{DRIVER, claim, claiming, device_class, device_slice};

/// The collection of all claims that rows make.
pub const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
pub(super) const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

impl Scene {
    /// Makes the class, and `n` devices on each of the nodes `n-1` and so on: `gpu-0` and so on in
    /// the node's own pool.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn devices(&self, nodes: u32, n: u32) -> Outcome {
        self.nodes(nodes, 0)?;
        self.create(&device_class())?;
        let names: Vec<String> = (0..n).map(|device| format!("gpu-{device}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for node in (1..=nodes).map(|node| format!("n-{node}")) {
            self.create(&device_slice(&node, &node, &names, &Value::Null))?;
        }
        Ok(())
    }

    /// Deletes every slice.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn no_slices(&self) -> Outcome {
        self.delete_all(SLICES)
    }

    /// Changes generation, number or devices of a slice.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn change_slice(&self, name: &str, spec: &Value) -> Outcome {
        self.api.patch(&format!("{SLICES}/{name}"), Patch::Merge, &json!({"spec": spec}))?;
        Ok(())
    }

    /// Creates a claim for one device, and a pod of the same name that uses it.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn create_claiming(&self, name: &str) -> Outcome {
        self.create(&claim(name))?;
        self.create(&claiming(name, &[name]))?;
        Ok(())
    }

    /// Returns the device of a claim for one, as pool and device.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn device_of(&self, claim: &str) -> Outcome<Option<String>> {
        let claim = self.api.get(&format!("{CLAIMS}/{claim}"))?;
        Ok(allocated(&claim["status"]).into_iter().next())
    }

    /// Allocates a device of a node to a claim, as another scheduler would.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn allocate_from_the_side(&self, claim: &str, node: &str, device: &str) -> Outcome {
        let result = json!({"request": "gpu", "driver": DRIVER, "pool": node, "device": device});
        let on_node = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let allocation = json!({
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
        });
        self.change_claim(claim, "/status", &json!({"status": {"allocation": allocation}}))
    }

    /// Takes its devices from a claim, and the claim from whomever it is reserved for.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn deallocate_from_the_side(&self, claim: &str) -> Outcome {
        let freed = json!({"status": {"allocation": null, "reservedFor": null}});
        self.change_claim(claim, "/status", &freed)
    }

    /// Does what the claim controller does when the last pod of a claim is gone. A claim that was to
    /// be deleted is gone then.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn free_claim(&self, claim: &str) -> Outcome {
        self.deallocate_from_the_side(claim)?;
        self.change_claim(claim, "", &json!({"metadata": {"finalizers": null}}))
    }

    /// Deletes a claim at once, whatever its finalizer says.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn force_claim(&self, claim: &str) -> Outcome {
        self.change_claim(claim, "", &json!({"metadata": {"finalizers": null}}))?;
        self.api.delete(&format!("{CLAIMS}/{claim}"))?;
        Ok(())
    }

    /// Patches a claim or its status.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn change_claim(&self, claim: &str, subresource: &str, patch: &Value) -> Outcome {
        self.api.patch(&format!("{CLAIMS}/{claim}{subresource}"), Patch::Merge, patch)?;
        Ok(())
    }

    /// Checks that each claim has a device, that no two have the same, and that the pod of its name is
    /// on the node whose device that is.
    ///
    /// # Errors
    /// [`Failed::Wrong`].
    pub fn each_has_its_own(&self, claims: &[&str]) -> Outcome {
        let mut taken: Vec<String> = Vec::new();
        for claim in claims {
            let node = self.bound(claim)?;
            let Some(device) = self.device_of(claim)? else {
                return Err(Failed::Wrong(format!("{claim} is bound and its claim has nothing")));
            };
            if taken.contains(&device) || !device.starts_with(&format!("{node}/")) {
                return Err(Failed::Wrong(format!("{claim} is on {node} with {device}")));
            }
            taken.push(device);
        }
        Ok(())
    }
}

/// Returns the devices that a status allocates, as pool and device.
pub fn allocated(status: &Value) -> Vec<String> {
    let results = status["allocation"]["devices"]["results"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |result: &Value| format!("{}/{}", text(&result["pool"]), text(&result["device"]));
    results.into_iter().flatten().map(named).collect()
}
