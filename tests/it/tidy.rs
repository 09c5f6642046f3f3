//! House rules that a compiler does not hold: layers, isolation, module lines, the registry,
//! licences and duplicate versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files below `folder`, sorted, with their text.
fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                found.push((path, text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no Rust file below {folder}");
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The part of a file before its unit tests.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn every_module_says_in_one_line_what_it_does() {
    let folders = [
        "audit/src",
        "cel/src",
        "cel/tests",
        "core/src",
        "plugins/src",
        "sim/src",
        "src",
        "tests/faults",
        "tests/stand/src",
        "tests/it",
    ];
    let silent: Vec<String> = folders
        .iter()
        .flat_map(|folder| rust_files(folder))
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| shown(&path))
        .collect();
    assert!(silent.is_empty(), "without a //! line: {silent:?}");
}

#[test]
fn layers_of_core_use_only_what_is_below() {
    let below: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("types", &["types"][..]),
        ("snapshot", &["types", "snapshot"]),
        ("framework", &["types", "snapshot", "framework"]),
        ("queue", &["types", "snapshot", "framework", "queue"]),
        ("engine", &["types", "snapshot", "framework", "queue", "engine"]),
    ]);
    let mut wrong = Vec::new();
    for (path, text) in rust_files("core/src") {
        let relative = path.strip_prefix(root().join("core/src")).expect("below core/src");
        let first = relative.components().next().expect("a name").as_os_str().to_string_lossy();
        let layer = first.trim_end_matches(".rs").to_owned();
        let Some(allowed) = below.get(layer.as_str()) else { continue };
        for used in shipped(&text).split("crate::").skip(1) {
            let name: String =
                used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if below.contains_key(name.as_str()) && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{} uses {name}", shown(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Top-level modules of plugins/src that hold a plugin.
fn plugin_modules() -> Vec<String> {
    let modules = rust_files("plugins/src").into_iter().filter_map(|(path, text)| {
        let top = path.parent() == Some(root().join("plugins/src").as_path());
        let name = path.file_stem()?.to_string_lossy().into_owned();
        (top && text.contains("const PLUGIN: PluginDef")).then_some(name)
    });
    modules.collect()
}

#[test]
fn plugins_do_not_know_each_other() {
    let modules: BTreeSet<String> = plugin_modules().into_iter().collect();
    let mut wrong = Vec::new();
    for (path, text) in rust_files("plugins/src") {
        let relative = path.strip_prefix(root().join("plugins/src")).expect("below plugins/src");
        let first = relative.components().next().expect("a name").as_os_str().to_string_lossy();
        let own = first.trim_end_matches(".rs").to_owned();
        if own == "lib" {
            continue;
        }
        for used in shipped(&text).split("crate::").skip(1) {
            let name: String =
                used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if modules.contains(&name) && name != own {
                wrong.push(format!("{} uses {name}", shown(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_registry_is_complete_and_each_plugin_has_its_case_file() {
    let lib = fs::read_to_string(root().join("plugins/src/lib.rs")).expect("the registry");
    for module in plugin_modules() {
        let entry = format!("{module}::PLUGIN");
        assert!(lib.contains(&entry), "{entry} is not in the registry");
    }
    assert_eq!(plugin_modules().len(), berth_plugins::ALL.len(), "one module a plugin");
    let cases = root().join("plugins/tests/cases");
    let built = berth_plugins::ALL.iter().filter(|def| def.missing.is_none());
    let without_case: Vec<&str> =
        built.map(|def| def.name).filter(|name| !cases.join(case_file(name)).exists()).collect();
    assert!(without_case.is_empty(), "without a file in plugins/tests/cases: {without_case:?}");
}

/// `NodeName` has its cases in `node_name.md`.
fn case_file(plugin: &str) -> String {
    let mut name = String::new();
    for letter in plugin.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name + ".md"
}

#[test]
fn the_engine_and_the_queue_name_no_plugin() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files("core/src/engine").iter().chain(&rust_files("core/src/queue")) {
        for def in berth_plugins::ALL {
            if shipped(text).contains(&format!("\"{}\"", def.name)) {
                wrong.push(format!("{} names {}", shown(path), def.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn kubernetes_types_stop_in_the_wire() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files("src") {
        let name = shown(&path);
        let allowed = ["src/wire", "src/live"].iter().any(|folder| name.starts_with(folder));
        if !allowed && (text.contains("k8s_openapi::") || text.contains("use kube::")) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "Kubernetes types outside src/wire and src/live: {wrong:?}");
}

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What judges the scheduler must not share its mistakes.
#[test]
fn the_auditor_links_no_crate_of_ours() {
    let metadata = metadata();
    let mut packages = metadata["packages"].as_array().expect("packages").iter();
    let audit = packages.find(|package| package["name"] == "berth-audit").expect("the auditor");
    let linked = audit["dependencies"].as_array().expect("dependencies").iter();
    let linked: Vec<&str> = linked
        .filter(|dependency| dependency["kind"] != "dev")
        .map(|dependency| dependency["name"].as_str().expect("a name"))
        .collect();
    assert!(linked.contains(&"serde_json"), "the check itself must be able to fail: {linked:?}");
    assert!(linked.iter().all(|name| !name.starts_with("berth")), "{linked:?}");
}

/// Selectors depend on the device alone: the crate knows neither us nor time, order of hashing,
/// threads or files.
#[test]
fn the_selector_crate_is_pure() {
    let metadata = metadata();
    let mut packages = metadata["packages"].as_array().expect("packages").iter();
    let cel = packages.find(|package| package["name"] == "berth-cel").expect("the crate");
    let linked = cel["dependencies"].as_array().expect("dependencies").iter();
    let linked: Vec<&str> = linked
        .filter(|dependency| dependency["kind"] != "dev")
        .map(|dependency| dependency["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(linked, ["cel", "regex", "thiserror"]);
    let banned = [
        "std::time",
        "HashMap",
        "HashSet",
        "std::thread",
        "std::fs",
        "std::env",
        "std::process",
        "std::io",
        "Mutex",
        "RwLock",
        "unsafe ",
    ];
    let files = rust_files("cel/src");
    let uses = files.iter().flat_map(|(path, text)| {
        let found = banned.iter().filter(|word| shipped(text).contains(**word));
        found.map(move |word| format!("{} uses {word}", shown(path)))
    });
    assert_eq!(uses.collect::<Vec<_>>(), Vec::<String>::new());
}

/// Modules with their versions, as a go.mod requires them.
fn go_versions(module: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join(module).join("go.mod")).expect("a go.mod");
    let required = text.lines().filter_map(|line| {
        let mut words = line.trim().split(' ').skip_while(|word| *word == "require");
        let (name, version) = (words.next()?, words.next()?);
        version.starts_with('v').then(|| (name.to_owned(), version.to_owned()))
    });
    required.collect()
}

/// What selectors are compared with is the Kubernetes that the stand runs.
#[test]
fn the_oracle_and_the_stand_require_the_same_versions() {
    let (oracle, stand) = (go_versions("tests/oracle"), go_versions("tests/stand"));
    assert!(oracle.contains_key("k8s.io/dynamic-resource-allocation"), "{oracle:?}");
    let other: Vec<_> =
        oracle.iter().filter(|(name, version)| stand.get(*name) != Some(version)).collect();
    assert!(other.is_empty(), "other versions than in tests/stand: {other:?}");
}

/// Licences under which a dependency may be linked. MPL-2.0 is for priority-queue, unmodified.
const LICENCES: [&str; 10] = [
    "Apache-2.0",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "Unicode-3.0",
    "MPL-2.0",
    "CDLA-Permissive-2.0",
];

/// Reads an SPDX expression as far as crates write them: one side of each OR must be allowed.
fn allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let plain = plain.replace(" WITH LLVM-exception", "");
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|licence| LICENCES.contains(&licence.trim())))
}

#[test]
fn dependencies_have_licences_that_fit() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| !allowed(package["license"].as_str().unwrap_or("none")))
        .map(|package| format!("{} {}", package["name"], package["license"]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!allowed("GPL-3.0-only"), "the check itself must be able to fail");
    assert!(allowed("LGPL-3.0-or-later OR MPL-2.0"));
}

/// Crates that come in two versions, with who needs the older one.
const TWICE: [(&str, &str); 8] = [
    ("base64", "k8s-openapi and tower-http lag behind kube"),
    ("bit-vec", "rcgen's yasna beside the CEL parser's bit-set"),
    ("foldhash", "petgraph's hashbrown beside indexmap's"),
    ("getrandom", "ring, and tempfile beside rand"),
    ("hashbrown", "kube-runtime's and petgraph's hashbrown beside indexmap's"),
    ("r-efi", "not built here: getrandom's for UEFI"),
    ("syn", "half of the derive macros are on 2, half on 3"),
    ("windows-sys", "not built here"),
];

#[test]
fn no_dependency_comes_twice_without_a_reason() {
    let metadata = metadata();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        versions.entry(name).or_default().insert(package["version"].as_str().expect("a version"));
    }
    let known: BTreeSet<&str> = TWICE.iter().map(|(name, _)| *name).collect();
    let surprising: Vec<_> = versions
        .iter()
        .filter(|(name, versions)| versions.len() > 1 && !known.contains(*name))
        .filter(|(name, _)| !name.starts_with("windows"))
        .collect();
    assert!(surprising.is_empty(), "{surprising:?}");
}
