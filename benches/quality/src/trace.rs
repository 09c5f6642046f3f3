//! The openb trace (Alibaba, 2023): nodes, pods, and the arrivals that one seed makes of them.
//!
//! The files are read where they are and never copied. A workload's arrivals are the whole trace,
//! then pods drawn from it with replacement, until so much is asked for; all shuffled.

use std::fs;
use std::path::{Path, PathBuf};

use berth_core::framework::rng::Rng;

/// A node of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceNode {
    pub(crate) name: String,
    pub(crate) cpu_milli: i64,
    pub(crate) memory_mib: i64,
    pub(crate) gpus: i64,
    pub(crate) model: String,
}

/// What a pod of the trace asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TracePod {
    pub(crate) cpu_milli: i64,
    pub(crate) memory_mib: i64,
    pub(crate) gpus: i64,
    /// Of each GPU; 0 without GPUs.
    pub(crate) gpu_milli: i64,
    /// Models that do; empty: any.
    pub(crate) models: Vec<String>,
    /// Of a partition; empty: a share of a GPU, or all of it.
    pub(crate) profile: &'static str,
    /// As long as it ran. Unit: seconds; 0 where the trace doesn't say.
    pub(crate) seconds: i64,
}

impl TracePod {
    pub(crate) fn total_milli(&self) -> i64 {
        self.gpus * self.gpu_milli
    }

    /// Sizes are counted apart: without GPUs, part of one, 1, 2, 4, 8.
    pub(crate) fn size_class(&self) -> usize {
        match (self.gpus, self.gpu_milli) {
            (0, _) => 0,
            (1, milli) if milli < 1000 => 1,
            (1, _) => 2,
            (2, _) => 3,
            (3..=4, _) => 4,
            _ => 5,
        }
    }
}

pub(crate) const SIZE_CLASSES: [&str; 6] = ["cpu", "frac", "1", "2", "4", "8"];

/// The workloads that have published results.
pub(crate) const WORKLOADS: [&str; 17] = [
    "default",
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
];

pub(crate) struct Traces {
    folder: PathBuf,
}

impl Traces {
    pub(crate) fn at(folder: &Path) -> Traces {
        Traces { folder: folder.to_owned() }
    }

    pub(crate) fn nodes(&self) -> Result<Vec<TraceNode>, String> {
        self.rows("gpu-v2023/openb_node_list_gpu_node.csv", |row| {
            Some(TraceNode {
                name: row.text("sn")?.to_owned(),
                cpu_milli: row.number("cpu_milli")?,
                memory_mib: row.number("memory_mib")?,
                gpus: row.number("gpu")?,
                model: row.text("model")?.to_owned(),
            })
        })
    }

    /// Returns the pods of a workload. `<name>/round` has each part of a GPU rounded up to a whole
    /// one, `<name>/drop` leaves such pods out.
    pub(crate) fn pods(&self, workload: &str) -> Result<Vec<TracePod>, String> {
        let (name, shape) = workload.split_once('/').unwrap_or((workload, ""));
        let pods = self.rows(&format!("gpu-v2023/openb_pod_list_{name}.csv"), |row| {
            let gpus = row.number("num_gpu")?;
            let spec = row.text("gpu_spec").unwrap_or_default();
            let ended = row.number("deletion_time").unwrap_or(0);
            let began = row.number("creation_time").unwrap_or(0);
            Some(TracePod {
                cpu_milli: row.number("cpu_milli")?,
                memory_mib: row.number("memory_mib")?,
                gpus,
                gpu_milli: if gpus == 0 { 0 } else { row.number("gpu_milli")? },
                models: spec.split('|').filter(|m| !m.is_empty()).map(str::to_owned).collect(),
                profile: "",
                seconds: (ended - began).max(0),
            })
        })?;
        let fraction = |pod: &TracePod| pod.gpus > 0 && pod.gpu_milli < 1000;
        Ok(match shape {
            "round" => pods
                .into_iter()
                .map(|pod| TracePod { gpu_milli: if pod.gpus > 0 { 1000 } else { 0 }, ..pod })
                .collect(),
            "drop" => pods.into_iter().filter(|pod| !fraction(pod)).collect(),
            _ => pods,
        })
    }

    /// Returns the published unallocated share of a policy, mean of its seeds. Unit: percent.
    pub(crate) fn published(&self, workload: &str, policy: &str) -> Result<f64, String> {
        let wanted = format!("openb_pod_list_{workload}");
        let rows = self.rows("fgd-expected/analysis_allo_discrete.csv", |row| {
            let ours = row.text("workload")? == wanted && row.text("sc_policy")?.ends_with(policy);
            Some(if ours { row.text("130")?.parse::<f64>().ok() } else { None })
        })?;
        let found: Vec<f64> = rows.into_iter().flatten().collect();
        if found.is_empty() {
            return Err(format!("nothing is published of {policy} on {workload}"));
        }
        Ok(100.0 - found.iter().sum::<f64>() / found.len() as f64)
    }

    fn rows<T>(&self, file: &str, read: impl Fn(&Row<'_>) -> Option<T>) -> Result<Vec<T>, String> {
        let path = self.folder.join(file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let row = |(at, line): (usize, &str)| {
            let row = Row { head: &head, fields: line.split(',').collect() };
            read(&row).ok_or_else(|| format!("{}: line {} can't be read", path.display(), at + 2))
        };
        lines.enumerate().map(row).collect()
    }
}

struct Row<'a> {
    head: &'a [&'a str],
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let at = self.head.iter().position(|name| *name == column)?;
        self.fields.get(at).copied()
    }

    fn number(&self, column: &str) -> Option<i64> {
        let text = self.text(column)?;
        text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().map(|n| n as i64))
    }
}

/// Returns the arrivals: the whole trace and more, until `milli` thousandths of a GPU are asked for.
pub(crate) fn arrivals(pods: &[TracePod], milli: i64, seed: u64) -> Vec<TracePod> {
    let mut rng = Rng::stream(seed, "arrivals", "", 0);
    let mut arrivals = pods.to_vec();
    let mut asked: i64 = arrivals.iter().map(TracePod::total_milli).sum();
    while asked < milli {
        let pod = &pods[rng.below(pods.len() as u64) as usize];
        asked += pod.total_milli();
        arrivals.push(pod.clone());
    }
    for at in (1..arrivals.len()).rev() {
        arrivals.swap(at, rng.below(at as u64 + 1) as usize);
    }
    arrivals
}
