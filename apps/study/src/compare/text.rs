//! A comparison as text for a terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Change, Comparison, Verdict};
use crate::number::three_digits;

/// The comparison as text, with a final newline.
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    let [first, second] = &comparison.names;
    // Writing to a string does not fail.
    let _ = writeln!(out, "A  {first}\nB  {second}\n");
    if !comparison.remarks.is_empty() {
        out += "The runs differ in more than their results:\n";
        for remark in &comparison.remarks {
            let _ = writeln!(out, "  {remark}");
        }
        out.push('\n');
    }
    if comparison.pairs.is_empty() {
        out += "No point was measured in both.\n";
    } else {
        for line in table(comparison).lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let _ = writeln!(out, "\n{}", sum(comparison));
    }
    for (name, points) in [("A", &comparison.only_first), ("B", &comparison.only_second)] {
        if !points.is_empty() {
            let _ = writeln!(out, "\nOnly in {name}:");
            for point in points {
                let _ = writeln!(out, "  {}", point.0);
            }
        }
    }
    out
}

/// The number of pairs per verdict, in one sentence.
pub(super) fn sum(comparison: &Comparison) -> String {
    let [more, less, same, doubtful] =
        [Verdict::More, Verdict::Less, Verdict::Same, Verdict::Doubtful]
            .map(|verdict| comparison.count(verdict));
    format!(
        "B does more in {more}, less in {less}; in {same} the spreads overlap, so nothing is known to \
         have changed; {doubtful} cannot be compared."
    )
}

fn table(comparison: &Comparison) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["POINT", "IOPS A", "IOPS B", "B/A", "", "P99 A", "P99 B", "B/A"]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in [1, 2, 3, 5, 6, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for pair in &comparison.pairs {
        table.add_row([
            pair.name(),
            three_digits(pair.iops.first.median),
            three_digits(pair.iops.second.median),
            ratio(&pair.iops),
            pair.verdict().word().to_owned(),
            microseconds(pair.p99_us.first.median),
            microseconds(pair.p99_us.second.median),
            ratio(&pair.p99_us),
        ]);
    }
    table
}

fn microseconds(value: f64) -> String {
    format!("{} µs", three_digits(value))
}

/// A ratio with two decimals, `1.07`; `–` for a missing ratio.
pub(super) fn ratio(change: &Change) -> String {
    change.ratio.map_or_else(|| "–".to_owned(), times)
}

/// A number with two decimals, or three significant digits from 100 on.
pub(super) fn times(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { three_digits(ratio) }
}
