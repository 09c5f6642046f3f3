//! The middle part: each group with its members, where they are, and what it waits for.

use std::collections::BTreeMap;

use berth_core::types::{Pod, PodUid};

use crate::simulate::groups::{Group, GroupStage};

use super::paint::{GLUE, Paint, Piece, Style, cut, joined, padded, plain, width, words, wrap};
use super::pods::shorten;
use super::waiting::{self, Why};
use super::{View, WIDTH};

const NAME_MAX: usize = 36;

/// Returns the lines of all groups; none where there are none.
pub(super) fn lines(view: &View<'_>, paint: Paint) -> Vec<String> {
    if view.groups.is_empty() {
        return Vec::new();
    }
    let pods: BTreeMap<&PodUid, &Pod> = view.pods.iter().map(|pod| (&pod.uid, pod)).collect();
    let names: Vec<String> = view.groups.iter().map(|group| cut(&name(group), NAME_MAX)).collect();
    let name_wide = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let dialects = view.groups.iter().map(|group| width(group.key.dialect.name));
    let left = 2 + name_wide + 2 + dialects.max().unwrap_or(0) + 2;
    let right = WIDTH.saturating_sub(left).max(30);
    let mut lines = vec![paint.show(&Piece::new("Groups", Style::Bold))];
    for (name, group) in names.iter().zip(view.groups) {
        let members = group.members.iter().filter_map(|uid| pods.get(uid).copied()).collect();
        let block = Block { group, members };
        let named = padded(name.clone(), width(name), name_wide + 2) + group.key.dialect.name;
        for (at, line) in block.lines(view, right).iter().enumerate() {
            let left = match at {
                0 => padded(format!("  {named}"), 2 + width(&named), left),
                _ => " ".repeat(left),
            };
            lines.push(left + &joined(line, paint));
        }
    }
    lines
}

/// The group's name, with its namespace unless that is `default`.
fn name(group: &Group) -> String {
    match group.key.namespace.as_str() {
        "default" => plain(&group.key.name),
        namespace => format!("{}/{}", plain(namespace), plain(&group.key.name)),
    }
}

struct Block<'a> {
    group: &'a Group,
    members: Vec<&'a Pod>,
}

impl Block<'_> {
    fn lines(&self, view: &View<'_>, wide: usize) -> Vec<Vec<Piece>> {
        let mut lines = wrap(vec![self.standing()], wide);
        if let Some(Why { reason, nodes, .. }) = self.why(view) {
            lines.extend(wrap(words(&reason, Style::Waits), wide));
            if !nodes.is_empty() {
                lines.extend(wrap(words(&nodes, Style::Dim), wide));
            }
        }
        let mut members = wrap(self.members(view), wide);
        shorten(&mut members);
        lines.extend(members.into_iter().filter(|line| !line.is_empty()));
        lines
    }

    /// Such as `6 of 8 placed, needs 8, 4 GPUs each`.
    fn standing(&self) -> Piece {
        let Group { n_placed, members, state, .. } = self.group;
        let mut text = format!("{n_placed} of {} placed", members.len());
        text += &self.group.needs_in_words().map_or_else(String::new, |it| format!(", {it}"));
        let wants: Vec<String> = self.members.iter().map(|pod| waiting::wants(pod)).collect();
        if let Some(first) = wants.first().filter(|first| !first.is_empty())
            && wants.iter().all(|wants| wants == first)
        {
            text += &format!(", {first} each");
        }
        let style = match state {
            GroupStage::Scheduled => Style::Good,
            GroupStage::Waiting | GroupStage::Unschedulable | GroupStage::Error => Style::Waits,
        };
        Piece::new(text, style)
    }

    /// What the first member that waits is told, else the group's own words.
    fn why(&self, view: &View<'_>) -> Option<Why> {
        let waits = self.members.iter().find(|pod| waiting::waits(pod));
        let message = &self.group.message;
        let looked_at = self.group.state != GroupStage::Waiting;
        match waits {
            Some(pod) if looked_at && pod.unscheduled.is_some() => Some(waiting::why(pod, view)),
            _ if message.is_empty() => waits.map(|pod| waiting::why(pod, view)),
            _ => Some(Why::of_text(plain(message))),
        }
    }

    /// Members by node, those that wait last: `gpu-1: +a-0, +a-1 · waiting: a-2`.
    fn members(&self, view: &View<'_>) -> Vec<Piece> {
        let mut by_place: BTreeMap<(bool, &str), Vec<&Pod>> = BTreeMap::new();
        for pod in &self.members {
            let place = pod.node_name.as_ref().map_or((true, "waiting"), |node| (false, node));
            by_place.entry(place).or_default().push(pod);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for ((_, place), pods) in by_place {
            if let Some(last) = pieces.last_mut() {
                last.text += " ·";
            }
            for (at, pod) in pods.iter().enumerate() {
                let now = view.placed.contains(&pod.uid);
                let (mark, style) = if now { ("+", Style::Good) } else { ("", Style::Plain) };
                let place =
                    if at == 0 { format!("{}:{GLUE}", plain(place)) } else { String::new() };
                let comma = if at + 1 < pods.len() { "," } else { "" };
                pieces.push(Piece::new(format!("{place}{mark}{}{comma}", plain(&pod.name)), style));
            }
        }
        pieces
    }
}
