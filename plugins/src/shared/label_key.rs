//! What Kubernetes takes for a label key, or qualified name: an optional DNS prefix and a name.

use berth_core::framework::Args;

use super::field::invalid_text;

const NAME_BYTES_MAX: usize = 63;
const PREFIX_BYTES_MAX: usize = 253;

const NAME_SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
    used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX_SHAPE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Notes an error about `key` of `args` for everything that keeps `value` from being a label key.
pub(crate) fn check(args: &Args, key: &str, value: &str) {
    for problem in problems(value) {
        args.error(key, invalid_text(value, problem));
    }
}

/// Returns what keeps `value` from being a label key, in upstream's words and order.
///
/// Source: `IsLabelKey` of k8s.io/apimachinery/pkg/api/validate/content.
fn problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            problems.extend(prefix_problems(prefix));
            *name
        }
        _ => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. \
                            'example.com/MyName')";
            return vec![format!("a valid label key {NAME_SHAPE} {optional}")];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        problems.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    let inner = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    if !framed(name, |c| c.is_ascii_alphanumeric(), inner) {
        problems.push(format!("name part {NAME_SHAPE}"));
    }
    problems
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut problems = Vec::new();
    if prefix.len() > PREFIX_BYTES_MAX {
        problems.push(format!("prefix part must be no more than {PREFIX_BYTES_MAX} bytes"));
    }
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !prefix.split('.').all(|label| framed(label, plain, |c| plain(c) || c == b'-')) {
        problems.push(format!("prefix part {PREFIX_SHAPE}"));
    }
    problems
}

/// Tells whether `text` is not empty, has only `inner` characters and `edge` ones at both ends.
fn framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|c| inner(*c))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_told_from_other_texts() {
        for good in ["zone", "topology.kubernetes.io/zone", "A_b.c-1"] {
            assert_eq!(problems(good), Vec::<String>::new(), "{good}");
        }
        for (bad, count) in [("", 2), ("-a", 1), ("/a", 1), ("Up.io/a", 1), ("a/b/c", 1)] {
            assert_eq!(problems(bad).len(), count, "{bad}");
        }
        assert_eq!(problems(&"x".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert_eq!(
            problems("a b"),
            ["name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
              and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
              '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]
        );
    }
}
