//! Tables of the page.

use maud::{Markup, html};

use nearflash_bench::stats::Quartiles;

use super::summary::results;
use super::typography::unbroken;
use super::{Chapter, Fact};
use crate::exhibit::{Cell, Table};
use crate::number::{in_times, three_digits};
use crate::result::{Outcome, PointEnd, Results, Run};

/// A list of names and values.
pub(crate) fn fact_list(facts: &[Fact]) -> Markup {
    html! { dl.facts { @for Fact { name, value } in facts { dt { (name) } dd { (value) } } } }
}

/// An exhibit's table; numeric columns are right-aligned.
pub(super) fn table(table: &Table) -> Markup {
    let is_of_numbers =
        |column: usize| table.rows.iter().any(|row| row.get(column).is_some_and(Cell::is_number));
    let right: Vec<bool> = (0..table.columns.len()).map(is_of_numbers).collect();
    let class = |column: usize| right.get(column).copied().unwrap_or(false).then_some("n");
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for (column, name) in table.columns.iter().enumerate() {
                            th class=[class(column)] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[class(column)] { (unbroken(&show(cell))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A cell in human-readable form.
pub(super) fn show(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(number) => three_digits(*number),
        Cell::Change(change) => in_times(*change).unwrap_or_else(|| three_digits(*change)),
        Cell::Missing => "–".to_owned(),
    }
}

/// The points of a chapter with their command lines.
pub(super) fn points_table(chapter: &Chapter) -> Markup {
    let results = results(chapter);
    html! {
        div.scroll {
            table.points {
                thead {
                    tr {
                        th { "point" } th.n { "runs" } th.n { "IOPS" } th.n { "MB/s" }
                        th.n { "p50, µs" } th.n { "p99, µs" } th.n { "CPU, µs/op" } th { "" }
                    }
                }
                tbody { @for end in &chapter.points { (point_rows(end, &results)) } }
            }
        }
    }
}

/// A row for each load of a point.
fn point_rows(end: &PointEnd, results: &Results) -> Markup {
    let PointEnd { id, outcome } = end;
    let without_runs = |words: &str| html! { tr { td { (id.0) } td colspan="7" { (words) } } };
    let measurement = match outcome {
        Outcome::Measured(measurement) => measurement,
        Outcome::Simulated(simulation) => return without_runs(&simulation.words()),
        Outcome::Failed(_) => return without_runs("failed"),
    };
    let number = |spread: Option<Quartiles>| {
        spread.map_or_else(|| "–".to_owned(), |spread| three_digits(spread.median))
    };
    let median = |tenant, figure: fn(&Run) -> f64| number(results.spread(id, tenant, figure));
    html! {
        @for (tenant, runs) in measurement.tenants.iter().enumerate() {
            tr {
                td { (id.0) @if measurement.tenants.len() > 1 { ", load " (tenant + 1) } }
                td.n { (runs.len()) }
                td.n { (median(tenant, |run| run.iops)) }
                td.n { (median(tenant, |run| run.bytes_per_second / 1e6)) }
                td.n { (median(tenant, |run| run.latency.p50)) }
                td.n { (median(tenant, |run| run.latency.p99)) }
                td.n { (median(tenant, |run| run.cpu.total())) }
                td { @if results.is_doubtful(id) { "doubtful" } }
            }
        }
        @if let Some(command) = &measurement.command {
            tr.command { td colspan="8" { code { (command) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::show;
    use crate::exhibit::Cell;

    #[test]
    fn differences_of_more_than_twice_as_much_are_shown_in_times() {
        let shown = [-36.7, 26.1, 100.0, 161.6].map(|change| show(&Cell::Change(change)));
        assert_eq!(shown, ["−36.7", "26.1", "100", "2.62 times"]);
        assert_eq!(show(&Cell::Number(161.6)), "162");
    }
}
