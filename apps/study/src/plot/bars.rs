//! Bars, grouped or stacked.

use super::canvas::{Anchor, Canvas, text_width};
use super::frame::Frame;
use super::lines::{doubt, whisker};
use super::ruler::{Ruler, is_drawable};
use super::style::Look;
use crate::exhibit::{Axis, Figure, Kind, Mark, Origin, Scale, Series};
use crate::number::three_digits;

/// The fraction of a band that bars fill.
const FILLED: f64 = 0.8;

/// Maximum width of a bar, for figures with few of them.
const BAR_WIDTH_MAX: f64 = 64.0;

/// Font size of values above bars.
const VALUE_SIZE: f64 = 10.5;

/// Maximum number of numeric categories.
const CATEGORIES_MAX: usize = 512;

/// The bands of the x axis: its names, or each number that occurs, in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Categories {
    /// The numbers of an axis without names.
    numbers: Option<Vec<f64>>,
    names: Vec<String>,
}

impl Categories {
    pub(super) fn of(axis: &Axis, series: &[Series]) -> Self {
        if let Scale::Names(names) = &axis.scale {
            return Self { numbers: None, names: names.clone() };
        }
        let marks = series.iter().flat_map(|series| &series.points);
        let mut numbers: Vec<f64> = marks.map(|mark| mark.x).filter(|x| is_drawable(*x)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        numbers.truncate(CATEGORIES_MAX);
        let style = crate::number::Style::of(&axis.unit);
        let names = numbers.iter().map(|number| style.show(*number)).collect();
        Self { numbers: Some(numbers), names }
    }

    pub(super) fn ruler(&self) -> Ruler {
        Ruler::bands(self.names.clone())
    }

    /// The position of the band on the ruler.
    pub(super) fn place(&self, x: f64) -> Option<f64> {
        match &self.numbers {
            None => Some(x.round()).filter(|x| is_drawable(*x)),
            Some(numbers) => {
                let index = numbers.iter().position(|number| *number == x)?;
                u32::try_from(index).ok().map(f64::from)
            }
        }
    }
}

/// The values that the y axis must include: ends of bars and whiskers, or tops of stacks.
pub(super) fn heights(figure: &Figure, categories: &Categories) -> Vec<f64> {
    let marks = figure.series.iter().flat_map(|series| &series.points);
    if figure.kind != Kind::StackedBars {
        let reach = |mark: &Mark| {
            let [low, high] = mark.spread.unwrap_or([mark.y, mark.y]);
            [mark.y, low, high]
        };
        let mut all: Vec<f64> = marks.flat_map(reach).collect();
        if figure.kind == Kind::Bars && figure.y.scale != Scale::Linear {
            all.extend(foot(&all));
        }
        return all;
    }
    let mut stacks = Stacks::default();
    let mut all = Vec::new();
    for series in &figure.series {
        for mark in &series.points {
            if let Some(place) = categories.place(mark.x) {
                all.extend(stacks.put(series.origin, place, mark.y).into_iter().flatten());
            }
        }
    }
    all
}

/// The foot of bars on a logarithmic axis: a power of ten that leaves the shortest bar visible.
fn foot(heights: &[f64]) -> Option<f64> {
    let positive = heights.iter().copied().filter(|height| is_drawable(*height) && *height > 0.0);
    let least = positive.fold(f64::INFINITY, f64::min);
    least.is_finite().then(|| 10f64.powf((least / 2.0).log10().floor()))
}

/// The heights of stacks so far. Published stacks stand next to those of this run.
#[derive(Clone, Debug, Default)]
struct Stacks {
    /// Whether the stack is published, its position, and its ends above and below zero.
    tops: Vec<(bool, f64, [f64; 2])>,
}

impl Stacks {
    /// Adds a part to a stack; returns its ends. Negative parts extend downwards.
    fn put(&mut self, origin: Origin, place: f64, value: f64) -> Option<[f64; 2]> {
        if !is_drawable(value) {
            return None;
        }
        let is_published = origin == Origin::Published;
        let is_same = |stack: &(bool, f64, _)| stack.0 == is_published && stack.1 == place;
        let at = self.tops.iter().position(is_same).unwrap_or_else(|| {
            self.tops.push((is_published, place, [0.0; 2]));
            self.tops.len() - 1
        });
        let (_, _, [above, below]) = self.tops.get_mut(at)?;
        let top = if value < 0.0 { below } else { above };
        let from = *top;
        *top += value;
        Some([from, *top])
    }
}

/// Draws grouped bars.
pub(super) fn draw(
    canvas: &mut Canvas,
    frame: &Frame,
    slug: &str,
    series: &[Series],
    looks: &[Look],
    categories: &Categories,
) {
    let slots = Slots::new(frame, categories, series.len());
    let mut numbers = Vec::new();
    for (slot, (series, look)) in series.iter().zip(looks).enumerate() {
        for mark in &series.points {
            let Some(x) = categories.place(mark.x).and_then(|place| slots.left(frame, place, slot))
            else {
                continue;
            };
            let Some(end) = frame.y_at(mark.y) else { continue };
            let (top, bottom) = (end.min(frame.base()), end.max(frame.base()));
            let size = [slots.bar_width, bottom - top];
            look.bar_of(canvas, slug, [[x, top], size], mark.is_doubtful);
            let middle = x + slots.bar_width / 2.0;
            whisker(canvas, frame, mark, middle, "nf-whisker-ink");
            let reach = mark.spread.and_then(|[_, high]| frame.y_at(high)).unwrap_or(end);
            let above = [middle, reach.min(top) - 4.0];
            numbers.push((above, three_digits(mark.y), mark.is_doubtful));
        }
    }
    // Values are written above all bars or above none.
    let fits =
        |(_, text, _): &(_, String, _)| text_width(text, VALUE_SIZE) <= slots.bar_width + 4.0;
    let are_written = numbers.iter().all(fits);
    for (at, text, is_doubtful) in &numbers {
        if are_written {
            canvas.text("nf-value", *at, Anchor::Middle, text);
        }
        if *is_doubtful {
            doubt(canvas, [at[0], at[1] - if are_written { 12.0 } else { 0.0 }]);
        }
    }
}

pub(super) fn draw_stacks(
    canvas: &mut Canvas,
    frame: &Frame,
    slug: &str,
    series: &[Series],
    looks: &[Look],
    categories: &Categories,
) {
    let is_published = |series: &Series| series.origin == Origin::Published;
    let has_both = series.iter().any(is_published) && !series.iter().all(is_published);
    let slots = Slots::new(frame, categories, if has_both { 2 } else { 1 });
    let mut stacks = Stacks::default();
    for (series, look) in series.iter().zip(looks) {
        let slot = usize::from(has_both && is_published(series));
        for mark in &series.points {
            let Some(place) = categories.place(mark.x) else { continue };
            let Some([from, to]) = stacks.put(series.origin, place, mark.y) else { continue };
            let Some(x) = slots.left(frame, place, slot) else { continue };
            // Zero is not on a logarithmic axis: there the foot of a stack is the base.
            let from = frame.y_at(from).unwrap_or(frame.base());
            let Some(to) = frame.y_at(to) else { continue };
            let size = [slots.bar_width, (from - to).abs()];
            look.bar_of(canvas, slug, [[x, from.min(to)], size], mark.is_doubtful);
            if mark.is_doubtful {
                doubt(canvas, [x + slots.bar_width + 6.0, f64::midpoint(from, to) + 4.0]);
            }
        }
    }
}

/// The positions of bars in their band.
struct Slots {
    bar_width: f64,
    group_width: f64,
}

impl Slots {
    fn new(frame: &Frame, categories: &Categories, per_group: usize) -> Self {
        let as_width = |count: usize| u32::try_from(count.max(1)).map_or(f64::MAX, f64::from);
        let band = frame.width / as_width(categories.names.len());
        let bar_width = (band * FILLED / as_width(per_group)).min(BAR_WIDTH_MAX);
        Self { bar_width, group_width: bar_width * as_width(per_group) }
    }

    /// The left edge of a bar. Slots are counted from 0.
    fn left(&self, frame: &Frame, place: f64, slot: usize) -> Option<f64> {
        let slot = u32::try_from(slot).ok().map(f64::from)?;
        Some(frame.x_at(place)? - self.group_width / 2.0 + slot * self.bar_width)
    }
}
