//! A child process that does not outlive us, with its output in a log file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use crate::error::StandError;

/// Lines of a log that an error shows.
const TAIL_LINES: usize = 15;

/// A running program with its log. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `binary` with its output appended to `log`.
    ///
    /// With `setpriv` from util-linux the kernel kills the program when we end in whatever way, and
    /// Ctrl-C reaches only us. Without it the program outlives a test that is killed.
    ///
    /// # Errors
    /// [`StandError::Spawn`], [`StandError::File`] for the log.
    pub fn start(
        name: &'static str,
        binary: &Path,
        args: &[String],
        log: &Path,
    ) -> Result<Self, StandError> {
        let output = File::options().create(true).append(true).open(log);
        let output = output.map_err(StandError::at(log))?;
        let errors = output.try_clone().map_err(StandError::at(log))?;
        let mut command = dying_with_us(binary);
        command.args(args).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = spawn(command).map_err(|source| StandError::Spawn { name, source })?;
        Ok(Self { child, log: log.to_path_buf() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends it a signal such as `STOP`.
    ///
    /// # Errors
    /// [`StandError::Spawn`] if there is no `kill`, [`StandError::NotSignalled`] if the program is
    /// gone or knows no such signal.
    pub fn signal(&self, signal: &'static str) -> Result<(), StandError> {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{signal}")).arg(self.pid().to_string());
        let status = kill.stderr(Stdio::null()).status();
        let status = status.map_err(|source| StandError::Spawn { name: "kill", source })?;
        match status.success() {
            true => Ok(()),
            false => Err(StandError::NotSignalled { signal, pid: self.pid() }),
        }
    }

    /// Returns all that it has written so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the last lines of a file; of one that cannot be read, why.
fn tail(log: &Path) -> String {
    match std::fs::read(log) {
        Ok(bytes) => last_lines(&bytes),
        Err(error) => format!("{}: {error}", log.display()),
    }
}

/// Returns the last lines of a program's output.
pub(crate) fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn dying_with_us(binary: &Path) -> Command {
    static HAS_SETPRIV: OnceLock<bool> = OnceLock::new();
    let has_setpriv = HAS_SETPRIV.get_or_init(|| {
        let mut probe = Command::new("setpriv");
        probe.args(["--pdeathsig", "KILL", "true"]);
        let probe = probe.stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    if !has_setpriv {
        return Command::new(binary);
    }
    // setpriv becomes the program, so the pid that we see is the program's.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

type Request = (Command, Sender<io::Result<Child>>);

/// Spawns on a thread that lives as long as we do: the kernel sends the death signal when the
/// *thread* that spawned ends, and each test has a thread of its own.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, reply) in requests {
                // Nobody listens only if the asking thread panicked; the child then has no owner
                // and must end.
                if let Err(unheard) = reply.send(command.spawn()) {
                    let _ = unheard.0.and_then(|mut child| child.kill());
                }
            }
        });
        sender
    });
    let (reply, answer) = channel();
    let gone = |_| io::Error::other("the spawning thread has ended");
    spawner
        .send((command, reply))
        .map_err(|_| io::Error::other("the spawning thread has ended"))?;
    answer.recv().map_err(gone)?
}
