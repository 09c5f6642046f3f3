//! Why a group has no placement: which member came furthest, and in numbers how many places it needs and
//! how many there are.

use crate::engine::unfit::Unplaced;
use crate::snapshot::Cluster;
use crate::types::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use crate::types::{Pod, PodUid, Text};

use super::{Frame, Furthest, Gang, Stopped};

impl Gang {
    pub(super) fn note_furthest(&mut self, pod: &Pod, unplaced: Unplaced, class: u32) {
        if let Unplaced::Unfit(unfit) = &unplaced {
            self.rejectors.extend(&unfit.rejection.plugins);
        }
        let spots = || self.frames.iter().filter_map(Frame::spot);
        let placed = spots().count();
        if self.furthest.as_ref().is_some_and(|furthest| furthest.placed >= placed) {
            return;
        }
        let alike = spots().filter(|spot| spot.class == class).count();
        let (uid, pod) = (pod.uid.clone(), pod.clone());
        self.furthest = Some(Furthest { placed, uid, pod, alike, unplaced });
    }

    pub(super) fn infeasible(&mut self, cluster: &Cluster) -> Stopped {
        let (uid, unplaced) = self.told(cluster);
        match self.unproven {
            true => Stopped::OutOfSteps(uid, unplaced),
            false => Stopped::Infeasible(uid, unplaced),
        }
    }

    pub(super) fn out_of_steps(&mut self, cluster: &Cluster) -> Stopped {
        let (uid, unplaced) = self.told(cluster);
        Stopped::OutOfSteps(uid, unplaced)
    }

    fn told(&mut self, cluster: &Cluster) -> (PodUid, Unplaced) {
        match self.furthest.take() {
            Some(furthest) => {
                let (uid, unplaced) = self.with_numbers(furthest, cluster);
                (uid, self.with_rejectors(unplaced))
            }
            None => {
                let uid = self.open.first().map(|member| self.uid(*member).clone());
                let text = Text::from("the group has not enough members that can be placed");
                (uid.unwrap_or_default(), Unplaced::Error(text))
            }
        }
    }

    pub(super) fn with_rejectors(&self, mut unplaced: Unplaced) -> Unplaced {
        if let Unplaced::Unfit(unfit) = &mut unplaced {
            let surveyed = self.surveyed.as_ref().map(|survey| survey.plugin);
            let plugins = self.rejectors.iter().copied().chain(surveyed).chain(self.limiter);
            unfit.rejection.plugins = plugins.collect();
        }
        unplaced
    }

    /// Puts the group's numbers behind what is said of the member that found no place.
    fn with_numbers(&self, furthest: Furthest, cluster: &Cluster) -> (PodUid, Unplaced) {
        let Furthest { uid, mut unplaced, pod, alike, .. } = furthest;
        if let Unplaced::Unfit(unfit) = &mut unplaced {
            let (wanted, room) = (self.alike(&pod), on_empty_nodes(cluster, &pod));
            let survey = self.surveyed.as_ref();
            unfit.error.placements = survey.map(|survey| survey.placements);
            let text = match survey {
                Some(survey) => survey.sentence(),
                None => numbers(&pod, wanted, alike, room.iter().all(|room| *room <= 1)),
            };
            let text = match self.limits_sentence() {
                Some(limits) => Text::from(format!("{limits}; {text}")),
                None => text,
            };
            unfit.error.numbers.insert(0, text);
            unfit.error.numbers.extend(never_fits(&room, wanted));
        }
        (uid, unplaced)
    }

    /// Number of members that ask for the same.
    fn alike(&self, pod: &Pod) -> usize {
        self.asks.get(&pod.spec).copied().unwrap_or(1)
    }
}

/// `placed` of `wanted` such pods have a place, of which no node may hold a second one (`one_a_node`).
/// On how many nodes they were is chance, and isn't told: the next attempt would say something else.
fn numbers(pod: &Pod, wanted: usize, placed: usize, one_a_node: bool) -> Text {
    let what = asked(pod);
    let text = if wanted > 1 && one_a_node {
        let exist = if placed == 1 { "exists" } else { "exist" };
        format!("the group needs {wanted} nodes with {what} free; {placed} {exist}")
    } else if wanted > 1 {
        format!(
            "the group needs room for {wanted} pods with {what} each; there is room for {placed}"
        )
    } else {
        format!("the group needs a node with {what} free beside its other members; none exists")
    };
    text.into()
}

/// Returns what a pod asks for, the scarce first: extended resources and claims, else cpu and memory.
fn asked(pod: &Pod) -> String {
    let amounts = || pod.usage.real.iter().filter(|(_, amount)| *amount > 0);
    let native = |name: &str| matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE);
    let mut parts: Vec<String> = amounts()
        .filter(|(name, _)| !native(name))
        .map(|(name, amount)| format!("{amount} {name}"))
        .collect();
    match pod.spec.claims.len() {
        0 => {}
        1 => parts.push("the devices of its claim".to_owned()),
        n => parts.push(format!("the devices of its {n} claims")),
    }
    if parts.is_empty() {
        parts.extend(amounts().filter_map(|(name, amount)| match name {
            CPU if amount % 1000 == 0 => Some(format!("{} cpu", amount / 1000)),
            CPU => Some(format!("{amount}m cpu")),
            MEMORY => Some(format!("{} of memory", bytes(amount))),
            _ => None,
        }));
    }
    if parts.is_empty() { "a free slot".to_owned() } else { parts.join(" and ") }
}

fn bytes(amount: i64) -> String {
    const UNITS: [(&str, i64); 4] =
        [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let exact = UNITS.iter().find(|(_, size)| amount >= *size && amount % size == 0);
    match exact {
        Some((unit, size)) => format!("{}{unit}", amount / size),
        None => amount.to_string(),
    }
}

/// Says that the nodes, were they empty, could not hold so many such pods; `None` if they could, as
/// far as amounts tell.
fn never_fits(room: &[usize], wanted: usize) -> Option<Text> {
    let all: usize = room.iter().sum();
    (all < wanted).then(|| {
        let text = format!("it can never fit: the nodes hold {all} such pods when they are empty");
        Text::from(text)
    })
}

/// Returns how many such pods each node could hold if it were empty, as far as amounts tell. Cost:
/// O(nodes · resources).
fn on_empty_nodes(cluster: &Cluster, pod: &Pod) -> Vec<usize> {
    let nodes = cluster.nodes();
    let amounts: Vec<_> = pod.usage.real.iter().filter(|(_, amount)| *amount > 0).collect();
    let room = nodes.iter().map(|(at, node)| {
        let of = |(name, amount): &(&str, i64)| {
            nodes.known_resource(name).map_or(0, |id| nodes.allocatable(id, at) / amount)
        };
        amounts.iter().map(of).fold(node.pods_max.max(0), i64::min).max(0) as usize
    });
    room.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_as_users_write_them() {
        assert_eq!(bytes(8 << 30), "8Gi");
        assert_eq!(bytes(1536 << 20), "1536Mi");
        assert_eq!(bytes(1_000_000), "1000000");
    }
}
