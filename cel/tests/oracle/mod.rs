//! Kubernetes' own CEL environment as a process: questions in, answers out.

// A module of tests.
#![allow(unreachable_pub)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use berth_stand::{StandError, go_program};
use serde_json::{Value, json};

use crate::support::{Answer, Outcome};

/// A selector and the device that it is asked about.
#[derive(Clone, Debug)]
pub struct Question {
    pub expression: String,
    pub device: Value,
}

/// The program, built.
pub struct Oracle(std::path::PathBuf);

impl Oracle {
    /// Builds the oracle, or says on stderr why the test is skipped: there is no Go.
    pub fn build_or_skip() -> Option<Self> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle");
        match go_program(&module, "celoracle") {
            Ok(program) => Some(Self(program)),
            Err(error @ StandError::NoGo) => {
                let thread = std::thread::current();
                eprintln!("skipped {}: {error}", thread.name().unwrap_or("test"));
                None
            }
            Err(error) => panic!("{}", berth_stand::with_sources(&error)),
        }
    }

    /// Asks all questions; the answers come in their order.
    pub fn ask(&self, questions: &[Question]) -> Vec<Answer> {
        let mut child = Command::new(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the oracle starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let lines: Vec<String> = questions
            .iter()
            .map(|asked| {
                json!({"expression": asked.expression, "device": asked.device}).to_string()
            })
            .collect();
        // Both pipes are finite, so one thread writes while this one reads.
        let writer = std::thread::spawn(move || {
            for line in lines {
                writeln!(stdin, "{line}").expect("the oracle reads");
            }
        });
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let answers: Vec<Answer> = stdout
            .lines()
            .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
            .map(|json| answer(&json))
            .collect();
        writer.join().expect("the writer ends");
        assert!(child.wait().expect("the oracle ends").success(), "the oracle failed");
        assert_eq!(answers.len(), questions.len(), "an answer a question");
        answers
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
