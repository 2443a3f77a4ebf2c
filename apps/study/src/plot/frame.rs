//! The data area with its axes and labels.

use super::canvas::{Anchor, Canvas, fitted, text_width, wrapped};
use super::ruler::{Ruler, Tick};
use crate::exhibit::Axis;

/// Font size of tick labels.
const TICK_SIZE: f64 = 11.5;

/// Font size of axis titles.
const TITLE_SIZE: f64 = 12.5;

/// Line height of a label with several lines.
const LINE_HEIGHT: f64 = 14.0;

/// Minimum gap between adjacent labels.
const NAME_GAP: f64 = 8.0;

/// Maximum width of a slanted label, and of a row's label.
const NAME_WIDTH_MAX: f64 = 150.0;

/// The data area with its axes, in pixels from the top left.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Ruler,
    pub(super) y: Ruler,
}

/// The layout of labels below the x axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Names {
    /// Horizontal; only every n-th label is shown.
    Straight { every: usize },
    /// Broken into several lines.
    Lines,
    /// Slanted, rising from the lower left; only every n-th label is shown.
    Slanted { every: usize },
}

impl Frame {
    /// The position of a point; `None` if it cannot be placed on the axes.
    pub(super) fn at(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        Some([self.x_at(x)?, self.y_at(y)?])
    }

    pub(super) fn x_at(&self, value: f64) -> Option<f64> {
        self.x.place(value).map(|place| self.left + place * self.width)
    }

    pub(super) fn y_at(&self, value: f64) -> Option<f64> {
        self.y.place(value).map(|place| self.top + (1.0 - place) * self.height)
    }

    /// The y position at which bars begin.
    pub(super) fn base(&self) -> f64 {
        self.top + (1.0 - self.y.origin()) * self.height
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn right(&self) -> f64 {
        self.left + self.width
    }

    /// The width of the tick labels of the y axis.
    pub(super) fn margin_for(y: &Ruler) -> f64 {
        let widths = y.ticks.iter().map(|tick| text_width(&tick.label, TICK_SIZE));
        widths.fold(24.0, f64::max).min(NAME_WIDTH_MAX) + 16.0
    }

    /// Draws grid lines at the ticks of the y axis and, if it is numeric, of the x axis.
    pub(super) fn draw_grid(&self, canvas: &mut Canvas) {
        for tick in &self.y.ticks {
            if let Some(y) = self.y_at(tick.value) {
                canvas.line("nf-grid", [self.left, y], [self.right(), y]);
            }
        }
        if self.x.band_count().is_none() {
            for x in self.x.ticks.iter().filter_map(|tick| self.x_at(tick.value)) {
                canvas.line("nf-grid", [x, self.top], [x, self.bottom()]);
            }
        }
    }

    /// Draws axes, labels and titles; returns the height of everything below the data.
    pub(super) fn draw_axes(&self, canvas: &mut Canvas, x: &Axis, y: &Axis) -> f64 {
        let base = self.base();
        canvas.line("nf-axis", [self.left, self.top], [self.left, self.bottom()]);
        canvas.line("nf-axis", [self.left, base], [self.right(), base]);
        for tick in &self.y.ticks {
            let Some(at) = self.y_at(tick.value) else { continue };
            let label = fitted(&tick.label, TICK_SIZE, NAME_WIDTH_MAX);
            canvas.text("nf-tick", [self.left - 7.0, at + 4.0], Anchor::End, &label);
        }
        canvas.text("nf-title", [2.0, self.top - 14.0], Anchor::Start, &title(y));
        let names_height = self.draw_x_names(canvas);
        let title_width = self.right() - self.left;
        let title = fitted(&title(x), TITLE_SIZE, title_width);
        if title.is_empty() {
            return names_height;
        }
        let at = [self.left + self.width / 2.0, self.bottom() + names_height + 17.0];
        canvas.text("nf-title", at, Anchor::Middle, &title);
        names_height + 22.0
    }

    fn draw_x_names(&self, canvas: &mut Canvas) -> f64 {
        let names = self.names();
        let top = self.bottom();
        let (every, mut height) = match names {
            Names::Straight { every } | Names::Slanted { every } => (every, 20.0_f64),
            Names::Lines => (1, 20.0),
        };
        for (index, tick) in self.x.ticks.iter().enumerate() {
            let Some(x) = self.x_at(tick.value) else { continue };
            let is_named = index.is_multiple_of(every);
            if self.x.band_count().is_none() {
                let length = if is_named { 5.0 } else { 3.0 };
                canvas.line("nf-tickmark", [x, top], [x, top + length]);
            }
            if !is_named {
                continue;
            }
            height = height.max(self.draw_x_name(canvas, names, tick, x));
        }
        height
    }

    /// Draws one label; returns its height.
    fn draw_x_name(&self, canvas: &mut Canvas, names: Names, tick: &Tick, x: f64) -> f64 {
        let top = self.bottom() + 17.0;
        match names {
            Names::Straight { .. } => {
                canvas.text("nf-tick", [x, top], Anchor::Middle, &tick.label);
                20.0
            }
            Names::Lines => {
                let mut y = top;
                for line in wrapped(&tick.label, TICK_SIZE, self.band_width() - NAME_GAP / 2.0) {
                    canvas.text("nf-tick", [x, y], Anchor::Middle, &line);
                    y += LINE_HEIGHT;
                }
                y - self.bottom() - LINE_HEIGHT + 4.0
            }
            Names::Slanted { .. } => {
                // The slanted label must not extend beyond the picture's left edge.
                let room = (x - 4.0) / 0.87;
                let label = fitted(&tick.label, TICK_SIZE, NAME_WIDTH_MAX.min(room));
                canvas.slanted("nf-tick", [x + 4.0, top - 4.0], &label);
                16.0 + text_width(&label, TICK_SIZE) / 2.0
            }
        }
    }

    fn band_width(&self) -> f64 {
        let count = self.x.band_count().map_or(1, |count| count.max(1));
        let count = u32::try_from(count).map_or(f64::MAX, f64::from);
        self.width / count
    }

    fn names(&self) -> Names {
        let widths: Vec<f64> =
            self.x.ticks.iter().map(|tick| text_width(&tick.label, TICK_SIZE)).collect();
        if self.x.band_count().is_none() {
            return Names::Straight { every: self.free_step(&widths) };
        }
        let band = self.band_width() - NAME_GAP / 2.0;
        if widths.iter().all(|width| *width <= band) {
            return Names::Straight { every: 1 };
        }
        let words_fit = |tick: &Tick| {
            let words = tick.label.split_whitespace();
            words.map(|word| text_width(word, TICK_SIZE)).all(|width| width <= band)
                && wrapped(&tick.label, TICK_SIZE, band).len() <= 4
        };
        if self.x.ticks.iter().all(words_fit) {
            return Names::Lines;
        }
        let mut every = 1;
        let mut between = self.band_width();
        while between < LINE_HEIGHT && every < widths.len() {
            every *= 2;
            between *= 2.0;
        }
        Names::Slanted { every }
    }

    /// The smallest step at which labels do not overlap.
    fn free_step(&self, widths: &[f64]) -> usize {
        let places: Vec<Option<f64>> =
            self.x.ticks.iter().map(|tick| self.x_at(tick.value)).collect();
        let touches = |every: &usize| {
            let named: Vec<(f64, f64)> = places
                .iter()
                .zip(widths)
                .step_by(*every)
                .filter_map(|(place, width)| Some(((*place)?, *width)))
                .collect();
            named.windows(2).any(|pair| match pair {
                [(a, a_width), (b, b_width)] => {
                    b - a < f64::midpoint(*a_width, *b_width) + NAME_GAP
                }
                _ => false,
            })
        };
        (1..widths.len().max(2)).find(|every| !touches(every)).unwrap_or(widths.len().max(1))
    }
}

/// An axis's title with its unit, unless the labels already have it.
pub(super) fn title(axis: &Axis) -> String {
    let unit_is_said = matches!(axis.unit.as_str(), "" | "B" | "byte" | "bytes")
        || axis.label.eq_ignore_ascii_case(&axis.unit);
    match (axis.label.is_empty(), unit_is_said) {
        (_, true) => axis.label.clone(),
        (true, false) => axis.unit.clone(),
        (false, false) => format!("{} ({})", axis.label, axis.unit),
    }
}
