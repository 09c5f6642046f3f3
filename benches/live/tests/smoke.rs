//! The harness works: tiny loads with whatever profile is at hand. Nothing is judged by time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use berth_stand::{Binaries, StandError};

const HARNESS: &str = env!("CARGO_BIN_EXE_berth-bench-live");

/// Cargo builds this package's own binaries for a test, not those of others.
fn berth() -> PathBuf {
    let beside = Path::new(HARNESS).with_file_name("berth");
    if !beside.is_file() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let built =
            Command::new(cargo).args(["build", "--package", "berth", "--bin", "berth"]).status();
        assert!(built.expect("cargo runs").success());
    }
    beside
}

fn play(tsv: &Path) -> Output {
    let output = Command::new(HARNESS)
        .args([
            "--loads",
            "smoke,smoke-dra,smoke-gangs,smoke-paced",
            "--rounds",
            "1",
            "--commit",
            "smoke",
        ])
        .arg("--berth")
        .arg(berth())
        .arg("--tsv")
        .arg(tsv)
        .output()
        .expect("the harness runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_round_is_measured_once_and_found_again() {
    if let Err(error @ StandError::NoGo) = Binaries::locate() {
        eprintln!("skipped: {error}");
        return;
    }
    let tsv = std::env::temp_dir().join(format!("bench-live-{}.tsv", std::process::id()));
    let first = play(&tsv);
    let lines = std::fs::read_to_string(&tsv).expect("the rounds");
    let again = play(&tsv);
    let lines_again = std::fs::read_to_string(&tsv).expect("the rounds");
    std::fs::remove_file(&tsv).expect("cleaned up");

    let of = |load: &str, contender: &str| {
        let (load, contender) = (format!("\t{load}\t1\t"), format!("\t{contender}\t40\t"));
        lines.lines().find(|line| line.contains(&load) && line.contains(&contender))
    };
    for contender in ["ceiling", "ceiling-events", "berth"] {
        assert!(of("smoke", contender).is_some(), "{contender} is missing: {lines}");
    }
    for (load, pods) in [("smoke-dra", 30), ("smoke-gangs", 32)] {
        let (load, berth) = (format!("\t{load}\t1\t"), format!("\tberth\t{pods}\t"));
        assert!(lines.lines().any(|l| l.contains(&load) && l.contains(&berth)), "{load}: {lines}");
    }
    let paced = of("smoke-paced", "berth").expect("paced");
    let figures: Vec<&str> = paced.split('\t').collect();
    let p99: f64 = figures[14].parse().expect("a time");
    assert!(p99 >= figures[13].parse().expect("a time") && figures[6] == "-", "{paced}");
    assert_eq!(lines, lines_again);
    assert_eq!(first.stdout, again.stdout);
}
