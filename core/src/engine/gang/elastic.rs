//! Members above what the group needs: placed as they fit, after the others, and never in their way.

use std::collections::BTreeMap;

use crate::engine::budget::Budget;
use crate::engine::placing::Placer;
use crate::engine::unfit::Unplaced;
use crate::snapshot::Overlay;

use super::{Frame, Gang, Made, Trial, Turn};

impl Gang {
    /// Drops members whose part of the group has come to nothing, then places who else fits: parts
    /// with a minimum as a whole, all others one by one. What doesn't fit, or not within the budget,
    /// waits for the next attempt.
    pub(super) fn place_others(
        &mut self,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) {
        self.drop_leftovers(placer, overlay);
        let placed = self.placed_members();
        let members = self.order.iter().filter_map(Turn::member);
        let rest: Vec<usize> = members.filter(|member| !placed.contains(member)).collect();
        let mut by_part: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        let enough = self.view.enough(&self.in_place);
        for member in rest {
            let units = &self.view.members[member].units;
            let open = units.iter().copied().find(|unit| !enough[*unit]);
            by_part.entry(open).or_default().push(member);
        }
        for (part, members) in by_part {
            if !budget.left() {
                return;
            }
            self.place_part(part, &members, placer, overlay, budget);
        }
    }

    /// Places members as they fit; those of a part that needs more of them than fit, not at all. If a
    /// placement was to be chosen for them, the next is tried until one takes some.
    fn place_part(
        &mut self,
        part: Option<usize>,
        members: &[usize],
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) {
        let from = self.frames.len();
        loop {
            for member in members {
                if self.open_domains(*member, placer, overlay, budget) {
                    self.place_one(*member, placer, overlay, budget);
                }
            }
            let done = match part {
                Some(part) => self.view.enough(&self.in_place)[part],
                None => self.frames[from..].iter().any(|frame| frame.spot().is_some()),
            };
            if done {
                return;
            }
            let Some(first) = self.cut(from, overlay) else { return };
            let (Turn::Domain(unit), Made::Within(mut choice)) = (first.turn, first.made) else {
                return;
            };
            choice.candidates.drain(..=choice.at);
            if choice.candidates.is_empty() || !budget.left() {
                return;
            }
            self.choose(unit, choice.candidates);
        }
    }

    /// Sees to it that the placements are chosen which a member must be in. False if there is none
    /// for one of its units.
    fn open_domains(
        &mut self,
        member: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) -> bool {
        let units: Vec<usize> = self.constrained(member).collect();
        for unit in units {
            if self.chosen.contains_key(&unit) {
                continue;
            }
            match self.survey(unit, placer, overlay, budget) {
                Ok(candidates) if !candidates.is_empty() => self.choose(unit, candidates),
                Ok(_) => {
                    // What went wrong meanwhile shows again where the group needs the member.
                    let _ = self.note_no_room(unit, placer, overlay, budget);
                    return false;
                }
                Err(_) => return false,
            }
        }
        self.closed(member).is_none()
    }

    fn place_one(
        &mut self,
        member: usize,
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) {
        let uid = self.uid(member);
        let Some(pod) = overlay.cluster().pod(uid).map(|record| record.pod.clone()) else { return };
        match self.place(member, &pod, &mut Trial::default(), placer, overlay, budget) {
            Ok(placed) => self.push(member, Trial::default(), placed),
            Err(Unplaced::Unfit(unfit)) => {
                self.note_furthest(&pod, Unplaced::Unfit(unfit), placer.last_class().0);
            }
            Err(_) => {}
        }
    }

    /// A part that got some of its members, but not what it needs, gives them back if the group does
    /// without it.
    fn drop_leftovers(&mut self, placer: &mut Placer<'_>, overlay: &mut Overlay<'_>) {
        let enough = self.view.enough(&self.in_place);
        let useless = |frame: &Frame| match frame.turn {
            Turn::Domain(unit) => !enough[unit],
            Turn::Member(member) => {
                let units = &self.view.members[member].units;
                frame.spot().is_some() && units.iter().any(|unit| !enough[*unit])
            }
        };
        let Some(first) = self.frames.iter().position(useless) else { return };
        let keep: Vec<bool> = self.frames.iter().map(|frame| !useless(frame)).collect();
        let mut kept = self.view.count(|member| member.placed);
        for (frame, _) in self.frames.iter().zip(&keep).filter(|(_, keep)| **keep) {
            if let (Some(member), Some(_)) = (frame.member(), frame.spot()) {
                self.view.members[member].units.iter().for_each(|unit| kept[*unit] += 1);
            }
        }
        if !self.view.suffices(&kept) {
            return;
        }
        let frames = self.take_frames(first);
        if let Some(mark) = frames.iter().find_map(Frame::spot).map(|spot| spot.mark) {
            overlay.rollback(mark);
        }
        for (mut frame, _) in frames.into_iter().zip(&keep[first..]).filter(|(_, keep)| **keep) {
            if let (Made::Placed(spot), Turn::Member(member)) = (&mut frame.made, frame.turn)
                && !placer.place_as_before(
                    overlay,
                    self.uid(member),
                    spot,
                    false,
                    &mut Budget::new(0),
                )
            {
                continue;
            }
            self.push_frame(frame);
        }
    }
}
