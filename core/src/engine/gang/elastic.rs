//! Members above what the group needs: placed as they fit, after the others, and never in their way.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::budget::Budget;
use crate::engine::placing::Placer;
use crate::engine::unfit::Unplaced;
use crate::snapshot::Overlay;

use super::{Frame, Gang, Trial};

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
        let decided: BTreeSet<usize> =
            self.frames.iter().filter(|f| f.spot.is_some()).map(|f| f.member).collect();
        let rest = self.order.iter().copied().filter(|member| !decided.contains(member));
        let mut by_part: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        let numbers = self.numbers(|_| false);
        let enough = self.view.enough(&numbers);
        for member in rest.collect::<Vec<_>>() {
            let units = &self.view.members[member].units;
            let open = units.iter().copied().find(|unit| !enough[*unit]);
            by_part.entry(open).or_default().push(member);
        }
        for (part, members) in by_part {
            if !budget.left() {
                return;
            }
            match part {
                None => {
                    for member in members {
                        self.place_one(member, placer, overlay, budget);
                    }
                }
                Some(part) => self.place_part(part, &members, placer, overlay, budget),
            }
        }
    }

    fn place_part(
        &mut self,
        part: usize,
        members: &[usize],
        placer: &mut Placer<'_>,
        overlay: &mut Overlay<'_>,
        budget: &mut Budget,
    ) {
        let from = self.frames.len();
        for member in members {
            self.place_one(*member, placer, overlay, budget);
        }
        if !self.view.enough(&self.numbers(|_| false))[part] {
            self.cut(from, overlay);
        }
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
        match self.place(&pod, &mut Trial::default(), placer, overlay, budget) {
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
        let enough = self.view.enough(&self.numbers(|_| false));
        let useless = |frame: &Frame| {
            let units = &self.view.members[frame.member].units;
            frame.spot.is_some() && units.iter().any(|unit| !enough[*unit])
        };
        let Some(first) = self.frames.iter().position(useless) else { return };
        let keep: Vec<bool> = self.frames.iter().map(|frame| !useless(frame)).collect();
        let mut kept = self.view.count(|member| member.placed);
        for (frame, _) in
            self.frames.iter().zip(&keep).filter(|(f, keep)| **keep && f.spot.is_some())
        {
            self.view.members[frame.member].units.iter().for_each(|unit| kept[*unit] += 1);
        }
        if !self.view.suffices(&kept) {
            return;
        }
        let frames = self.frames.split_off(first);
        if let Some(mark) = frames.iter().find_map(|f| f.spot.as_ref()).map(|spot| spot.mark) {
            overlay.rollback(mark);
        }
        for (mut frame, _) in frames.into_iter().zip(&keep[first..]).filter(|(_, keep)| **keep) {
            if let Some(spot) = &mut frame.spot
                && !placer.place_as_before(overlay, self.uid(frame.member), spot, false)
            {
                continue;
            }
            self.frames.push(frame);
        }
    }
}
