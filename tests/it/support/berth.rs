//! The real binary as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use berth_stand::{ADMIN, Stand, try_wait_for, wait_for};

use super::SOON;

/// A running `berth run`, killed on drop. Its log goes to a file.
pub(crate) struct Berth {
    child: Child,
    log: PathBuf,
}

/// Runs the binary to its end, with a limit that only a hanging one reaches.
pub(crate) fn berth(args: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    if try_wait_for(SOON, "the binary ends", || child.try_wait().ok().flatten()).is_err() {
        let _ = child.kill();
    }
    child.wait_with_output().expect("its output")
}

/// Returns the command of the binary. Where setpriv of util-linux is, the kernel kills it when the
/// test's thread ends, however that comes about.
fn dying_with_us() -> Command {
    let mut probe = Command::new("setpriv");
    let probe = probe.args(["--pdeathsig", "KILL", "true"]).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return Command::new(env!("CARGO_BIN_EXE_berth"));
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_berth")]);
    command
}

/// Returns the last line that a program wrote to stderr.
pub(crate) fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().last().unwrap_or_default().to_owned()
}

/// Rates that no test waits for.
pub(crate) const FAST: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 2000, burst: 2000}
";

impl Berth {
    /// Starts it on the stand as admin, with this configuration.
    pub(crate) fn start(stand: &Stand, config: &str) -> Berth {
        let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
        Berth::start_with(stand.folder(), &kubeconfig, config, &[])
    }

    /// Starts it with a kubeconfig and further flags; its files go to `folder`.
    pub(crate) fn start_with(
        folder: &Path,
        kubeconfig: &Path,
        config: &str,
        flags: &[&str],
    ) -> Berth {
        let config_path = folder.join("berth.yaml");
        // With --config a --kubeconfig is ignored, so the file names it.
        let client = format!("clientConnection: {{kubeconfig: {kubeconfig:?}, ");
        let named = config.replacen("clientConnection: {", &client, 1);
        assert_ne!(named, config, "the configuration has a clientConnection");
        fs::write(&config_path, named).expect("the configuration is written");
        let log = folder.join("berth.log");
        let stderr = File::create(&log).expect("a log");
        let child = dying_with_us()
            .arg("--config")
            .arg(config_path)
            .arg("--secure-port=0")
            .arg("-v=5")
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("the binary starts");
        Berth { child, log }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it as a kubelet would, and returns its exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal("TERM");
        self.exit_code()
    }

    /// Sends a signal such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits until it ends by itself. None: a signal ended it.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        let ended = || self.child.try_wait().expect("its status");
        wait_for(SOON, "berth ends", ended).code()
    }
}

/// Sends a signal such as `STOP` to a process that this test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let (name, pid) = (format!("-{name}"), pid.to_string());
    assert!(Command::new("kill").args([&name, &pid]).status().expect("kill runs").success());
}

impl Drop for Berth {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            eprintln!("the end of berth's log:\n{}", tail.join("\n"));
        }
    }
}
