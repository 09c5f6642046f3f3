//! Tokens that are no longer good, and rights that are taken away.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use berth_stand::{Authorization, Patch, User, try_wait_for};
use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::objects::{gpu_pod, scheduled_condition};
use crate::proxy::{Exchange, Fault, Requests, Rule};
use crate::scene::{Scene, check};
use crate::scheduler::Program;
use crate::stage::{REPLICAS, Setting};

/// The old token is refused so long before there is another.
const REFUSED: Duration = Duration::from_millis(1500);
/// Requests with a refused token in that time: a loop without pauses makes thousands.
const REFUSALS_MAX: u64 = 200;

pub(super) const TOKEN: Row = Row {
    id: "F12",
    title: "the token is refused, and 1.5 s later the file has another",
    must: "read the file again and go on, without a crash, a loop or a new list",
    prepare: |scene| {
        scene.nodes(4, 8)?;
        for user in ["replica-1", "replica-2"] {
            // Makes the token known to the proxy.
            scene.proxy.kubeconfig(&scene.stand, user)?;
        }
        let path = kubeconfig(scene)?;
        write_token(scene, "replica-1")?;
        let config = json!({"clientConnection": {"kubeconfig": path}});
        scene.start_scheduler_with(1, config, &[])?;
        scene.watching("replica-1")?;
        has_listed(scene)
    },
    waits: true,
    repeat: token,
    ..Row::PLAIN
};

/// Waits until all first lists are over: one that is begun with one token and ended with the other
/// would be taken for a new one. Whoever places a pod has begun them.
fn has_listed(scene: &Scene) -> Outcome {
    scene.create_pod("first", 1)?;
    scene.bound("first")?;
    let all_watched = || {
        let exchanges = scene.proxy.exchanges(0);
        let watched = |e: &Exchange| scene.proxy.watches(&e.asked.resource).n_open() > 0;
        let mut lists = exchanges.iter().filter(|e| e.asked.begins_watch());
        lists.all(watched).then_some(())
    };
    try_wait_for(SOON, "all that is listed is watched", all_watched)?;
    scene.delete_pod("first")
}

fn token_file(scene: &Scene) -> PathBuf {
    scene.proxy.folder().join("token")
}

fn write_token(scene: &Scene, user: &str) -> Outcome {
    let (path, new) = (token_file(scene), scene.proxy.folder().join("token-new"));
    fs::write(&new, scene.stand.token(user)).map_err(Failed::io("writing a token"))?;
    // At once, as a kubelet does it.
    fs::rename(&new, &path).map_err(Failed::io("swapping the token"))
}

/// The proxy's kubeconfig, with a file in the token's place.
fn kubeconfig(scene: &Scene) -> Outcome<PathBuf> {
    let written = scene.proxy.kubeconfig(&scene.stand, "replica-1")?;
    let text = fs::read_to_string(&written).map_err(Failed::io("reading a kubeconfig"))?;
    let unreadable = |_| Failed::Wrong("a kubeconfig of the proxy is no JSON".to_owned());
    let mut config: Value = serde_json::from_str(&text).map_err(unreadable)?;
    config["users"][0]["user"] = json!({"tokenFile": token_file(scene)});
    let path = scene.proxy.folder().join("kubeconfig-with-token-file");
    fs::write(&path, config.to_string()).map_err(Failed::io("writing a kubeconfig"))?;
    Ok(path)
}

/// Two users of equal rights take turns.
fn token(scene: &mut Scene) -> Outcome {
    let old = scene.scheduler()?.user.clone();
    let new = if old == REPLICAS[0] { REPLICAS[1] } else { REPLICAS[0] };
    let refusal = Fault::Refuse { status: 401, retry_after_s: None };
    let refused = scene.proxy.inject(Rule::on(Requests::all().user(&old)).then(refusal));
    scene.create_burst(8)?;
    // A server that no longer knows the token ends what was begun with it.
    scene.proxy.watches("").user(&old).end();
    refused.wait_effective(1, SOON)?;
    // The fault's own length; nothing is awaited.
    std::thread::sleep(REFUSED);
    write_token(scene, new)?;
    new.clone_into(&mut scene.scheduler()?.user);
    scene.all_bound(SOON)?;
    scene.watching(new)?;
    scene.took_effect(1);
    let refused = refused.effective();
    check(refused <= REFUSALS_MAX, format!("{refused} requests were sent with a refused token"))
}

/// The schedulers may do what a role says, and no more.
const BY_ROLE: Setting = Setting {
    name: "by-role",
    election: None,
    options: |options| {
        options.authorization = Authorization::Rbac;
        let user = |name: &str| User { name: name.to_owned(), groups: Vec::new() };
        options.users = REPLICAS.map(user).to_vec();
    },
};

pub(super) const FORBIDDEN: Row = Row {
    id: "F13",
    // One repeat in three waits for a minute.
    once: true,
    title: "a right is taken away: to bind, to write conditions, to write events",
    must: "name it in the log, and where it keeps a pod waiting in the condition; go on with it",
    setting: BY_ROLE,
    prepare: |scene| {
        scene.nodes(4, 8)?;
        grant(scene)
    },
    repeat: forbidden,
    ..Row::PLAIN
};

/// Requests that are refused until the right is given back: whoever goes on at once makes hundreds.
const FORBIDDEN_MAX: usize = 50;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/campaign";

/// A right that can be taken away: resource, verb.
const RIGHTS: [(&str, &str); 3] =
    [("pods/binding", "create"), ("pods/status", "patch"), ("events", "create")];

fn rules_without(taken: Option<usize>) -> Value {
    let mut rules = vec![
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}),
        json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["patch"]}),
    ];
    for (n, (resource, verb)) in RIGHTS.iter().enumerate() {
        if taken != Some(n) {
            rules.push(json!({
                "apiGroups": ["", "events.k8s.io"], "resources": [resource], "verbs": [verb],
            }));
        }
    }
    json!(rules)
}

fn grant(scene: &Scene) -> Outcome {
    let group = "rbac.authorization.k8s.io";
    let api_version = format!("{group}/v1");
    if scene.api.find(ROLE)?.is_some() {
        return give(scene, None);
    }
    scene.create(&json!({
        "apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "campaign"},
        "rules": rules_without(None),
    }))?;
    scene.create(&json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "campaign"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "campaign"},
        "subjects": REPLICAS.map(|name| json!({"apiGroup": group, "kind": "User", "name": name})),
    }))?;
    has_right(scene, 0, true)
}

/// Changes the role, and waits until the server goes by it.
fn give(scene: &Scene, without: Option<usize>) -> Outcome {
    let rules = json!({"rules": rules_without(without)});
    scene.api.patch(ROLE, Patch::Merge, &rules)?;
    (0..RIGHTS.len()).try_for_each(|right| has_right(scene, right, without != Some(right)))
}

fn has_right(scene: &Scene, right: usize, wanted: bool) -> Outcome {
    let (resource, verb) = RIGHTS[right];
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "namespace": "default", "resource": resource, "subresource": subresource, "verb": verb,
        }},
    });
    let client = scene.stand.client_as(REPLICAS[0])?;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let goes_by_it =
        || (client.create(path, &review).ok()?["status"]["allowed"] == wanted).then_some(());
    Ok(try_wait_for(SOON, &format!("{verb} {resource} is {wanted}"), goes_by_it)?)
}

fn forbidden(scene: &mut Scene) -> Outcome {
    let right = scene.repeat() as usize % RIGHTS.len();
    let (resource, verb) = RIGHTS[right];
    // A right is named once a minute; a new process has named none.
    scene.schedulers.clear();
    scene.start_watching_scheduler()?;
    let (from, written) = (scene.proxy.n_exchanges(), scene.scheduler()?.log().len());
    give(scene, Some(right))?;
    scene.create_pod("fits", 1)?;
    scene.create_pod("too-large", 9)?;
    let happened = || (n_forbidden(scene, from) > 0).then_some(());
    try_wait_for(SOON, "a request is forbidden", happened)?;
    scene.took_effect(1);
    if scene.program == Program::Berth {
        let named = format!("cannot {verb} resource {resource}");
        let scheduler = scene.scheduler()?;
        let in_log = || {
            scheduler.log().get(written..)?.replace(['"', '\\'], "").contains(&named).then_some(())
        };
        try_wait_for(SOON, &format!("the log says: {named}"), in_log)?;
    }
    if resource == "pods/binding" {
        binding_is_named(scene)?;
    } else {
        scene.bound("fits")?;
    }
    let n = n_forbidden(scene, from);
    check(n < FORBIDDEN_MAX, format!("{n} requests were sent without the right"))?;
    give(scene, None)?;
    scene.bound("fits")?;
    conditions_go_on(scene, resource == "pods/status")?;
    if resource == "events" { events_go_on(scene) } else { Ok(()) }
}

fn n_forbidden(scene: &Scene, from: usize) -> usize {
    scene.proxy.count(from, |e| e.asked.user == REPLICAS[0] && e.server == Some(403))
}

/// The pod that waits for nothing else is told why.
fn binding_is_named(scene: &Scene) -> Outcome {
    let told = || {
        let condition = scheduled_condition(&scene.read_pod("fits").ok()?);
        condition["message"].as_str()?.contains("pods/binding").then_some(())
    };
    Ok(try_wait_for(SOON, "the condition names pods/binding", told)?)
}

/// A condition that was forbidden is written again a minute later: that is awaited once.
fn conditions_go_on(scene: &Scene, was_forbidden: bool) -> Outcome {
    if was_forbidden && scene.repeat() as usize >= RIGHTS.len() {
        scene.create_pod("also-too-large", 9)?;
        return scene.told("also-too-large", "Unschedulable").map(drop);
    }
    let told = || {
        let condition = scheduled_condition(&scene.read_pod("too-large").ok()?);
        (condition["reason"] == "Unschedulable").then_some(())
    };
    Ok(try_wait_for(SOON * 2, "a condition that was forbidden is written", told)?)
}

/// What happens from now on has its event.
fn events_go_on(scene: &Scene) -> Outcome {
    let pod = scene.create(&gpu_pod("later", 1))?;
    let uid = &pod["metadata"]["uid"];
    let told = || {
        let events = scene.api.list("/apis/events.k8s.io/v1/namespaces/default/events").ok()?;
        events.iter().any(|event| event["regarding"]["uid"] == *uid).then_some(())
    };
    Ok(try_wait_for(SOON, "later has an event", told)?)
}
