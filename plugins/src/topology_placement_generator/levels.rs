//! What a group means by a level: a node label with the levels above it, or a tier of HyperNodes.
//!
//! Levels are known from the arguments and from objects of other schedulers. The arguments come first;
//! of objects that name one label, the first by name counts. Tiers are the HyperNodes' where there are
//! any, and else count the arguments' levels from below.

use berth_core::framework::Reason;
use berth_core::snapshot::Cluster;
use berth_core::types::Text;
use berth_core::types::group::TopologyLevel;
use berth_core::types::tree::Level;

use super::domains::{self, Domain};
use super::{HOSTNAME, NAME, TopologyPlacementGenerator};

/// Domains of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// Nodes with one value of a label, and of the labels above it: the largest domains first.
    Label { label: Text, above: Vec<Text> },
    /// HyperNodes.
    Tier(u32),
}

impl Meant {
    pub(super) fn cut(&self, domains: &[Domain], cluster: &Cluster) -> Vec<Domain> {
        match self {
            Meant::Label { label, above } => domains::cut(domains, label, above, cluster),
            Meant::Tier(tier) => domains::cut_by_tier(domains, *tier, cluster),
        }
    }

    /// Returns this and what is larger, smallest domains first.
    pub(super) fn and_above(&self, cluster: &Cluster) -> Vec<Meant> {
        match self {
            Meant::Label { label, above } => {
                let labels: Vec<&Text> = above.iter().chain([label]).collect();
                let levels = (0..labels.len()).map(|at| Meant::Label {
                    label: labels[at].clone(),
                    above: above[..at].to_vec(),
                });
                levels.rev().collect()
            }
            Meant::Tier(tier) => {
                let above = cluster.topologies().hyper_nodes().tiers().filter(|it| it > tier);
                [*tier].into_iter().chain(above).map(Meant::Tier).collect()
            }
        }
    }

    /// Tells whether the others are as large, so far as that is known.
    pub(super) fn reached_by(&self, other: &Meant) -> bool {
        match (self, other) {
            (Meant::Label { label, .. }, Meant::Label { label: other, .. }) => label == other,
            (Meant::Tier(tier), Meant::Tier(other)) => tier <= other,
            (Meant::Label { .. }, Meant::Tier(_)) | (Meant::Tier(_), Meant::Label { .. }) => false,
        }
    }

    /// Returns the labels that domains are cut by.
    pub(super) fn labels(self) -> Vec<Text> {
        match self {
            Meant::Label { label, mut above } => {
                above.push(label);
                above
            }
            Meant::Tier(_) => Vec::new(),
        }
    }
}

impl std::fmt::Display for Meant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Meant::Label { label, .. } => f.write_str(label),
            Meant::Tier(tier) => write!(f, "HyperNodes of tier {tier}"),
        }
    }
}

impl TopologyPlacementGenerator {
    /// # Errors
    /// Nothing is known by that name or number.
    pub(super) fn meant(&self, level: &TopologyLevel, cluster: &Cluster) -> Result<Meant, Reason> {
        let topologies = cluster.topologies();
        match level {
            TopologyLevel::Named(name) => Ok(self.named(name, cluster)),
            TopologyLevel::Tier(tier) if topologies.hyper_nodes().is_empty() => self.tier(*tier),
            TopologyLevel::Tier(tier) => match topologies.hyper_nodes().tiers().next() {
                Some(lowest) if lowest > *tier => {
                    let text = format!("the lowest tier of HyperNodes is {lowest}, not {tier}");
                    Err(Reason::from(Text::from(text)))
                }
                Some(_) | None => Ok(Meant::Tier(*tier)),
            },
            TopologyLevel::Of { topology, level } => match topologies.levels(topology) {
                None => Ok(self.named(level, cluster)),
                Some(levels) => among(levels, level).ok_or_else(|| {
                    let text = format!("topology {} has no level {level}", topology.name);
                    Reason::from(Text::from(text))
                }),
            },
        }
    }

    /// Returns what a wish means, none where nobody knows the level: that is no reason to wait.
    pub(super) fn wished(&self, level: &TopologyLevel, cluster: &Cluster) -> Option<Meant> {
        let lowest = cluster.topologies().hyper_nodes().tiers().next();
        match (level, lowest) {
            (TopologyLevel::Tier(tier), Some(lowest)) => Some(Meant::Tier(lowest.max(*tier))),
            _ => self.meant(level, cluster).ok(),
        }
    }

    /// A name that nobody has for a level is a label.
    fn named(&self, name: &Text, cluster: &Cluster) -> Meant {
        let topologies = cluster.topologies();
        if let Some(meant) = among(&self.levels, name) {
            return meant;
        }
        if let Some(tier) = topologies.hyper_nodes().tier_named(name) {
            return Meant::Tier(tier);
        }
        let levels = topologies.with_label(name).or_else(|| topologies.with_name(name));
        levels
            .and_then(|levels| among(levels, name))
            .unwrap_or_else(|| Meant::Label { label: name.clone(), above: Vec::new() })
    }

    fn tier(&self, tier: u32) -> Result<Meant, Reason> {
        let mut above_nodes = self.levels.iter().rev().filter(|level| &*level.label != HOSTNAME);
        let nth = (tier as usize).checked_sub(1).and_then(|at| above_nodes.nth(at));
        nth.and_then(|level| among(&self.levels, &level.label)).ok_or_else(|| {
            let known = self.levels.iter().filter(|level| &*level.label != HOSTNAME).count();
            let text = format!(
                "topology tier {tier} is not known: there are no HyperNodes, and the arguments of \
                 {NAME} name levels for {known}"
            );
            Reason::from(Text::from(text))
        })
    }
}

/// Returns the level of this name, or of this label.
fn among(levels: &[Level], name: &Text) -> Option<Meant> {
    let called = |level: &Level| level.name.as_ref() == Some(name);
    let at = levels.iter().position(called);
    let at = at.or_else(|| levels.iter().position(|level| level.label == *name))?;
    let above = levels[..at].iter().map(|level| level.label.clone()).collect();
    Some(Meant::Label { label: levels[at].label.clone(), above })
}
