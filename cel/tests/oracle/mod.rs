//! Kubernetes' own CEL environment as a process: questions in, answers out.

// A module of tests.
#![allow(unreachable_pub)]

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Answer, Outcome};

/// A selector and the device that it is asked about.
#[derive(Clone, Debug)]
pub struct Question {
    pub expression: String,
    pub device: Value,
}

/// The program, built.
pub struct Oracle(berth_stand::Oracle);

impl Oracle {
    /// Builds the oracle, or says on stderr why the test is skipped: there is no Go.
    pub fn build_or_skip() -> Option<Self> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle");
        berth_stand::Oracle::build_or_skip(&module, "celoracle").map(Self)
    }

    /// Asks all questions; the answers come in their order.
    pub fn ask(&self, questions: &[Question]) -> Vec<Answer> {
        let asked = questions.iter();
        let asked = asked.map(|q| json!({"expression": q.expression, "device": q.device}));
        self.0.ask(asked.collect()).iter().map(answer).collect()
    }
}

fn answer(json: &Value) -> Answer {
    let outcome = match json["phase"].as_str() {
        Some("ok") => Outcome::Answer(json["value"] == true),
        Some("compile") => Outcome::Refused,
        Some("runtime") => Outcome::Fails,
        Some("panic") => Outcome::Breaks,
        other => panic!("the oracle answers {other:?}"),
    };
    let error = json["error"].as_str().unwrap_or_default().to_owned();
    Answer { outcome, cost: json["cost"].as_u64(), error }
}
