//! From a file's tree to a completed [`Configuration`] and the errors on the way.

use berth_core::framework::args::{ArgError, Args};
use berth_core::types::Span;

use super::document::{self, Tree};
use super::message::{int32, invalid, invalid_text, percentage};
use super::{API_VERSION, Configuration, KIND, connection, extender, profile};

/// A file that was read: what could be made of it, and what is wrong with it.
pub(super) struct Reading {
    pub(super) root: Tree,
    /// Complete also where there are errors: wrong values stand as their defaults.
    pub(super) configuration: Configuration,
    pub(super) errors: Vec<ArgError>,
    /// Kinds of the file's other documents, by index.
    pub(super) strays: Vec<(usize, String)>,
}

/// Returns the default of everything but `profiles`, which is empty.
pub(super) fn defaults() -> Configuration {
    Configuration {
        parallelism: 16,
        leader_election: Default::default(),
        client_connection: Default::default(),
        enable_profiling: true,
        enable_contention_profiling: true,
        percentage_of_nodes_to_score: 0,
        pod_initial_backoff: Span::from_secs(1),
        pod_max_backoff: Span::from_secs(10),
        profiles: Vec::new(),
        delay_cache_until_active: false,
    }
}

/// Reads a file's text.
///
/// # Errors
/// The parser's message if the text is neither YAML nor JSON.
pub(super) fn read(text: &str) -> Result<Reading, String> {
    let (root, strays) = pick(document::parse(text)?);
    let mut errors = Vec::new();
    root.repeated_keys("", &mut errors);
    let value = root.to_value();
    let args = Args::new("", &value);
    let configuration = if is_ours(&args) {
        let configuration = decode(&args);
        args.finish();
        configuration
    } else {
        Configuration::defaults()
    };
    // Paths below the root begin with its empty name and a dot.
    errors.extend(args.take_errors().into_iter().map(|e| ArgError {
        path: e.path.strip_prefix('.').unwrap_or(&e.path).to_owned(),
        message: e.message,
    }));
    Ok(Reading { root, configuration, errors, strays })
}

/// Returns the text of a field in a section, as far as the file itself has one.
pub(super) fn named(text: &str, section: &str, field: &str) -> Option<String> {
    let (root, _) = pick(document::parse(text).ok()?);
    let named = root.get(section)?.get(field)?.text()?;
    (!named.is_empty()).then(|| named.to_owned())
}

/// Picks the first document of our kind, else the first one, and names the kinds of the others.
fn pick(mut documents: Vec<Tree>) -> (Tree, Vec<(usize, String)>) {
    let kind = |tree: &Tree| tree.get("kind").and_then(Tree::text).unwrap_or_default().to_owned();
    let picked = documents.iter().position(|tree| kind(tree) == KIND).unwrap_or(0);
    let others = documents.iter().enumerate().filter(|&(at, _)| at != picked);
    let strays = others.map(|(at, tree)| (at, kind(tree))).collect();
    let root = if documents.is_empty() { Tree::Null } else { documents.swap_remove(picked) };
    (root, strays)
}

/// Checks `kind` and `apiVersion`; false if the document is something else altogether, so that
/// telling its fields would be noise.
fn is_ours(args: &Args) -> bool {
    let (kind, version) = (args.text("kind"), args.text("apiVersion"));
    let Some(kind) = kind else {
        args.error("kind", format!("Object 'Kind' is missing, write {KIND}"));
        return version.is_some_and(|v| v == API_VERSION);
    };
    if kind != KIND {
        args.error("kind", invalid_text(&kind, format!("must be {KIND}")));
        return false;
    }
    match version.as_deref() {
        None => {
            args.error("apiVersion", format!("Object 'apiVersion' is missing, write {API_VERSION}"))
        }
        Some(API_VERSION) => {}
        // v1beta3 and older.
        Some(other) if other.starts_with(API_VERSION) => {
            let detail =
                format!("no longer supported by kube-scheduler either; write {API_VERSION}");
            args.error("apiVersion", invalid_text(other, detail));
        }
        Some(other) => {
            args.error("apiVersion", invalid_text(other, format!("must be {API_VERSION}")));
            return false;
        }
    }
    true
}

fn decode(args: &Args) -> Configuration {
    let default = defaults();
    let enable_profiling = args.bool("enableProfiling", default.enable_profiling);
    let (pod_initial_backoff, pod_max_backoff) = backoffs(args);
    let configuration = Configuration {
        parallelism: parallelism(args).unwrap_or(default.parallelism),
        leader_election: connection::leader_election(args),
        client_connection: connection::client_connection(args),
        enable_profiling,
        // Follows profiling where it isn't given.
        enable_contention_profiling: args.bool("enableContentionProfiling", enable_profiling),
        percentage_of_nodes_to_score: percentage(args, "percentageOfNodesToScore").unwrap_or(0),
        pod_initial_backoff,
        pod_max_backoff,
        profiles: profile::profiles(args),
        delay_cache_until_active: args.bool("delayCacheUntilActive", false),
    };
    extender::refuse_extenders(args);
    configuration
}

fn parallelism(args: &Args) -> Option<i32> {
    let parallelism = int32(args, "parallelism")?;
    if parallelism <= 0 {
        let detail = "should be an integer value greater than zero";
        args.error("parallelism", invalid(parallelism, detail));
        return None;
    }
    Some(parallelism)
}

/// Reads initial and maximal backoff.
fn backoffs(args: &Args) -> (Span, Span) {
    let initial = args.int("podInitialBackoffSeconds").unwrap_or(1);
    let max = args.int("podMaxBackoffSeconds").unwrap_or(10);
    if initial <= 0 {
        args.error("podInitialBackoffSeconds", invalid(initial, "must be greater than 0"));
    }
    if max < initial {
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        args.error("podMaxBackoffSeconds", invalid(max, detail));
    }
    let span = |secs: i64| Span::from_secs(u64::try_from(secs).unwrap_or(0));
    (span(initial), span(max))
}
