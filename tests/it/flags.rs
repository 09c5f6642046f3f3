//! The flags of `berth run` on the real binary: all of kube-scheduler's, and what is said of wrong
//! ones. Nothing here needs a cluster: `--write-config-to` ends before one is asked.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::berth::{berth, last_line};

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs it with these flags up to the point where it would connect.
fn parsed(name: &str, args: &[&str]) -> (Option<i32>, String) {
    let path = temporary(name);
    let to = format!("--write-config-to={}", path.display());
    let output = berth(&[args, &[&to]].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A value that each type of `flags.tsv` takes.
fn sample(flag: &str, kind: &str) -> Option<&'static str> {
    let value = match (flag, kind) {
        ("bind-address", _) => "127.0.0.1",
        ("allow-metric-labels", _) => "m,l=a,b",
        ("emulated-version" | "min-compatibility-version", _) => "1.37",
        ("feature-gates", _) => "kube:LoggingAlphaOptions=true",
        ("leader-elect-resource-lock", _) => "leases",
        ("leader-elect-lease-duration", _) => "20s",
        ("leader-elect-renew-deadline", _) => "11s",
        ("leader-elect-retry-period", _) => "3s",
        ("logging-format", _) => "text",
        ("requestheader-uid-headers", _) => "X-Remote-Uid",
        ("requestheader-username-headers", _) => "X-Remote-User,a",
        ("requestheader-group-headers", _) => "X-Remote-Group,a",
        ("requestheader-extra-headers-prefix", _) => "X-Remote-Extra-,a-",
        ("show-hidden-metrics-for-version", _) => "1.36",
        ("tls-cipher-suites", _) => "TLS_AES_128_GCM_SHA256",
        ("tls-curve-preferences", _) => "23,29",
        ("tls-min-version", _) => "VersionTLS12",
        ("tls-sni-cert-key", _) => "a.crt,a.key:*.x.io",
        ("vmodule", _) => "schedule_one=4",
        // These would end it before or after anything is read.
        ("config" | "help" | "version" | "write-config-to", _) => return None,
        // A kubeconfig is read by a run alone.
        (_, "string") => "/no/such/file",
        (_, "strings") => "a,b",
        (_, "bool") => "true",
        (_, "duration") => "1m30s",
        (_, "int" | "int32" | "float32" | "Level") => "5",
        (_, "quantity") => "64Ki",
        other => panic!("no sample for {other:?}"),
    };
    Some(value)
}

/// Returns name and type of every flag of kube-scheduler; none where the facts aren't there.
fn kube_schedulers() -> Option<Vec<(String, String)>> {
    let facts = Path::new(env!("CARGO_MANIFEST_DIR"));
    let facts = facts.join("../shared/facts/observed-1.37/flags.tsv");
    let Ok(text) = fs::read_to_string(&facts) else {
        println!("skipped: {} is not there", facts.display());
        return None;
    };
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let flag = |row: &str| {
        let columns: Vec<&str> = row.split('\t').collect();
        (columns[0].to_owned(), columns[2].to_owned())
    };
    let flags: Vec<(String, String)> = rows.map(flag).collect();
    assert!(flags.len() > 60, "{}", flags.len());
    Some(flags)
}

#[test]
fn every_flag_of_kube_scheduler_is_accepted() {
    let Some(flags) = kube_schedulers() else { return };
    let samples = flags.iter().filter_map(|(flag, kind)| Some((flag, sample(flag, kind)?)));
    let with_equals: Vec<String> =
        samples.clone().map(|(flag, value)| format!("--{flag}={value}")).collect();
    let apart = samples.flat_map(|(flag, value)| match value {
        "true" => vec![format!("--{flag}")],
        value => vec![format!("--{flag}"), value.to_owned()],
    });
    for (name, line) in [("equals.yaml", with_equals), ("apart.yaml", apart.collect())] {
        let args: Vec<&str> = line.iter().map(String::as_str).collect();
        let (code, stderr) = parsed(name, &args);
        assert_eq!(code, Some(0), "{stderr}");
    }
    let help = String::from_utf8_lossy(&berth(&["run", "--help"]).stdout).into_owned();
    let missing: Vec<&str> = flags
        .iter()
        .map(|(flag, _)| flag.as_str())
        .filter(|flag| !help.contains(&format!("--{flag}")))
        .collect();
    assert!(missing.is_empty(), "not in --help: {missing:?}");
}

/// Flags that a run says one line about where they are not at their default: Berth can't follow
/// them. All others of kube-scheduler are followed.
const NOT_FOLLOWED: [&str; 13] = [
    "allow-metric-labels",
    "allow-metric-labels-manifest",
    "contention-profiling",
    "kube-api-content-type",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-text-info-buffer-size",
    "min-compatibility-version",
    "permit-address-sharing",
    "profiling",
    "show-hidden-metrics-for-version",
    "tls-min-version",
    "vmodule",
];

/// What must stand beside a flag for it to be taken.
fn company(flag: &str) -> &'static [&'static str] {
    match flag {
        "log-json-info-buffer-size"
        | "log-text-info-buffer-size"
        | "log-json-split-stream"
        | "log-text-split-stream" => &["--feature-gates=LoggingAlphaOptions=true"],
        "tls-cert-file" => &["--tls-private-key-file=/no/such/file"],
        "tls-private-key-file" => &["--tls-cert-file=/no/such/file"],
        "requestheader-uid-headers" => &["--feature-gates=RemoteRequestHeaderUID=true"],
        "leader-elect-retry-period" => &["--leader-elect-renew-deadline=11s"],
        _ => &[],
    }
}

#[test]
fn a_flag_is_followed_or_a_line_says_why_not() {
    let Some(flags) = kube_schedulers() else { return };
    let mut noted = Vec::new();
    for (flag, kind) in &flags {
        let value = match (flag.as_str(), kind.as_str()) {
            ("tls-min-version", _) => "VersionTLS10",
            _ => match sample(flag, kind) {
                Some(value) => value,
                None => continue,
            },
        };
        let given = format!("--{flag}={value}");
        let (code, stderr) = parsed("one.yaml", &[&[given.as_str()], company(flag)].concat());
        assert_eq!(code, Some(0), "{given}: {stderr}");
        let line = stderr.lines().find(|line| {
            let of_it = line.contains(&format!("--{flag}")) || line.contains("--log-*-info");
            line.contains("WARN") && of_it
        });
        println!("{given}\t{}", line.unwrap_or("followed"));
        if line.is_some() {
            noted.push(flag.as_str());
        }
    }
    assert_eq!(noted, NOT_FOLLOWED);
}

#[test]
fn kubeadms_command_line_is_accepted() {
    let args = [
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--bind-address=127.0.0.1",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--leader-elect=true",
    ];
    let (code, stderr) = parsed("kubeadm.yaml", &args);
    assert_eq!(code, Some(0), "{stderr}");
    let written = fs::read_to_string(temporary("kubeadm.yaml")).expect("it is written");
    assert!(written.contains("kubeconfig: /etc/kubernetes/scheduler.conf"), "{written}");
}

#[test]
fn what_is_written_is_read_again_and_written_the_same() {
    let (code, stderr) = parsed("first.yaml", &["--kube-api-qps=20.5", "--leader-elect=false"]);
    assert_eq!(code, Some(0), "{stderr}");
    let first = fs::read_to_string(temporary("first.yaml")).expect("it is written");
    for said in ["qps: 20.5", "leaderElect: false", "kind: NodeResourcesFitArgs"] {
        assert!(first.contains(said), "{said} is not in\n{first}");
    }
    let from = format!("--config={}", temporary("first.yaml").display());
    let (code, stderr) = parsed("second.yaml", &[&from]);
    assert_eq!(code, Some(0), "{stderr}");
    let second = fs::read_to_string(temporary("second.yaml")).expect("it is written");
    assert_eq!(first, second);
}

#[test]
fn wrong_flags_and_gates_are_named() {
    let last = |args: &[&str]| {
        let output = berth(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        last_line(&output)
    };
    let gate = last(&["--feature-gates=NoSuchGate=true"]);
    assert_eq!(gate, "error: unrecognized feature gate: NoSuchGate");
    let gate = last(&["run", "--feature-gates", "kube:PodLevelResources=false"]);
    assert!(gate.ends_with("at their default only: PodLevelResources=false"), "{gate}");
    assert!(last(&["--secure-port=70000"]).contains("--secure-port 70000 must be between"));
    let unknown = berth(&["--no-such-flag"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("'--no-such-flag'"));
}

#[test]
fn the_log_is_json_on_request() {
    let (code, stderr) = parsed("json.yaml", &["--logging-format=json", "-v=2"]);
    assert_eq!(code, Some(0), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    let line: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(line["message"], "wrote the configuration");
    assert_eq!(line["level"], "INFO");
    assert!(stderr.contains("using this configuration"), "{stderr}");
}
