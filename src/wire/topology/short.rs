//! The short form: clauses, each a word and what it is about, apart by `;` or on lines of their own.
//!
//! ```text
//! gpus 8; nvlink 0-1:600 2-3:600; nvswitch 0-7:900; numa 0-3 4-7; pcie 0,1 2,3
//! ```
//!
//! `nvlink A-B:GBS` links two GPUs. `nvswitch`, `numa` and `pcie` list groups, of GPUs and ranges of
//! them (`0-3`, `0,2,5-7`), those of `nvswitch` with the bandwidth that each GPU has there. `gpus` says
//! how many there are, where a GPU isn't named otherwise.

use berth_core::types::topology::{GPUS_MAX, pcie};

use super::TopologyProblem;
use super::graph::Graph;

const GBS_MAX: u16 = 20_000;
const KNOWN: &str = "gpus, nvlink, nvswitch, numa or pcie";

#[derive(Default)]
struct Draft {
    n_gpus: usize,
    links: Vec<(usize, usize, u16)>,
    switches: Vec<(Vec<usize>, u16)>,
    cells: Vec<Vec<usize>>,
    roots: Vec<Vec<usize>>,
}

pub(super) fn read(text: &str) -> Result<Graph, TopologyProblem> {
    let mut draft = Draft::default();
    for clause in text.split([';', '\n']) {
        let mut words = clause.split_whitespace();
        if let Some(word) = words.next() {
            draft.take(word, words)?;
        }
    }
    match draft.n_gpus {
        0 => Err(TopologyProblem::new(format!(
            "names no GPUs; write clauses of {KNOWN}, or what `nvidia-smi topo -m` prints"
        ))),
        _ => Ok(draft.graph()),
    }
}

impl Draft {
    fn take<'a>(
        &mut self,
        word: &str,
        items: impl Iterator<Item = &'a str>,
    ) -> Result<(), TopologyProblem> {
        for item in items {
            let odd = |what: &str| {
                let item: String = item.chars().take(40).collect();
                TopologyProblem(format!("{word} {item:?}: {what}"))
            };
            match word {
                "gpus" => {
                    let n: usize = item.parse().map_err(|_| odd("write a number"))?;
                    if n > GPUS_MAX {
                        return Err(odd(&format!("a node has up to {GPUS_MAX} GPUs")));
                    }
                    self.n_gpus = self.n_gpus.max(n);
                }
                "nvlink" => {
                    let (pair, gbs) = with_gbs(item).map_err(|what| odd(&what))?;
                    let (a, b) = pair.split_once('-').ok_or_else(|| odd(PAIR))?;
                    let (a, b) = (self.gpu(a), self.gpu(b));
                    match (a, b) {
                        (Some(a), Some(b)) if a != b => self.links.push((a, b, gbs)),
                        _ => return Err(odd(PAIR)),
                    }
                }
                "nvswitch" => {
                    let (group, gbs) = with_gbs(item).map_err(|what| odd(&what))?;
                    let group = self.group(group).ok_or_else(|| odd(GROUP))?;
                    self.switches.push((group, gbs));
                }
                "numa" | "pcie" => {
                    let group = self.group(item).ok_or_else(|| odd(GROUP))?;
                    let known = if word == "numa" { &mut self.cells } else { &mut self.roots };
                    if let Some(gpu) =
                        group.iter().find(|gpu| known.iter().any(|k| k.contains(gpu)))
                    {
                        return Err(odd(&format!("GPU {gpu} is in a group already; name it once")));
                    }
                    known.push(group);
                }
                _ => {
                    let word: String = word.chars().take(40).collect();
                    return Err(TopologyProblem(format!("{word:?} is none of {KNOWN}")));
                }
            }
        }
        Ok(())
    }

    fn gpu(&mut self, text: &str) -> Option<usize> {
        let gpu = text.parse().ok().filter(|gpu| *gpu < GPUS_MAX)?;
        self.n_gpus = self.n_gpus.max(gpu + 1);
        Some(gpu)
    }

    /// Reads GPUs and ranges of them; none twice.
    fn group(&mut self, text: &str) -> Option<Vec<usize>> {
        let mut group = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (self.gpu(first)?, self.gpu(last)?);
            for gpu in first..=last {
                if group.contains(&gpu) {
                    return None;
                }
                group.push(gpu);
            }
        }
        (!group.is_empty()).then_some(group)
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.n_gpus, 0);
        self.links.iter().for_each(|(a, b, gbs)| graph.link(*a, *b, *gbs));
        self.switches.iter().for_each(|(gpus, gbs)| graph.nvswitch(gpus, *gbs));
        for (number, gpus) in self.roots.iter().enumerate() {
            graph.root(number, gpus, pcie::SWITCH);
        }
        for (number, gpus) in self.cells.iter().enumerate() {
            // There are at most as many as GPUs.
            graph.cell(number as u16, gpus);
        }
        graph
    }
}

const PAIR: &str = "write two different GPUs, from 0 to 71, and GB/s, such as 0-1:600";
const GROUP: &str = "write GPUs from 0 to 71, each once, such as 0-3 or 0,2,5-7";

/// Splits the bandwidth off.
fn with_gbs(item: &str) -> Result<(&str, u16), String> {
    let range = pcie::SWITCH + 1..=GBS_MAX;
    let read = item.split_once(':').and_then(|(gpus, gbs)| Some((gpus, gbs.parse().ok()?)));
    read.filter(|(_, gbs)| range.contains(gbs)).ok_or_else(|| {
        format!("write GB/s after a colon, from {} to {}", range.start(), range.end())
    })
}
