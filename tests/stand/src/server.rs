//! A server process: started, waited for, killed, started again with the same data.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::StandError;
use crate::process::Process;
use crate::wait::try_wait_for;

/// A start takes 2 s on two idle cores; a machine full of other tests may need many times that.
const READY_DEADLINE: Duration = Duration::from_secs(120);

/// Another program may take a port between our look and the server's start; three times in a row it
/// is something else.
const PORT_ATTEMPTS: usize = 3;

/// One of etcd and kube-apiserver, running or not.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) binary: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) log: PathBuf,
    /// Whether it answers that it is ready.
    pub(crate) is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) process: Option<Process>,
}

impl Server {
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// [`StandError::PortTaken`], [`StandError::Ended`], [`StandError::NotReady`],
    /// [`StandError::Spawn`].
    pub(crate) fn start(&mut self) -> Result<(), StandError> {
        let mut process = Process::start(self.name, &self.binary, &self.args, &self.log)?;
        self.wait_until_ready(&mut process)?;
        self.process = Some(process);
        Ok(())
    }

    fn wait_until_ready(&self, process: &mut Process) -> Result<(), StandError> {
        let outcome = try_wait_for(READY_DEADLINE, self.name, || match process.ended() {
            Some(status) => Some(Err(status)),
            None => (self.is_ready)().then_some(Ok(())),
        });
        let (name, log) = (self.name, process.log_tail());
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) if log.contains("address already in use") => {
                Err(StandError::PortTaken { name, log })
            }
            Ok(Err(status)) => Err(StandError::Ended { name, status: status.to_string(), log }),
            Err(timed_out) => {
                Err(StandError::NotReady { name, seconds: timed_out.deadline.as_secs(), log })
            }
        }
    }

    /// Kills it without warning and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Sends it a signal such as `STOP`; nothing happens if it does not run.
    pub(crate) fn signal(&self, signal: &'static str) -> Result<(), StandError> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal(signal))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }
}

/// Starts a server on `N` free loopback ports, and on others if one of them was taken in between.
///
/// # Errors
/// Those of `make` and of [`Server::start`]; [`StandError::NoPort`].
pub(crate) fn start_on_free_ports<const N: usize>(
    make: impl Fn([u16; N]) -> Result<Server, StandError>,
) -> Result<(Server, [u16; N]), StandError> {
    let mut attempt = 1;
    loop {
        let ports = free_ports().map_err(StandError::NoPort)?;
        let mut server = make(ports)?;
        match server.start() {
            Err(StandError::PortTaken { .. }) if attempt < PORT_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
            Ok(()) => return Ok((server, ports)),
        }
    }
}

/// Returns `N` different ports that were free a moment ago.
fn free_ports<const N: usize>() -> std::io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
