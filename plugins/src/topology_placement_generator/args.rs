//! TopologyPlacementGeneratorArgs (berth.dev/v1alpha1): the levels of the topology, and what is made of
//! ComputeDomains.

use std::collections::BTreeSet;

use berth_core::framework::Args;
use berth_core::types::tree::Level;

use crate::shared::field::{duplicate, invalid_text, required, unsupported};
use crate::shared::label_key;

use super::compute_domains::{ComputeDomains, Inside};

/// As in Kueue's and KAI's Topology objects.
const LEVELS_MAX: usize = 16;

/// Reads `computeDomains` and `exclusiveCliques`.
pub(super) fn compute_domains(args: &Args) -> ComputeDomains {
    let inside = match args.text("computeDomains").as_deref() {
        None | Some("Required") => Inside::Required,
        Some("Preferred") => Inside::Preferred,
        Some("Ignored") => Inside::Ignored,
        Some(other) => {
            let all = ["Ignored", "Preferred", "Required"];
            args.error("computeDomains", unsupported(other, &all));
            Inside::Required
        }
    };
    ComputeDomains { inside, exclusive: args.bool("exclusiveCliques", false) }
}

/// Reads `levels`, from the largest domains to the smallest.
pub(super) fn levels(args: &Args) -> Vec<Level> {
    let mut seen = BTreeSet::new();
    let mut levels = Vec::new();
    for (at, entry) in args.objects("levels").iter().enumerate() {
        let label = entry.text("nodeLabel").unwrap_or_default();
        let name = entry.text("name").filter(|name| !name.is_empty());
        entry.finish();
        if label.is_empty() {
            entry.error("nodeLabel", required("a node label"));
            continue;
        }
        label_key::check(entry, "nodeLabel", &label);
        for (key, word) in [("nodeLabel", Some(&label)), ("name", name.as_ref())] {
            if let Some(word) = word.filter(|word| !seen.insert((*word).clone())) {
                entry.error(key, duplicate(word));
            }
        }
        if at == LEVELS_MAX {
            let detail = format!("must have at most {LEVELS_MAX} levels");
            args.error("levels", invalid_text(&label, detail));
        }
        levels.push(Level { label, name });
    }
    levels
}
