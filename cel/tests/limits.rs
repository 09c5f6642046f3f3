//! Selectors at and beyond the limits: refused or ended, in bounded time and stack.

mod support;

use berth_cel::{Budget, COST_LIMIT, EvalError, OwnedDevice, compile};
use support::Outcome;

/// Chains and nestings by their length. Beside each, the largest that Kubernetes takes.
type Shape = (&'static str, fn(usize) -> String, usize);

fn around(open: &str, inner: &str, close: &str, n: usize) -> String {
    open.repeat(n) + inner + &close.repeat(n)
}

fn chained(start: &str, link: &str, end: &str, n: usize) -> String {
    format!("{start}{}{end}", link.repeat(n))
}

const SHAPES: [Shape; 20] = [
    ("parentheses", |n| around("(", "true", ")", n), 249),
    ("lists", |n| around("[", "", "]", n) + " == []", 250),
    ("maps", |n| around("{1: ", "1", "}", n) + " == {}", 249),
    ("selections", |n| chained("dyn(device)", ".a", " == 1", n), 249),
    ("optional selections", |n| chained("dyn(device)", ".?a", ".hasValue()", n), 249),
    ("indexes", |n| chained("dyn(device)", "[0]", " == 1", n), 249),
    ("sums", |n| chained("1", "+1", " == 1", n), 249),
    ("products", |n| chained("1", "*1", " == 1", n), 249),
    ("relations", |n| chained("true", " == true", "", n), 250),
    ("calls", |n| around("dyn(", "true", ")", n), 249),
    ("methods", |n| chained("'a'", ".trim()", " == 'a'", n), 249),
    ("ternaries", |n| chained("", "true ? true : ", "true", n), 249),
    ("nested ternaries", |n| around("(true ? ", "true", " : true)", n), 248),
    ("negations", |n| around("!(", "true", ")", n), 249),
    ("nested indexes", |n| around("{}[", "1", "]", n) + " == 1", 249),
    ("loops", |n| around("[1].exists(x, ", "true", ")", n), 249),
    ("local variables", |n| around("cel.bind(x, 1, ", "true", ")", n), 249),
    ("conjunctions", |n| chained("true", " && true", "", n), 1_279),
    ("disjunctions", |n| chained("true", " || true", "", n), 1_279),
    ("exclamation marks", |n| chained("", "!", "true", n), 10_236),
];

#[test]
fn each_shape_is_taken_to_its_limit_and_refused_beyond() {
    let gpu = OwnedDevice::new("gpu.nvidia.com");
    for (name, shape, limit) in SHAPES {
        let outcome = support::ask(&shape(limit), &gpu).outcome;
        assert_ne!(outcome, Outcome::Refused, "{name} of {limit}");
        for beyond in [limit + 1, limit + 2, 2 * limit] {
            let outcome = support::ask(&shape(beyond), &gpu).outcome;
            assert_eq!(outcome, Outcome::Refused, "{name} of {beyond}");
        }
    }
}

/// What fits into 10 KiB with chains in brackets, each within its own limit: as deep as the parser
/// may have to follow.
#[test]
fn chains_within_brackets_need_no_more_stack_than_there_is() {
    let gpu = OwnedDevice::new("gpu.nvidia.com");
    let links =
        ["+1", ".a", "[0]", ".a()", ".?a", "<1", "*1", " == 1", "?1:1", "-1", "[?0]", "||a", "&&a"];
    for link in links {
        for (open, close) in
            [("(", ")"), ("[", "]"), ("{1:", "}"), ("f(", ")"), ("a.f(", ")"), ("!(", ")")]
        {
            for length in [60, 125, 250] {
                let level = open.len() + close.len() + link.len() * length;
                let levels = (10_000 / level).min(249);
                let inner = link.repeat(length) + close;
                let text = open.repeat(levels) + "1" + &inner.repeat(levels);
                // Most are refused by now; what counts is that each ends.
                support::ask(&text, &gpu);
            }
        }
    }
}

#[test]
fn text_over_ten_kibibytes_is_refused() {
    let comment = "true // ".to_owned() + &"x".repeat(10 * 1024 - 8);
    assert!(compile(&comment).is_ok());
    let error = compile(&(comment + "x")).expect_err("too long");
    assert!(error.message.contains("10240 are allowed"), "{error}");
}

/// Selectors that would run for very long or take very much memory.
#[test]
fn what_costs_too_much_is_ended() {
    let gpu = OwnedDevice::new("gpu.nvidia.com");
    let loops = "[1,2,3,4,5,6,7,8,9,10].all(x, ".repeat(7) + "true" + &")".repeat(7);
    let doubled = |start: &str, end: &str| {
        let binds: String =
            (0..60).map(|n| format!("cel.bind(v{}, v{n} + v{n}, ", n + 1)).collect();
        format!("cel.bind(v0, {start}, {binds}v60{end}{}", ")".repeat(61))
    };
    for text in [
        loops,
        doubled("'ab'", " == 'x'"),
        doubled("[1]", ".size() == 1"),
        doubled("[1]", " == [2]"),
        doubled("b'ab'", " == b'x'"),
        "lists.range(1000000000000).size() == 1".to_owned(),
        "lists.range(3000).all(x, lists.range(3000).all(y, true))".to_owned(),
    ] {
        let program = compile(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut budget = Budget::new(10 * COST_LIMIT);
        assert_eq!(program.matches(&gpu, &mut budget), Err(EvalError::CostLimit), "{text}");
        assert!(budget.spent() <= 2 * COST_LIMIT, "{text} spends {}", budget.spent());
    }
}

#[test]
fn nested_values_that_share_their_parts_are_not_followed_forever() {
    let gpu = OwnedDevice::new("gpu.nvidia.com");
    let binds: String = (0..60).map(|n| format!("cel.bind(v{}, [v{n}, v{n}], ", n + 1)).collect();
    for question in
        ["v60 == [v60]", "v60 == v60", "[v60].flatten(100).size() == 1", "'%s'.format([v60]) == ''"]
    {
        let text = format!("cel.bind(v0, dyn([1]), {binds}{question}{}", ")".repeat(61));
        let program = compile(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        // Any answer will do that comes at all.
        let _ = program.matches(&gpu, &mut Budget::default());
    }
}

/// Types of local variables that double with each.
#[test]
fn types_that_explode_are_refused() {
    let binds: String = (0..60).map(|n| format!("cel.bind(v{}, {{v{n}: v{n}}}, ", n + 1)).collect();
    let error = compile(&format!("cel.bind(v0, 'a', {binds}true{}", ")".repeat(61)));
    assert!(error.expect_err("too large").message.contains("the type of this is too large"));
    let wide: String = (0..600).map(|n| format!("'k{n}': {n}, ")).collect();
    assert!(compile(&format!("{{{wide}}} == {{}}")).is_ok());
}

/// Each `optMap` copies its target, so that a chain doubles.
#[test]
fn macros_that_copy_are_refused_before_they_explode() {
    let text = "optional.of(1)".to_owned() + &".optMap(x, x)".repeat(100) + ".hasValue()";
    let error = compile(&text).expect_err("too large");
    assert!(error.message.contains("optMap nested too deep"), "{error}");
}
