//! What can be wrong with a selector's text.

/// A selector that can't be used, with the place and what to change there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct CompileError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    pub message: String,
}

impl CompileError {
    /// Returns an error at a byte of the text.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[start..].chars().count() + 1;
        Self { line, column, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_column_of_characters() {
        let error = CompileError::at("é &&\n ü.x", 10, "no");
        assert_eq!((error.line, error.column), (2, 4));
        assert_eq!(error.to_string(), "2:4: no");
    }
}
