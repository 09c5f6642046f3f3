//! Plays the API server's Priority admission: class names become numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::input::Document;

/// The classes that every cluster has.
const BUILT_IN: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

#[derive(Clone, Debug, Default)]
struct Class {
    value: Value,
    preemption_policy: Value,
}

/// The PriorityClasses of the files.
#[derive(Debug, Default)]
pub(super) struct Priorities {
    classes: BTreeMap<String, Class>,
    /// Name of the class for pods that name none: of several, the one of the lowest priority.
    global_default: Option<String>,
}

impl Priorities {
    pub(super) fn reads(document: &Document) -> bool {
        document.kind() == "PriorityClass"
            && document.api_version().starts_with("scheduling.k8s.io/")
    }

    pub(super) fn of(documents: &[Document]) -> Priorities {
        let built_in = |(name, value): (&str, i64)| {
            (name.to_owned(), Class { value: value.into(), preemption_policy: Value::Null })
        };
        let mut classes: BTreeMap<String, Class> = BUILT_IN.map(built_in).into();
        let mut global_default: Option<(i64, String)> = None;
        for document in documents.iter().filter(|document| Self::reads(document)) {
            let field = |key: &str| document.value.get(key).cloned().unwrap_or_default();
            let value = field("value");
            if field("globalDefault") == true {
                let own = (value.as_i64().unwrap_or(0), document.name().to_owned());
                global_default = Some(global_default.map_or(own.clone(), |other| other.min(own)));
            }
            let class = Class { value, preemption_policy: field("preemptionPolicy") };
            classes.insert(document.name().to_owned(), class);
        }
        Priorities { classes, global_default: global_default.map(|(_, name)| name) }
    }

    /// Fills in `spec.priority` and `spec.preemptionPolicy` where they are missing.
    ///
    /// # Errors
    /// If the pod names a class that isn't there and says no priority of its own.
    pub(super) fn resolve(&self, pod: &mut Value) -> Result<(), String> {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if spec.get("priority").is_some_and(|priority| !priority.is_null()) {
            return Ok(());
        }
        let named = spec.get("priorityClassName").and_then(Value::as_str);
        let named = named.filter(|name| !name.is_empty()).or(self.global_default.as_deref());
        let Some(name) = named else { return Ok(()) };
        let class = self.classes.get(name).cloned().ok_or_else(|| {
            format!("no PriorityClass {name:?} in the files, and spec.priority is not set")
        })?;
        spec.insert("priority".into(), class.value);
        if !class.preemption_policy.is_null() {
            spec.entry("preemptionPolicy").or_insert(class.preemption_policy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::input::read;
    use serde_json::json;

    #[test]
    fn classes_become_numbers() {
        let text = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: vip}, value: 7, preemptionPolicy: Never}\n---\n\
                    {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 3, globalDefault: true}\n";
        let priorities = Priorities::of(&read("f", text).unwrap());
        let resolved = |spec: Value| {
            let mut pod = json!({ "spec": spec });
            priorities.resolve(&mut pod).map(|()| pod["spec"]["priority"].clone())
        };
        assert_eq!(resolved(json!({"priorityClassName": "vip"})), Ok(json!(7)));
        assert_eq!(resolved(json!({"priorityClassName": "vip", "priority": 1})), Ok(json!(1)));
        assert_eq!(resolved(json!({})), Ok(json!(3)));
        let critical = json!({"priorityClassName": "system-node-critical"});
        assert_eq!(resolved(critical), Ok(json!(2_000_001_000)));
        assert!(resolved(json!({"priorityClassName": "none"})).unwrap_err().contains("\"none\""));
    }
}
