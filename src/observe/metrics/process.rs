//! What the kernel says of this process, from `/proc/self`.

use std::fs;

/// Ticks a second of the times in `/proc`: a constant of Linux' interface (USER_HZ), whatever the
/// kernel's own rate is.
const TICKS: f64 = 100.0;

/// Figures as they are served; `None` where they can't be read (not Linux, or `/proc` is hidden).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    pub cpu_seconds: Option<f64>,
    pub start_time_seconds: Option<f64>,
    pub threads: Option<f64>,
    pub resident_bytes: Option<f64>,
    pub virtual_bytes: Option<f64>,
    pub open_fds: Option<f64>,
    pub max_fds: Option<f64>,
}

impl ProcessFigures {
    /// Reads them. Cost: five small files and a listing of the open descriptors.
    pub fn read() -> ProcessFigures {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, system) = (text("/proc/self/stat"), text("/proc/stat"));
        let fds = fs::read_dir("/proc/self/fd").ok();
        ProcessFigures {
            // The listing itself is open while it is read.
            open_fds: fds.map(|fds| fds.count().saturating_sub(1) as f64),
            max_fds: limit(&text("/proc/self/limits"), "Max open files"),
            ..of(&stat, &system, &text("/proc/self/status"))
        }
    }
}

fn of(stat: &str, system: &str, status: &str) -> ProcessFigures {
    // The program's name may hold spaces and brackets; what follows it is plain.
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    // Fields are counted from 1, and the third comes first here. Source: proc_pid_stat(5).
    let field = |at: usize| rest.split_whitespace().nth(at - 3)?.parse::<f64>().ok();
    let begun = line(system, "btime ");
    ProcessFigures {
        cpu_seconds: field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS),
        threads: field(20),
        start_time_seconds: field(22).zip(begun).map(|(ticks, begun)| begun + ticks / TICKS),
        virtual_bytes: field(23),
        resident_bytes: line(status, "VmRSS:").map(|kib| kib * 1024.0),
        open_fds: None,
        max_fds: None,
    }
}

/// Returns the first number of the line that begins with `name`.
fn line(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn limit(limits: &str, name: &str) -> Option<f64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        soft => soft.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_wild_program_name() {
        let stat = "7 (a ) b) S 1 1 1 0 -1 4 5 0 0 0 150 50 0 0 20 0 9 0 3000 8192 2 1844674407";
        let figures = of(stat, "cpu 1 2\nbtime 1000\n", "Name: x\nVmRSS:\t     12 kB\n");
        let want = ProcessFigures {
            cpu_seconds: Some(2.0),
            start_time_seconds: Some(1030.0),
            threads: Some(9.0),
            resident_bytes: Some(12288.0),
            virtual_bytes: Some(8192.0),
            ..ProcessFigures::default()
        };
        assert_eq!(figures, want);
        assert_eq!(
            limit("Limit Soft\nMax open files   1024   4096 files\n", "Max open files"),
            Some(1024.0)
        );
        assert_eq!(of("", "", ""), ProcessFigures::default());
    }
}
