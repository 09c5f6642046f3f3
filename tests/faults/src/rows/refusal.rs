//! One pod that the server refuses to bind, by a rule of the proxy's or by a policy.

use berth_stand::try_wait_for;
use serde_json::{Value, json};

use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::{Asked, Exchange, Fault, Injection, Requests, Rule, Told};
use crate::scene::Scene;

/// The pod that is refused; names that begin with it are its own, however often it is made.
pub(super) const REFUSED: &str = "g-3";

/// Who refuses.
#[derive(Clone, Copy)]
pub(super) enum By {
    Proxy,
    Policy,
}

/// A refusal in force.
pub(super) enum Refusal {
    Proxy(Injection),
    Policy,
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
/// The name of the policy, and of what puts it in force.
const POLICY: &str = "not-g-3";
/// Stands in what the refused member is told.
pub(super) const WHY: [&str; 2] = ["as the test wants it", "g-3 is not to start"];

impl Refusal {
    pub(super) fn begin(scene: &Scene, by: By, status: u16) -> Outcome<Refusal> {
        let meant = Requests::all().when(is_of_refused);
        match by {
            By::Proxy => {
                let refusal = Fault::Refuse { status, retry_after_s: None };
                Ok(Refusal::Proxy(scene.proxy.inject(Rule::on(meant).then(refusal))))
            }
            By::Policy => {
                scene.api.create(POLICIES, &policy(status))?;
                scene.api.create(BINDINGS, &policy_binding())?;
                policy_acts(scene, true)?;
                Ok(Refusal::Policy)
            }
        }
    }

    pub(super) fn end(self, scene: &Scene) -> Outcome {
        match self {
            Refusal::Proxy(injection) => drop(injection),
            Refusal::Policy => {
                scene.api.delete(&format!("{BINDINGS}/{POLICY}"))?;
                scene.api.delete(&format!("{POLICIES}/{POLICY}"))?;
                policy_acts(scene, false)?;
            }
        }
        Ok(())
    }
}

fn policy(status: u16) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods/binding"],
            }]},
            "validations": [{
                "expression": format!("!object.metadata.name.startsWith('{REFUSED}')"),
                "message": WHY[1],
                "reason": if status == 403 { "Forbidden" } else { "Invalid" },
            }],
        },
    })
}

fn policy_binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    })
}

/// Waits until the policy is in force, or is no more: the server learns of both a while later. Asked
/// by a bind of a pod that there is not, which is tried only.
fn policy_acts(scene: &Scene, acts: bool) -> Outcome {
    let name = format!("{REFUSED}-asked");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": "default", "name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n-1"},
    });
    let path = format!("/api/v1/namespaces/default/pods/{name}/binding?dryRun=All");
    let as_wanted = || {
        let status = scene.api.create(&path, &binding).err()?.status();
        (matches!(status, Some(403 | 422)) == acts).then_some(())
    };
    let what = format!("the policy acts: {acts}");
    Ok(try_wait_for(SOON, &what, as_wanted)?)
}

/// Tells whether a request binds the refused member, or tries to.
pub(super) fn is_of_refused(asked: &Asked) -> bool {
    (asked.is_bind() || asked.is_trial()) && asked.name.starts_with(REFUSED)
}

pub(super) fn is_refusal(exchange: &Exchange) -> bool {
    is_of_refused(&exchange.asked) && matches!(exchange.told, Told::Status(403 | 422))
}
