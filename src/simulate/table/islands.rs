//! The lines below a node whose GPUs are in several islands.

use std::collections::BTreeSet;

use berth_core::types::Text;

use super::super::islands::Gpu;
use super::WIDTH;
use super::paint::{Paint, Piece, Style, width};

const INDENT: &str = "    ";

/// Returns `islands [█░] [░░]`, or the numbers of the GPUs where it isn't known which are in use.
/// `fresh` are the devices that were given out now.
pub(super) fn lines(islands: &[Vec<Gpu>], fresh: &BTreeSet<&Text>, paint: Paint) -> Vec<String> {
    let known = islands.iter().flatten().all(|gpu| gpu.free.is_some());
    let dim = |text: &str| vec![Piece::new(text, Style::Dim)];
    let mut words = vec![dim("islands")];
    words.extend(islands.iter().map(|island| match known {
        true => bar(island, fresh),
        false => {
            let numbers: Vec<String> = island.iter().map(|gpu| gpu.at.to_string()).collect();
            vec![Piece::new(format!("[{}]", numbers.join(" ")), Style::Plain)]
        }
    }));
    if !known {
        words.push(dim("(which are in use isn't known)"));
    }
    broken(&words, paint)
}

/// A cell a GPU: in use before, in use since now, free.
fn bar(island: &[Gpu], fresh: &BTreeSet<&Text>) -> Vec<Piece> {
    let cell = |gpu: &Gpu| match (gpu.free, &gpu.device) {
        (Some(true), _) => Piece::new("░", Style::Dim),
        (_, Some(device)) if fresh.contains(device) => Piece::new("█", Style::Good),
        _ => Piece::new("█", Style::Plain),
    };
    let mut cells = vec![Piece::new("[", Style::Plain)];
    cells.extend(island.iter().map(cell));
    cells.push(Piece::new("]", Style::Plain));
    cells
}

/// Breaks between words.
fn broken(words: &[Vec<Piece>], paint: Paint) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = WIDTH;
    for word in words {
        let wide: usize = word.iter().map(|piece| width(&piece.text)).sum();
        let shown: String = word.iter().map(|piece| paint.show(piece)).collect();
        match lines.last_mut() {
            Some(line) if used + 1 + wide <= WIDTH => {
                *line += &format!(" {shown}");
                used += 1 + wide;
            }
            _ => {
                lines.push(format!("{INDENT}{shown}"));
                used = INDENT.len() + wide;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(n: usize, free: impl Fn(usize) -> Option<bool>) -> Vec<Vec<Gpu>> {
        let gpu = |at| Gpu { at, device: Some(format!("gpu-{at}").into()), free: free(at) };
        (0..n / 2).map(|pair| vec![gpu(2 * pair), gpu(2 * pair + 1)]).collect()
    }

    #[test]
    fn gpus_are_drawn_by_island() {
        let islands = pairs(4, |at| Some(at > 2));
        let fresh = Text::from("gpu-1");
        let lines = |paint| lines(&islands, &BTreeSet::from([&fresh]), paint);
        assert_eq!(lines(Paint::default()), ["    islands [██] [█░]"]);
        assert!(lines(Paint { colours: true })[0].contains("[█\u{1b}[32m█\u{1b}[0m]"));
    }

    #[test]
    fn of_a_number_it_is_not_told_which() {
        let lines = lines(&pairs(4, |_| None), &BTreeSet::new(), Paint::default());
        assert_eq!(lines, ["    islands [0 1] [2 3] (which are in use isn't known)"]);
    }

    #[test]
    fn many_islands_are_broken_over_lines() {
        let lines = lines(&pairs(72, |_| Some(true)), &BTreeSet::new(), Paint::default());
        assert_eq!((lines.len(), lines.concat().matches("[░░]").count()), (2, 36));
        assert!(lines.iter().all(|line| width(line) <= WIDTH));
    }
}
