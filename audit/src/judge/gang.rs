//! I4: no gang stays bound in part.

use std::collections::BTreeMap;

use crate::history::History;
use crate::judge::{Invariant, Limits, Report, quiet_time};
use crate::moment::Moment;
use crate::objects::{Name, Object};
use crate::world::{Step, World, group_of};

pub(crate) struct Gangs<'a> {
    history: &'a History,
    limits: &'a Limits,
    gangs: BTreeMap<Name, Gang>,
    /// Gangs that were whole once and of which members were lost later.
    broken_later: u64,
}

#[derive(Default)]
struct Gang {
    /// Since when it is bound in part, and how many members were then.
    partial: Option<Partial>,
    /// It was whole; what members it loses now ended, or were deleted by somebody.
    was_whole: bool,
}

struct Partial {
    since: Moment,
    revision: i64,
    bound: u64,
    min_count: u64,
}

impl<'a> Gangs<'a> {
    pub(crate) fn new(history: &'a History, limits: &'a Limits) -> Self {
        Self { history, limits, gangs: BTreeMap::new(), broken_later: 0 }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, report: &mut Report) {
        let mut touched: Vec<Name> = Vec::new();
        for object in [step.old.as_ref(), step.change.object.as_ref()].into_iter().flatten() {
            match object {
                Object::Pod(pod) => touched.extend(group_of(pod)),
                Object::Group(group) => touched.push(group.name.clone()),
                Object::Node(_)
                | Object::Lease(_)
                | Object::Claim(_)
                | Object::Slice(_)
                | Object::Class(_)
                | Object::TaintRule(_) => {}
            }
        }
        touched.dedup();
        for name in touched {
            self.look(&name, step, report);
        }
    }

    fn look(&mut self, name: &Name, step: &Step<'_>, report: &mut Report) {
        let bound = bound(step.world, name);
        let min_count = step.world.groups.get(name).and_then(|group| group.min_count).unwrap_or(0);
        let gang = self.gangs.entry(name.clone()).or_default();
        let is_partial = 0 < bound && bound < min_count && !gang.was_whole;
        if gang.was_whole && 0 < bound && bound < min_count {
            self.broken_later += 1;
        }
        gang.was_whole = match bound {
            0 => false,
            _ => gang.was_whole || (min_count > 0 && bound >= min_count),
        };
        match (&mut gang.partial, is_partial) {
            (None, true) => {
                let (since, revision) = (step.now(), step.change.revision);
                gang.partial = Some(Partial { since, revision, bound, min_count });
            }
            (Some(partial), true) => partial.bound = bound,
            (Some(_), false) => {
                if let Some(partial) = gang.partial.take() {
                    self.convict(name, &partial, step.now(), report);
                }
            }
            (None, false) => {}
        }
    }

    fn convict(&self, name: &Name, partial: &Partial, until: Moment, report: &mut Report) {
        let time = quiet_time(self.history, partial.since, until);
        if time > self.limits.partial_gang {
            let Partial { bound, min_count, revision, .. } = *partial;
            let seconds = time.as_secs_f32();
            let text = format!("gang {name}: {bound} of {min_count} bound for {seconds:.1} s");
            report.convict(Invariant::I4, revision, text);
        }
    }

    pub(crate) fn end(&mut self, end: Moment, report: &mut Report) {
        for (name, gang) in &self.gangs {
            if let Some(partial) = &gang.partial {
                self.convict(name, partial, end, report);
            }
        }
        if self.broken_later > 0 {
            let text = format!(
                "I4 leaves out gangs that lost members after they were whole: {} changes",
                self.broken_later
            );
            report.notes.push(text);
        }
    }
}

/// Returns how many members have a place. One that has succeeded had it; one that is leaving has
/// none.
fn bound(world: &World, group: &Name) -> u64 {
    let members = world.members(group);
    members.filter(|pod| pod.node.is_some() && !pod.is_deleting && !pod.has_failed).count() as u64
}

#[cfg(test)]
mod tests {
    use crate::builder::Builder;
    use crate::report::Invariant::I4;

    /// Four members, of which so many are bound, and no faults.
    fn with_gang(bound: usize) -> Builder {
        let mut history = Builder::new();
        history.faults_ended().node("n-1", 8).group("g", 4);
        for (index, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let pod = history.pod(name).in_group("g").asks(1).told_why();
            if index < bound {
                pod.bound("n-1");
            }
        }
        history
    }

    #[test]
    fn three_of_four_for_half_a_minute_are_convicted() {
        let mut history = with_gang(3);
        history.wait(29.0).acquit();
        history.wait(2.0);
        let text = history.convict(I4);
        assert!(text.contains("gang default/g: 3 of 4 bound for 31."), "{text}");
    }

    #[test]
    fn whole_and_empty_gangs_are_right_and_so_are_groups_without_a_gang() {
        with_gang(4).wait(100.0).acquit();
        with_gang(0).wait(100.0).judge().of(I4).is_empty().then_some(()).expect("no conviction");

        let mut history = Builder::new();
        history.faults_ended().node("n-1", 8);
        history.pod("a").in_group("unknown").asks(1).bound("n-1");
        history.wait(100.0).acquit();
    }

    #[test]
    fn time_before_the_faults_ended_does_not_count() {
        let mut history = with_gang(3);
        history.wait(100.0).faults_ended().wait(20.0).acquit();
        history.history.faults_ended = None;
        let report = history.judge();
        assert!(report.violations.is_empty() && report.notes.len() == 1, "{report}");
    }

    #[test]
    fn a_gang_that_came_together_late_is_convicted_for_the_time_before() {
        let mut history = with_gang(3);
        history.wait(40.0).pod("d").bound("n-1");
        history.wait(1.0).convict(I4);
    }

    #[test]
    fn a_gang_that_was_rolled_back_in_time_is_right() {
        let mut history = with_gang(3);
        history.wait(20.0);
        for name in ["a", "b", "c"] {
            history.pod(name).terminating();
        }
        history.wait(100.0);
        assert!(history.judge().of(I4).is_empty());
    }

    #[test]
    fn members_that_finish_or_are_deleted_later_are_no_half_bound_gang() {
        let mut history = with_gang(4);
        history.pod("a").succeeded();
        history.pod("b").gone();
        let report = history.wait(100.0).acquit();
        assert!(report.notes.iter().any(|note| note.contains("lost members")), "{report}");
    }

    #[test]
    fn a_second_attempt_is_judged_like_the_first() {
        let mut history = with_gang(4);
        for name in ["a", "b", "c", "d"] {
            history.pod(name).gone();
        }
        history.pod("e").in_group("g").asks(1).bound("n-1");
        history.wait(31.0).convict(I4);
    }
}
