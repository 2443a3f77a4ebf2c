//! What the marks mean: below the data or beside them, never on them.

use super::canvas::{Anchor, Canvas, fitted, text_width};
use super::style::Look;
use crate::exhibit::{Kind, Origin, Series};

const SIZE: f64 = 12.0;
const LINE_HEIGHT: f64 = 19.0;
const SAMPLE_WIDTH: f64 = 28.0;
const SAMPLE_GAP: f64 = 7.0;
const COLUMN_GAP: f64 = 22.0;

/// The widest legend beside the data, samples included.
const SIDE_WIDTH_MAX: f64 = 215.0;

/// The series' names with samples of what stands for them.
#[derive(Clone, Debug)]
pub(super) struct Legend {
    entries: Vec<(Look, String)>,
    is_of_bars: bool,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// In columns of this width.
    Below {
        columns: usize,
        width: f64,
    },
    Beside {
        width: f64,
    },
}

impl Legend {
    /// The legend of these series, in a picture of this width with data of this height.
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
        let widest = entries.iter().map(|(_, name)| text_width(name, SIZE)).fold(0.0, f64::max)
            + SAMPLE_WIDTH
            + SAMPLE_GAP;
        let place = place(entries.len(), widest, width, height);
        Self { entries, is_of_bars, place }
    }

    /// The room it takes beside the data.
    pub(super) fn side_width(&self) -> f64 {
        match self.place {
            Place::Below { .. } => 0.0,
            Place::Beside { width } => width + COLUMN_GAP,
        }
    }

    /// Draws it beside the data, with its upper left corner here, or else below them; gives the
    /// height that it takes below.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas,
        slug: &str,
        beside: [f64; 2],
        below: [f64; 2],
    ) -> f64 {
        let (corner, columns, column_width, text_max) = match self.place {
            Place::Beside { width } => ([beside[0] + COLUMN_GAP, beside[1]], 1, 0.0, width),
            Place::Below { columns, width } => (below, columns, width + COLUMN_GAP, width),
        };
        let [mut x, mut y] = corner;
        for (index, (look, name)) in self.entries.iter().enumerate() {
            if index > 0 && index.is_multiple_of(columns) {
                x = corner[0];
                y += LINE_HEIGHT;
            }
            self.draw_sample(canvas, slug, *look, [x, y]);
            let name = fitted(name, SIZE, text_max - SAMPLE_WIDTH - SAMPLE_GAP);
            let at = [x + SAMPLE_WIDTH + SAMPLE_GAP, y + 9.5];
            canvas.text("nf-legend", at, Anchor::Start, &name);
            x += column_width;
        }
        match self.place {
            Place::Below { .. } if !self.entries.is_empty() => y - corner[1] + LINE_HEIGHT,
            Place::Below { .. } | Place::Beside { .. } => 0.0,
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

fn place(count: usize, widest: f64, width: f64, height: f64) -> Place {
    let width = width.max(1.0);
    let mut columns = count.max(1);
    let needed = |columns: usize| {
        u32::try_from(columns).map_or(f64::MAX, f64::from) * (widest + COLUMN_GAP) - COLUMN_GAP
    };
    while columns > 1 && needed(columns) > width {
        columns -= 1;
    }
    let rows = count.div_ceil(columns);
    // Equally filled rows: four names are two and two rather than three and one.
    let columns = count.div_ceil(rows.max(1)).max(1);
    let fits_beside = widest <= SIDE_WIDTH_MAX
        && u32::try_from(count).map_or(f64::MAX, f64::from) * LINE_HEIGHT <= height;
    if rows > 2 && fits_beside {
        return Place::Beside { width: widest };
    }
    Place::Below { columns, width: widest.min(width) }
}

/// A series's name, which says where its numbers come from if they were not measured.
pub(super) fn name(series: &Series) -> String {
    let add = |word: &str| {
        if series.label.to_lowercase().contains(word) {
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
