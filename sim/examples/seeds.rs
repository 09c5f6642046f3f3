//! Runs seeds of the simulation and prints which faults took effect how often.
//!
//! `cargo run -p berth-sim --example seeds -- [--count N] [--start N] [--seed N] [--trace]
//! [--bug NAME] [--threads N] [--twice] [--all]`; `--bug` wants `--features planted-bugs`.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the runner prints, measures and uses both cores; the library does not"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use berth_sim::fault::{Effects, Fault};

use support::{Batch, verdict};

/// Fewer seeds than this may well leave a fault out.
const ENOUGH: u64 = 100;

fn main() -> ExitCode {
    let batch = match arguments() {
        Ok(batch) => batch,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if !batch.options.trace {
        // A panic is reported with its seed; the hook's own text says nothing more.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let begun = std::time::Instant::now();
    let sum = batch.run();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} seeds in {seconds:.1} s, {:.0} a second", sum.seeds, sum.seeds as f64 / seconds);
    println!("{} pods bound at the end, {} waiting", sum.bound, sum.waiting);
    print_effects(&sum.effects);
    for report in &sum.failed {
        for line in &report.lines {
            println!("{line}");
        }
        println!("{}", verdict(report, &batch.options));
    }
    let silent = batch.count >= ENOUGH && sum.failed.is_empty() && !sum.silent().is_empty();
    if silent {
        println!("a fault never took effect: this run proves nothing about it");
    }
    if silent || !sum.failed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn arguments() -> Result<Batch, String> {
    let mut batch = Batch::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--count" => batch.count = number(&value()?)?,
            "--start" => batch.start = number(&value()?)?,
            "--threads" => batch.threads = number(&value()?)? as usize,
            "--bug" if !cfg!(feature = "planted-bugs") => {
                return Err("--bug wants --features planted-bugs".to_owned());
            }
            "--bug" => batch.options.bug = Some(value()?.into()),
            "--trace" => batch.options.trace = true,
            "--twice" => batch.twice = true,
            "--all" => batch.all = true,
            "--seed" => {
                batch.start = number(&value()?)?;
                batch.count = 1;
            }
            _ => return Err(format!("unknown argument {word:?}")),
        }
    }
    Ok(batch)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

fn print_effects(effects: &Effects) {
    for fault in Fault::all() {
        let (id, what) = fault.describe();
        println!("{id}  {:>8}  {what}", effects.of(fault));
    }
}
