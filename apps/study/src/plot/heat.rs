//! Heat maps: series are rows, x values are columns.

use super::bars::Categories;
use super::canvas::{Anchor, Canvas, text_width};
use super::frame::{Frame, title};
use super::ruler::{Fit, Ruler, is_drawable};
use crate::exhibit::{Axis, Figure, Scale};
use crate::number::three_digits;

/// Width of the colour scale to the right of the map, with its values.
pub(super) const SCALE_WIDTH: f64 = 96.0;

/// Number of steps of the colour scale.
const SCALE_STEPS: u32 = 48;

/// Font size of values in cells.
const VALUE_SIZE: f64 = 10.5;

/// Colours from zero upwards. Their lightness falls, so they are readable without colour.
const RISING: [[f64; 3]; 4] =
    [[247.0, 250.0, 253.0], [158.0, 202.0, 225.0], [49.0, 130.0, 189.0], [8.0, 48.0, 107.0]];

/// Colours from zero downwards. Cells are also hatched, to be readable without colour.
const FALLING: [[f64; 3]; 3] = [[253.0, 249.0, 245.0], [253.0, 174.0, 107.0], [166.0, 54.0, 3.0]];

/// The colour scale of a map.
pub(super) struct Shades {
    axis: Axis,
    low: f64,
    high: f64,
}

impl Shades {
    /// The scale that covers every value of a figure.
    pub(super) fn of(figure: &Figure) -> Self {
        let marks = figure.series.iter().flat_map(|series| &series.points);
        let values = marks.map(|mark| mark.y).filter(|value| is_drawable(*value));
        let bounds = values.fold(None, |bounds, value| match bounds {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        });
        let (low, high) = bounds.unwrap_or((0.0, 1.0));
        let blank = Axis { label: String::new(), unit: String::new(), scale: Scale::Linear };
        Self { axis: figure.shade.clone().unwrap_or(blank), low: low.min(0.0), high: high.max(0.0) }
    }

    /// Red, green and blue of a value.
    fn colour(&self, value: f64) -> [f64; 3] {
        let stops: &[[f64; 3]] = if value < 0.0 { &FALLING } else { &RISING };
        // Both signs share one scale: equal distance from zero is equally dark.
        let end = self.reach();
        let share = if end == 0.0 { 0.0 } else { (value.abs() / end).clamp(0.0, 1.0) };
        between(stops, share)
    }

    fn reach(&self) -> f64 {
        self.high.max(-self.low)
    }

    /// A value in its cell; short, since the colour adds precision.
    fn show(&self, value: f64) -> String {
        let reach = self.reach();
        if (20.0..1e4).contains(&reach) {
            // Adding 0.0 turns -0 into 0.
            let whole = value.round() + 0.0;
            return three_digits(whole);
        }
        three_digits(value)
    }
}

/// Interpolates the colour at a fraction of the whole scale.
fn between(stops: &[[f64; 3]], share: f64) -> [f64; 3] {
    let legs = u32::try_from(stops.len().saturating_sub(1)).map_or(1.0, f64::from);
    let mut along = share * legs;
    for pair in stops.windows(2) {
        let [from, to] = pair else { continue };
        if along <= 1.0 {
            let mix = |index: usize| from[index] + (to[index] - from[index]) * along;
            return [mix(0), mix(1), mix(2)];
        }
        along -= 1.0;
    }
    stops.last().copied().unwrap_or_default()
}

fn fill(colour: [f64; 3]) -> String {
    let [red, green, blue] = colour.map(|part| format!("{part:.0}"));
    format!(r#"fill="rgb({red},{green},{blue})""#)
}

/// Whether text on it must be white.
fn is_dark([red, green, blue]: [f64; 3]) -> bool {
    0.299 * red + 0.587 * green + 0.114 * blue < 140.0
}

/// Draws all cells. Values are only written if they fit into every cell.
pub(super) fn draw(
    canvas: &mut Canvas,
    frame: &Frame,
    slug: &str,
    figure: &Figure,
    categories: &Categories,
) {
    let shades = Shades::of(figure);
    let bands = |ruler: &Ruler| {
        let count = ruler.band_count().map_or(1, |count| count.max(1));
        u32::try_from(count).map_or(f64::MAX, f64::from)
    };
    let size = [frame.width / bands(&frame.x), frame.height / bands(&frame.y)];
    let mut values = Vec::new();
    for (row, series) in (0_u32..).zip(&figure.series) {
        for mark in series.points.iter().filter(|mark| is_drawable(mark.y)) {
            let place = categories.place(mark.x).and_then(|x| frame.at(x, f64::from(row)));
            let Some([x, y]) = place else { continue };
            let colour = shades.colour(mark.y);
            let corner = [x - size[0] / 2.0, y - size[1] / 2.0];
            canvas.rect_with("nf-cell", corner, size, &fill(colour));
            if mark.y < 0.0 {
                let hatch = format!(r#"fill="url(#{slug}-below)""#);
                canvas.rect_with("nf-hatch", corner, size, &hatch);
            }
            let doubt = if mark.is_doubtful { "?" } else { "" };
            values.push(([x, y + 4.0], is_dark(colour), shades.show(mark.y) + doubt));
        }
    }
    let fits = |(_, _, text): &(_, _, String)| {
        text_width(text, VALUE_SIZE) <= size[0] - 2.0 && size[1] >= 13.0
    };
    if values.iter().all(fits) {
        for (at, on_dark, text) in &values {
            let class = if *on_dark { "nf-value nf-on-dark" } else { "nf-value nf-on-light" };
            canvas.text(class, *at, Anchor::Middle, text);
        }
    }
    draw_scale(canvas, frame, slug, &shades);
}

/// Draws the colour scale to the right of the map.
fn draw_scale(canvas: &mut Canvas, frame: &Frame, slug: &str, shades: &Shades) {
    let ruler = Ruler::new(&shades.axis, [shades.low, shades.high].into_iter(), Fit::Round);
    let left = frame.left + frame.width + 24.0;
    let y_at = |place: f64| frame.top + (1.0 - place) * frame.height;
    let step = 1.0 / f64::from(SCALE_STEPS);
    let span = [shades.low, shades.high];
    for index in 0..SCALE_STEPS {
        let share = (f64::from(index) + 0.5) * step;
        let value = span[0] + (span[1] - span[0]) * share;
        let from = ruler.place(span[0] + (span[1] - span[0]) * (share - step / 2.0));
        let to = ruler.place(span[0] + (span[1] - span[0]) * (share + step / 2.0));
        let (Some(from), Some(to)) = (from, to) else { continue };
        let corner = [left, y_at(to)];
        // Slightly longer than a step, so that there are no gaps between steps.
        let size = [14.0, y_at(from) - y_at(to) + 0.3];
        canvas.rect_with("nf-cell", corner, size, &fill(shades.colour(value)));
        if value < 0.0 {
            let hatch = format!(r#"fill="url(#{slug}-below)""#);
            canvas.rect_with("nf-hatch", corner, size, &hatch);
        }
    }
    for tick in &ruler.ticks {
        let Some(place) = ruler.place(tick.value) else { continue };
        if tick.value < span[0] || tick.value > span[1] {
            continue;
        }
        let y = y_at(place);
        canvas.line("nf-tickmark", [left + 14.0, y], [left + 18.0, y]);
        canvas.text("nf-tick", [left + 21.0, y + 4.0], Anchor::Start, &tick.label);
    }
    let name = title(&shades.axis);
    let at = [left + SCALE_WIDTH - 24.0, frame.top - 14.0];
    canvas.text("nf-title", at, Anchor::End, &name);
}

/// The rows from bottom to top, with their names.
pub(super) fn rows(figure: &Figure) -> Ruler {
    Ruler::bands(figure.series.iter().map(|series| series.label.clone()).collect())
}

/// The hatch of negative values.
pub(super) fn hatch_definition(slug: &str) -> String {
    format!(
        r##"<pattern id="{slug}-below" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M-1 1l2 -2M0 6l6 -6M5 7l2 -2" fill="none" stroke="#3b1c06" stroke-opacity=".35" stroke-width=".9"/></pattern>"##
    )
}
