//! `berth simulate`: the engine on the objects of files, in virtual time, without a cluster.
//!
//! Reading order: [`input`] (files to documents), [`objects`] (documents to what an API server
//! would hold), `run`, then [`result`] and [`table`](mod@table) for what is printed.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod claims;
pub mod groups;
pub mod input;
pub mod islands;
pub mod objects;
mod place;
mod priorities;
pub mod result;
mod run;
pub mod table;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use berth_core::framework::ArgError;
use berth_core::types::Text;

use crate::assemble::{STACK_BYTES, assemble};
use crate::config::{self, Configuration, LoadError};
use crate::gates::Gates;

use objects::{InputErrors, Objects};
use result::{SimulationResult, Summary};
use run::Run;
use table::{Paint, View, plain, table};

/// What the user asks for.
///
/// Exit status: 0 every pod has a place, 1 some pod still waits, 2 bad usage or input.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Files or folders of Kubernetes objects, YAML or JSON; `-` reads stdin
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub filename: Vec<PathBuf>,
    /// KubeSchedulerConfiguration to use instead of one among the files
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Seed of the choices that are left to chance, such as between equal nodes
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Feature gates as `berth run` takes them: `[kube:]name=true|false,…`
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Table,
    Json,
    Yaml,
}

/// A file's name and text.
#[derive(Clone, Debug)]
pub struct File {
    pub name: String,
    pub text: String,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    #[error("{}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: no .yaml, .yml or .json file in it", path.display())]
    EmptyFolder { path: PathBuf },
    #[error(transparent)]
    Input(#[from] InputErrors),
    /// One line a problem of the configuration.
    #[error("{}", .0.join("\n"))]
    Configuration(Vec<String>),
    #[error("--feature-gates: {0}")]
    Gates(String),
    #[error("no thread can be started for it")]
    Thread(#[source] io::Error),
}

/// A simulation that has run.
#[derive(Debug)]
pub struct Simulated {
    pub result: SimulationResult,
    run: Run,
    served: Vec<String>,
}

/// Runs the command, prints the result to stdout and problems to stderr.
pub fn command(args: &Args) -> ExitCode {
    match on_own_stack(|| run_on_files(args)) {
        Ok(simulated) => print(&simulated, args.output),
        Err(error) => {
            let lines = lines_of(&error);
            for line in lines {
                // Nothing is left to tell a user whose stderr is closed.
                let _ = writeln!(io::stderr(), "berth simulate: {line}");
            }
            ExitCode::from(2)
        }
    }
}

/// Runs the engine with the stack that it has in `berth run`.
fn on_own_stack<T: Send>(
    run: impl FnOnce() -> Result<T, SimulateError> + Send,
) -> Result<T, SimulateError> {
    thread::scope(|scope| {
        let own = thread::Builder::new().stack_size(STACK_BYTES);
        let running = own.spawn_scoped(scope, run).map_err(SimulateError::Thread)?;
        running.join().unwrap_or_else(|fault| resume_unwind(fault))
    })
}

fn run_on_files(args: &Args) -> Result<Simulated, SimulateError> {
    let gates = Gates::parse(&args.feature_gates).map_err(SimulateError::Gates)?;
    let (files, config) = read_files(args)?;
    simulate(&files, config.as_ref(), args.seed, &gates)
}

/// Runs the engine on the objects of `files`; `config` takes the place of a configuration in them.
///
/// # Errors
/// Every problem of the files at once, and those of the configuration.
pub fn simulate(
    files: &[File],
    config: Option<&File>,
    seed: u64,
    gates: &Gates,
) -> Result<Simulated, SimulateError> {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match input::read(&file.name, &file.text) {
            Ok(read) => documents.extend(read),
            Err(more) => errors.extend(more),
        }
    }
    if !errors.is_empty() {
        return Err(InputErrors::from(errors).into());
    }
    let mut objects = objects::gather(documents, gates)?;
    let configuration = configuration(&mut objects, config)?;
    let (profiles, setup) = match assemble(&configuration, seed) {
        Ok(assembled) => assembled,
        Err(refused) => return Err(refusal(&objects, config, &refused)),
    };
    let served = profiles.iter().flat_map(|profile| profile.names().map(Text::to_string)).collect();
    let run = run::run(objects.phases, profiles, setup);
    let result = result(&run, objects.ignored, objects.notes);
    Ok(Simulated { result, run, served })
}

impl Simulated {
    /// Returns the table for people.
    pub fn table(&self, paint: Paint) -> String {
        let Run { nodes, pods, claims, groups, islands, placed, .. } = &self.run;
        let view = View { nodes, pods, claims, groups, islands, placed, served: &self.served };
        let mut text = table(&view, paint);
        if !self.result.ignored.is_empty() {
            let kinds =
                self.result.ignored.iter().map(|(kind, n)| format!("{n} × {}", plain(kind)));
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            text += &format!("Ignored, as they say nothing to the scheduler: {kinds}\n");
        }
        text
    }
}

fn configuration(
    objects: &mut Objects,
    config: Option<&File>,
) -> Result<Configuration, SimulateError> {
    let loaded = match (config, &objects.configuration) {
        (Some(file), own) => {
            if let Some(own) = own {
                objects.notes.push(format!("{}: not used, --config is", own.place));
            }
            config::load(&file.text)
        }
        (None, Some(document)) if document.place.path.is_empty() => config::load(&document.text),
        (None, Some(document)) => config::load(&document.value.to_string()),
        (None, None) => return Ok(Configuration::defaults()),
    };
    loaded.map_err(|error| match error {
        LoadError::Invalid(errors) => refusal(objects, config, &errors),
        error @ LoadError::Unreadable(_) => {
            let whose = config.map_or("configuration", |file| &file.name);
            SimulateError::Configuration(vec![format!("{whose}: {error}")])
        }
    })
}

/// Says where in which file each problem of the configuration is.
fn refusal(objects: &Objects, config: Option<&File>, errors: &[ArgError]) -> SimulateError {
    let line = |error: &ArgError| match (config, &objects.configuration) {
        (Some(file), _) => format!("{}: {error}", file.name),
        (None, Some(document)) => document.error(&error.path, &error.message).to_string(),
        (None, None) => error.to_string(),
    };
    SimulateError::Configuration(errors.iter().map(line).collect())
}

fn result(run: &Run, ignored: BTreeMap<String, usize>, notes: Vec<String>) -> SimulationResult {
    let state = run.states.last().cloned().unwrap_or_default();
    let waits = |pod: &&berth_core::types::Pod| pod.node_name.is_none() && !pod.finished();
    let summary = Summary {
        nodes: run.nodes.len(),
        pods: state.pods.len(),
        placed: run.placed.len(),
        pending: run.pods.iter().filter(waits).count(),
        evicted: state.pods.values().filter(|pod| pod.evicted).count(),
        settled: run.settled,
    };
    SimulationResult {
        api_version: result::API_VERSION,
        kind: result::KIND,
        state,
        phases: run.states.clone(),
        summary,
        ignored,
        notes: notes.into_iter().chain(run.odd.clone()).collect(),
    }
}

fn read_files(args: &Args) -> Result<(Vec<File>, Option<File>), SimulateError> {
    let mut files = Vec::new();
    for path in &args.filename {
        if path.is_dir() {
            files.extend(read_folder(path)?);
        } else {
            files.push(read_file(path)?);
        }
    }
    Ok((files, args.config.as_deref().map(read_file).transpose()?))
}

fn read_file(path: &Path) -> Result<File, SimulateError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    let unreadable = |source| SimulateError::Unreadable { path: path.to_owned(), source };
    read.map_err(unreadable)?;
    Ok(File { name: path.display().to_string(), text })
}

/// As kubectl does: the files of the folder itself that look like YAML or JSON, by name.
fn read_folder(folder: &Path) -> Result<Vec<File>, SimulateError> {
    let unreadable = |source| SimulateError::Unreadable { path: folder.to_owned(), source };
    let known = |path: &PathBuf| {
        let extension = path.extension().and_then(|e| e.to_str());
        path.is_file() && matches!(extension, Some("yaml" | "yml" | "json"))
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.retain(known);
    paths.sort();
    if paths.is_empty() {
        return Err(SimulateError::EmptyFolder { path: folder.to_owned() });
    }
    paths.iter().map(|path| read_file(path)).collect()
}

fn print(simulated: &Simulated, output: Output) -> ExitCode {
    let text = match output {
        Output::Table => Ok(simulated.table(Paint::of_stdout())),
        Output::Json => {
            serde_json::to_string_pretty(&simulated.result).map_err(|error| error.to_string())
        }
        Output::Yaml => {
            serde_saphyr::to_string(&simulated.result).map_err(|error| error.to_string())
        }
    };
    let written = text.and_then(|text| {
        let ended = if text.ends_with('\n') { text } else { text + "\n" };
        match io::stdout().lock().write_all(ended.as_bytes()) {
            // `berth simulate … | head` is no error.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
            _ => Ok(()),
        }
    });
    if let Err(error) = written {
        let _ = writeln!(io::stderr(), "berth simulate: writing the result: {error}");
        return ExitCode::from(2);
    }
    for note in &simulated.result.notes {
        let _ = writeln!(io::stderr(), "note: {}", plain(note));
    }
    ExitCode::from(u8::from(simulated.result.summary.pending > 0))
}

/// Returns the lines of an error with what caused it, whatever a hostile file puts into names.
fn lines_of(error: &SimulateError) -> Vec<String> {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text += &format!(": {source}");
    }
    text.lines().map(plain).collect()
}
