//! Text on a terminal: colours where they are wanted, bars, line breaks, and no control characters.

use std::io::IsTerminal;

/// Cells of a bar at most; a node with more GPUs gets a scaled one.
const CELLS_MAX: i64 = 16;

/// A blank at which no line is broken; it is shown as any other.
pub(super) const GLUE: char = '\u{a0}';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Waits,
}

/// Text of one style that is not broken over lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Piece {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Piece {
        Piece { text: text.into().replace(GLUE, " "), style }
    }

    pub(super) fn width(&self) -> usize {
        width(&self.text)
    }
}

/// Whether colours are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    pub colours: bool,
}

impl Paint {
    /// Colours are for terminals whose user has not declined them (<https://no-color.org>).
    pub fn of_stdout() -> Paint {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Paint { colours: std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb }
    }

    pub(super) fn show(self, piece: &Piece) -> String {
        self.text(&piece.text, piece.style)
    }

    fn text(self, text: &str, style: Style) -> String {
        let code = match style {
            _ if !self.colours || text.is_empty() => return text.to_owned(),
            Style::Plain => return text.to_owned(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Waits => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Draws `[████░░░░]`: what was used before, what is used since now, what is free.
    pub(super) fn bar(self, before: i64, used: i64, cells: i64, total: i64) -> String {
        let filled = scaled(used, total, cells);
        let old = scaled(before.min(used), total, cells).min(filled);
        let run = |c: char, n: i64| c.to_string().repeat(usize::try_from(n).unwrap_or(0));
        format!(
            "[{}{}{}]",
            run('█', old),
            self.text(&run('█', filled - old), Style::Good),
            self.text(&run('░', cells - filled), Style::Dim)
        )
    }
}

/// Number of cells for a total: one each, as far as they go.
pub(super) fn cells(total: i64) -> i64 {
    total.clamp(1, CELLS_MAX)
}

/// Rounds so that only an empty bar looks empty and only a full one looks full.
fn scaled(used: i64, total: i64, cells: i64) -> i64 {
    if used <= 0 || total <= 0 {
        return if used > 0 { cells } else { 0 };
    }
    if used >= total {
        return cells;
    }
    let share = (used as f64 / total as f64 * cells as f64).round() as i64;
    share.clamp(1, (cells - 1).max(1))
}

/// Returns `text` with control characters, and those that turn or hide text, written out.
pub(crate) fn plain(text: &str) -> String {
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hides(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Columns that a text without control characters takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Cuts `text` to `max` columns, with `…` for what is missing.
pub(super) fn cut(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    kept + "…"
}

/// Returns the words of a sentence as pieces.
pub(super) fn words(text: &str, style: Style) -> Vec<Piece> {
    text.split(' ').map(|word| Piece::new(word, style)).collect()
}

/// Breaks pieces, with blanks between them, into lines of at most `max` columns.
pub(super) fn wrap(pieces: Vec<Piece>, max: usize) -> Vec<Vec<Piece>> {
    let (mut lines, mut line, mut used) = (Vec::new(), Vec::new(), 0);
    for mut piece in pieces {
        piece.text = cut(&piece.text, max);
        let wanted = piece.width() + usize::from(used > 0);
        if used + wanted > max && used > 0 {
            lines.push(std::mem::take(&mut line));
            used = piece.width();
        } else {
            used += wanted;
        }
        line.push(piece);
    }
    lines.push(line);
    lines
}

/// Joins the pieces of a line.
pub(super) fn joined(line: &[Piece], paint: Paint) -> String {
    line.iter().map(|piece| paint.show(piece)).collect::<Vec<_>>().join(" ")
}

/// Pads painted text, whose columns are `wide`, to `to` columns.
pub(super) fn padded(painted: String, wide: usize, to: usize) -> String {
    painted + &" ".repeat(to.saturating_sub(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_every_gpu_and_scale_beyond() {
        let paint = Paint::default();
        assert_eq!(paint.bar(2, 4, cells(8), 8), "[████░░░░]");
        assert_eq!(paint.bar(0, 0, cells(8), 8), "[░░░░░░░░]");
        assert_eq!(paint.bar(8, 8, cells(6), 6), "[██████]");
        assert_eq!(paint.bar(1, 1, 16, 1000), "[█░░░░░░░░░░░░░░░]");
        assert_eq!(paint.bar(999, 999, 16, 1000), "[███████████████░]");
        assert_eq!(paint.bar(0, 1, cells(0), 0), "[█]");
        let colours = Paint { colours: true };
        assert_eq!(colours.bar(1, 2, 2, 2), "[█\u{1b}[32m█\u{1b}[0m]");
    }

    #[test]
    fn lines_break_between_pieces_and_nothing_hostile_gets_through() {
        let lines = wrap(words("a bb ccc dddddddd", Style::Plain), 6);
        let shown: Vec<String> = lines.iter().map(|l| joined(l, Paint::default())).collect();
        assert_eq!(shown, ["a bb", "ccc", "ddddd…"]);
        assert_eq!(plain("a\u{1b}[2Jb\n\u{202e}c"), "a\\u{1b}[2Jb\\n\\u{202e}c");
    }
}
