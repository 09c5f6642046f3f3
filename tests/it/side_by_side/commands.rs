//! The command lines: what `--help` names, how bad flags end, what `--write-config-to` writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use berth_stand::{ADMIN, Stand, try_wait_for};
use serde_json::Value;

use super::Rows;
use super::pages::leaves;
use super::sides::{NAMES, Sides, neutral};
use crate::support::SOON;

const ENDING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["--version=raw"],
    &["--nothing-of-the-kind"],
    &["an-argument"],
    &["--secure-port=many"],
    &["--secure-port=70000"],
    &["--config=/nowhere.yaml"],
    &["--v=loud"],
    &["--feature-gates=NobodyKnowsThis=true"],
    &["--feature-gates=GenericWorkload=perhaps"],
    &["--leader-elect-lease-duration=soon"],
    &["--tls-min-version=VersionTLS99"],
    &["--tls-cipher-suites=TLS_NONE"],
    &["--logging-format=xml"],
    &["--authorization-kubeconfig=/nowhere", "--secure-port=0"],
    &["--kubeconfig=/nowhere", "--secure-port=0"],
];

pub(super) fn compare(stand: &Stand, sides: &Sides, rows: &mut Rows) {
    for args in ENDING {
        let said = [0, 1].map(|at| end(&sides.both[at].program, args));
        let code = |at: usize| said[at].status.code().map_or("killed".into(), |c| c.to_string());
        rows.add(format!("exit code of {}", args.join(" ")), [0, 1].map(code));
        if *args == ["--help"] {
            rows.add_maps("--help names", &[0, 1].map(|at| flags(&said[at])));
        }
    }
    written_configuration(stand, sides, rows);
}

/// Runs a program to its end, with a limit that only a hanging one reaches.
fn end(program: &Path, args: &[&str]) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    if try_wait_for(SOON, "the program ends", || child.try_wait().ok().flatten()).is_err() {
        let _ = child.kill();
    }
    child.wait_with_output().expect("its output")
}

fn flags(help: &Output) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(&help.stdout);
    let named = text.lines().filter_map(|line| {
        let flag = line.trim_start();
        let flag = flag.split_once("--").filter(|(before, _)| before.len() <= 4)?.1;
        let end = flag.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-');
        Some(flag[..end.unwrap_or(flag.len())].to_owned())
    });
    named.filter(|flag| !flag.is_empty()).map(|flag| (flag, "named".to_owned())).collect()
}

fn written_configuration(stand: &Stand, sides: &Sides, rows: &mut Rows) {
    let kubeconfig = stand.kubeconfig_path(ADMIN).expect("a kubeconfig");
    let written = [0, 1].map(|at| {
        let file = stand.folder().join(format!("{}.written", NAMES[at]));
        let to = format!("--write-config-to={}", file.display());
        let client = format!("--kubeconfig={}", kubeconfig.display());
        let ended = end(&sides.both[at].program, &[&to, &client, "--secure-port=0"]);
        let code = ended.status.code();
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let value: Value = serde_saphyr::from_str(&neutral(at, &text)).unwrap_or_default();
        (format!("{code:?}"), leaves(&value))
    });
    let [kube, berth] = written;
    rows.add("exit code of --write-config-to", [kube.0, berth.0]);
    rows.add_maps("--write-config-to", &[kube.1, berth.1]);
}
