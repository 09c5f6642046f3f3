//! The real binary as a child process.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use berth_stand::{ADMIN, Process, Stand, try_wait_for, wait_for};

use super::SOON;

/// A running `berth run`, killed on drop. Its log goes to a file.
pub(crate) struct Berth {
    process: Process,
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
        let config = format!("--config={}", config_path.display());
        let own = [config.as_str(), "--secure-port=0", "-v=5"];
        Berth::start_as_told(&folder.join("berth.log"), &[&own, flags].concat())
    }

    /// Starts it with these flags and no others.
    pub(crate) fn start_as_told(log: &Path, flags: &[&str]) -> Berth {
        Berth::start_with_env(log, &[], flags)
    }

    /// The same with variables of the environment, each `NAME=value`.
    pub(crate) fn start_with_env(log: &Path, variables: &[String], flags: &[&str]) -> Berth {
        // A log is appended to, and this one is to begin with us.
        let _ = fs::remove_file(log);
        let binary = env!("CARGO_BIN_EXE_berth").to_owned();
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let args: Vec<String> = variables.iter().cloned().chain([binary]).chain(flags).collect();
        let env = Path::new("/usr/bin/env");
        let process = Process::start("berth", env, &args, log).expect("the binary starts");
        Berth { process }
    }

    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Ends it as a kubelet would, and returns its exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal("TERM");
        self.exit_code()
    }

    /// Sends a signal such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.process.pid(), name);
    }

    /// Waits until it ends by itself. None: a signal ended it.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        wait_for(SOON, "berth ends", || self.process.ended()).code()
    }
}

/// Sends a signal such as `STOP` to a process that this test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let (name, pid) = (format!("-{name}"), pid.to_string());
    assert!(Command::new("kill").args([&name, &pid]).status().expect("kill runs").success());
}

impl Drop for Berth {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            eprintln!("the end of berth's log:\n{}", tail.join("\n"));
        }
    }
}
