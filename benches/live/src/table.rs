//! The table of a load: medians over the rounds, with the least and the most.

use crate::load::Load;
use crate::record::{Row, shown};

const COLUMNS: [&str; 10] = [
    "binds/s",
    "of the ceiling",
    "own CPU, us a pod",
    "peak RSS, MiB",
    "first bind, s",
    "last bind to last event, s",
    "pods with event/s",
    "creation to bind p50, ms",
    "p99, ms",
    "search for a group, ms",
];

/// Returns the load's table in Markdown, without the columns that nobody has.
pub(crate) fn of(load: &Load, rows: &[Row]) -> String {
    let has = |column: usize| rows.iter().any(|row| row.figures()[column].is_some());
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(|column| has(*column)).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rounds = load.contenders.iter().map(|c| of_one(rows, c.name()).len()).max().unwrap_or(0);
    let heads: Vec<&str> = columns.iter().map(|column| COLUMNS[*column]).collect();
    let mut text = format!(
        "\n{}: {}; {cores} cores shared with server and etcd; median of {rounds} (least-most)\n\n\
         | | pods | {} |\n|---|---{}|\n",
        load.name,
        load.describe(),
        heads.join(" | "),
        "|---".repeat(columns.len()),
    );
    for contender in load.contenders {
        let own = of_one(rows, contender.name());
        let Some(first) = own.first() else { continue };
        let cells = columns.iter().map(|column| cell(&own, *column)).collect::<Vec<_>>();
        text += &format!("| {} | {} | {} |\n", contender.name(), first.pods, cells.join(" | "));
    }
    text
}

fn of_one<'a>(rows: &'a [Row], contender: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.contender == contender).collect()
}

fn cell(rows: &[&Row], column: usize) -> String {
    let mut figures: Vec<f64> = rows.iter().filter_map(|row| row.figures()[column]).collect();
    figures.sort_by(f64::total_cmp);
    match figures.as_slice() {
        [] => "-".to_owned(),
        [only] => shown(*only),
        [least, .., most] => {
            format!("{} ({}-{})", shown(median(&figures)), shown(*least), shown(*most))
        }
    }
}

/// Of sorted figures, at least one.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_median_least_and_most() {
        let row = |rate| Row { binds_per_s: Some(rate), ..Row::new("berth", 1) };
        let rows = [row(1500.0), row(1200.0), row(1400.0), row(1300.0)];
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(cell(&rows, 0), "1350 (1200-1500)");
        assert_eq!((cell(&rows[..1], 0), cell(&rows, 1)), ("1500".to_owned(), "-".to_owned()));
    }
}
