//! The short form: clauses, each a word and what it is about, apart by `;` or on lines of their own.
//!
//! ```text
//! gpus 8; nvlink 0-1:600 2-3:600; nvswitch 0-7:900; numa 0-3 4-7; pcie 0,1 2,3; nic mlx5_0:0-1 mlx5_1:2@pxb
//! ```
//!
//! `nvlink A-B:GBS` links two GPUs. `nvswitch`, `numa` and `pcie` list groups, of GPUs and ranges of
//! them (`0-3`, `0,2,5-7`), those of `nvswitch` with the bandwidth that each GPU has there. `nic` lists
//! network cards, each with the GPUs that are near it and, unless there is but one PCIe switch between,
//! how near. `gpus` says how many there are, where a GPU isn't named otherwise.

use berth_core::types::Text;
use berth_core::types::topology::{GPUS_MAX, pcie};

use super::TopologyProblem;
use super::graph::Graph;

const GBS_MAX: u16 = 20_000;
const KNOWN: &str = "gpus, nvlink, nvswitch, numa, pcie or nic";
/// Network cards of one node.
pub(super) const NICS_MAX: usize = GPUS_MAX;
/// As long as a device's name can be. Unit: bytes.
const NAME_MAX: usize = 63;
/// How near a NIC is to a GPU.
const NEAR: [(&str, u16); 4] =
    [("pix", pcie::SWITCH), ("pxb", pcie::SWITCHES), ("phb", pcie::BRIDGE), ("node", pcie::CELL)];

#[derive(Default)]
struct Draft {
    n_gpus: usize,
    links: Vec<(usize, usize, u16)>,
    switches: Vec<(Vec<usize>, u16)>,
    cells: Vec<Vec<usize>>,
    roots: Vec<Vec<usize>>,
    nics: Vec<Text>,
    /// NIC, GPU, and how near they are.
    near: Vec<(usize, usize, u16)>,
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
        let brief = |text: &str| text.chars().take(40).collect::<String>();
        for item in items {
            let taken = match word {
                "gpus" => self.take_number(item),
                "nvlink" => self.take_link(item),
                "nvswitch" => self.take_switch(item),
                "numa" | "pcie" => self.take_place(word, item),
                "nic" => self.take_nic(item),
                _ => {
                    return Err(TopologyProblem(format!("{:?} is none of {KNOWN}", brief(word))));
                }
            };
            taken.map_err(|what| TopologyProblem(format!("{word} {:?}: {what}", brief(item))))?;
        }
        Ok(())
    }

    fn take_number(&mut self, item: &str) -> Result<(), String> {
        let n: usize = item.parse().map_err(|_| "write a number")?;
        if n > GPUS_MAX {
            return Err(format!("a node has up to {GPUS_MAX} GPUs"));
        }
        self.n_gpus = self.n_gpus.max(n);
        Ok(())
    }

    fn take_link(&mut self, item: &str) -> Result<(), String> {
        let (pair, gbs) = with_gbs(item)?;
        let (a, b) = pair.split_once('-').ok_or(PAIR)?;
        match (self.gpu(a), self.gpu(b)) {
            (Some(a), Some(b)) if a != b => self.links.push((a, b, gbs)),
            _ => return Err(PAIR.into()),
        }
        Ok(())
    }

    fn take_switch(&mut self, item: &str) -> Result<(), String> {
        let (group, gbs) = with_gbs(item)?;
        let group = self.group(group).ok_or(GROUP)?;
        self.switches.push((group, gbs));
        Ok(())
    }

    fn take_place(&mut self, word: &str, item: &str) -> Result<(), String> {
        let group = self.group(item).ok_or(GROUP)?;
        let known = if word == "numa" { &mut self.cells } else { &mut self.roots };
        if let Some(gpu) = group.iter().find(|gpu| known.iter().any(|k| k.contains(gpu))) {
            return Err(format!("GPU {gpu} is in a group already; name it once"));
        }
        known.push(group);
        Ok(())
    }

    /// The name may have colons, as a PCI address has.
    fn take_nic(&mut self, item: &str) -> Result<(), String> {
        let (item, gbs) = match item.rsplit_once('@') {
            None => (item, pcie::SWITCH),
            Some((item, way)) => {
                let known = NEAR.iter().find(|(name, _)| *name == way);
                (item, known.ok_or("after @ write pix, pxb, phb or node")?.1)
            }
        };
        let (name, group) = item.rsplit_once(':').ok_or(NIC)?;
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(NIC.into());
        }
        let gpus = self.group(group).ok_or(GROUP)?;
        let nic = self.nics.iter().position(|known| known == name).unwrap_or_else(|| {
            self.nics.push(name.into());
            self.nics.len() - 1
        });
        if self.nics.len() > NICS_MAX {
            return Err(format!("a node has up to {NICS_MAX} NICs"));
        }
        let told = |gpu: &&usize| self.near.iter().any(|(n, g, _)| (*n, g) == (nic, *gpu));
        if let Some(gpu) = gpus.iter().find(told) {
            return Err(format!("how near GPU {gpu} is was said already; name it once"));
        }
        self.near.extend(gpus.into_iter().map(|gpu| (nic, gpu, gbs)));
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
        let mut graph = Graph::new(self.n_gpus, self.nics.clone());
        self.links.iter().for_each(|(a, b, gbs)| graph.link(*a, *b, *gbs));
        self.switches.iter().for_each(|(gpus, gbs)| graph.nvswitch(gpus, *gbs));
        for (number, gpus) in self.roots.iter().enumerate() {
            graph.root(number, gpus, pcie::SWITCH);
        }
        for (number, gpus) in self.cells.iter().enumerate() {
            // There are at most as many as GPUs.
            graph.cell(number as u16, gpus);
        }
        self.near.iter().for_each(|(nic, gpu, gbs)| graph.link(self.n_gpus + nic, *gpu, *gbs));
        graph
    }
}

const PAIR: &str = "write two different GPUs, from 0 to 71, and GB/s, such as 0-1:600";
const GROUP: &str = "write GPUs from 0 to 71, each once, such as 0-3 or 0,2,5-7";

const NIC: &str =
    "write a NIC's name and the GPUs near it after a colon, such as mlx5_0:0-1 or mlx5_0:0-1@pxb";

/// Splits the bandwidth off.
fn with_gbs(item: &str) -> Result<(&str, u16), String> {
    let range = pcie::SWITCH + 1..=GBS_MAX;
    let read = item.split_once(':').and_then(|(gpus, gbs)| Some((gpus, gbs.parse().ok()?)));
    read.filter(|(_, gbs)| range.contains(gbs)).ok_or_else(|| {
        format!("write GB/s after a colon, from {} to {}", range.start(), range.end())
    })
}
