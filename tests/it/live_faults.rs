//! `berth run` when answers are lost, replaced or late. None of it may double-book a node.
//!
//! Source: facts about kube-scheduler 1.37 under the same faults; it double-books in the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_stand::{ApiClient, Options, Stand};

use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, event, gpu_node, gpu_pod, node_of, told};
use crate::support::proxy::{Fault, Proxy, Rule};

/// Does `first` to the first request whose line is `POST …/pods/<pod>/binding`.
fn on_first_bind(
    pod: &'static str,
    first: impl Fn() -> Fault + Send + Sync + 'static,
) -> Box<Rule> {
    let seen = AtomicBool::new(false);
    let at = format!("/pods/{pod}/binding");
    Box::new(move |line| {
        let is_bind = line.starts_with("POST") && line.contains(&at);
        match is_bind && !seen.swap(true, Ordering::SeqCst) {
            true => first(),
            false => Fault::None,
        }
    })
}

struct Scene {
    stand: Stand,
    api: ApiClient,
    late: Arc<AtomicBool>,
}

impl Scene {
    /// One node with 8 GPUs.
    fn start() -> Option<Scene> {
        let stand = Stand::start_or_skip(&Options::default())?;
        let api = stand.client();
        create(&api, &gpu_node("n-1", 8));
        Some(Scene { stand, api, late: Arc::default() })
    }

    fn proxied(&self, rule: Box<Rule>) -> (Proxy, Berth) {
        let proxy = Proxy::start(&self.stand, Arc::clone(&self.late), rule);
        let berth = Berth::start_with(self.stand.folder(), proxy.kubeconfig(), FAST, &[]);
        (proxy, berth)
    }

    fn forget(&self, pods: &[&str]) {
        for pod in pods {
            let path = format!("/api/v1/namespaces/default/pods/{pod}");
            self.api.delete_now(&path).expect("the pod is deleted");
        }
    }
}

#[test]
fn faults_of_binds_double_book_nothing() {
    let Some(scene) = Scene::start() else { return };
    a_lost_answer_keeps_the_place(&scene);
    a_request_that_was_lost_is_fenced_off_and_sent_again(&scene);
    a_409_of_a_bind_that_was_done_is_read_and_believed(&scene);
    a_500_of_a_bind_that_was_done_is_settled(&scene);
    a_full_server_is_asked_again(&scene);
    a_refused_bind_frees_the_place(&scene);
}

/// F14: the bind of `a` is committed, its answer cut, the pods watch late, and `b` waits already.
fn a_lost_answer_keeps_the_place(scene: &Scene) {
    let (api, late) = (scene.api.clone(), Arc::clone(&scene.late));
    let (proxy, berth) = scene.proxied(on_first_bind("a", move || {
        create(&api, &gpu_pod("b", 8));
        // Berth must know of b before a's answer is lost.
        told(&api, "b", "Unschedulable");
        late.store(true, Ordering::SeqCst);
        Fault::CutAnswer
    }));
    let api = &scene.api;
    create(api, &gpu_pod("a", 8));
    assert_eq!(bound(api, "a"), "n-1");
    // The event comes only when the bind is settled.
    event(api, "a", "Scheduled");
    assert_eq!(node_of(api, "b"), None);
    scene.late.store(false, Ordering::SeqCst);
    scene.forget(&["a"]);
    bound(api, "b");
    assert_eq!(proxy.lines_about("b/binding").len(), 1);
    scene.forget(&["b"]);
    assert_eq!(berth.terminate(), Some(0));
}

fn a_request_that_was_lost_is_fenced_off_and_sent_again(scene: &Scene) {
    let (proxy, berth) = scene.proxied(on_first_bind("c", || Fault::CutRequest));
    create(&scene.api, &gpu_pod("c", 8));
    bound(&scene.api, "c");
    let verbs: Vec<String> = proxy
        .lines_about("c")
        .iter()
        .map(|line| line.split(['?', ' ']).take(2).collect::<Vec<_>>().join(" "))
        .map(|line| line.replace("/api/v1/namespaces/default/pods/", ""))
        .collect();
    let fenced = ["POST c/binding", "GET c", "PATCH c/status"];
    assert_eq!(verbs[..3], fenced, "{verbs:?}");
    assert_eq!(verbs.last().map(String::as_str), Some("POST c/binding"), "{verbs:?}");
    scene.forget(&["c"]);
    assert_eq!(berth.terminate(), Some(0));
}

fn a_409_of_a_bind_that_was_done_is_read_and_believed(scene: &Scene) {
    let (proxy, berth) = scene.proxied(on_first_bind("d", || Fault::ReplaceAnswer(409)));
    create(&scene.api, &gpu_pod("d", 8));
    event(&scene.api, "d", "Scheduled");
    assert_eq!(node_of(&scene.api, "d").as_deref(), Some("n-1"));
    assert_eq!(proxy.lines_about("d/binding").len(), 1);
    scene.forget(&["d"]);
    drop(berth);
}

fn a_500_of_a_bind_that_was_done_is_settled(scene: &Scene) {
    let (proxy, berth) = scene.proxied(on_first_bind("e", || Fault::ReplaceAnswer(500)));
    create(&scene.api, &gpu_pod("e", 8));
    event(&scene.api, "e", "Scheduled");
    assert_eq!(proxy.lines_about("e/binding").len(), 1);
    scene.forget(&["e"]);
    drop(berth);
}

fn a_full_server_is_asked_again(scene: &Scene) {
    let (proxy, berth) = scene.proxied(on_first_bind("f", || Fault::Refuse(429)));
    create(&scene.api, &gpu_pod("f", 8));
    bound(&scene.api, "f");
    assert_eq!(proxy.lines_about("f/binding").len(), 2);
    assert!(berth.log().contains("the server is full"));
    scene.forget(&["f"]);
}

fn a_refused_bind_frees_the_place(scene: &Scene) {
    let always = |line: &str| match line.contains("/pods/g/binding") {
        true => Fault::Refuse(403),
        false => Fault::None,
    };
    let (proxy, berth) = scene.proxied(Box::new(always));
    create(&scene.api, &gpu_pod("g", 8));
    let condition = told(&scene.api, "g", "SchedulerError");
    assert!(condition["message"].as_str().is_some_and(|m| m.contains("binding rejected")));
    create(&scene.api, &gpu_pod("h", 8));
    bound(&scene.api, "h");
    // It backs off instead of hammering the server.
    assert!(proxy.lines_about("g/binding").len() < 10);
    assert_eq!(berth.terminate(), Some(0));
}
