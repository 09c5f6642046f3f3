//! RE2's syntax to that of the `regex` crate: character classes are ASCII's, what only one of the
//! two takes is refused or escaped.

/// The largest count of a repetition, nested ones multiplied.
const MAX_REPEAT: u32 = 1_000;

/// Translates a pattern.
///
/// # Errors
/// A text that says what is wrong.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator =
        Translator { rest: pattern, out: String::new(), groups: vec![Level::new()] };
    translator.run()?;
    Ok(translator.out)
}

/// How often the largest part of an open group may repeat.
struct Level {
    /// Of the operand before, and of all operands so far.
    last: u32,
    most: u32,
}

impl Level {
    fn new() -> Self {
        Self { last: 1, most: 1 }
    }
}

struct Translator<'p> {
    rest: &'p str,
    out: String,
    groups: Vec<Level>,
}

impl<'p> Translator<'p> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '(' => self.open()?,
                ')' => {
                    self.take(1);
                    self.close()?;
                }
                '[' => {
                    self.class()?;
                    self.operand();
                }
                '\\' => {
                    self.escape()?;
                    self.operand();
                }
                '*' | '+' | '?' => self.repetition(1, None)?,
                '{' => match repeat_counts(self.rest) {
                    Some((length, most)) => self.repetition(length, Some(most?))?,
                    None => self.literal(letter),
                },
                '.' | '^' | '$' => {
                    self.take(1);
                    self.out.push(letter);
                    self.operand();
                }
                '|' => {
                    self.take(1);
                    self.out.push('|');
                }
                _ => self.literal(letter),
            }
        }
        match self.groups.len() {
            1 => Ok(()),
            _ => Err("missing closing )".to_owned()),
        }
    }

    fn take(&mut self, bytes: usize) -> &'p str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Marks that something stands here that can be repeated.
    fn operand(&mut self) {
        if let Some(level) = self.groups.last_mut() {
            level.last = 1;
        }
    }

    fn literal(&mut self, letter: char) {
        self.take(letter.len_utf8());
        self.push_literal(letter);
        self.operand();
    }

    fn push_literal(&mut self, letter: char) {
        let mut buffer = [0; 4];
        self.out += &regex::escape(letter.encode_utf8(&mut buffer));
    }

    fn open(&mut self) -> Result<(), String> {
        let Some(extension) = self.rest.strip_prefix("(?") else {
            self.take(1);
            self.out += "(?:";
            self.groups.push(Level::new());
            return Ok(());
        };
        let named = extension.strip_prefix("P<").or_else(|| extension.strip_prefix('<'));
        if let Some(named) = named {
            let name = named.split_once('>').map(|(name, _)| name).unwrap_or_default();
            let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(word) {
                return Err("invalid named capture".to_owned());
            }
            self.take(self.rest.len() - named.len() + name.len() + 1);
            self.out += "(?:";
            self.groups.push(Level::new());
            return Ok(());
        }
        let end = extension.find(|letter| !matches!(letter, 'i' | 'm' | 's' | 'U' | '-'));
        let flags = &extension[..end.unwrap_or(extension.len())];
        let last = extension[flags.len()..].chars().next();
        let well_formed = flags.matches('-').count() <= 1 && !flags.ends_with('-');
        if !matches!(last, Some(':' | ')'))
            || !well_formed
            || (last == Some(')') && flags.is_empty())
        {
            return Err("invalid or unsupported Perl syntax".to_owned());
        }
        let taken = self.take(2 + flags.len() + 1);
        self.out += taken;
        if last == Some(':') {
            self.groups.push(Level::new());
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if self.groups.len() == 1 {
            return Err("unexpected )".to_owned());
        }
        self.out.push(')');
        let inner = self.groups.pop().map_or(1, |level| level.most);
        if let Some(level) = self.groups.last_mut() {
            level.last = inner;
            level.most = level.most.max(inner);
        }
        Ok(())
    }

    fn repetition(&mut self, length: usize, most: Option<u32>) -> Result<(), String> {
        let operator = self.take(length);
        self.out += operator;
        if self.rest.starts_with('?') {
            self.take(1);
            self.out.push('?');
        }
        let again = self.rest.starts_with(['*', '+', '?'])
            || (self.rest.starts_with('{') && repeat_counts(self.rest).is_some());
        if again {
            return Err("invalid nested repetition operator".to_owned());
        }
        if let (Some(level), Some(most)) = (self.groups.last_mut(), most) {
            level.last = level.last.saturating_mul(most.max(1));
            level.most = level.most.max(level.last);
            if level.last > MAX_REPEAT {
                return Err("invalid repeat count".to_owned());
            }
        }
        Ok(())
    }

    /// Reads an escape outside of a class.
    fn escape(&mut self) -> Result<(), String> {
        let after =
            self.rest[1..].chars().next().ok_or("trailing backslash at end of expression")?;
        match after {
            'A' | 'z' => self.out += self.rest.get(..2).unwrap_or_default(),
            'b' | 'B' => self.out += &format!("(?-u:\\{after})"),
            'Q' => {
                self.take(2);
                let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                self.out += &regex::escape(quoted);
                return Ok(());
            }
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                let (negated, set) = perl_class(after);
                self.out += &format!("[{}{set}]", if negated { "^" } else { "" });
            }
            'p' | 'P' => return self.unicode_class(),
            _ => {
                let letter = self.escaped_letter()?;
                self.push_literal(letter);
                return Ok(());
            }
        }
        self.take(2);
        Ok(())
    }

    /// Reads `\pN`, `\p{Name}` or `\p{^Name}`.
    fn unicode_class(&mut self) -> Result<(), String> {
        let wrong = || "invalid character class range".to_owned();
        let mut negated = self.rest.starts_with("\\P");
        let after = &self.rest[2..];
        let (name, length) = match after.strip_prefix('{') {
            Some(braced) => {
                let name = braced.split_once('}').ok_or_else(wrong)?.0;
                (name, name.len() + 2)
            }
            None => {
                let letter = after.chars().next().ok_or_else(wrong)?;
                (&after[..letter.len_utf8()], letter.len_utf8())
            }
        };
        let plain = name.strip_prefix('^').unwrap_or(name);
        negated ^= plain.len() < name.len();
        if plain.is_empty()
            || !plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return Err(wrong());
        }
        let class = if negated { 'P' } else { 'p' };
        self.out += &match plain {
            "Any" if negated => "[^\\x{0}-\\x{10FFFF}]".to_owned(),
            "Any" => "[\\x{0}-\\x{10FFFF}]".to_owned(),
            plain => format!("\\{class}{{{plain}}}"),
        };
        self.take(2 + length);
        Ok(())
    }

    /// Reads an escape that stands for one character.
    fn escaped_letter(&mut self) -> Result<char, String> {
        let wrong = || "invalid escape sequence".to_owned();
        let letter = self.rest[1..].chars().next().ok_or_else(wrong)?;
        let digits = &self.rest[1 + letter.len_utf8()..];
        let simple = match letter {
            'a' => '\u{7}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => {
                let more =
                    digits.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                if letter != '0' && more == 0 {
                    return Err(wrong());
                }
                let text = &self.rest[1..2 + more];
                let code = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
                self.take(2 + more);
                return char::from_u32(code).ok_or_else(wrong);
            }
            'x' => {
                let (text, length) = match digits.strip_prefix('{') {
                    Some(braced) => {
                        let text = braced.split_once('}').ok_or_else(wrong)?.0;
                        (text, text.len() + 2)
                    }
                    None => (digits.get(..2).ok_or_else(wrong)?, 2),
                };
                if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(wrong());
                }
                let code = u32::from_str_radix(text, 16).map_err(|_| wrong())?;
                self.take(2 + length);
                return char::from_u32(code).ok_or_else(wrong);
            }
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => other,
            _ => return Err(wrong()),
        };
        self.take(1 + letter.len_utf8());
        Ok(simple)
    }

    fn class(&mut self) -> Result<(), String> {
        self.take(1);
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.take(1);
            self.out.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            if self.rest.is_empty() {
                return Err("missing closing ]".to_owned());
            }
            first = false;
            self.class_item()?;
        }
        self.take(1);
        self.out.push(']');
        Ok(())
    }

    fn class_item(&mut self) -> Result<(), String> {
        if let Some(named) = self.rest.strip_prefix("[:")
            && let Some((name, _)) = named.split_once(":]")
        {
            let plain = name.strip_prefix('^').unwrap_or(name);
            if !POSIX.contains(&plain) {
                return Err("invalid character class range".to_owned());
            }
            self.take(name.len() + 4);
            self.out += &format!("[:{name}:]");
            return Ok(());
        }
        let mut letters = self.rest.chars();
        if let (Some('\\'), Some(after)) = (letters.next(), letters.next()) {
            match after {
                'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                    let (negated, set) = perl_class(after);
                    self.out += &if negated { format!("[^{set}]") } else { set.to_owned() };
                    self.take(2);
                    return Ok(());
                }
                'p' | 'P' => return self.unicode_class(),
                _ => {}
            }
        }
        let low = self.class_letter()?;
        let is_range =
            self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1;
        let high = if is_range {
            self.take(1);
            self.class_letter()?
        } else {
            low
        };
        if high < low {
            return Err("invalid character class range".to_owned());
        }
        self.out += &format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high));
        Ok(())
    }

    fn class_letter(&mut self) -> Result<char, String> {
        if self.rest.starts_with('\\') {
            return self.escaped_letter();
        }
        let letter = self.rest.chars().next().ok_or("missing closing ]")?;
        self.take(letter.len_utf8());
        Ok(letter)
    }
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Returns whether a Perl class is negated, and its set.
fn perl_class(letter: char) -> (bool, &'static str) {
    let set = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        _ => "\\t\\n\\x0C\\r ",
    };
    (letter.is_ascii_uppercase(), set)
}

/// Reads `{n}`, `{n,}` or `{n,m}`: its length and the largest count. Anything else is literal.
fn repeat_counts(text: &str) -> Option<(usize, Result<u32, String>)> {
    let (inner, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let padded = text.len() > 1 && text.starts_with('0');
        (plain && !padded).then(|| text.parse().unwrap_or(u32::MAX))
    };
    let (least, most) = match inner.split_once(',') {
        None => (number(inner)?, number(inner)?),
        Some((least, "")) => (number(least)?, number(least)?),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    let counts = match least <= most && most <= MAX_REPEAT {
        true => Ok(most),
        false => Err("invalid repeat count".to_owned()),
    };
    Some((inner.len() + 2, counts))
}
