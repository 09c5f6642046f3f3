//! Programs of other Go modules of this repository, for tests that compare with Kubernetes' code.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binaries::{run_go, stand_folder};
use crate::error::{StandError, with_sources};
use crate::folder::lock;

/// Builds the program `cmd/<name>` of the Go module in a folder into `target/stand`, unless what is
/// there is of the same sources.
///
/// Cost: some minutes the first time, a second with a warm Go cache. One process builds, others
/// wait for it.
///
/// # Errors
/// [`StandError::NoGo`], [`StandError::Build`], [`StandError::File`].
fn go_program(module: &Path, name: &str) -> Result<PathBuf, StandError> {
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

/// A program of a Go module that answers each line of JSON with one.
pub struct Oracle(PathBuf);

impl Oracle {
    /// Builds the program `cmd/<name>` of the module, or says on stderr why the test is skipped: there
    /// is no Go.
    ///
    /// # Panics
    /// It can't be built.
    pub fn build_or_skip(module: &Path, name: &str) -> Option<Oracle> {
        match go_program(module, name) {
            Ok(program) => Some(Oracle(program)),
            Err(error @ StandError::NoGo) => {
                let thread = std::thread::current();
                eprintln!("skipped {}: {error}", thread.name().unwrap_or("test"));
                None
            }
            Err(error) => panic!("{}", with_sources(&error)),
        }
    }

    /// Asks all questions; the answers come in their order.
    ///
    /// # Panics
    /// The program fails, or doesn't answer each.
    pub fn ask(&self, questions: Vec<Value>) -> Vec<Value> {
        let asked = questions.len();
        let mut child = Command::new(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the oracle starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // Both pipes are finite, so one thread writes while this one reads.
        let writer = std::thread::spawn(move || {
            for question in questions {
                writeln!(stdin, "{question}").expect("the oracle reads");
            }
        });
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let answers: Vec<Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
            .collect();
        writer.join().expect("the writer ends");
        assert!(child.wait().expect("the oracle ends").success(), "the oracle failed");
        assert_eq!(answers.len(), asked, "an answer a question");
        answers
    }
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
