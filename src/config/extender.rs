//! `extenders`: their schema is checked, then each is refused by name, since none is called yet.

use berth_core::framework::args::Args;

use super::message::{invalid, invalid_text, string};

/// Reads `extenders`, notes what is wrong with them and that they aren't supported.
pub(super) fn refuse_extenders(root: &Args) {
    let mut binders = 0;
    let mut managed: Vec<String> = Vec::new();
    for args in root.objects("extenders") {
        let url_prefix = string(&args, "urlPrefix");
        args.error("", format!("extender {url_prefix:?} is not supported yet"));
        read_calls(&args, &mut binders);
        read_tls(&args);
        read_managed(&args, &mut managed);
        args.finish();
    }
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        root.error("extenders", invalid_text(&found, "only one extender can implement bind"));
    }
}

fn read_calls(args: &Args, binders: &mut usize) {
    let weight = args.int("weight").unwrap_or(0);
    if !string(args, "prioritizeVerb").is_empty() && weight <= 0 {
        args.error("weight", invalid(weight, "must have a positive weight applied to it"));
    }
    if !string(args, "bindVerb").is_empty() {
        *binders += 1;
    }
    string(args, "filterVerb");
    string(args, "preemptVerb");
    args.duration_ms("httpTimeout");
    for key in ["enableHTTPS", "nodeCacheCapable", "ignorable"] {
        args.bool(key, false);
    }
}

fn read_tls(args: &Args) {
    let Some(tls) = args.object("tlsConfig") else { return };
    tls.bool("insecure", false);
    let files = ["serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"];
    for key in files {
        string(&tls, key);
    }
    tls.finish();
}

fn read_managed(args: &Args, managed: &mut Vec<String>) {
    for resource in args.objects("managedResources") {
        let name = string(&resource, "name");
        resource.bool("ignoredByScheduler", false);
        resource.finish();
        if !is_qualified(&name) {
            let detail = "must be a qualified name such as example.com/gpu";
            resource.error("name", invalid_text(&name, detail));
        } else if !is_extended(&name) {
            resource.error("name", invalid_text(&name, "is an invalid extended resource name"));
        }
        if managed.contains(&name) {
            let detail = "duplicate extender managed resource name";
            resource.error("name", invalid_text(&name, detail));
        }
        managed.push(name);
    }
}

/// Tells whether `name` is outside Kubernetes' own domain, so that a node may advertise it.
fn is_extended(name: &str) -> bool {
    // A quota names it `requests.<name>`, which must still be a qualified name.
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && is_qualified(&format!("requests.{name}"))
}

/// Tells whether `name` is `[dns.subdomain/]name`, as label keys are.
fn is_qualified(name: &str) -> bool {
    let (prefix, name) = match name.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, name),
    };
    let in_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let named = name.len() <= 63 && name.chars().all(in_name) && has_plain_ends(name);
    let in_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| label.chars().all(in_label) && has_plain_ends(label);
    named && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_label))
}

/// Tells whether the text starts and ends with a letter or digit, and so is not empty.
fn has_plain_ends(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}
