//! The fenced blocks of a guide.

use super::root;
use crate::installed::read;

/// A command, the line it stands in, and what it is expected to write.
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) command: String,
    pub(super) output: Vec<String>,
}

pub(super) enum Block {
    Steps(Vec<Step>),
    File {
        name: String,
        text: String,
    },
    /// Can't run here.
    Elsewhere,
}

pub(super) fn blocks(guide: &str) -> Vec<Block> {
    let text = read(&root().join(guide));
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let inside = lines.by_ref().take_while(|(_, line)| *line != "```");
        let inside: Vec<(usize, &str)> = inside.map(|(at, line)| (at + 1, line)).collect();
        let place = format!("{guide}:{}", at + 1);
        blocks.push(block(&place, info, &inside));
    }
    blocks
}

fn block(place: &str, info: &str, lines: &[(usize, &str)]) -> Block {
    match info.split_whitespace().collect::<Vec<_>>()[..] {
        ["console", "tested"] => Block::Steps(steps(place, lines)),
        ["console", "needs-docker" | "needs-kubelet"] => {
            assert!(!steps(place, lines).is_empty(), "{place}: no command");
            Block::Elsewhere
        }
        ["yaml", name] => {
            let text = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
            Block::File { name: name.to_owned(), text }
        }
        _ => panic!("{place}: the block is marked {info:?}; tests/it/docs.rs says how to mark it"),
    }
}

fn steps(place: &str, lines: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in lines {
        match (text.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                let (line, command) = (*line, command.to_owned());
                steps.push(Step { line, command, output: Vec::new() });
            }
            (None, Some(step)) if step.output.is_empty() && step.command.ends_with('\\') => {
                step.command += &format!("\n{text}");
            }
            (None, Some(step)) => step.output.push((*text).to_owned()),
            (None, None) => panic!("{place}: begins with no command"),
        }
    }
    steps
}
