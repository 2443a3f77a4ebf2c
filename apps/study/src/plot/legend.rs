//! The legend: below the data or to their right, never on them.

use super::canvas::{Anchor, Canvas, fitted, text_width};
use super::style::Look;
use crate::exhibit::{Kind, Origin, Series};

const SIZE: f64 = 12.0;
const LINE_HEIGHT: f64 = 19.0;
const SAMPLE_WIDTH: f64 = 28.0;
const SAMPLE_GAP: f64 = 7.0;
const COLUMN_GAP: f64 = 22.0;

/// Maximum width of a legend to the right of the data, including samples.
const SIDE_WIDTH_MAX: f64 = 215.0;

/// The series' names with samples of their marks.
#[derive(Clone, Debug)]
pub(super) struct Legend {
    entries: Vec<(Look, String)>,
    is_of_bars: bool,
    place: Place,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// In columns of these widths.
    Below {
        columns: Vec<f64>,
    },
    Right {
        width: f64,
    },
}

impl Legend {
    /// The legend of these series, for a picture of this width with data of this height.
    pub(super) fn new(
        kind: Kind,
        series: &[Series],
        looks: &[Look],
        width: f64,
        height: f64,
    ) -> Self {
        let entries: Vec<(Look, String)> =
            looks.iter().zip(series).map(|(look, series)| (*look, name(series))).collect();
        let is_of_bars = matches!(kind, Kind::Bars | Kind::StackedBars);
        let widths: Vec<f64> = entries
            .iter()
            .map(|(_, name)| text_width(name, SIZE) + SAMPLE_WIDTH + SAMPLE_GAP)
            .collect();
        let place = place(&widths, width, height);
        Self { entries, is_of_bars, place }
    }

    /// The width that it takes to the right of the data.
    pub(super) fn side_width(&self) -> f64 {
        match self.place {
            Place::Below { .. } => 0.0,
            Place::Right { width } => width + COLUMN_GAP,
        }
    }

    /// Draws the legend to the right of the data, its upper left corner at `right`, or below them
    /// at `below`. Returns the height that the legend occupies below the data.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas,
        slug: &str,
        right: [f64; 2],
        below: [f64; 2],
    ) -> f64 {
        let (corner, columns) = match &self.place {
            Place::Right { width } => ([right[0] + COLUMN_GAP, right[1]], vec![*width]),
            Place::Below { columns } => (below, columns.clone()),
        };
        let [_, mut y] = corner;
        for row in self.entries.chunks(columns.len().max(1)) {
            let mut x = corner[0];
            for ((look, name), width) in row.iter().zip(&columns) {
                self.draw_sample(canvas, slug, *look, [x, y]);
                let name = fitted(name, SIZE, width - SAMPLE_WIDTH - SAMPLE_GAP + 0.1);
                let at = [x + SAMPLE_WIDTH + SAMPLE_GAP, y + 9.5];
                canvas.text("nf-legend", at, Anchor::Start, &name);
                x += width + COLUMN_GAP;
            }
            y += LINE_HEIGHT;
        }
        match self.place {
            Place::Below { .. } => y - corner[1],
            Place::Right { .. } => 0.0,
        }
    }

    fn draw_sample(&self, canvas: &mut Canvas, slug: &str, look: Look, at: [f64; 2]) {
        let [x, y] = at;
        if self.is_of_bars {
            return look.bar(canvas, slug, [x + 4.0, y], [20.0, 11.0]);
        }
        canvas.line(&look.line_class(), [x, y + 5.5], [x + SAMPLE_WIDTH, y + 5.5]);
        look.mark(canvas, [x + SAMPLE_WIDTH / 2.0, y + 5.5], false);
    }
}

/// The place for names of these widths: right of the data of this height, or below them within this
/// width.
fn place(widths: &[f64], width: f64, height: f64) -> Place {
    let columns_of = |count: usize| {
        let mut columns = vec![0.0_f64; count];
        for row in widths.chunks(count) {
            for (column, width) in columns.iter_mut().zip(row) {
                *column = column.max(*width);
            }
        }
        columns
    };
    let total = |columns: &[f64]| columns.iter().map(|column| column + COLUMN_GAP).sum::<f64>();
    let fits = |count: &usize| total(&columns_of(*count)) <= width + COLUMN_GAP;
    let most = (1..=widths.len()).rev().find(fits).unwrap_or(1);
    let rows = widths.len().div_ceil(most);
    // Balances the rows: four names become two and two rather than three and one.
    let even = widths.len().div_ceil(rows.max(1)).max(1);
    let count = if fits(&even) { even } else { most };
    let widest = widths.iter().copied().fold(0.0, f64::max);
    let right_height = widths.iter().map(|_| LINE_HEIGHT).sum::<f64>();
    if rows > 2 && widest <= SIDE_WIDTH_MAX && right_height <= height {
        return Place::Right { width: widest };
    }
    let columns = columns_of(count).into_iter().map(|column| column.min(width)).collect();
    Place::Below { columns }
}

/// A series' name; for numbers that were not measured it includes their origin.
pub(super) fn name(series: &Series) -> String {
    let add = |word: &str| {
        let label = series.label.to_lowercase();
        if label.contains(word) || label.contains("paper") {
            series.label.clone()
        } else {
            format!("{} ({word})", series.label).trim_start().to_owned()
        }
    };
    match series.origin {
        Origin::Measured | Origin::Limit => series.label.clone(),
        Origin::Published => add("published"),
        Origin::Model => add("model"),
    }
}
