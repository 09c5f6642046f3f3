//! Whole groups of each dialect on the real API server: bound together, or not at all and told why.

mod native;
mod ways;

use berth_core::types::PlanNote;
use berth_stand::{ApiClient, Options, Stand, wait_for};
use serde_json::{Value, json};

use super::{crd, define, group};
use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, node_of, read, told};

/// One way to say that pods belong together. All that it has in the cluster begins with its name,
/// and its pods keep to its own nodes, so that many ways can be tried at once.
struct Way {
    name: &'static str,
    /// The object of a group that needs so many; null: pods say all there is.
    object: fn(&str, usize) -> Value,
    /// Makes a pod the member at this place of a group that needs so many.
    joins: fn(&mut Value, &str, usize, usize),
    /// What the first two of three members are told, and how the group is called to them.
    lacks: &'static str,
    /// The status of the object of a group in each [`Phase`], without messages and times.
    statuses: [fn() -> Value; 3],
}

#[derive(Clone, Copy)]
enum Phase {
    Gathers,
    LacksRoom,
    Placed,
}

/// A group of a story: members, and the GPUs of each.
type Group = (&'static str, usize, u32);

const WHOLE: Group = ("whole", 3, 2);
/// Its last member comes late.
const SHORT: Group = ("short", 3, 1);
/// Beside the whole one there is room for one of its members.
const LARGE: Group = ("large", 2, 2);

/// Plays the story of a group in each way: one is bound whole, one lacks a member, one lacks room; when
/// both come they are bound whole as well.
fn play(api: &ApiClient, ways: &[Way]) {
    for way in ways {
        ["n-1", "n-2"].iter().for_each(|name| way.node(api, name, 4));
        way.begins(api, WHOLE, 3);
    }
    for way in ways {
        way.is_whole(api, WHOLE);
        way.is_one_commit(api, WHOLE);
        way.begins(api, SHORT, 2);
        way.begins(api, LARGE, 2);
    }
    for way in ways {
        way.is_short(api);
        way.is_too_large(api);
        // And they hold nothing: this one takes all that is left.
        let alone = way.called("alone");
        create(api, &way.here(gpu_pod(&alone, 2)));
        bound(api, &alone);
        way.has_no_node(api, SHORT, 2);
        way.has_no_node(api, LARGE, 2);
        way.node(api, "n-3", 8);
        way.member(api, SHORT, 2);
    }
    for way in ways {
        way.is_whole(api, SHORT);
        way.is_whole(api, LARGE);
    }
}

impl Way {
    fn called(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    fn node(&self, api: &ApiClient, name: &str, gpus: u32) {
        let mut node = gpu_node(&self.called(name), gpus);
        node["metadata"]["labels"] = json!({"way": self.name});
        create(api, &node);
    }

    fn here(&self, mut pod: Value) -> Value {
        pod["spec"]["nodeSelector"] = json!({"way": self.name});
        pod
    }

    /// Creates the object and the first members.
    fn begins(&self, api: &ApiClient, group: Group, n_members: usize) {
        let object = (self.object)(&self.called(group.0), group.1);
        if !object.is_null() {
            create(api, &object);
        }
        (0..n_members).for_each(|at| self.member(api, group, at));
    }

    fn member(&self, api: &ApiClient, group: Group, at: usize) {
        let (name, n, gpus) = group;
        let mut pod = self.here(gpu_pod(&self.pod(group, at), gpus));
        (self.joins)(&mut pod, &self.called(name), at, n);
        create(api, &pod);
    }

    fn pod(&self, (group, ..): Group, at: usize) -> String {
        format!("{}-{at}", self.called(group))
    }

    fn is_whole(&self, api: &ApiClient, group: Group) {
        (0..group.1).for_each(|at| drop(bound(api, &self.pod(group, at))));
        self.object_says(api, group, Phase::Placed);
    }

    /// All members were bound by one commit, of the object if there is one.
    fn is_one_commit(&self, api: &ApiClient, group: Group) {
        let object = (self.object)(&self.called(group.0), group.1);
        let of = match object.is_null() {
            true => None,
            false => api.get(&path(&object)).expect("the group")["metadata"]["uid"]
                .as_str()
                .map(str::to_owned),
        };
        let plan = |at| {
            let pod = read(api, &self.pod(group, at));
            pod["metadata"]["annotations"]["berth.dev/plan"].as_str().unwrap_or_default().to_owned()
        };
        let plans: Vec<String> = (0..group.1).map(plan).collect();
        assert!(plans.iter().all(|plan| *plan == plans[0]), "{plans:?}");
        // Which attempt it was hangs on what Berth knew of the nodes when it heard of the pods.
        let note = PlanNote::parse(&plans[0]).expect("a plan");
        assert_eq!(note.members as usize, group.1, "{plans:?}");
        assert!(of.is_none_or(|uid| *note.group == *uid), "{plans:?}");
    }

    fn has_no_node(&self, api: &ApiClient, group: Group, n_members: usize) {
        for at in 0..n_members {
            let name = self.pod(group, at);
            assert_eq!(node_of(api, &name), None, "{name}");
        }
    }

    fn is_short(&self, api: &ApiClient) {
        let lacks = self.lacks.replace("{}", &self.called(SHORT.0));
        for at in 0..2 {
            let condition = told(api, &self.pod(SHORT, at), "NotReadyForScheduling");
            assert_eq!(condition["message"], lacks, "{}", self.name);
        }
        self.object_says(api, SHORT, Phase::Gathers);
        self.has_no_node(api, SHORT, 2);
    }

    fn is_too_large(&self, api: &ApiClient) {
        for at in 0..2 {
            let condition = told(api, &self.pod(LARGE, at), "Unschedulable");
            let message = condition["message"].as_str().unwrap_or_default();
            let numbers = "the group needs room for 2 pods with 2 nvidia.com/gpu each; \
                           there is room for 1";
            assert!(message.contains(numbers), "{}: {message}", self.name);
        }
        self.object_says(api, LARGE, Phase::LacksRoom);
        self.has_no_node(api, LARGE, 2);
    }

    /// The object has this status and nothing beside it, and is otherwise as it was made.
    fn object_says(&self, api: &ApiClient, group: Group, phase: Phase) {
        let object = (self.object)(&self.called(group.0), group.1);
        if object.is_null() {
            return;
        }
        let wanted = self.statuses[phase as usize]();
        let path = path(&object);
        wait_for(SOON, &format!("{path} says {wanted}"), || {
            let now = api.get(&path).ok()?;
            (without_texts(&now["status"]) == wanted).then_some(())
        });
        let now = api.get(&path).expect("the group");
        for (key, value) in object["spec"].as_object().expect("a spec") {
            assert_eq!(&now["spec"][key], value, "{path}: {key}");
        }
    }
}

fn path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let name = text(&object["metadata"]["name"]);
    format!("/apis/{}/namespaces/default/podgroups/{name}", text(&object["apiVersion"]))
}

/// A status with what differs from run to run left out: each must be there in every condition.
fn without_texts(status: &Value) -> Value {
    let mut status = status.clone();
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let condition = condition.as_object_mut().expect("a condition");
        for key in ["message", "lastTransitionTime"] {
            if condition.remove(key).is_none_or(|text| text == "") {
                condition.insert(key.to_owned(), json!("is missing"));
            }
        }
    }
    status
}

#[test]
fn groups_of_custom_resources_and_of_plain_pods_are_bound_whole() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    ["coscheduling", "volcano"].iter().for_each(|dialect| define(&api, &crd(dialect)));
    let dialects = "profiles: [{pluginConfig: [{name: GangScheduling, args: \
                    {dialects: [coscheduling, volcano, kueue]}}]}]\n";
    let berth = Berth::start(&stand, &format!("{FAST}{dialects}"));
    play(&api, &ways::all());
    assert_eq!(berth.terminate(), Some(0));
}
