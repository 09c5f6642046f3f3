//! What `nvidia-smi topo -m` prints: a matrix of GPUs and NICs, with where their CPUs are, then legends,
//! of which one says what the NICs are called.

use std::collections::BTreeMap;

use berth_core::types::Text;
use berth_core::types::topology::{GPUS_MAX, pcie};

use super::TopologyProblem;
use super::graph::{Graph, Vertex};

/// Both directions of one link of NVLink 2 to 4. Unit: GB/s.
const NVLINK: u16 = 50;
/// NVLinks that two GPUs can have.
const LINKS_MAX: u16 = 72;
/// GPUs and NICs of one node.
const NAMES_MAX: usize = 2 * GPUS_MAX;
const NUMA: &str = "NUMA Affinity";

/// What a cell of the matrix says, the widest way last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    System,
    Cell,
    Bridge,
    Switches,
    Switch,
    NvLinks(u16),
    Itself,
}

impl Path {
    fn read(code: &str) -> Option<Path> {
        Some(match code {
            "X" => Path::Itself,
            "SYS" => Path::System,
            "NODE" => Path::Cell,
            "PHB" => Path::Bridge,
            "PXB" => Path::Switches,
            "PIX" => Path::Switch,
            _ => {
                let links = code.strip_prefix("NV")?.parse().ok()?;
                (1..=LINKS_MAX).contains(&links).then_some(Path::NvLinks(links))?
            }
        })
    }
}

/// Tells whether a text looks like the matrix.
pub(super) fn is_matrix(text: &str) -> bool {
    text.lines().take(8).any(|line| words(line).iter().any(|word| word.starts_with("GPU0")))
}

/// Splits at blanks; what underlines the header is left out.
fn words(line: &str) -> Vec<&str> {
    let words = line.split_whitespace().map(bare);
    words.filter(|word| !word.is_empty()).collect()
}

/// Takes sequences for terminals off both ends.
fn bare(mut word: &str) -> &str {
    while let Some(rest) = word.strip_prefix("\u{1b}[") {
        word = rest.split_once('m').map_or("", |(_, rest)| rest);
    }
    word.split_once('\u{1b}').map_or(word, |(word, _)| word)
}

struct Matrix<'a> {
    names: Vec<&'a str>,
    n_gpus: usize,
    with_numa: bool,
    /// By row and column; `None`: the row is missing.
    rows: Vec<Option<Vec<Path>>>,
    /// Of each GPU.
    numa: Vec<Option<u16>>,
    /// Of each NIC, as the legend calls it.
    called: Vec<Option<&'a str>>,
}

pub(super) fn read(text: &str) -> Result<Graph, TopologyProblem> {
    let mut lines = text.lines();
    let mut header = None;
    for line in lines.by_ref() {
        if words(line).first().is_some_and(|word| *word == "GPU0") {
            header = Some(line);
            break;
        }
    }
    let Some(header) = header else {
        let what = "has GPU0, but no header line that begins with it; annotate with all that \
                    `nvidia-smi topo -m` prints, lines kept apart";
        return Err(TopologyProblem::new(what));
    };
    let mut matrix = Matrix::of_header(header)?;
    for line in lines {
        let words = words(line);
        matrix.read_row(&words)?;
        matrix.read_legend(&words)?;
    }
    matrix.check()?;
    Ok(matrix.graph())
}

impl<'a> Matrix<'a> {
    fn of_header(header: &'a str) -> Result<Matrix<'a>, TopologyProblem> {
        let words = words(header);
        let names: Vec<&str> = words.iter().copied().take_while(|word| *word != "CPU").collect();
        let is_gpu =
            |name: &str| name.strip_prefix("GPU").is_some_and(|n| n.parse::<u16>().is_ok());
        let n_gpus = names.iter().take_while(|name| is_gpu(name)).count();
        if n_gpus > GPUS_MAX || names.len() > NAMES_MAX {
            let what = format!("has {n_gpus} GPUs; up to {GPUS_MAX} of one node are understood");
            return Err(TopologyProblem(what));
        }
        let odd = (0..n_gpus).find(|at| names[*at] != format!("GPU{at}"));
        if let Some(at) = odd {
            let what = format!("the header has {} where GPU{at} is to be", names[at]);
            return Err(TopologyProblem(what));
        }
        let (rows, numa) = (vec![None; names.len()], vec![None; n_gpus]);
        let called = vec![None; names.len() - n_gpus];
        let with_numa = words.join(" ").contains(NUMA);
        Ok(Matrix { names, n_gpus, with_numa, rows, numa, called })
    }

    /// Lines that are no rows say nothing.
    fn read_row(&mut self, words: &[&str]) -> Result<(), TopologyProblem> {
        let Some((name, cells)) = words.split_first() else { return Ok(()) };
        let Some(row) = self.names.iter().position(|known| known == name) else { return Ok(()) };
        if self.rows[row].is_some() {
            return Err(TopologyProblem(format!("has two rows for {name}; keep one")));
        }
        if cells.len() < self.names.len() {
            let what = format!(
                "row {name} has {} of {} columns; copy the whole line",
                cells.len(),
                self.names.len()
            );
            return Err(TopologyProblem(what));
        }
        let (codes, rest) = cells.split_at(self.names.len());
        let path = |(column, code): (usize, &&str)| {
            let of_nic = row.max(column) >= self.n_gpus;
            let read = Path::read(code);
            read.filter(|path| !of_nic || !matches!(path, Path::NvLinks(_))).ok_or_else(|| {
                let code: String = code.chars().take(16).collect();
                let known = match of_nic {
                    true => "X, PIX, PXB, PHB, NODE or SYS",
                    false => "X, NV1 to NV72, PIX, PXB, PHB, NODE or SYS",
                };
                let column = self.names[column];
                TopologyProblem(format!("row {name}, column {column}: {code:?} is none of {known}"))
            })
        };
        let paths = codes.iter().enumerate().map(path).collect::<Result<Vec<_>, _>>()?;
        self.rows[row] = Some(paths);
        if let (true, Some(cell)) = (self.with_numa, self.numa.get_mut(row)) {
            *cell = rest.get(1).and_then(|cell| cell.parse().ok());
        }
        Ok(())
    }

    /// Reads `NIC0: mlx5_0`. Other legends say nothing.
    fn read_legend(&mut self, words: &[&'a str]) -> Result<(), TopologyProblem> {
        let [column, called] = words else { return Ok(()) };
        let Some(column) = column.strip_suffix(':') else { return Ok(()) };
        let Some(nic) = self.nics().iter().position(|name| *name == column) else {
            let is_nic = column.strip_prefix("NIC").is_some_and(|n| n.parse::<u16>().is_ok());
            let what = format!("the legend has {column}, which is no column; copy all lines");
            return if is_nic { Err(TopologyProblem(what)) } else { Ok(()) };
        };
        let brief: String = called.chars().take(40).collect();
        if self.called[nic].is_some() {
            let what = format!("the legend has {column} twice; keep one");
            return Err(TopologyProblem(what));
        }
        if let Some(other) = self.called.iter().position(|known| known == &Some(*called)) {
            let other = self.nics()[other];
            let what = format!("the legend calls {other} and {column} {brief:?}; print it anew");
            return Err(TopologyProblem(what));
        }
        self.called[nic] = Some(called);
        Ok(())
    }

    fn nics(&self) -> &[&'a str] {
        &self.names[self.n_gpus..]
    }

    fn check(&self) -> Result<(), TopologyProblem> {
        for (row, paths) in self.rows.iter().enumerate() {
            let name = self.names[row];
            let Some(paths) = paths else {
                if row >= self.n_gpus {
                    continue;
                }
                return Err(TopologyProblem(format!("has no row for {name}; copy all lines")));
            };
            for (column, here) in paths.iter().enumerate().take(row) {
                if self.path(column, row).is_some_and(|there| there != *here) {
                    let other = self.names[column];
                    let what = format!(
                        "contradicts itself: row {name} and row {other} tell different things of the \
                         two; print it anew"
                    );
                    return Err(TopologyProblem(what));
                }
            }
        }
        Ok(())
    }

    fn path(&self, row: usize, column: usize) -> Option<Path> {
        self.rows[row].as_ref().map(|row| row[column])
    }

    fn graph(&self) -> Graph {
        // Where there is no legend the columns have the names.
        let nics = self.nics().iter().zip(&self.called);
        let nics = nics.map(|(column, called)| Text::from(called.unwrap_or(column))).collect();
        let mut graph = Graph::new(self.n_gpus, nics);
        let pairs = |least: Path| -> Vec<(usize, usize)> {
            let all = (0..self.names.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
            let within = |pair: &(usize, usize)| {
                // The rows of NICs may be missing.
                let path = self.path(pair.0, pair.1).or_else(|| self.path(pair.1, pair.0));
                path.is_some_and(|path| path >= least && path <= Path::Switch)
            };
            all.filter(within).collect()
        };
        for (a, b) in (0..self.n_gpus).flat_map(|a| (0..a).map(move |b| (a, b))) {
            if let Some(Path::NvLinks(links)) = self.path(a, b) {
                graph.link(a, b, links * NVLINK);
            }
        }
        for members in graph.joined(&pairs(Path::Switch)) {
            graph.join(&members, Vertex::PcieSwitch, pcie::SWITCH);
        }
        // What reaches each other without a host bridge hangs on one root.
        for (number, members) in graph.joined(&pairs(Path::Switches)).iter().enumerate() {
            graph.root(number, members, pcie::SWITCHES);
        }
        for (least, gbs) in [(Path::Bridge, pcie::BRIDGE), (Path::Cell, pcie::CELL)] {
            for members in graph.joined(&pairs(least)) {
                graph.join(&members, Vertex::Cell, gbs);
            }
        }
        let mut cells: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (gpu, cell) in self.numa.iter().enumerate() {
            if let Some(cell) = cell {
                cells.entry(*cell).or_default().push(gpu);
            }
        }
        for (number, gpus) in &cells {
            graph.cell(*number, gpus);
        }
        graph
    }
}
