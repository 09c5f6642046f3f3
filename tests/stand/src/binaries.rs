//! Where the programs of the control plane are, and how they are built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use crate::error::StandError;
use crate::folder::lock;
use crate::process::last_lines;

/// The folder of the Go module.
const MODULE: &str = env!("CARGO_MANIFEST_DIR");
const KUBERNETES: &str = "k8s.io/kubernetes";
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-scheduler", "kubectl"];

/// The programs. The last two may be missing where `KUBEBUILDER_ASSETS` is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    pub kube_scheduler: PathBuf,
    pub kubectl: PathBuf,
}

impl Binaries {
    /// Returns the programs in `KUBEBUILDER_ASSETS`, if that is set; else builds those of this
    /// module.
    ///
    /// # Errors
    /// [`StandError::MissingBinary`] if the folder has no etcd or kube-apiserver, and those of
    /// [`Binaries::build`].
    pub fn locate() -> Result<Self, StandError> {
        let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty())
        else {
            return Self::build();
        };
        let binaries = Self::in_folder(Path::new(&assets));
        for path in [&binaries.etcd, &binaries.kube_apiserver] {
            if !path.is_file() {
                return Err(StandError::MissingBinary { path: path.clone() });
            }
        }
        Ok(binaries)
    }

    /// Builds the programs into `target/stand`, unless those there are of the same go.mod and
    /// go.sum.
    ///
    /// Cost: 6 minutes on two cores the first time, 6 s with a warm Go cache. One process builds,
    /// others wait for it.
    ///
    /// # Errors
    /// [`StandError::NoGo`], [`StandError::Build`], [`StandError::File`].
    pub fn build() -> Result<Self, StandError> {
        let folder = stand_folder();
        fs::create_dir_all(&folder).map_err(StandError::at(&folder))?;
        let _building = lock(&folder.join("build.lock"))?;
        let binaries = Self::in_folder(&folder);
        let stamp_file = folder.join("stamp");
        let stamp = stamp()?;
        let all_there = PROGRAMS.iter().all(|name| folder.join(name).is_file());
        if all_there && fs::read_to_string(&stamp_file).is_ok_and(|built| built == stamp) {
            return Ok(binaries);
        }
        go_build(&folder)?;
        fs::write(&stamp_file, stamp).map_err(StandError::at(&stamp_file))?;
        Ok(binaries)
    }

    fn in_folder(folder: &Path) -> Self {
        let [etcd, kube_apiserver, kube_scheduler, kubectl] =
            PROGRAMS.map(|name| folder.join(name));
        Self { etcd, kube_apiserver, kube_scheduler, kubectl }
    }
}

/// Returns `stand` in Cargo's target folder. A relative `CARGO_TARGET_DIR` counts from the root of
/// the workspace.
pub(crate) fn stand_folder() -> PathBuf {
    let root = Path::new(MODULE).ancestors().nth(2);
    let root = root.unwrap_or(Path::new(MODULE));
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("stand")
}

/// Returns all that decides what is built.
fn stamp() -> Result<String, StandError> {
    let mut stamp = String::new();
    for name in ["go.mod", "go.sum", "cmd/etcd/main.go"] {
        stamp += &read(name)?;
    }
    Ok(stamp)
}

fn go_build(folder: &Path) -> Result<(), StandError> {
    let packages = PROGRAMS[1..].iter().map(|name| format!("{KUBERNETES}/cmd/{name}"));
    let mut go = Command::new("go");
    go.current_dir(MODULE)
        .args(["build", "-trimpath", "-ldflags", &linker_flags(&read("go.mod")?), "-o"])
        .arg(folder)
        .arg("./cmd/etcd")
        .args(packages);
    run_go(&mut go, "building the test control plane (6 minutes the first time)")
}

/// Runs the `go` client, after a line on stderr that says what for.
pub(crate) fn run_go(go: &mut Command, what: &str) -> Result<(), StandError> {
    let no_go = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => StandError::NoGo,
        _ => StandError::Spawn { name: "go", source },
    };
    let go = go.env("CGO_ENABLED", "0").stderr(Stdio::piped()).spawn().map_err(no_go)?;
    eprintln!("{what}");
    let output = go.wait_with_output().map_err(no_go)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(StandError::Build { output: last_lines(&output.stderr) }),
    }
}

/// Returns the flags without which the server calls itself v0.0.0-master.
fn linker_flags(go_mod: &str) -> String {
    let version = go_mod.lines().find_map(|line| {
        let rest = line.trim().strip_prefix(KUBERNETES)?;
        rest.trim().strip_prefix('v')
    });
    let version = version.unwrap_or_default();
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let variable = "-X k8s.io/component-base/version";
    format!(
        "-s -w {variable}.gitVersion=v{version} {variable}.gitMajor={major} {variable}.gitMinor={minor}"
    )
}

fn read(name: &str) -> Result<String, StandError> {
    let path = Path::new(MODULE).join(name);
    fs::read_to_string(&path).map_err(StandError::at(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_told_the_version_of_the_module() {
        let flags = linker_flags("require (\n\tk8s.io/kubernetes v1.37.2\n)\n");
        assert!(flags.contains("gitVersion=v1.37.2 "));
        assert!(flags.contains("gitMajor=1 "));
        assert!(flags.ends_with("gitMinor=37"));
    }
}
