//! What a row acts on: a control plane behind a proxy, an auditor that follows it, and schedulers.
//!
//! A scene serves many repeats, and several rows. What a row breaks it mends, or the scene is
//! thrown away.

mod asking;
mod devices;
mod evidence;
mod gangs;
mod jobs;
mod lease;
mod quiet;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use berth_audit::{Auditor, Sources};
use berth_stand::{ApiClient, Patch, Stand, try_wait_for};
use serde_json::{Value, json};

use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::proxy::Proxy;
use crate::scheduler::{Launch, Program, Scheduler};
use crate::stage::{REPLICAS, Setting};

use devices::SLICES;

pub use asking::check;
pub use devices::{CLAIMS, allocated};
pub use jobs::JobController;
pub use lease::holder;

/// See the module. Fields end in this order.
pub struct Scene {
    /// Those that run, in the order of their start. Rows kill, stop and replace them.
    pub schedulers: Vec<Scheduler>,
    /// One that is not tried, for as long as the row.
    pub beside: Option<Scheduler>,
    pub proxy: Proxy,
    /// A client that is admin and goes past the proxy.
    pub api: ApiClient,
    auditor: Auditor,
    pub stand: Stand,
    pub program: Program,
    setting: Setting,
    folder: PathBuf,
    /// Starts of each replica since the row began.
    starts: BTreeMap<String, u64>,
    /// How many exchanges there were when each replica was started last.
    began: BTreeMap<String, usize>,
    /// Lists of a user and resource that had to be made again because a row spoiled them.
    spoiled: BTreeMap<(String, String), u64>,
    repeat: u32,
    drawn: AtomicU64,
    effective: AtomicU64,
    faults_have_ended: AtomicBool,
    /// Violations that were counted already.
    counted: Vec<(Option<i64>, String)>,
}

impl Scene {
    /// Starts a control plane, a proxy and an auditor.
    ///
    /// # Errors
    /// Any [`Failed`]; [`Failed::Stand`] with [`berth_stand::StandError::NoGo`] where nothing can
    /// be built.
    pub fn start(setting: &Setting, program: Program, folder: &Path) -> Outcome<Scene> {
        let stand = Stand::start(&setting.stand_options())?;
        let proxy = Proxy::start(&stand)?;
        let auditor = Auditor::start(Sources {
            etcd_url: stand.etcd_url().to_owned(),
            audit_log: Some(stand.audit_log()),
            replicas: setting.replicas(),
        })?;
        Ok(Scene {
            schedulers: Vec::new(),
            beside: None,
            proxy,
            api: stand.client(),
            auditor,
            stand,
            program,
            setting: *setting,
            folder: folder.to_path_buf(),
            starts: BTreeMap::new(),
            began: BTreeMap::new(),
            spoiled: BTreeMap::new(),
            repeat: 0,
            drawn: AtomicU64::new(0),
            effective: AtomicU64::new(0),
            faults_have_ended: AtomicBool::new(false),
            counted: Vec::new(),
        })
    }

    /// Clears away what another row has left: schedulers, nodes, what the proxy has noted.
    pub(crate) fn begin_row(&mut self, folder: &Path) -> Outcome {
        fs::create_dir_all(folder).map_err(Failed::io("making the folder of the row"))?;
        self.folder = folder.to_path_buf();
        self.schedulers.clear();
        self.beside = None;
        self.clean()?;
        self.delete_all("/api/v1/nodes")?;
        self.delete_all(SLICES)?;
        self.delete_all("/apis/resource.k8s.io/v1/deviceclasses")?;
        self.new_proxy()
    }

    pub(crate) fn begin_repeat(&mut self, repeat: u32) {
        self.repeat = repeat;
        self.drawn.store(0, SeqCst);
        self.effective.store(0, SeqCst);
        self.faults_have_ended.store(false, SeqCst);
    }

    fn new_proxy(&mut self) -> Outcome {
        self.proxy = Proxy::start(&self.stand)?;
        self.starts.clear();
        self.began.clear();
        self.spoiled.clear();
        let observer = self.auditor.observer();
        self.proxy.observe(move |exchange| evidence::tell(&observer, exchange));
        Ok(())
    }

    /// Starts the next scheduler under `replica-<n>`, where n counts from 1, through the proxy.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn start_scheduler(&mut self, n: usize) -> Outcome {
        self.start_scheduler_with(n, Value::Null, &[])
    }

    /// The same with sections of its configuration changed, and further flags.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn start_scheduler_with(&mut self, n: usize, config: Value, flags: &[&str]) -> Outcome {
        let no_such = || Failed::Wrong(format!("there is no replica {n}"));
        let user = REPLICAS.get(n.wrapping_sub(1)).copied().ok_or_else(no_such)?;
        let launch = Launch {
            program: self.program,
            user,
            kubeconfig: &self.proxy.kubeconfig(&self.stand, user)?,
            election: self.setting.election,
            folder: &self.folder,
            config,
            flags,
        };
        self.began.insert(user.to_owned(), self.proxy.n_exchanges());
        let scheduler = Scheduler::start(&self.stand, &launch)?;
        self.schedulers.push(scheduler);
        *self.starts.entry(user.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Starts the first scheduler, and waits until it watches pods and nodes.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn start_watching_scheduler(&mut self) -> Outcome {
        self.start_scheduler(1)?;
        self.watching(REPLICAS[0])
    }

    /// Waits until a user's scheduler watches pods and nodes.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn watching(&self, user: &str) -> Outcome {
        let open = |resource| self.proxy.watches(resource).user(user).n_open() > 0;
        let both = || (open("pods") && open("nodes")).then_some(());
        Ok(try_wait_for(SOON, &format!("{user} watches"), both)?)
    }

    /// Returns the first scheduler.
    ///
    /// # Errors
    /// [`Failed::Wrong`] if none runs.
    pub fn scheduler(&mut self) -> Outcome<&mut Scheduler> {
        let none = || Failed::Wrong("no scheduler runs".to_owned());
        self.schedulers.first_mut().ok_or_else(none)
    }

    /// Counts injections that took effect. A row without any fails.
    pub fn took_effect(&self, n: u64) {
        self.effective.fetch_add(n, SeqCst);
    }

    pub(crate) fn effective(&self) -> u64 {
        self.effective.load(SeqCst)
    }

    /// Notes that the row kept a list from being read to its end: it may be made once more.
    pub fn list_was_spoiled(&mut self, user: &str, resource: &str) {
        *self.spoiled.entry((user.to_owned(), resource.to_owned())).or_default() += 1;
    }

    /// Returns which repeat this is, from 0.
    pub fn repeat(&self) -> u32 {
        self.repeat
    }

    /// Draws a number below `n` that differs from repeat to repeat, the same in each run.
    pub fn draw(&self, n: u64) -> u64 {
        let drawn = self.drawn.fetch_add(1, SeqCst) + 1;
        // SplitMix64, Steele, Lea and Flood 2014.
        let mut z = (u64::from(self.repeat) << 32 | drawn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    /// Tells the auditor that nothing hinders the scheduler from here on: what happens too late is
    /// counted from now. By itself that is the end of the repeat.
    pub fn faults_ended(&self) {
        self.faults_have_ended.store(true, SeqCst);
        self.auditor.faults_ended(Instant::now());
    }

    pub(crate) fn have_faults_ended(&self) -> bool {
        self.faults_have_ended.load(SeqCst)
    }

    /// Compacts etcd as far as the auditor has read it, which is all that there is.
    ///
    /// # Errors
    /// [`Failed::Audit`] if the auditor lags behind, [`Failed::Stand`].
    pub fn compact(&self) -> Outcome {
        self.auditor.caught_up(SOON)?;
        Ok(self.stand.compact(self.auditor.read_to())?)
    }

    /// Deletes what repeats make, and waits until it is gone.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub(crate) fn clean(&self) -> Outcome {
        self.delete_all("/api/v1/namespaces/default/pods")?;
        self.delete_all(CLAIMS)?;
        self.delete_all("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups")
    }

    /// Deletes all objects of a collection, and waits until they are gone.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn delete_all(&self, collection: &str) -> Outcome {
        let gone = || {
            let objects = self.api.list(collection).ok()?;
            if objects.is_empty() {
                return Some(());
            }
            // Whatever fails is tried again.
            let _ = self.api.delete_now(collection);
            // The controllers that would take them off do not run here.
            for object in objects.iter().filter(|o| o["metadata"]["finalizers"].is_array()) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let none = json!({"metadata": {"finalizers": null}});
                let _ = self.api.patch(&format!("{collection}/{name}"), Patch::Merge, &none);
            }
            None
        };
        Ok(try_wait_for(SOON, &format!("all of {collection} is deleted"), gone)?)
    }

    /// Returns the folder of logs and configurations of the schedulers.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the nodes that the first `n` calls of [`crate::objects::gpu_node`] are made of.
    ///
    /// # Errors
    /// [`Failed::Api`].
    pub fn nodes(&self, n: u32, gpus: u32) -> Outcome {
        for number in 1..=n {
            self.create(&crate::objects::gpu_node(&format!("n-{number}"), gpus))?;
        }
        Ok(())
    }
}
