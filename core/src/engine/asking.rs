//! Questions to consultants. Nothing blocks meanwhile: the entry waits, others go on.

use crate::framework::NodeSet;
use crate::types::{PodUid, Text, Timestamp};

use super::Engine;
use super::attempt::Search;
use super::decision::{Decision, Question, QuestionId};
use super::input::Answer;

/// A question that is open.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    about: PodUid,
    consultant: usize,
    name: &'static str,
    pub(super) deadline: Timestamp,
}

impl Engine {
    pub(super) fn ask(
        &mut self,
        mut search: Search,
        uid: &PodUid,
        consultant: usize,
        nodes: &NodeSet,
    ) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let pod = record.pod.reference();
        let who = &self.setup.consultants[consultant];
        let (name, deadline) = (who.name(), who.deadline(self.now));
        let names = nodes.iter().map(|node| self.cluster.nodes().slot(node).name.clone());
        let nodes: Vec<Text> = names.collect();
        let id = QuestionId(self.fresh_id());
        search.asked = Some(Asked { about: uid.clone(), consultant, name, deadline });
        self.asking.insert(id, search);
        let question = Question { id, consultant: name, pod, nodes, deadline };
        self.out.push_back(Decision::Ask(question));
    }

    /// An answer has come: the search goes on with the next poll. Late ones find nobody.
    pub(super) fn answer(&mut self, question: QuestionId, answer: Answer) {
        let Some(mut search) = self.asking.remove(&question) else { return };
        let Some(asked) = search.asked.take() else { return };
        match answer {
            Answer::Allowed(names) => {
                let about = (asked.about, asked.consultant);
                search.allowed.insert(about, names.into_iter().collect());
                self.answered.push_back(search);
            }
            Answer::Failed(message) => self.errored(&search, &asked.about, message),
        }
    }

    pub(super) fn expire_questions(&mut self) {
        let overdue = |search: &Search| search.deadline().is_some_and(|at| at <= self.now);
        let ids: Vec<QuestionId> =
            self.asking.iter().filter(|(_, s)| overdue(s)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(mut search) = self.asking.remove(&id) else { continue };
            let Some(asked) = search.asked.take() else { continue };
            let message = Text::from(format!("{} did not answer in time", asked.name));
            self.errored(&search, &asked.about, message);
        }
    }

    /// Drops searches of entries that are gone.
    pub(super) fn drop_searches(&mut self) {
        let queue = &self.queue;
        let known = |search: &Search| queue.entry(search.entry).is_some();
        self.asking.retain(|_, search| known(search));
        self.answered.retain(known);
        self.paused.retain(known);
        self.hard.retain(known);
    }
}

impl Search {
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.asked.as_ref().map(|asked| asked.deadline)
    }
}
