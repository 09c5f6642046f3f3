//! How many members may be in one domain at most: what is left is counted as members are placed, and
//! where a domain is full no more go there.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::guard::guarded;
use crate::engine::placing::Placer;
use crate::engine::unfit::{Unplaced, refused};
use crate::framework::{NodeSet, PlacementAsk};
use crate::snapshot::{Cluster, NodeIdx, Overlay};
use crate::types::Text;
use crate::types::group::{Spread, TopologyConstraint};

use super::domains::Kind;
use super::{Frame, Gang, Stopped};

/// A limit, with the domains that it is about and how many members each has.
#[derive(Debug)]
pub(super) struct Limit {
    unit: usize,
    spread: Spread,
    domains: Vec<NodeSet>,
    /// By node; none for those that are in no domain.
    domain_of: Vec<Option<usize>>,
    members: Vec<u32>,
    /// Nodes of the domains that take one more.
    open: NodeSet,
}

impl Limit {
    fn new(unit: usize, spread: Spread, domains: Vec<NodeSet>) -> Limit {
        let (mut domain_of, mut open) = (Vec::new(), NodeSet::default());
        for (at, nodes) in domains.iter().enumerate() {
            for node in nodes.iter() {
                let len = domain_of.len().max(node.at() + 1);
                domain_of.resize(len, None);
                domain_of[node.at()] = Some(at);
            }
            open.extend(nodes);
        }
        let members = vec![0; domains.len()];
        Limit { unit, spread, domains, domain_of, members, open }
    }

    fn domain(&self, node: NodeIdx) -> Option<usize> {
        self.domain_of.get(node.at()).copied().flatten()
    }

    fn is_full(&self, domain: usize) -> bool {
        self.members[domain] >= self.spread.at_most
    }

    /// A member takes its place (1) or leaves it (-1). Cost: O(the domain's nodes) where it is full, or
    /// was.
    fn count(&mut self, node: NodeIdx, sign: i32) {
        let Some(domain) = self.domain(node) else { return };
        let was = self.is_full(domain);
        self.members[domain] = self.members[domain].saturating_add_signed(sign);
        match (was, self.is_full(domain)) {
            (false, true) => self.open = self.open.difference(&self.domains[domain]),
            (true, false) => self.open.extend(&self.domains[domain]),
            (true, true) | (false, false) => {}
        }
    }

    /// Returns how many of some members it leaves room for on some nodes, at most. Cost: those nodes,
    /// for each kind.
    fn room(&self, kinds: &[Kind], nodes: &NodeSet) -> u32 {
        let mut room: BTreeMap<usize, u32> = BTreeMap::new();
        for kind in kinds {
            let mut of_kind: BTreeMap<usize, u32> = BTreeMap::new();
            for node in nodes.iter() {
                if let Some(domain) = self.domain(node) {
                    let there = of_kind.entry(domain).or_default();
                    let more = kind.room.get(node.at()).copied().unwrap_or(0);
                    *there = there.saturating_add(more).min(kind.members);
                }
            }
            for (domain, of) in of_kind {
                let all = room.entry(domain).or_default();
                *all = all.saturating_add(of);
            }
        }
        let left = |domain: usize| self.spread.at_most.saturating_sub(self.members[domain]);
        room.into_iter().map(|(domain, room)| room.min(left(domain))).sum()
    }

    fn sentence(&self) -> String {
        let Spread { level, at_most } = &self.spread;
        let pods = if *at_most == 1 { "pod" } else { "pods" };
        format!("the group may have {at_most} {pods} in one {level}")
    }
}

impl Gang {
    /// Finds the domains of all limits, and who is there. Cost: O(nodes) for each limit.
    pub(super) fn read_limits(
        &mut self,
        placer: &Placer<'_>,
        overlay: &mut Overlay<'_>,
    ) -> Result<(), Stopped> {
        self.limits.clear();
        let any = self.view.units.iter().any(|unit| !unit.spread.is_empty());
        let plugin = placer.profile.placement_generate.first().filter(|_| any);
        self.limiter = plugin.map(|entry| entry.name);
        for unit in 0..self.view.units.len() {
            for spread in self.view.units[unit].spread.clone() {
                let domains = domains_of(&spread, placer, overlay);
                let domains = domains.map_err(|unplaced| {
                    let leader = self.open.first().map(|member| self.uid(*member).clone());
                    Stopped::At(leader.unwrap_or_default(), unplaced)
                })?;
                let mut limit = Limit::new(unit, spread, domains);
                for node in self.nodes_in(unit, overlay.cluster()) {
                    limit.count(node, 1);
                }
                self.limits.push(limit);
            }
        }
        Ok(())
    }

    /// Returns the nodes of a unit's members, one entry a member: those that had a place before, and
    /// those that have one by now.
    fn nodes_in(&self, unit: usize, cluster: &Cluster) -> Vec<NodeIdx> {
        let frames = self.frames.iter().filter_map(|frame| Some((frame.member()?, frame.spot()?)));
        let inside = |member: usize| self.view.members[member].units.contains(&unit);
        let placed = frames.filter(|(member, _)| inside(*member)).map(|(_, spot)| spot.node);
        self.running(unit, cluster).into_iter().chain(placed).collect()
    }

    /// A member takes its place (1) or leaves it (-1).
    pub(super) fn count_for_limits(&mut self, member: usize, node: NodeIdx, sign: i32) {
        let units = &self.view.members[member].units;
        for limit in self.limits.iter_mut().filter(|limit| units.contains(&limit.unit)) {
            limit.count(node, sign);
        }
    }

    fn limits_of(&self, member: usize) -> impl Iterator<Item = &Limit> {
        let units = &self.view.members[member].units;
        self.limits.iter().filter(|limit| units.contains(&limit.unit))
    }

    /// Returns the nodes that limits leave a member; `None` if there are none for it.
    pub(super) fn open_to(&self, member: usize) -> Option<NodeSet> {
        let mut open = self.limits_of(member).map(|limit| &limit.open);
        let first = open.next()?.clone();
        Some(open.fold(first, |both, open| both.intersection(open)))
    }

    /// Tells whether domains of a member's limits may cross each other: then even members that are alike
    /// can stand in each other's way.
    pub(super) fn limits_cross(&self, member: usize) -> bool {
        self.limits_of(member).count() > 1
    }

    /// Returns the decisions that fill domains which a member can't go to for that.
    pub(super) fn filling(&self, member: usize) -> BTreeSet<usize> {
        let fills = |frame: &Frame| {
            let (Some(other), Some(spot)) = (frame.member(), frame.spot()) else { return false };
            let units = &self.view.members[other].units;
            self.limits_of(member).any(|limit| {
                let full = limit.domain(spot.node).is_some_and(|domain| limit.is_full(domain));
                full && units.contains(&limit.unit)
            })
        };
        let frames = self.frames.iter().enumerate();
        frames.filter(|(_, frame)| fills(frame)).map(|(at, _)| at).collect()
    }

    /// Returns for how many of a unit's members limits leave room on some nodes, at most.
    pub(super) fn limited_room(&self, unit: usize, kinds: &[Kind], nodes: &NodeSet) -> u32 {
        let around = |limit: &&Limit| {
            let mut at = Some(unit);
            while let Some(of) = at.filter(|of| *of != limit.unit) {
                at = self.view.units[of].parent;
            }
            at.is_some()
        };
        let limits = self.limits.iter().filter(around);
        limits.map(|limit| limit.room(kinds, nodes)).min().unwrap_or(u32::MAX)
    }

    /// Says how many members may be where.
    pub(super) fn limits_sentence(&self) -> Option<Text> {
        let sentences: BTreeSet<String> = self.limits.iter().map(Limit::sentence).collect();
        let text = sentences.into_iter().collect::<Vec<_>>().join(", ");
        (!text.is_empty()).then(|| text.into())
    }
}

/// Asks the plugin that knows topologies for all domains of a level.
fn domains_of(
    spread: &Spread,
    placer: &Placer<'_>,
    overlay: &mut Overlay<'_>,
) -> Result<Vec<NodeSet>, Unplaced> {
    let Some(entry) = placer.profile.placement_generate.first() else {
        return Err(Unplaced::Error(Text::from("no plugin of the profile knows topologies")));
    };
    entry.calls.count();
    let constraint = TopologyConstraint {
        level: spread.level.clone(),
        ..TopologyConstraint::required(Text::default())
    };
    let constraints = [constraint];
    let labels = guarded(entry.name, || entry.plugin.labels(&constraints, overlay.cluster()));
    let labels = labels.map_err(Unplaced::Error)?;
    overlay.declare_all(|cluster| {
        labels.iter().for_each(|label| cluster.declare_domains(label));
    });
    let ask = PlacementAsk {
        constraints: &constraints,
        within: None,
        running: &[],
        peers: &[],
        members: &[],
    };
    let cluster = overlay.cluster();
    let answer = guarded(entry.name, || entry.plugin.placements(ask, cluster));
    let domains = answer.map_err(Unplaced::Error)?;
    let domains = domains.map_err(|reason| refused(entry.name, &reason))?;
    Ok(domains.into_iter().map(|domain| domain.nodes).collect())
}
