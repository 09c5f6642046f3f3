//! Any text and any selector: an answer or an error, never a panic, in bounded time.

mod generate;
mod support;

use proptest::prelude::*;

use generate::Random;

/// Compiles, and evaluates on a few devices what compiles.
fn ask(text: &str, random: &mut Random) {
    for _ in 0..2 {
        let device = support::device(&generate::device(random));
        support::ask(text, &device);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_is_answered(text in ".{0,200}", seed: u64) {
        ask(&text, &mut Random::new(seed));
    }

    #[test]
    fn arbitrary_tokens_are_answered(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40),
        seed: u64,
    ) {
        ask(&tokens.join(" "), &mut Random::new(seed));
        ask(&tokens.concat(), &mut Random::new(seed));
    }

    #[test]
    fn changed_selectors_are_answered(seed: u64, changes in 0_usize..6) {
        let mut random = Random::new(seed);
        let mut text = generate::selector(&mut random);
        for _ in 0..changes {
            text = generate::mutate(&mut random, &text);
        }
        ask(&text, &mut random);
    }

    #[test]
    fn selectors_cut_or_changed_in_a_byte_are_answered(seed: u64, at: prop::sample::Index, byte: u8) {
        let mut random = Random::new(seed);
        let text = generate::selector(&mut random);
        let mut bytes = text.into_bytes();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        ask(&String::from_utf8_lossy(&bytes), &mut random);
        bytes.truncate(place);
        ask(&String::from_utf8_lossy(&bytes), &mut random);
    }

    #[test]
    fn patterns_formats_and_literals_are_answered(text in ".{0,30}", seed: u64) {
        let mut random = Random::new(seed);
        let quoted: String = text.chars().filter(|letter| !matches!(letter, '"' | '\n' | '\r')).collect();
        for call in [
            "device.driver.matches(r\"{}\")", "r\"{}\".format([1, 2.5, \"a\"]) == \"\"", "duration(r\"{}\") == duration(\"1s\")",
            "timestamp(r\"{}\") == timestamp(0)", "quantity(r\"{}\").isInteger()", "isSemver(r\"{}\", true)",
            "isURL(r\"{}\")", "url(r\"{}\").getHost() == \"\"", "isCIDR(r\"{}\")", "double(r\"{}\") < 1.0",
            "format.datetime().validate(r\"{}\").hasValue()", "device.driver.findAll(r\"{}\").size() == 1",
        ] {
            ask(&call.replace("{}", &quoted), &mut random);
        }
    }
}

const TOKENS: &[&str] = &[
    "device",
    ".",
    "?",
    "driver",
    "attributes",
    "capacity",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "\"a\"",
    "'",
    "\"",
    "r\"",
    "b\"a\"",
    "1",
    "1u",
    "1.5",
    "0x",
    "-",
    "!",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "&&",
    "||",
    "in",
    "true",
    "null",
    "has",
    "all",
    "exists",
    "map",
    "filter",
    "cel.bind",
    "x",
    "optMap",
    "sortBy",
    "transformMap",
    "size",
    "dyn",
    "//",
    "\n",
    "`",
    "\\",
    "é",
    "as",
    "optional.of",
    "matches",
    "format",
    "@",
    "#",
    "$",
    "\u{0}",
];
