//! `berth run` with leader election: who leads, who takes over when, and who writes nothing more.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_faults::proxy::{Exchange, Proxy};
use berth_stand::{ADMIN, ApiClient, KubeScheduler, Options, Patch, Stand, wait_for};
use serde_json::{Value, json};

use crate::support::SOON;
use crate::support::berth::{Berth, signal};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, node_of};

/// A killed leader's Lease of 3 s expires; the rest is a busy machine's. With the default of 15 s
/// the same rule gives less than 20 s.
const TAKEOVER: Duration = Duration::from_secs(8);
const TAKEOVER_AFTER_RELEASE: Duration = Duration::from_secs(1);

/// One Lease in the smallest times that whole seconds allow.
fn config(lease: &str) -> String {
    format!(
        "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: 2000, burst: 2000}}
leaderElection:
  {{leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms, resourceName: {lease}}}
"
    )
}

struct Scene {
    stand: Stand,
    api: ApiClient,
    lease: &'static str,
}

impl Scene {
    fn path(&self) -> String {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        format!("{leases}/{}", self.lease)
    }

    /// Returns the spec of the Lease; null if there is none.
    fn spec(&self) -> Value {
        let found = self.api.find(&self.path()).expect("an answer");
        found.map(|mut lease| lease["spec"].take()).unwrap_or_default()
    }

    /// Returns the events about the Lease.
    fn events(&self) -> Vec<Value> {
        let path = "/api/v1/namespaces/kube-system/events";
        let mut events = self.api.list(path).expect("events");
        events.retain(|event| event["involvedObject"]["name"] == self.lease);
        events
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.stand.folder().join(format!("{}-{name}", self.lease));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// Starts a Berth that leads.
    fn leader(&self, name: &str) -> Berth {
        let berth = self.candidate(name);
        leads(&berth);
        berth
    }

    /// Starts a Berth that stands by, with its ledger warm.
    fn standby(&self, name: &str) -> Berth {
        let berth = self.candidate(name);
        stands_by(&berth);
        berth
    }

    fn candidate(&self, name: &str) -> Berth {
        let kubeconfig = self.stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
        Berth::start_with(&self.folder(name), &kubeconfig, &config(self.lease), &[])
    }

    fn kube_scheduler(&self) -> KubeScheduler {
        let path = self.folder("kube-scheduler").join("config.yaml");
        fs::write(&path, config(self.lease)).expect("the configuration is written");
        KubeScheduler::start_electing(&self.stand, Some(&path), vec!["--secure-port=0".to_owned()])
            .expect("it starts")
    }

    /// Creates a pod, waits until it is bound, and returns the holder, which is the same before and
    /// after.
    fn bound_under(&self, pod: &str) -> String {
        let before = self.holder();
        create(&self.api, &gpu_pod(pod, 0));
        bound(&self.api, pod);
        assert_eq!(self.holder(), before, "the Lease changed hands while {pod} was bound");
        before
    }
}

fn leads(berth: &Berth) {
    let leading = || berth.log().contains(" leading ").then_some(());
    wait_for(SOON, "berth leads", leading);
}

fn stands_by(berth: &Berth) {
    wait_for(SOON, "berth watches", || {
        let log = berth.log();
        let warm = log.contains("resource=nodes synced=true");
        (warm && log.contains("the Lease has a holder")).then_some(())
    });
    assert!(!berth.log().contains(" leading "));
}

/// Waits until its log says that it has bound the pod: the server says so a moment earlier.
#[track_caller]
fn has_bound(berth: &Berth, pod: &str) {
    wait_for(SOON, &format!("its binder tells of {pod}"), || bound_by(berth, pod).then_some(()));
}

/// Its log says so of each pod that it binds.
fn bound_by(berth: &Berth, pod: &str) -> bool {
    berth.log().contains(&format!("scheduled pod=default/{pod} "))
}

#[test]
fn one_leads_and_another_takes_over() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    let scene = |lease| Scene { stand, api, lease };
    let scene = a_killed_leader_is_replaced(scene("killed"));
    let scene = a_leader_that_ends_releases(Scene { lease: "released", ..scene });
    let scene = who_loses_the_lease_ends(Scene { lease: "edited", ..scene });
    let scene = who_slept_through_the_lease_writes_nothing(Scene { lease: "slept", ..scene });
    berth_and_kube_scheduler_never_both_lead(Scene { lease: "shared", ..scene });
}

fn a_killed_leader_is_replaced(scene: Scene) -> Scene {
    let leader = scene.leader("1");
    let standby = scene.standby("2");
    scene.bound_under("kill-1");
    has_bound(&leader, "kill-1");
    assert!(!bound_by(&standby, "kill-1"));
    leader.signal("KILL");
    assert_eq!(leader.exit_code(), None);
    let killed = Instant::now();
    create(&scene.api, &gpu_pod("kill-2", 0));
    bound(&scene.api, "kill-2");
    assert!(killed.elapsed() < TAKEOVER, "{:?}", killed.elapsed());
    assert_eq!(scene.spec()["leaseTransitions"], 1);
    assert_eq!(standby.terminate(), Some(0));
    assert_eq!(scene.holder(), "");
    scene
}

fn a_leader_that_ends_releases(scene: Scene) -> Scene {
    let leader = scene.leader("1");
    let standby = scene.standby("2");
    let before = scene.holder();
    assert_eq!(leader.terminate(), Some(0));
    let released = Instant::now();
    wait_for(SOON, "the standby leads", || {
        let holder = scene.holder();
        (!holder.is_empty() && holder != before).then_some(())
    });
    assert!(released.elapsed() < TAKEOVER_AFTER_RELEASE, "{:?}", released.elapsed());
    scene.bound_under("release");
    has_bound(&standby, "release");
    assert_eq!(standby.terminate(), Some(0));
    let said = format!("{before} stopped leading");
    let events = scene.events();
    assert!(events.iter().any(|event| event["message"] == said.as_str()), "{events:?}");
    scene
}

fn who_loses_the_lease_ends(scene: Scene) -> Scene {
    let leader = scene.leader("1");
    scene.bound_under("edit-1");
    let taken = json!({"spec": {"holderIdentity": "somebody"}});
    scene.api.patch(&scene.path(), Patch::Merge, &taken).expect("the Lease is edited");
    let log = scene.folder("1").join("berth.log");
    assert_eq!(leader.exit_code(), Some(1));
    let log = fs::read_to_string(log).expect("its log");
    assert!(log.ends_with("error: lost the Lease: somebody holds it\n"), "{log}");
    assert_eq!(scene.holder(), "somebody");
    create(&scene.api, &gpu_pod("edit-2", 0));
    // The next one must wait until the Lease expires.
    let next = scene.leader("2");
    bound(&scene.api, "edit-2");
    has_bound(&next, "edit-2");
    assert_eq!(next.terminate(), Some(0));
    scene
}

/// F36: stopped for longer than the Lease lives, with work waiting when it wakes.
fn who_slept_through_the_lease_writes_nothing(scene: Scene) -> Scene {
    let proxy = Proxy::start(&scene.stand).expect("a proxy");
    let kubeconfig = proxy.kubeconfig(&scene.stand, ADMIN).expect("a kubeconfig");
    let folder = scene.folder("1");
    let sleeper = Berth::start_with(&folder, &kubeconfig, &config(scene.lease), &[]);
    leads(&sleeper);
    let before = scene.holder();
    sleeper.signal("STOP");
    // Nobody binds them before it wakes.
    (0..20).for_each(|n| drop(create(&scene.api, &gpu_pod(&format!("sleep-{n}"), 0))));
    let expired = Instant::now();
    wait_for(SOON, "the Lease expires", || {
        (expired.elapsed() > Duration::from_secs(3)).then_some(())
    });
    let writes = || proxy.count(0, |exchange: &Exchange| exchange.asked.is_write());
    let written = writes();
    sleeper.signal("CONT");
    assert_eq!(sleeper.exit_code(), Some(1));
    assert_eq!(writes(), written);
    assert_eq!(node_of(&scene.api, "sleep-0"), None);
    assert_eq!(scene.holder(), before);
    let next = scene.leader("2");
    (0..20).for_each(|n| drop(bound(&scene.api, &format!("sleep-{n}"))));
    assert_eq!(next.terminate(), Some(0));
    scene
}

fn berth_and_kube_scheduler_never_both_lead(scene: Scene) {
    let mut theirs = scene.kube_scheduler();
    wait_for(SOON, "kube-scheduler leads", || (!scene.holder().is_empty()).then_some(()));
    let berth = scene.standby("1");
    let kube = scene.bound_under("both-1");
    assert!(!bound_by(&berth, "both-1"));

    signal(theirs.pid(), "TERM");
    wait_for(SOON, "kube-scheduler ends", || theirs.has_ended().then_some(()));
    let released = Instant::now();
    leads(&berth);
    assert!(released.elapsed() < TAKEOVER_AFTER_RELEASE, "{:?}", released.elapsed());
    let theirs = scene.kube_scheduler();
    let ours = scene.bound_under("both-2");
    has_bound(&berth, "both-2");
    assert_ne!(ours, kube);
    assert_eq!(scene.spec()["leaseTransitions"], 1);

    one_tells_of_it_as_the_other(&scene, &kube, &ours);

    // Which is what a stopped machine looks like.
    berth.signal("STOP");
    create(&scene.api, &gpu_pod("both-3", 0));
    bound(&scene.api, "both-3");
    let again = scene.holder();
    assert!(again != ours && again != kube);
    berth.signal("CONT");
    assert_eq!(berth.exit_code(), Some(1));
    assert_eq!(scene.bound_under("both-4"), again);
    drop(theirs);
}

/// The events about who leads are the same but for who, when and which version.
fn one_tells_of_it_as_the_other(scene: &Scene, kube: &str, ours: &str) {
    let shape = |who: &str| {
        let mut event = wait_for(SOON, "an event about the Lease", || {
            let said = format!("{who} became leader");
            scene.events().into_iter().find(|event| event["message"] == said.as_str())
        });
        event["message"].take();
        event["firstTimestamp"].take();
        event["lastTimestamp"].take();
        event["involvedObject"]["resourceVersion"].take();
        let name = event["metadata"]["name"].take();
        let digits = name.as_str().and_then(|name| name.strip_prefix("shared."));
        assert!(digits.is_some_and(|digits| digits.len() == 16), "{name}");
        event["metadata"] = json!({"namespace": event["metadata"]["namespace"]});
        event
    };
    assert_eq!(shape(ours), shape(kube));
}

#[test]
fn delayed_watches_begin_with_the_leadership() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    let scene = Scene { stand, api, lease: "delayed" };
    let leader = scene.leader("1");
    let kubeconfig = scene.stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let delayed = format!("{}delayCacheUntilActive: true\n", config(scene.lease));
    let standby = Berth::start_with(&scene.folder("2"), &kubeconfig, &delayed, &[]);
    let told = || standby.log().contains("the Lease has a holder").then_some(());
    wait_for(SOON, "the standby looks at the Lease", told);
    // Of groups it is only said that nothing is known as yet.
    let log = standby.log();
    let watched = |line: &&str| line.contains("resource=") && !line.contains("podgroups");
    assert!(log.lines().find(watched).is_none(), "{log}");
    assert_eq!(leader.terminate(), Some(0));
    leads(&standby);
    scene.bound_under("delayed");
    assert_eq!(standby.terminate(), Some(0));
}
