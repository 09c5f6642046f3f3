//! A linear look at the tokens before parsing: what is too long or too deep never reaches the
//! parser, whose stack would not bear it.

use crate::error::CompileError;

/// Kubernetes' limit of a selector's text, in bytes.
pub(crate) const MAX_BYTES: usize = 10 * 1024;
/// cel-go's limit of nesting, and of the depth of the tree.
pub(crate) const MAX_DEPTH: usize = 250;

/// What stands in one bracket so far: the lengths of the chains that the parser follows.
#[derive(Clone, Copy, Debug, Default)]
struct Chains {
    /// Ternaries, each in the last branch of the one before.
    ternaries: usize,
    relations: usize,
    sums: usize,
    /// Selections, calls and indexes.
    members: usize,
    /// Question marks whose colon is still to come.
    open_ternaries: usize,
}

impl Chains {
    fn longest(&self) -> usize {
        self.ternaries.max(self.relations).max(self.sums).max(self.members)
    }

    /// Goes on after a token.
    fn after(self, token: Token) -> Self {
        let ternary = Self {
            ternaries: self.ternaries,
            open_ternaries: self.open_ternaries,
            ..Self::default()
        };
        match token {
            Token::Dot | Token::Open { postfix: true } => {
                Self { members: self.members + 1, ..self }
            }
            Token::Sum => Self { sums: self.sums + 1, members: 0, ..self },
            Token::Relation => Self { relations: self.relations + 1, ..ternary },
            Token::Logic => ternary,
            Token::Question => Self { open_ternaries: self.open_ternaries + 1, ..ternary },
            Token::Colon if self.open_ternaries > 0 => Self {
                ternaries: self.ternaries + 1,
                open_ternaries: self.open_ternaries - 1,
                ..ternary
            },
            Token::Colon | Token::Comma => Self::default(),
            Token::Open { .. } | Token::Close | Token::Operand | Token::Other => self,
        }
    }
}

/// Refuses text over 10 KiB and nesting or chains over 250.
pub(crate) fn check(text: &str) -> Result<(), CompileError> {
    if text.len() > MAX_BYTES {
        let message = format!("the selector has {} bytes, {MAX_BYTES} are allowed", text.len());
        return Err(CompileError::at(text, MAX_BYTES, message));
    }
    // The innermost bracket is last.
    let mut open = vec![Chains::default()];
    let mut tokens = Tokens { text, at: 0, after_operand: false };
    while let Some((at, token)) = tokens.next() {
        let last = open.len() - 1;
        // The last branch of a ternary nests as a bracket does; an empty bracket nests nothing.
        let nested = open.len() + open.iter().map(|chains| chains.ternaries).sum::<usize>();
        let too_deep = nested > MAX_DEPTH && token != Token::Close;
        open[last] = open[last].after(token);
        if too_deep || open[last].longest() > MAX_DEPTH {
            let message = format!(
                "nested or chained more than {MAX_DEPTH} deep: split the selector in several"
            );
            return Err(CompileError::at(text, at, message));
        }
        match token {
            Token::Open { .. } => open.push(Chains::default()),
            Token::Close if last > 0 => {
                open.pop();
            }
            _ => {}
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Open {
        postfix: bool,
    },
    Close,
    Dot,
    Sum,
    Relation,
    Logic,
    Question,
    Colon,
    Comma,
    /// Ends an operand: a name, a number, a string.
    Operand,
    Other,
}

struct Tokens<'t> {
    text: &'t str,
    at: usize,
    /// Whether the last token ended an operand: then a square bracket indexes it.
    after_operand: bool,
}

impl Tokens<'_> {
    /// Returns the next token that isn't white space or a comment, with its place.
    fn next(&mut self) -> Option<(usize, Token)> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c => self.at += 1,
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => self.skip_line(),
                _ => break,
            }
        }
        let at = self.at;
        let token = self.token();
        self.after_operand = matches!(token, Token::Operand | Token::Close);
        Some((at, token))
    }

    fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn token(&mut self) -> Token {
        let bytes = self.text.as_bytes();
        let byte = bytes[self.at];
        let next = bytes.get(self.at + 1).copied();
        match byte {
            b'"' | b'\'' => self.string(false),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            _ => {
                let (token, length) = operator(byte, next, self.after_operand);
                self.at += length;
                token
            }
        }
    }

    fn word(&mut self) -> Token {
        let rest = &self.text.as_bytes()[self.at..];
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = rest.iter().position(|byte| !word(byte)).unwrap_or(rest.len());
        let (name, next) = (&rest[..length], rest.get(length).copied());
        self.at += length;
        if matches!(next, Some(b'"' | b'\'')) {
            match name {
                [b'r' | b'R'] | [b'b' | b'B', b'r' | b'R'] => return self.string(true),
                [b'b' | b'B'] => return self.string(false),
                _ => {}
            }
        }
        if name == b"in" { Token::Relation } else { Token::Operand }
    }

    /// Skips digits and what may stand in them, so that a decimal point is no selection.
    fn number(&mut self) -> Token {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| {
            rest[from..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count()
        };
        let mut length = digits(0);
        if rest.get(length) == Some(&b'.') && rest.get(length + 1).is_some_and(u8::is_ascii_digit) {
            length += 1 + digits(length + 1);
        }
        self.at += length;
        Token::Operand
    }

    /// Skips a string in quotes, single or triple; one that doesn't end is the parser's matter.
    fn string(&mut self, raw: bool) -> Token {
        let bytes = self.text.as_bytes();
        let quote = bytes[self.at];
        let triple = bytes[self.at..].starts_with(&[quote; 3]);
        let end: &[u8] = if triple { &[quote; 3] } else { &[quote] };
        self.at += end.len();
        while self.at < bytes.len() {
            if bytes[self.at..].starts_with(end) {
                self.at += end.len();
                break;
            }
            let escape = !raw && bytes[self.at] == b'\\';
            if !triple && bytes[self.at] == b'\n' {
                break;
            }
            self.at += if escape { 2 } else { 1 };
        }
        self.at = self.at.min(bytes.len());
        Token::Operand
    }
}

/// Reads an operator or bracket, with its length.
fn operator(byte: u8, next: Option<u8>, after_operand: bool) -> (Token, usize) {
    match (byte, next) {
        (b'[', _) => (Token::Open { postfix: after_operand }, 1),
        (b'(' | b'{', _) => (Token::Open { postfix: false }, 1),
        (b')' | b']' | b'}', _) => (Token::Close, 1),
        (b'.', Some(b'?')) => (Token::Dot, 2),
        (b'.', _) => (Token::Dot, 1),
        (b'&', Some(b'&')) | (b'|', Some(b'|')) => (Token::Logic, 2),
        (b'=' | b'!' | b'<' | b'>', Some(b'=')) => (Token::Relation, 2),
        (b'<' | b'>', _) => (Token::Relation, 1),
        (b'+' | b'*' | b'/' | b'%', _) => (Token::Sum, 1),
        (b'-', _) if after_operand => (Token::Sum, 1),
        (b'?', _) if after_operand => (Token::Question, 1),
        (b':', _) => (Token::Colon, 1),
        (b',', _) => (Token::Comma, 1),
        _ => (Token::Other, 1),
    }
}
