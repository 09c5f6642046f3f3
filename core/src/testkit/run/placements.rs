//! What a plugin says of where groups may go: the placements, or their scores before and after they
//! are made 0 to 100.

use crate::framework::{Cycle, CycleState, NodeSet, Placement, PlacementAsk, Proposal};
use crate::snapshot::{NodeIdx, Place};
use crate::types::{Pod, PodGroup};

use super::Scene;

impl Scene {
    /// For every group in order of name. Placements come from the first plugin that proposes some,
    /// room for members from those that count it.
    pub(super) fn place_groups(&mut self) {
        let groups: Vec<_> = self.cluster.groups().objects().cloned().collect();
        for group in groups {
            let (members, running) = self.members_of(&group);
            let Some(placements) = self.placements(&group, &running) else { continue };
            let subject = self.subject().clone();
            let name = &group.key.name;
            match placements {
                Err(text) => self.say(format!("group {name}: {text}")),
                Ok(placements) if subject.placement_generate.is_some() => {
                    for placement in placements {
                        let nodes = self.names(&placement.nodes);
                        let Placement { name: of, tier, .. } = placement;
                        self.say(format!("group {name}: {of}, tier {tier}: {nodes}"));
                    }
                }
                Ok(placements) => self.rate(&group, &placements, &members, running.len() as u32),
            }
        }
    }

    fn rate(&mut self, group: &PodGroup, placements: &[Placement], members: &[Pod], running: u32) {
        let Some(plugin) = self.subject().placement_score.clone() else { return };
        let kinds: Vec<(&Pod, u32)> = members.iter().map(|pod| (pod, 1)).collect();
        let score = |placement: &Placement| {
            let fit = self.fit(placement, members);
            let proposal = Proposal { placement, members: &kinds, running, fit };
            plugin.score(proposal, &self.cluster)
        };
        let raw: Vec<i64> = placements.iter().map(score).collect();
        let mut scores = raw.clone();
        plugin.normalize(&mut scores);
        for ((placement, raw), score) in placements.iter().zip(raw).zip(scores) {
            let (group, of) = (&group.key.name, &placement.name);
            self.say(format!("group {group} in {of}: {raw}, normalized {score}"));
        }
    }

    /// How many of the members find room, one kind at a time.
    fn fit(&self, placement: &Placement, members: &[Pod]) -> u32 {
        let all = members.len() as u32;
        let Some(pod) = members.first() else { return 0 };
        let counters = self.plugins.iter().filter_map(|built| built.points.room.as_ref());
        let room = |node: NodeIdx| {
            let (cycle, state) = (Cycle { pod, cluster: &self.cluster }, CycleState::default());
            counters.clone().map(|it| it.room(cycle, &state, node)).min().unwrap_or(u32::MAX)
        };
        placement.nodes.iter().map(room).fold(0u32, u32::saturating_add).min(all)
    }

    /// Returns those that wait, and the nodes of those that don't.
    fn members_of(&self, group: &PodGroup) -> (Vec<Pod>, Vec<NodeIdx>) {
        let members = self.cluster.groups().members(&group.key);
        let records = members.filter_map(|uid| self.cluster.pod(uid));
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for record in records {
            match record.place {
                Place::Nowhere => waiting.push(record.pod.clone()),
                place => running.extend(place.node()),
            }
        }
        (waiting, running)
    }

    fn placements(
        &mut self,
        group: &PodGroup,
        running: &[NodeIdx],
    ) -> Option<Result<Vec<Placement>, String>> {
        let plugin = self.plugins.iter().find_map(|it| it.points.placement_generate.clone())?;
        let constraints = &group.topology;
        for label in plugin.labels(constraints, &self.cluster) {
            self.cluster.declare_domains(&label);
        }
        let ask = PlacementAsk { constraints, within: None, running, peers: &[], members: &[] };
        let answer = plugin.placements(ask, &self.cluster);
        Some(answer.map_err(|reason| {
            reason.texts.iter().map(|text| text.as_str()).collect::<Vec<_>>().join(", ")
        }))
    }

    fn names(&self, nodes: &NodeSet) -> String {
        let nodes = nodes.iter().map(|node| self.cluster.nodes().slot(node).name.to_string());
        nodes.collect::<Vec<_>>().join(" ")
    }
}
