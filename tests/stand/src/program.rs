//! Programs of other Go modules of this repository, for tests that compare with Kubernetes' code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::{run_go, stand_folder};
use crate::error::StandError;
use crate::folder::lock;

/// Builds the program `cmd/<name>` of the Go module in a folder into `target/stand`, unless what is
/// there is of the same sources.
///
/// Cost: some minutes the first time, a second with a warm Go cache. One process builds, others
/// wait for it.
///
/// # Errors
/// [`StandError::NoGo`], [`StandError::Build`], [`StandError::File`].
pub fn go_program(module: &Path, name: &str) -> Result<PathBuf, StandError> {
    let folder = stand_folder();
    fs::create_dir_all(&folder).map_err(StandError::at(&folder))?;
    let _building = lock(&folder.join(format!("{name}.lock")))?;
    let program = folder.join(name);
    let stamp_file = folder.join(format!("{name}.stamp"));
    let stamp = stamp(module, name)?;
    if program.is_file() && fs::read_to_string(&stamp_file).is_ok_and(|built| built == stamp) {
        return Ok(program);
    }
    let mut go = Command::new("go");
    go.current_dir(module).args(["build", "-trimpath", "-o"]).arg(&program);
    go.arg(format!("./cmd/{name}"));
    run_go(&mut go, &format!("building {name} (some minutes the first time)"))?;
    fs::write(&stamp_file, stamp).map_err(StandError::at(&stamp_file))?;
    Ok(program)
}

/// Returns all that decides what is built.
fn stamp(module: &Path, name: &str) -> Result<String, StandError> {
    let mut stamp = String::new();
    for file in ["go.mod".to_owned(), "go.sum".to_owned(), format!("cmd/{name}/main.go")] {
        let path = module.join(file);
        stamp += &fs::read_to_string(&path).map_err(StandError::at(&path))?;
    }
    Ok(stamp)
}
