//! The command line without a cluster: what is wrong is named, in one line, and the exit code.

use std::fs;
use std::path::PathBuf;

use berth_stand::wait_for;

use crate::support::SOON;
use crate::support::berth::{Berth, berth, last_line};
use crate::support::https::free_port;

/// Writes a file for a test, and returns its path.
fn file(name: &str, text: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[track_caller]
fn fails(args: &[&str], code: i32, says: &str) {
    // One port for all tests would be one too few.
    let args: Vec<&str> = args.iter().copied().chain(["--secure-port=0"]).collect();
    let output = berth(&args);
    let line = last_line(&output);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert!(line.starts_with("error: ") && line.contains(says), "{line}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n\
         users: [{{name: c, user: {{token: secret-of-ours}}}}]\n"
    )
}

#[test]
fn a_wrong_kubeconfig_is_named() {
    fails(&["--kubeconfig", "/no/such/file", "--leader-elect=false"], 1, "/no/such/file");
    let garbage = file("garbage.kubeconfig", "a: [b");
    fails(&["--kubeconfig", &garbage, "--leader-elect=false"], 1, &garbage);
    let empty = file("empty.kubeconfig", "apiVersion: v1\nkind: Config\n");
    fails(&["run", "--kubeconfig", &empty, "--leader-elect=false"], 1, &empty);
    let schemeless = file("schemeless.kubeconfig", &kubeconfig("localhost:6443"));
    fails(&["--kubeconfig", &schemeless, "--leader-elect=false"], 1, "https://");
    fails(&["--leader-elect=false"], 1, "--kubeconfig");
}

/// As kube-scheduler does, it waits for its server, and says so once.
#[test]
fn a_server_that_is_gone_is_named_and_waited_for() {
    let server = format!("https://{}", free_port());
    let gone = file("gone.kubeconfig", &kubeconfig(&server));
    waits_for(&server, &["--kubeconfig", &gone]);
    // --master counts before the kubeconfig's server.
    let other = file("other.kubeconfig", &kubeconfig("https://192.0.2.1"));
    waits_for(&server, &["--kubeconfig", &other, "--master", &server]);
}

fn waits_for(server: &str, args: &[&str]) {
    let own = ["--leader-elect=false", "--secure-port=0", "-v=5"];
    let log = PathBuf::from(file("waits.log", ""));
    let berth = Berth::start_as_told(&log, &[args, &own].concat());
    let says = "the API server can't be reached: ";
    wait_for(SOON, "berth says what it waits for", || berth.log().contains(says).then_some(()));
    let log = berth.log();
    assert!(log.contains(server) && !log.contains("secret-of-ours"), "{log}");
    assert_eq!(log.matches(says).count(), 1, "{log}");
    assert_eq!(berth.terminate(), Some(0));
}

#[test]
fn flags_and_files_go_together_as_with_kube_scheduler() {
    let off = file(
        "off.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection: {leaderElect: false}\nclientConnection: {kubeconfig: /no/such/file}\n",
    );
    // With a file the deprecated flag is ignored, as with kube-scheduler.
    fails(&["--config", &off, "--kubeconfig=/another"], 1, "/no/such/file");
    let lock = "--leader-elect-resource-lock=endpoints";
    fails(&["--config", &off, "--leader-elect=true", lock], 2, "leaderElection.resourceLock");
}

#[test]
fn a_wrong_configuration_is_named() {
    fails(&["--config", "/no/such.yaml", "--leader-elect=false"], 2, "/no/such.yaml");
    let odd = file(
        "odd.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         profiles:\n- plugins: {score: {enabled: [{name: Nonsense}]}}\n",
    );
    fails(&["--config", &odd, "--leader-elect=false"], 2, "Nonsense");
    let output = berth(&["config", "check", &odd]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("profiles[0].plugins.score.enabled[0]"), "{said}");
}

#[test]
fn example_configurations_pass_the_check() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config");
    for entry in fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path().display().to_string();
        let output = berth(&["config", "check", &path]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!((output.status.code(), said.trim()), (Some(0), &*format!("{path}: valid")));
    }
    assert_eq!(berth(&["config", "check", "/no/such.yaml"]).status.code(), Some(2));
}

#[test]
fn wrong_command_lines_exit_with_2_and_versions_with_0() {
    assert_eq!(berth(&["--no-such-flag"]).status.code(), Some(2));
    assert_eq!(berth(&["config"]).status.code(), Some(2));
    let version = format!("berth {} (compatible with Kubernetes v1.37)", env!("CARGO_PKG_VERSION"));
    for args in [&["version"][..], &["--version"], &["run", "--version=true"]] {
        assert_eq!(String::from_utf8_lossy(&berth(args).stdout).trim(), version);
    }
    let raw = berth(&["--version=raw"]);
    assert_eq!(raw.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&raw.stdout).starts_with("version.Info{Major:\"1\""));
    assert_eq!(berth(&["--version=v9"]).status.code(), Some(2));
}
