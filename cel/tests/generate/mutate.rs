//! Small changes to a selector, which make most of them wrong.

use super::Random;

/// Splits a selector into tokens, white space left out.
pub fn tokens(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let start = at;
        let first = letters[at];
        at += 1;
        if first.is_whitespace() {
            continue;
        }
        if first == '"' || first == '\'' {
            while at < letters.len() && letters[at] != first {
                at += if letters[at] == '\\' { 2 } else { 1 };
            }
            at = (at + 1).min(letters.len());
        } else if first.is_alphanumeric() || first == '_' {
            while at < letters.len() && (letters[at].is_alphanumeric() || letters[at] == '_') {
                at += 1;
            }
        } else if at < letters.len()
            && ["==", "!=", "<=", ">=", "&&", "||"]
                .contains(&letters[start..=at].iter().collect::<String>().as_str())
        {
            at += 1;
        }
        tokens.push(letters[start..at.min(letters.len())].iter().collect());
    }
    tokens
}

/// Tokens that are put where they don't belong.
const STRAY: [&str; 24] = [
    "dyn", "1", "1u", "2.5", "\"a\"", "null", "true", "[", "]", "(", ")", "{", "}", ".", ",", "?",
    ":", "!", "-", "==", "in", "device", "size", "\"(\"",
];

pub fn mutate(random: &mut Random, text: &str) -> String {
    let mut tokens = tokens(text);
    for _ in 0..=random.below(2) {
        if tokens.is_empty() {
            break;
        }
        let at = random.below(tokens.len());
        match random.below(5) {
            0 => {
                tokens.remove(at);
            }
            1 => tokens[at] = (*random.pick(&STRAY)).to_owned(),
            2 => tokens.insert(at, (*random.pick(&STRAY)).to_owned()),
            3 => {
                let other = random.below(tokens.len());
                tokens.swap(at, other);
            }
            _ => {
                let token = tokens[at].clone();
                tokens.insert(at, token);
            }
        }
    }
    tokens.join(" ")
}
