//! The two programs, started alike.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use berth_stand::{ADMIN, Binaries, Stand, wait_for};
use tokio::runtime::Runtime;

use crate::support::SOON;
use crate::support::https::{Answer, Ask, free_port};

/// Scheduler name and Lease of each; what is compared has `side-x` in its place.
pub(super) const NAMES: [&str; 2] = ["side-kube", "side-berth"];

pub(super) struct Side {
    pub(super) program: PathBuf,
    pub(super) address: SocketAddr,
    child: Child,
}

pub(super) struct Sides {
    pub(super) both: [Side; 2],
    pub(super) runtime: Runtime,
}

impl Side {
    fn start(stand: &Stand, name: &str, program: PathBuf) -> Side {
        let folder = stand.folder();
        let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
        let address = free_port();
        let config = folder.join(format!("{name}.yaml"));
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             clientConnection: {{kubeconfig: {kubeconfig:?}}}\n\
             leaderElection: {{leaderElect: true, resourceName: {name}}}\n\
             profiles: [{{schedulerName: {name}}}]\n"
        );
        fs::write(&config, text).expect("a written file");
        let log = File::create(folder.join(format!("{name}.log"))).expect("a log");
        let child = Command::new(&program)
            .arg(format!("--config={}", config.display()))
            .arg(format!("--secure-port={}", address.port()))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--authentication-kubeconfig={}", kubeconfig.display()))
            .arg(format!("--authorization-kubeconfig={}", kubeconfig.display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("its log"))
            .stderr(log)
            .spawn()
            .expect("the program starts");
        Side { program, address, child }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sides {
    /// Starts both and waits until both are ready. `None`, said on stderr, where there is no
    /// kube-scheduler.
    pub(super) fn start(stand: &Stand) -> Option<Sides> {
        let kube = Binaries::locate().expect("the stand runs").kube_scheduler;
        if !kube.is_file() {
            eprintln!("skipped: {} is not there", kube.display());
            return None;
        }
        let berth = PathBuf::from(env!("CARGO_BIN_EXE_berth"));
        let both = [Side::start(stand, NAMES[0], kube), Side::start(stand, NAMES[1], berth)];
        let sides = Sides { both, runtime: Runtime::new().expect("a runtime") };
        for (at, name) in NAMES.iter().enumerate() {
            let ready =
                || sides.try_ask(at, &Ask::default(), "/readyz").filter(|a| a.status == 200);
            wait_for(SOON, &format!("{name} is ready"), ready);
        }
        Some(sides)
    }

    fn try_ask(&self, at: usize, ask: &Ask, path: &str) -> Option<Answer> {
        self.runtime.block_on(ask.ask(self.both[at].address, path)).ok()
    }

    /// Asks both, each on a connection of its own.
    pub(super) fn ask(&self, ask: &Ask, path: &str) -> [Answer; 2] {
        [0, 1].map(|at| {
            let answer = self.runtime.block_on(ask.ask(self.both[at].address, path));
            answer.unwrap_or_else(|problem| panic!("{} {path}: {problem}", NAMES[at]))
        })
    }
}

/// Puts `side-x` in place of a side's own name.
pub(super) fn neutral(at: usize, text: &str) -> String {
    text.replace(NAMES[at], "side-x")
}
