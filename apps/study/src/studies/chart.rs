//! Figures and tables, made of series.

use crate::exhibit::{Axis, Cell, Exhibit, Figure, Kind, Mark, Origin, Scale, Series, Table};

/// A length on axes and in text.
pub(super) fn len_text(len: u64) -> String {
    match len {
        len if len >= 1 << 20 && len.is_multiple_of(1 << 20) => format!("{} MiB", len >> 20),
        len if len >= 1 << 10 && len.is_multiple_of(1 << 10) => format!("{} KiB", len >> 10),
        len => format!("{len} B"),
    }
}

/// A length in point names, without a space.
pub(super) fn len_tag(len: u64) -> String {
    len_text(len).replace(' ', "")
}

pub(super) fn labelled<'a>(series: &'a [Series], label: &str) -> Option<&'a Series> {
    series.iter().find(|series| series.label == label)
}

/// The highest mark.
pub(super) fn peak(series: &Series) -> Option<&Mark> {
    series.points.iter().max_by(|a, b| a.y.total_cmp(&b.y))
}

pub(super) fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

/// A line chart.
pub(super) fn lines(x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    Figure { kind: Kind::Lines, x, y, shade: None, series }
}

/// A bar chart with one group per name.
pub(super) fn bars(x: &str, names: Vec<String>, y: Axis, series: Vec<Series>) -> Figure {
    Figure { kind: Kind::Bars, x: axis(x, "", Scale::Names(names)), y, shade: None, series }
}

/// A stacked bar chart.
pub(super) fn stacked(x: &str, names: Vec<String>, y: Axis, series: Vec<Series>) -> Figure {
    Figure { kind: Kind::StackedBars, ..bars(x, names, y, series) }
}

/// A series of numbers without runs; the `n`-th value is at the `n`-th name. Missing values are
/// omitted.
pub(super) fn plain(
    label: &str,
    origin: Origin,
    values: impl IntoIterator<Item = Option<f64>>,
) -> Series {
    let mark = |(index, value): (usize, Option<f64>)| {
        value.map(|y| Mark { x: index_x(index), y, spread: None, is_doubtful: false })
    };
    let points = values.into_iter().enumerate().filter_map(mark).collect();
    Series { label: label.to_owned(), origin, points }
}

/// A published number as a horizontal line from `xs[0]` to `xs[1]`.
pub(super) fn level(label: String, value: f64, xs: [f64; 2]) -> Series {
    let mark = |x| Mark { x, y: value, spread: None, is_doubtful: false };
    Series { label, origin: Origin::Published, points: xs.map(mark).to_vec() }
}

pub(super) fn heading(label: &str, unit: &str) -> String {
    if unit.is_empty() { label.to_owned() } else { format!("{label} ({unit})") }
}

/// A number, or an empty cell.
pub(super) fn cell(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing, Cell::Number)
}

pub(super) fn text(words: impl Into<String>) -> Cell {
    Cell::Text(words.into())
}

/// All numbers of a figure, one row per x value.
pub(super) fn table_of(figure: &Figure) -> Table {
    let mut xs: Vec<f64> =
        figure.series.iter().flat_map(|series| series.points.iter().map(|mark| mark.x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut columns = vec![heading(&figure.x.label, &figure.x.unit)];
    columns.extend(figure.series.iter().map(|series| heading(&series.label, &figure.y.unit)));
    let row = |x: &f64| {
        let mut cells = vec![place(&figure.x.scale, *x)];
        cells.extend(figure.series.iter().map(|series| cell(at(series, *x).map(|mark| mark.y))));
        cells
    };
    Table { rows: xs.iter().map(row).collect(), columns }
}

/// The cell for a position on the x axis.
fn place(scale: &Scale, x: f64) -> Cell {
    let Scale::Names(names) = scale else { return Cell::Number(x) };
    let named = names.iter().enumerate().find(|(index, _)| index_x(*index) == x);
    named.map_or(Cell::Missing, |(_, name)| text(name.as_str()))
}

/// The position of the `n`-th name.
#[expect(clippy::cast_precision_loss, reason = "an axis has few names")]
pub(super) fn index_x(index: usize) -> f64 {
    index as f64
}

/// A length or count as a position.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(super) fn x_of(value: u64) -> f64 {
    value as f64
}

/// The mark of a series at a position.
pub(super) fn at(series: &Series, x: f64) -> Option<&Mark> {
    series.points.iter().find(|mark| mark.x == x)
}

/// An exhibit with a figure, the figure's table, and notes on doubtful points.
pub(super) fn exhibit(slug: String, title: String, source: &str, figure: Figure) -> Exhibit {
    let table = table_of(&figure);
    let marks = || figure.series.iter().flat_map(|series| &series.points);
    let doubtful = marks().filter(|mark| mark.is_doubtful).count();
    let mut notes = Vec::new();
    if doubtful > 0 {
        let all = marks().count();
        notes.push(format!(
            "Doubtful points: {doubtful} of {all}. In each of their runs, the cores moved, were \
             placed differently from most runs, or were used by another program."
        ));
    }
    Exhibit {
        slug,
        title,
        source: source.to_owned(),
        figure: Some(figure),
        table,
        findings: Vec::new(),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_mark_is_the_peak() {
        let found = plain("direct", Origin::Measured, [50.0, 90.0, 80.0].map(Some));
        assert_eq!(peak(&found).map(|mark| mark.x), Some(1.0));
        assert_eq!(peak(&plain("none", Origin::Measured, [])), None);
    }
}
