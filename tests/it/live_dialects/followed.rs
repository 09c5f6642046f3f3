//! Watches as `berth run` has them, into a ledger that tests can look at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth::live::client::{Answer, Api, Call, SendError, Target};
use berth::live::dialects::Dialects;
use berth::live::rate::TokenBucket;
use berth::live::request::{self, About};
use berth::live::watch::{Pace, Reporter, Source, Watch};
use berth::wire::dialect::DialectDef;
use berth::wire::{Kind, Tables};
use berth_core::engine::Input;
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKey, GroupKind, GroupPhase, GroupTold, PodGroup};
use berth_core::types::{Pod, Span, TopologyKey, TopologyObject};
use berth_stand::{Stand, wait_for};
use k8s_openapi::jiff;
use tokio::runtime::Runtime;

use crate::support::SOON;

/// What was told so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) groups: BTreeMap<GroupKey, PodGroup>,
    pub(super) topologies: BTreeMap<TopologyKey, TopologyObject>,
    /// By name.
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) served: BTreeMap<&'static str, bool>,
    pub(super) synced: BTreeSet<String>,
    pub(super) awaited: BTreeSet<String>,
}

impl Known {
    fn hear(&mut self, input: Input) {
        match input {
            Input::Watch { kind, synced } => {
                let (to, from) = match synced {
                    true => (&mut self.synced, &mut self.awaited),
                    false => (&mut self.awaited, &mut self.synced),
                };
                from.remove(kind.as_str());
                to.insert(kind.to_string());
            }
            Input::Cluster(ClusterEvent::PodApplied(pod)) => {
                self.pods.insert(pod.name.to_string(), *pod);
            }
            Input::Cluster(ClusterEvent::Groups(event)) => match event {
                GroupEvent::Applied(group) => drop(self.groups.insert(group.key.clone(), *group)),
                GroupEvent::Deleted { key, .. } => drop(self.groups.remove(&key)),
                GroupEvent::Served { dialect, served } => drop(self.served.insert(dialect, served)),
                GroupEvent::TopologyApplied(object) => {
                    self.topologies.insert(object.key.clone(), *object);
                }
                GroupEvent::TopologyDeleted { key, .. } => drop(self.topologies.remove(&key)),
            },
            other => panic!("unexpected: {other:?}"),
        }
    }
}

pub(super) struct Followed {
    inputs: Mutex<Receiver<Input>>,
    known: Mutex<Known>,
    api: Api,
    pub(super) dialects: Dialects,
    pub(super) tables: Arc<Mutex<Tables>>,
    runtime: Runtime,
}

impl Followed {
    /// Watches pods and the groups of these dialects.
    pub(super) fn start(stand: &Stand, user: &str, dialects: &[&str]) -> Followed {
        Followed::with(stand.kubeconfig_path(user).expect("a kubeconfig"), dialects)
    }

    pub(super) fn with(kubeconfig: PathBuf, dialects: &[&str]) -> Followed {
        let runtime = Runtime::new().expect("a runtime");
        let target = Target { kubeconfig: Some(kubeconfig), master: None };
        let api = runtime.block_on(Api::new(&target)).expect("a client");
        let (sink, inputs) = channel();
        let pace = Pace { look_again: Duration::from_millis(200), ..Pace::default() };
        let tables: Arc<Mutex<Tables>> = Arc::default();
        let source = Source {
            api: api.clone(),
            rate: Arc::new(TokenBucket::new(-1.0, 1)),
            tables: Arc::clone(&tables),
            sink: sink.clone(),
            pace,
            led: tokio::sync::watch::channel(true).1,
            reporter: Reporter::default(),
        };
        let named = |name: &&str| DialectDef::named(name).expect("a dialect");
        let dialects = Dialects::new(dialects.iter().map(named).collect(), None);
        dialects.announce(&sink);
        runtime.spawn(Watch::new(source.clone(), Kind::Pod).run());
        runtime.spawn(dialects.clone().run(source));
        let (inputs, known) = (Mutex::new(inputs), Mutex::default());
        Followed { inputs, known, api, dialects, tables, runtime }
    }

    /// Returns what is known by now.
    pub(super) fn now(&self) -> Known {
        let mut known = self.known.lock().expect("one thread");
        for input in self.inputs.lock().expect("one thread").try_iter() {
            known.hear(input);
        }
        known.clone()
    }

    #[track_caller]
    pub(super) fn until<T>(&self, what: &str, mut look: impl FnMut(&Known) -> Option<T>) -> T {
        wait_for(SOON, what, || look(&self.now()))
    }

    #[track_caller]
    pub(super) fn group(&self, kind: GroupKind, name: &str) -> PodGroup {
        self.until(name, |known| {
            let found = |key: &&GroupKey| key.kind == kind && *key.name == *name;
            known.groups.keys().find(found).map(|key| known.groups[key].clone())
        })
    }

    #[track_caller]
    pub(super) fn pod(&self, name: &str) -> Pod {
        self.until(name, |known| known.pods.get(name).cloned())
    }

    /// Returns what the pod says, as `dialect: name of so many as role`.
    #[track_caller]
    pub(super) fn hints(&self, name: &str) -> Vec<String> {
        let pod = self.pod(name);
        let said = pod.group_hints().iter().map(|hint| {
            let of = hint.min_member.map(|n| format!(" of {n}")).unwrap_or_default();
            let role = hint.role.as_ref().map(|role| format!(" as {role}")).unwrap_or_default();
            format!("{}: {}{of}{role}", hint.dialect.name, hint.name)
        });
        said.collect()
    }

    /// Returns what is known of a group, as the engine's thread would look it up.
    pub(super) fn about(&self, key: &GroupKey) -> About {
        let known = self.now();
        let object = known.groups.get(key).expect("a known group");
        let phase = object.told.as_ref().map(|told| told.phase);
        About { phase, resource_version: object.resource_version, ..About::default() }
    }

    /// Builds a request as the dispatcher does.
    pub(super) fn call(&self, op: &Op, about: About) -> Result<Call, String> {
        request::call(op, Span::from_secs(5), about, jiff::Timestamp::now(), &self.dialects)
    }

    /// Sends it, once it is known that it is ours to tell.
    pub(super) fn send(&self, op: &Op, about: About) -> Result<Answer, SendError> {
        let call = wait_for(SOON, "it is ours to tell", || self.call(op, about).ok());
        self.runtime.block_on(self.api.call(&call, SOON))
    }
}

pub(super) fn told(phase: GroupPhase, message: &str) -> GroupTold {
    GroupTold { phase, message: message.into(), scheduled: 1 }
}

pub(super) fn tell(group: &PodGroup, told: GroupTold) -> Op {
    Op::TellGroup { group: group.key.clone(), uid: group.uid.clone(), told }
}
