//! Figures as pictures, in SVG.
//!
//! Every figure yields a picture. Values that cannot be placed on an axis are omitted, and a note
//! says so. Series differ by mark, dash and hatch as well as by colour. Published numbers are open
//! and dashed, limits dotted, models dash-dotted. Doubtful points are hollow, with a `?`.

mod bars;
mod canvas;
mod frame;
mod heat;
mod legend;
mod lines;
mod ruler;
mod style;

#[cfg(test)]
mod tests;

use bars::Categories;
use canvas::{Anchor, Canvas};
use frame::Frame;
use legend::Legend;
use ruler::{Fit, Ruler};

pub(crate) use canvas::escape;
pub(crate) use style::{dark_rules, light_rules};

use crate::exhibit::{Figure, Kind};

/// Width of a picture, in pixels.
pub(crate) const WIDTH: f64 = 720.0;

/// Height of the data area.
const DATA_HEIGHT: f64 = 290.0;

/// Height above the data, for the title of the y axis.
const TOP: f64 = 34.0;

/// Margin on the right without a legend.
const RIGHT: f64 = 22.0;

/// The context in which a picture is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Setting {
    /// In a page that has the style rules of all pictures.
    Page,
    /// In a file of its own, on a light or dark background.
    File,
}

/// The figure as an SVG file. The slug is the prefix of its element IDs; the title is its text
/// alternative.
pub fn svg(slug: &str, title: &str, figure: &Figure) -> String {
    draw(slug, title, figure, Setting::File)
}

pub(crate) fn draw(slug: &str, title: &str, figure: &Figure, setting: Setting) -> String {
    let slug = identifier(slug);
    let mut canvas = Canvas::default();
    let height = Picture::new(figure).draw(&mut canvas, &slug);
    let body = canvas.into_text();
    let width = canvas::coordinate(WIDTH);
    let height = canvas::coordinate(height);
    let style = match setting {
        Setting::Page => String::new(),
        Setting::File => format!(
            "<style>{}@media (prefers-color-scheme: dark){{{}}}</style>\n",
            light_rules(),
            dark_rules()
        ),
    };
    let title = escape(title);
    let namespace = match setting {
        Setting::Page => "",
        Setting::File => "xmlns=\"http://www.w3.org/2000/svg\" ",
    };
    format!(
        "<svg {namespace}class=\"nf-figure\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n{style}\
         <rect class=\"nf-paper\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

/// A slug as an element ID.
fn identifier(slug: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    format!("f-{}", slug.chars().map(letter).collect::<String>())
}

/// A figure with its layout.
struct Picture<'a> {
    figure: &'a Figure,
    looks: Vec<style::Look>,
    categories: Categories,
    legend: Legend,
    frame: Frame,
}

impl<'a> Picture<'a> {
    fn new(figure: &'a Figure) -> Self {
        let looks = style::looks(figure);
        let categories = Categories::of(&figure.x, &figure.series);
        let (x, y) = rulers(figure, &categories);
        let series = if figure.kind == Kind::Heat { &[] } else { figure.series.as_slice() };
        let legend = Legend::new(figure.kind, series, &looks, WIDTH - 24.0, DATA_HEIGHT);
        let left = Frame::margin_for(&y);
        let right = match figure.kind {
            Kind::Heat => heat::SCALE_WIDTH,
            Kind::Lines | Kind::Bars | Kind::StackedBars => legend.side_width().max(RIGHT),
        };
        let width = (WIDTH - left - right).max(60.0);
        let frame = Frame { left, top: TOP, width, height: DATA_HEIGHT, x, y };
        Self { figure, looks, categories, legend, frame }
    }

    /// Draws everything; returns the picture's height.
    fn draw(&self, canvas: &mut Canvas, slug: &str) -> f64 {
        let Self { figure, looks, categories, legend, frame } = self;
        self.define(canvas, slug);
        if figure.kind != Kind::Heat {
            frame.draw_grid(canvas);
        }
        match figure.kind {
            Kind::Lines => lines::draw(canvas, frame, &figure.series, looks),
            Kind::Bars => bars::draw(canvas, frame, slug, &figure.series, looks, categories),
            Kind::StackedBars => {
                bars::draw_stacks(canvas, frame, slug, &figure.series, looks, categories);
            }
            Kind::Heat => heat::draw(canvas, frame, slug, figure, categories),
        }
        let mut bottom = frame.top + frame.height;
        bottom += frame.draw_axes(canvas, &figure.x, &figure.y) + 8.0;
        let right = [frame.left + frame.width, frame.top];
        bottom += legend.draw(canvas, slug, right, [12.0, bottom + 4.0]) + 4.0;
        for note in self.notes() {
            for line in canvas::wrapped(&note, 11.0, WIDTH - 24.0) {
                bottom += 14.0;
                canvas.text("nf-note", [12.0, bottom], Anchor::Start, &line);
            }
        }
        bottom + 8.0
    }

    /// Defines the hatches that the figure's bars refer to.
    fn define(&self, canvas: &mut Canvas, slug: &str) {
        let mut hatches: Vec<String> = match self.figure.kind {
            Kind::Lines => return,
            Kind::Heat => vec![heat::hatch_definition(slug)],
            Kind::Bars | Kind::StackedBars => {
                self.looks.iter().filter_map(|look| look.hatch_definition(slug)).collect()
            }
        };
        hatches.sort();
        hatches.dedup();
        if !hatches.is_empty() {
            canvas.raw(&format!("<defs>{}</defs>", hatches.concat()));
        }
    }

    /// Notes that are needed to read the figure correctly.
    fn notes(&self) -> Vec<String> {
        let marks = || self.figure.series.iter().flat_map(|series| &series.points);
        let mut notes = Vec::new();
        if marks().next().is_none() {
            notes.push("Nothing was measured.".to_owned());
        }
        let has_whiskers = matches!(self.figure.kind, Kind::Lines | Kind::Bars);
        if has_whiskers && marks().any(|mark| mark.spread.is_some()) {
            notes.push("Whiskers: the middle half of the repeated runs.".to_owned());
        }
        if marks().any(|mark| mark.is_doubtful) {
            notes.push(
                "?  doubtful: in every run the machine was disturbed or moved; read it with care."
                    .to_owned(),
            );
        }
        match marks().filter(|mark| !self.is_drawn(mark.x, mark.y)).count() {
            0 => {}
            1 => notes.push("1 point has no place on these axes and is not drawn.".to_owned()),
            count => {
                notes
                    .push(format!("{count} points have no place on these axes and are not drawn."));
            }
        }
        notes
    }

    fn is_drawn(&self, x: f64, y: f64) -> bool {
        let Self { frame, categories, .. } = self;
        match self.figure.kind {
            Kind::Lines => frame.at(x, y).is_some(),
            Kind::Heat | Kind::StackedBars => {
                ruler::is_drawable(y)
                    && categories.place(x).and_then(|place| frame.x_at(place)).is_some()
            }
            Kind::Bars => categories.place(x).and_then(|place| frame.at(place, y)).is_some(),
        }
    }
}

fn rulers(figure: &Figure, categories: &Categories) -> (Ruler, Ruler) {
    let marks = || figure.series.iter().flat_map(|series| &series.points);
    if figure.kind == Kind::Heat {
        return (categories.ruler(), heat::rows(figure));
    }
    let heights = bars::heights(figure, categories);
    let y = Ruler::new(&figure.y, heights.into_iter(), Fit::Round);
    let x = match figure.kind {
        Kind::Lines => Ruler::new(&figure.x, marks().map(|mark| mark.x), Fit::Close),
        Kind::Bars | Kind::StackedBars | Kind::Heat => categories.ruler(),
    };
    (x, y)
}
