//! The guides in docs/: each command that can run here is run, and what they state is so.
//!
//! A fenced block says in its info string what it is:
//!
//! * `console tested`: commands behind `$ `, run in order; each line below one must be in its
//!   output, where `…` stands for anything.
//! * `console needs-docker`, `console needs-kubelet`: commands that can't run here.
//! * `yaml FILE`: a file of that name, which later commands find.
//!
//! Anything else fails. The test plays the kubelet: once the manifests are applied Berth runs with
//! their configuration and their rights, and answers where it says `127.0.0.1:10259`.

mod blocks;
mod facts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_stand::{ApiClient, Options, Stand, try_wait_for, wait_for};
use serde_json::{Value, json};

use crate::installed::{guarded_on, root, runs};
use crate::support::SOON;
use crate::support::berth::Berth;
use crate::support::https::free_port;
use crate::support::objects::{create, gpu_node};
use blocks::{Block, Step, blocks};

/// Where the guides say that Berth is served.
const ADDRESS: &str = "127.0.0.1:10259";
const MANIFESTS: &str = "apply -k ";

/// A cluster in which one guide is followed.
struct Reader {
    // Ends first, while its log is there.
    berth: Option<Berth>,
    stand: Stand,
    folder: PathBuf,
    address: String,
}

impl Reader {
    /// None: there is no control plane, or no kubectl, to follow it with.
    fn new(options: &Options) -> Option<Reader> {
        let stand = guarded_on(options, &[])?;
        if !stand.binaries().kubectl.is_file() {
            eprintln!("skipped: no kubectl beside the control plane");
            return None;
        }
        let api = stand.client();
        for name in ["cpu-1", "gpu-1", "gpu-2"] {
            create(&api, &gpu_node(name, if name == "cpu-1" { 0 } else { 8 }));
        }
        let folder = stand.folder().join("reader");
        for name in ["manifests", "config", "examples"] {
            copy(&root().join(name), &folder.join(name));
        }
        Some(Reader { stand, folder, address: free_port().to_string(), berth: None })
    }

    fn follow(&mut self, guide: &str) -> usize {
        let mut followed = 0;
        for block in blocks(guide) {
            match block {
                Block::Elsewhere => {}
                Block::File { name, text } => {
                    let path = self.folder.join(name);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                    fs::write(path, text).expect("the file is written");
                }
                Block::Steps(steps) => {
                    followed += steps.len();
                    steps.iter().for_each(|step| self.take(guide, step));
                }
            }
        }
        followed
    }

    fn take(&mut self, guide: &str, step: &Step) {
        let (succeeded, output) = self.run(&step.command);
        let place = format!("{guide}:{}: {}", step.line, step.command);
        assert!(succeeded, "{place}\n{output}");
        for expected in &step.output {
            let found = output.lines().any(|line| matches(expected, line));
            assert!(found, "{place}\nexpected {expected:?} in\n{output}");
        }
        if step.command.contains(MANIFESTS) {
            self.play_kubelet();
        }
    }

    /// Returns whether it succeeded, and what it wrote.
    fn run(&self, command: &str) -> (bool, String) {
        let kubectl = self.stand.binaries().kubectl.parent().expect("a folder");
        let berth = Path::new(env!("CARGO_BIN_EXE_berth")).parent().expect("a folder");
        let path = std::env::var("PATH").expect("a PATH");
        let written = self.folder.join("output");
        let output = fs::File::create(&written).expect("a file");
        let errors = output.try_clone().expect("the same file");
        let mut child = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &command.replace(ADDRESS, &self.address)])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{}:{path}", kubectl.display(), berth.display()))
            .env(
                "KUBECONFIG",
                self.stand.kubeconfig_path(berth_stand::ADMIN).expect("a kubeconfig"),
            )
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .expect("bash runs");
        let ended = try_wait_for(SOON, "the command ends", || child.try_wait().expect("a status"));
        if ended.is_err() {
            child.kill().expect("it is killed");
            child.wait().expect("a status");
        }
        let output = fs::read_to_string(&written).expect("its output");
        (ended.is_ok_and(|status| status.success()), output)
    }

    /// Starts what the Deployment describes, once, and waits until it leads.
    fn play_kubelet(&mut self) {
        if self.berth.is_some() {
            return;
        }
        let (_, port) = self.address.rsplit_once(':').expect("host and port");
        let port = format!("--secure-port={port}");
        let berth = runs::start(&self.stand, &[&port, "--bind-address=127.0.0.1"]);
        self.berth = Some(berth);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth";
        wait_for(SOON, "Berth leads", || holder(&self.stand.client(), lease));
    }
}

fn holder(api: &ApiClient, lease: &str) -> Option<String> {
    let lease: Value = api.get(lease).ok()?;
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

/// Whether a line is as expected, where `…` stands for anything.
fn matches(expected: &str, line: &str) -> bool {
    let mut rest = line;
    let pieces: Vec<&str> = expected.trim().split('…').collect();
    for (at, piece) in pieces.iter().enumerate() {
        match rest.find(piece) {
            Some(found) if at > 0 || rest[..found].trim().is_empty() => {
                rest = &rest[found + piece.len()..];
            }
            _ => return false,
        }
    }
    pieces.last().is_some_and(|last| last.is_empty()) || rest.trim().is_empty()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).expect("a copy")),
        }
    }
}

/// Follows a guide in a cluster of its own; `installed`: Berth is there already.
fn followed(guide: &str, installed: bool) {
    followed_on(&Options::default(), guide, installed);
}

fn followed_on(options: &Options, guide: &str, installed: bool) {
    let Some(mut reader) = Reader::new(options) else { return };
    if installed {
        let step = Step {
            line: 0,
            command: format!("kubectl {MANIFESTS}manifests/second"),
            output: vec![],
        };
        reader.take(guide, &step);
        let scraper = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": "monitoring", "name": "prometheus"},
        });
        create(&reader.stand.client(), &scraper);
    }
    assert!(reader.follow(guide) > 0, "{guide} has commands that are tested");
}

#[test]
fn install_can_be_followed() {
    followed("docs/install.md", false);
}

#[test]
fn migrate_can_be_followed() {
    followed("docs/migrate.md", false);
}

#[test]
fn operate_can_be_followed() {
    followed("docs/operate.md", true);
}

#[test]
fn dra_can_be_followed() {
    followed("docs/dra.md", false);
}

#[test]
fn packing_can_be_followed() {
    followed("docs/packing.md", false);
}

#[test]
fn topology_can_be_followed() {
    followed("docs/topology.md", false);
}

#[test]
fn gangs_can_be_followed() {
    followed_on(&Options::all_groups(), "docs/gangs.md", true);
}

#[test]
fn security_can_be_followed() {
    followed("docs/security.md", true);
}

#[test]
fn expected_output_is_compared() {
    assert!(matches("pod/a created", "pod/a created"));
    assert!(matches("0/3 nodes … 9 GPUs…", "0/3 nodes are available: needs 9 GPUs; there are 8"));
    assert!(!matches("pod/a created", "pod/b created"));
    assert!(!matches("pod/a", "pod/a created"));
    assert!(!matches("… created", "pod/a unchanged"));
}
