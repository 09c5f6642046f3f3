//! What stands on the command line → what it comes to.

use std::ffi::OsString;

use berth_core::types::Span;
use clap::Parser;

use super::serving::TlsVersion;
use super::*;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

const FILE: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
    leaderElection: {leaderElect: false, resourceName: theirs, leaseDuration: 30s}\n\
    clientConnection: {kubeconfig: /in/file, qps: 7}\n";

fn resolve_with(args: &[&str], file: Option<&str>) -> Result<Options, String> {
    let args = std::iter::once("berth").chain(args.iter().copied()).map(OsString::from);
    let line = Line::try_parse_from(with_dashes(args)).map_err(|error| error.to_string())?;
    let file = file.map(|text| ConfigFile { label: "f.yaml".to_owned(), text: text.to_owned() });
    Options::resolve(&line.flags, file.as_ref())
}

#[track_caller]
fn resolve(args: &[&str]) -> Options {
    resolve_with(args, None).unwrap()
}

#[track_caller]
fn refused(args: &[&str], says: &str) {
    let error = resolve_with(args, None).map(|_| ()).expect_err("refused");
    assert!(error.contains(says), "{error}");
}

#[test]
fn without_flags_everything_stands_at_upstreams_defaults() {
    let o = resolve(&[]);
    assert_eq!(o.configuration, crate::config::Configuration::defaults());
    assert_eq!(o.serving, ServingOptions::default());
    assert_eq!(o.authorization.always_allow_paths, ["/healthz", "/readyz", "/livez"]);
    assert_eq!(o.authentication.request_header.username_headers, ["x-remote-user"]);
    assert!(o.authentication.tolerate_lookup_failure && !o.authentication.skip_lookup);
    assert_eq!(o.authentication.token_cache_ttl, Span::from_secs(10));
    assert_eq!((o.leftover, o.logs), (Span::from_secs(300), LogOptions::default()));
    assert_eq!(o.notes, [""; 0]);
}

#[test]
fn flags_are_written_as_with_pflag() {
    let elects = |args: &[&str]| resolve(args).configuration.leader_election.leader_elect;
    assert!(elects(&["--leader-elect"]) && elects(&["--leader_elect=1"]));
    assert!(!elects(&["--leader-elect=F"]));
    assert!(!elects(&["--leader-elect", "--leader-elect=false"]), "the last one counts");
    refused(&["--leader-elect", "false"], "unexpected argument 'false'");
    refused(&["--leader-elect=maybe"], "strconv.ParseBool: parsing \"maybe\": invalid syntax");
    refused(&["--leader-elect-retry-period=5"], "invalid duration");
    refused(&["--no-such-flag"], "unexpected argument '--no-such-flag'");
    for level in [&["-v=4"][..], &["-v", "4"], &["-v4"], &["--v=4"], &["--v", "4"]] {
        assert_eq!(resolve(level).logs.verbosity, 4);
    }
}

#[test]
fn election_flags_count_before_the_file() {
    let args = ["--leader-elect", "--leader-elect-resource-name=ours"];
    let election = resolve_with(&args, Some(FILE)).unwrap().configuration.leader_election;
    assert!(election.leader_elect);
    assert_eq!((election.resource_name.as_str(), election.lease_duration.0), ("ours", 30_000));
    refused(&["--leader-elect-lease-duration=5s"], "leaderElection.leaseDuration");
    refused(&["--leader-elect-resource-lock=endpoints"], "leaderElection.resourceLock");
    refused(&["--leader-elect-retry-period=0s"], "--leader-elect-retry-period must be greater");
}

#[test]
fn deprecated_flags_count_without_a_file_only() {
    let args = [
        "--kubeconfig=/flag",
        "--kube-api-qps=0.1",
        "--kube-api-burst=5",
        "--profiling=false",
        "--pod-max-in-unschedulable-pods-duration=90s",
    ];
    let o = resolve(&args);
    let client = &o.configuration.client_connection;
    assert_eq!((client.kubeconfig.as_str(), client.qps, client.burst), ("/flag", 0.1, 5));
    assert!(!o.configuration.enable_profiling);
    let o = resolve_with(&args, Some(FILE)).unwrap();
    let client = &o.configuration.client_connection;
    assert_eq!((client.kubeconfig.as_str(), client.qps, client.burst), ("/in/file", 7.0, 100));
    assert!(o.configuration.enable_profiling);
    assert_eq!(o.leftover, Span::from_secs(90));
    assert_eq!(
        o.notes,
        ["ignored, since --config is given: --profiling, --kubeconfig, --kube-api-qps, \
          --kube-api-burst"]
    );
    refused(&["--kube-api-burst=-1"], "must be non-negative");
    let zero = resolve(&["--kube-api-qps=0", "--kube-api-burst=0"]).configuration;
    assert_eq!((zero.client_connection.qps, zero.client_connection.burst), (5.0, 10));
}

#[test]
fn a_content_type_that_is_not_sent_is_told_once_wherever_it_is_named() {
    let flag = resolve(&["--kube-api-content-type=application/vnd.kubernetes.protobuf"]).notes;
    assert_eq!(flag, ["--kube-api-content-type: no effect, Berth always sends JSON"]);
    assert_eq!(resolve(&["--kube-api-content-type=application/cbor"]).notes.len(), 1);
    let notes = |named: &str| {
        let file = FILE.replace("qps: 7", &format!("contentType: '{named}'"));
        resolve_with(&[], Some(&file)).unwrap().notes
    };
    for other in ["application/vnd.kubernetes.protobuf", "application/cbor"] {
        let told = ["clientConnection.contentType: no effect, Berth always sends JSON"];
        assert_eq!(notes(other), told);
    }
    assert_eq!(notes("application/json"), [""; 0]);
    assert_eq!(notes(""), [""; 0]);
}

#[test]
fn serving_flags_are_checked() {
    let o = resolve(&[
        "--bind-address=::1",
        "--secure-port=0",
        "--tls-cert-file=c",
        "--tls-private-key-file=k",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA",
        "--tls-sni-cert-key=a,b:x.io",
        "--tls-sni-cert-key=c,d",
        "--permit-address-sharing",
    ]);
    assert_eq!((o.serving.secure_port, o.serving.min_version), (0, TlsVersion::V13));
    assert_eq!(o.serving.cipher_suites, ["TLS_AES_128_GCM_SHA256"]);
    assert_eq!(o.serving.sni.len(), 2);
    assert_eq!(
        o.notes,
        [
            "--tls-cipher-suites: not served: TLS_RSA_WITH_RC4_128_SHA",
            "--permit-address-sharing: no effect, SO_REUSEADDR is always set, as Go does",
        ]
    );
    refused(&["--secure-port=70000"], "--secure-port 70000 must be between 0 and 65535");
    refused(&["--secure-port=-1"], "must be between");
    refused(&["--bind-address=foo"], "failed to parse IP: \"foo\"");
    refused(&["--tls-min-version=foo"], "unknown tls version \"foo\"");
    refused(&["--tls-cipher-suites=foo"], "Cipher suite foo not supported or doesn't exist");
    refused(&["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"], "none of them is served");
    refused(&["--tls-curve-preferences=1"], "curve preference 1 is not supported");
    refused(&["--tls-cert-file=c"], "must be given together");
}

#[test]
fn authentication_flags_are_checked() {
    let o = resolve(&["--requestheader-username-headers=X-User", "--client-ca-file="]);
    assert_eq!(o.authentication.client_ca_file, None);
    assert!(o.notes[0].starts_with("--requestheader-username-headers is set without"));
    let uid = "--requestheader-uid-headers=x-remote-uid";
    assert_eq!(resolve(&[uid]).authentication.request_header.uid_headers, ["x-remote-uid"]);
    let off = "--feature-gates=RemoteRequestHeaderUID=false";
    refused(&[uid, off], "requires the \"RemoteRequestHeaderUID\" feature");
    refused(&["--requestheader-uid-headers=uid"], "X-Remote-Uid header");
    let paths = resolve(&["--authorization-always-allow-paths=/a,/b/*"]).authorization;
    assert_eq!(paths.always_allow_paths, ["/a", "/b/*"]);
}

#[test]
fn gates_and_versions_are_checked() {
    for set in
        ["GenericWorkload=true", "GenericWorkload=false,TopologyAwareWorkloadScheduling=true"]
    {
        let o = resolve(&[&format!("--feature-gates={set}"), "--emulated-version=kube=1.37"]);
        let enabled = &o.configuration.profiles[0].plugins.multi_point.enabled;
        let on = enabled.iter().any(|entry| entry.name == "GangScheduling");
        assert!(on && o.notes.iter().any(|note| note.contains("without effect here")), "{set}");
    }
    refused(&["--feature-gates=Foo=true"], "unrecognized feature gate: Foo");
    refused(&["--emulated-version=1.36"], "1.36 is not supported");
    refused(&["--emulated-version=1.37.1"], "patch version not allowed, got: kube=1.37.1");
    refused(&["--emulated-version=foo=1.37"], "component not registered: foo");
    refused(&["--min-compatibility-version=1.33"], "is not between [1.34, 1.37]");
    assert_eq!(resolve(&["--min-compatibility-version=1.36"]).notes.len(), 1);
}

#[test]
fn metrics_flags_are_checked() {
    let o = resolve(&["--allow-metric-labels=m,l=a,b", "--disabled-metrics=x,y"]);
    let label = ("m".to_owned(), "l".to_owned());
    assert_eq!(o.metrics.allow_labels[&label], ["a", "b"]);
    assert_eq!(o.metrics.disabled, ["x", "y"]);
    refused(&["--allow-metric-labels=a"], "must be formatted as key=value");
    refused(&["--show-hidden-metrics-for-version=1.2"], "the value '1.36'");
    assert!(resolve(&["--show-hidden-metrics-for-version=1.36"]).metrics.show_hidden);
}

#[test]
fn log_flags_are_checked() {
    let o = resolve(&["--logging-format=json", "-v=3"]);
    assert_eq!((o.logs.format, o.logs.verbosity), (LogFormat::Json, 3));
    refused(&["--logging-format=xml"], "Invalid value: \"xml\": Unsupported log format");
    let beta = "--feature-gates=LoggingBetaOptions=false";
    refused(&["--logging-format=json", beta], "LoggingBetaOptions is disabled");
    refused(&["--log-text-split-stream"], "LoggingAlphaOptions is disabled");
    let alpha = "--feature-gates=LoggingAlphaOptions=true";
    assert!(resolve(&["--log-text-split-stream", alpha]).logs.split_stream);
    refused(&["--vmodule=x"], "\"x\" does not have the pattern=N format");
    refused(&["--vmodule=a=3", "--logging-format=json"], "Only supported for text");
    assert_eq!(resolve(&["--vmodule=a=3"]).notes.len(), 1);
    refused(&["--log-flush-frequency=0s"], "must be greater than zero");
    refused(&["--log-json-info-buffer-size=x"], "unable to parse quantity");
    refused(&["-v=foo"], "invalid value 'foo'");
}

#[test]
fn flagz_shows_every_flag_once_with_gos_values() {
    let shown = resolve(&["--secure-port=0", "--kube-api-qps=20.5", "--tls-sni-cert-key=a,b:c"]);
    let shown = shown.flagz();
    assert!(shown.is_sorted_by(|a, b| a.0 < b.0));
    let value = |name: &str| &*shown.iter().find(|(flag, _)| *flag == name).unwrap().1;
    assert_eq!(value("secure-port"), "0");
    assert_eq!(value("kube-api-qps"), "20.5");
    assert_eq!(value("kube-api-burst"), "100");
    assert_eq!(value("tls-sni-cert-key"), "[a,b:c]");
    assert_eq!(value("pod-max-in-unschedulable-pods-duration"), "5m0s");
    assert_eq!(value("authorization-always-allow-paths"), "[/healthz,/readyz,/livez]");
    assert_eq!(value("leader-elect-lease-duration"), "15s");
}

#[test]
fn flagz_has_the_flags_of_the_real_binary() {
    let facts = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/facts/observed-1.37/flags.tsv");
    let Ok(text) = std::fs::read_to_string(&facts) else {
        println!("skipped: {} is not there", facts.display());
        return;
    };
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let observed: Vec<&str> = rows.filter_map(|row| row.split('\t').next()).collect();
    let ours: Vec<&str> = resolve(&[]).flagz().iter().map(|(flag, _)| *flag).collect();
    assert_eq!(ours, observed);
}
