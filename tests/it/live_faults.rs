//! `berth run` when answers are lost, replaced or late. None of it may double-book a node.
//!
//! Source: facts about kube-scheduler 1.37 under the same faults; it double-books in the first.

use std::time::Duration;

use berth_faults::proxy::{Ending, Exchange, Fault, Injection, Proxy, Requests, Rule};
use berth_stand::{ADMIN, ApiClient, Options, Stand};

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, event, gpu_node, gpu_pod, node_of, told};

struct Scene {
    stand: Stand,
    proxy: Proxy,
    api: ApiClient,
}

impl Scene {
    /// One node with 8 GPUs.
    fn start() -> Option<Scene> {
        let stand = Stand::start_or_skip(&Options::default())?;
        let proxy = Proxy::start(&stand).expect("a proxy");
        let api = stand.client();
        create(&api, &gpu_node("n-1", 8));
        Some(Scene { stand, proxy, api })
    }

    fn berth(&self) -> Berth {
        let kubeconfig = self.proxy.kubeconfig(&self.stand, ADMIN).expect("a kubeconfig");
        Berth::start_with(self.stand.folder(), &kubeconfig, FAST, &[])
    }

    fn on_first_bind(&self, pod: &str, fault: Fault) -> Injection {
        self.proxy.inject(Rule::on(Requests::bind_of(pod).first()).then(fault))
    }

    /// Returns how often a pod's bind was sent.
    fn binds(&self, pod: &str) -> usize {
        let is_bind = |exchange: &Exchange| exchange.asked.is_bind() && exchange.asked.name == pod;
        self.proxy.count(0, is_bind)
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
    let api = &scene.api;
    let answer =
        Rule::on(Requests::bind_of("a").first()).hold().then(Fault::CutAnswer(Ending::Close));
    let cut = scene.proxy.inject(answer);
    let berth = scene.berth();
    create(api, &gpu_pod("a", 8));
    cut.wait_held(SOON).expect("a's bind");
    create(api, &gpu_pod("b", 8));
    // Berth must know of b before a's answer is lost.
    told(api, "b", "Unschedulable");
    let late = scene.proxy.watches("pods").late(Duration::from_secs(3));
    cut.release();
    assert_eq!(bound(api, "a"), "n-1");
    // The event comes only when the bind is settled.
    event(api, "a", "Scheduled");
    assert_eq!(cut.effective(), 1);
    assert_eq!(node_of(api, "b"), None);
    drop(late);
    scene.forget(&["a"]);
    bound(api, "b");
    assert_eq!(scene.binds("b"), 1);
    scene.forget(&["b"]);
    assert_eq!(berth.terminate(), Some(0));
}

fn a_request_that_was_lost_is_fenced_off_and_sent_again(scene: &Scene) {
    let cut = scene.on_first_bind("c", Fault::CutRequest(Ending::Close));
    let berth = scene.berth();
    create(&scene.api, &gpu_pod("c", 8));
    bound(&scene.api, "c");
    let about = scene.proxy.exchanges(0).into_iter().map(|exchange| exchange.asked);
    let verbs: Vec<String> = about
        .filter(|asked| asked.resource == "pods" && asked.name == "c")
        .map(|asked| format!("{} {}", asked.method, asked.subresource))
        .collect();
    assert_eq!(verbs[..3], ["POST binding", "GET ", "PATCH status"], "{verbs:?}");
    assert_eq!(verbs.last().map(String::as_str), Some("POST binding"), "{verbs:?}");
    assert_eq!(cut.effective(), 1);
    scene.forget(&["c"]);
    assert_eq!(berth.terminate(), Some(0));
}

fn a_409_of_a_bind_that_was_done_is_read_and_believed(scene: &Scene) {
    let _replaced = scene.on_first_bind("d", Fault::ReplaceStatus(409));
    let berth = scene.berth();
    create(&scene.api, &gpu_pod("d", 8));
    event(&scene.api, "d", "Scheduled");
    assert_eq!(node_of(&scene.api, "d").as_deref(), Some("n-1"));
    assert_eq!(scene.binds("d"), 1);
    scene.forget(&["d"]);
    drop(berth);
}

fn a_500_of_a_bind_that_was_done_is_settled(scene: &Scene) {
    let _replaced = scene.on_first_bind("e", Fault::ReplaceStatus(500));
    let berth = scene.berth();
    create(&scene.api, &gpu_pod("e", 8));
    event(&scene.api, "e", "Scheduled");
    assert_eq!(scene.binds("e"), 1);
    scene.forget(&["e"]);
    drop(berth);
}

fn a_full_server_is_asked_again(scene: &Scene) {
    let full = Fault::Refuse { status: 429, retry_after_s: Some(1) };
    let _refused = scene.on_first_bind("f", full);
    let berth = scene.berth();
    create(&scene.api, &gpu_pod("f", 8));
    bound(&scene.api, "f");
    assert_eq!(scene.binds("f"), 2);
    assert!(berth.log().contains("the server is full"));
    scene.forget(&["f"]);
}

fn a_refused_bind_frees_the_place(scene: &Scene) {
    let never = Fault::Refuse { status: 403, retry_after_s: None };
    let _refused = scene.proxy.inject(Rule::on(Requests::bind_of("g")).then(never));
    let berth = scene.berth();
    create(&scene.api, &gpu_pod("g", 8));
    let condition = told(&scene.api, "g", "SchedulerError");
    assert!(condition["message"].as_str().is_some_and(|m| m.contains("binding rejected")));
    create(&scene.api, &gpu_pod("h", 8));
    bound(&scene.api, "h");
    // It backs off instead of hammering the server.
    assert!(scene.binds("g") < 10);
    assert_eq!(berth.terminate(), Some(0));
}
