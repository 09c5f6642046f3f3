//! kube-scheduler and Berth on one control plane, asked the same: every difference is explained by
//! the table, and every explanation is needed.
//!
//! `make side-by-side` prints one line for each thing that was asked.

mod commands;
mod explained;
mod objects;
mod pages;
mod requests;
mod sides;

use std::collections::BTreeMap;

use berth_stand::{Authorization, Options, Stand, User};

use explained::{Explained, explanation};
use sides::Sides;

/// What was asked, and what each of the two said.
#[derive(Default)]
struct Rows(BTreeMap<String, [String; 2]>);

impl Rows {
    fn add(&mut self, asked: impl Into<String>, said: [String; 2]) {
        let asked = asked.into();
        assert!(self.0.insert(asked.clone(), said).is_none(), "{asked}: asked twice");
    }

    /// Adds one row for each key that either has.
    fn add_maps(&mut self, asked: &str, said: &[BTreeMap<String, String>; 2]) {
        let keys = said[0].keys().chain(said[1].keys());
        let keys: std::collections::BTreeSet<&String> = keys.collect();
        for key in keys {
            let of = |at: usize| said[at].get(key).cloned().unwrap_or_else(|| "absent".to_owned());
            self.add(format!("{asked} {key}"), [of(0), of(1)]);
        }
    }
}

#[test]
fn kube_scheduler_and_berth_differ_only_where_it_is_explained() {
    let options = Options {
        authorization: Authorization::Rbac,
        users: vec![User { name: "nobody".to_owned(), groups: Vec::new() }],
        ..Options::default()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let Some(sides) = Sides::start(&stand) else { return };
    let mut rows = Rows::default();
    objects::compare(&stand, &mut rows);
    // Before a DELETE has kube-scheduler forget what it has counted.
    pages::compare(&stand, &sides, &mut rows);
    requests::compare(&stand, &sides, &mut rows);
    commands::compare(&stand, &sides, &mut rows);
    judge(&rows);
}

/// Prints a line a row, and fails on what is not explained and on what needs no explanation.
fn judge(rows: &Rows) {
    let mut used = vec![0usize; explained::TABLE.len()];
    let (mut equal, mut unexplained) = (0, Vec::new());
    for (asked, [kube, berth]) in &rows.0 {
        if kube == berth {
            equal += 1;
            println!("equal        {asked}");
            continue;
        }
        match explanation(asked) {
            Some(at) => {
                used[at] += 1;
                println!("explained    {asked}: {}", explained::TABLE[at].why);
            }
            None => {
                println!(
                    "UNEXPLAINED  {asked}\n  kube-scheduler: {kube:?}\n  berth:          {berth:?}"
                );
                unexplained.push(asked);
            }
        }
    }
    let differing: usize = used.iter().sum();
    println!("{equal} equal, {differing} explained, {} unexplained", unexplained.len());
    let idle = used.iter().zip(explained::TABLE).filter(|(used, _)| **used == 0);
    let idle: Vec<&Explained> = idle.map(|(_, explained)| explained).collect();
    assert!(unexplained.is_empty(), "not explained: {unexplained:#?}");
    assert!(idle.is_empty(), "explanations that nothing needs: {idle:#?}");
}
