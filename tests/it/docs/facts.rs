//! What the guides state: flags, metrics, rights and links.

use std::collections::BTreeSet;

use berth::observe::metrics::families::UPSTREAM;
use berth::observe::metrics::own::{OWN, PROCESS};

use super::root;
use crate::installed::{read, rights};
use crate::support::berth::berth;

const GUIDES: [&str; 4] =
    ["docs/install.md", "docs/migrate.md", "docs/operate.md", "docs/security.md"];

/// Words of a text: what is made of these letters.
fn words<'a>(text: &'a str, letters: impl Fn(char) -> bool + 'a) -> impl Iterator<Item = &'a str> {
    text.split(move |letter| !letters(letter)).filter(|word| !word.is_empty())
}

/// What stands in backquotes outside of fenced blocks.
fn code(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose += line;
            prose.push('\n');
        }
    }
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_flag_in_the_guides_is_berths() {
    let help = berth(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let known: BTreeSet<&str> = words(&help, |c| c.is_ascii_alphanumeric() || c == '-')
        .filter(|w| w.starts_with("--"))
        .collect();
    assert!(known.len() > 50, "{}", known.len());
    let mut unknown = Vec::new();
    for guide in GUIDES {
        for code in code(&read(&root().join(guide))) {
            let flag = words(&code, |c| c.is_ascii_alphanumeric() || c == '-').next();
            let flag = flag.filter(|flag| flag.starts_with("--")).unwrap_or("--config");
            if !known.contains(flag) {
                unknown.push(format!("{guide}: {flag}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Metrics of others that the guides may speak of.
const OTHERS: [&str; 1] = ["kubernetes_build_info"];

#[test]
fn every_metric_in_the_guides_is_served_and_every_own_one_is_told_of() {
    let families = UPSTREAM.iter().chain(OWN).chain(PROCESS).map(|family| family.name);
    let known: BTreeSet<&str> = families.chain(OTHERS).collect();
    let prefixes = ["berth_", "scheduler_", "leader_election_", "rest_client_", "kubernetes_"];
    let (mut unknown, mut told) = (Vec::new(), BTreeSet::new());
    for guide in GUIDES {
        let text = read(&root().join(guide));
        for word in words(&text, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            let name = bare.filter(|bare| known.contains(bare)).unwrap_or(word);
            let is_metric = prefixes.iter().any(|p| name.starts_with(p) && name.len() > p.len());
            if is_metric && !known.contains(name) {
                unknown.push(format!("{guide}: {name}"));
            }
            if guide == "docs/operate.md" {
                told.insert(name.to_owned());
            }
        }
    }
    assert!(unknown.is_empty(), "not served: {unknown:?}");
    let untold: Vec<&str> =
        OWN.iter().map(|family| family.name).filter(|name| !told.contains(*name)).collect();
    assert!(untold.is_empty(), "docs/operate.md says nothing of {untold:?}");
}

#[test]
fn the_table_of_rights_is_that_of_the_manifests() {
    let text = read(&root().join("docs/security.md"));
    let mut told = BTreeSet::new();
    for line in text.lines().filter(|line| {
        ["| get", "| create", "| patch", "| delete"].iter().any(|begin| line.starts_with(begin))
    }) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [verbs, resources, group, why] = cells[..] else { panic!("four columns: {line}") };
        assert!(!why.is_empty(), "{line}");
        let (group, name) = match group.split_once(", named ") {
            Some((group, name)) => (group, name.trim_matches('`')),
            None => (group, ""),
        };
        let group = if group == "core" { "" } else { group };
        for resource in resources.split(", ") {
            for verb in verbs.split(", ") {
                told.insert(rights::right(group, resource, name, verb));
            }
        }
    }
    assert_eq!(told, rights::granted());
}

#[test]
fn links_lead_somewhere() {
    let mut dead = Vec::new();
    for guide in GUIDES.into_iter().chain(["README.md", "docs/gangs.md"]) {
        let path = root().join(guide);
        let text = read(&path);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let target = path.parent().expect("a folder").join(file);
            if !file.is_empty() && !file.contains("://") && !target.exists() {
                dead.push(format!("{guide}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:?}");
}
