//! Programs of other Go modules of this repository, for tests that compare with Kubernetes' code.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
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
    if let Some(own) = edited(module, name, &folder)? {
        go.arg("-modfile").arg(own);
    }
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
    let edits = module.join("cmd").join(name).join(EDITS);
    if edits.is_file() {
        stamp += &fs::read_to_string(&edits).map_err(StandError::at(&edits))?;
        let added = added(&edits, &read_json(&edits)?);
        stamp += &fs::read_to_string(&added).map_err(StandError::at(&added))?;
    }
    Ok(stamp)
}

/// What of a module that a program depends on is built otherwise: words of one file of it, and a file
/// that is added beside it.
const EDITS: &str = "edits.json";

fn read_json(path: &Path) -> Result<Value, StandError> {
    let text = fs::read_to_string(path).map_err(StandError::at(path))?;
    let wrong = |error: serde_json::Error| StandError::at(path)(error.into());
    serde_json::from_str(&text).map_err(wrong)
}

/// Returns the file that is added; `.txt` keeps it from being taken for a part of the program.
fn added(edits: &Path, told: &Value) -> PathBuf {
    edits.with_file_name(format!("{}.txt", text_of(&told["add"])))
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Copies the module that the program has edits of, makes them, and returns a `go.mod` that names the
/// copy; `None` if there are none.
fn edited(module: &Path, name: &str, folder: &Path) -> Result<Option<PathBuf>, StandError> {
    let edits = module.join("cmd").join(name).join(EDITS);
    if !edits.is_file() {
        return Ok(None);
    }
    let told = read_json(&edits)?;
    let of = text_of(&told["module"]);
    let copy = folder.join(format!("{name}-edited"));
    if copy.is_dir() {
        fs::remove_dir_all(&copy).map_err(StandError::at(&copy))?;
    }
    copy_all(&folder_of(module, of)?, &copy)?;
    let file = copy.join(text_of(&told["file"]));
    let mut text = fs::read_to_string(&file).map_err(StandError::at(&file))?;
    for edit in told["edits"].as_array().into_iter().flatten() {
        let (from, to) = (text_of(&edit[0]), text_of(&edit[1]));
        if !text.contains(from) {
            let missing = io::Error::other(format!("there is no {from:?} to edit"));
            return Err(StandError::at(&file)(missing));
        }
        text = text.replace(from, to);
    }
    fs::write(&file, text).map_err(StandError::at(&file))?;
    let (added, beside) = (added(&edits, &told), file.with_file_name(text_of(&told["add"])));
    fs::copy(&added, &beside).map_err(StandError::at(&added))?;
    let (own, sums) = (folder.join(format!("{name}.mod")), folder.join(format!("{name}.sum")));
    let original = module.join("go.mod");
    let text = fs::read_to_string(&original).map_err(StandError::at(&original))?;
    let text = format!("{text}\nreplace {of} => {}\n", copy.display());
    fs::write(&own, text).map_err(StandError::at(&own))?;
    fs::copy(module.join("go.sum"), &sums).map_err(StandError::at(&sums))?;
    Ok(Some(own))
}

/// Returns where Go keeps a module that this one depends on.
fn folder_of(module: &Path, of: &str) -> Result<PathBuf, StandError> {
    let no_go = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => StandError::NoGo,
        _ => StandError::Spawn { name: "go", source },
    };
    run_go(Command::new("go").current_dir(module).args(["mod", "download", of]), "downloading")?;
    let mut go = Command::new("go");
    let listed = go.current_dir(module).args(["list", "-m", "-f", "{{.Dir}}", of]).output();
    Ok(PathBuf::from(String::from_utf8_lossy(&listed.map_err(no_go)?.stdout).trim()))
}

/// Copies a folder with what is in it. Go keeps modules read-only; copies can be written.
fn copy_all(from: &Path, to: &Path) -> Result<(), StandError> {
    fs::create_dir_all(to).map_err(StandError::at(to))?;
    for entry in fs::read_dir(from).map_err(StandError::at(from))? {
        let path = entry.map_err(StandError::at(from))?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_all(&path, &copy)?;
        } else {
            let content = fs::read(&path).map_err(StandError::at(&path))?;
            fs::write(&copy, content).map_err(StandError::at(&copy))?;
        }
    }
    Ok(())
}
