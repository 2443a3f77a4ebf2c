//! Styles of series. Series differ by colour as well as by mark, dash and hatch, for readers and
//! prints without colour.

use super::canvas::Canvas;
use crate::exhibit::{Figure, Origin, Series};

/// Colours on a light background: Okabe and Ito's palette, which is distinguishable with most forms
/// of colour blindness, with colours that are readable on white.
const LIGHT: [&str; COLOURS] =
    ["#0072b2", "#c8500a", "#00825d", "#a8447f", "#8a6500", "#3f3f9f", "#4d5761"];

/// The same on a dark background.
const DARK: [&str; COLOURS] =
    ["#58b4ee", "#ff9a5c", "#3fd0a4", "#ee9fce", "#e8bf4a", "#a7a5ff", "#b6bfc9"];

/// The number of colours.
pub(super) const COLOURS: usize = 7;

/// The number of mark shapes.
const SHAPES: usize = 8;

/// The number of hatches.
pub(super) const HATCHES: usize = 6;

/// The style of one series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Look {
    /// Index of the colour.
    pub(super) colour: usize,
    /// Index of the shape of marks.
    shape: usize,
    /// Index of the hatch of bars.
    pub(super) hatch: usize,
    /// The origin of its numbers.
    pub(super) origin: Origin,
}

/// The styles of all series of a figure. A published series named after a measured one has the same
/// colour and shape, but is open and dashed.
pub(super) fn looks(figure: &Figure) -> Vec<Look> {
    let mut next = 0;
    let mut fresh = || {
        let index = next;
        next += 1;
        index
    };
    let is_twin = |series: &Series| series.origin == Origin::Published;
    let own: Vec<Option<usize>> =
        figure.series.iter().map(|series| (!is_twin(series)).then(&mut fresh)).collect();
    let mut taken = vec![false; figure.series.len()];
    let mut indices = Vec::new();
    for (at, series) in figure.series.iter().enumerate() {
        let twin = own.get(at).copied().flatten().or_else(|| {
            let twin = twin_of(series, figure, &taken)?;
            *taken.get_mut(twin)? = true;
            own.get(twin).copied().flatten()
        });
        indices.push(twin);
    }
    let look = |(index, series): (Option<usize>, &Series)| {
        let index = index.unwrap_or_else(&mut fresh);
        let colour = index % COLOURS;
        Look { colour, shape: index % SHAPES, hatch: index % HATCHES, origin: series.origin }
    };
    indices.into_iter().zip(&figure.series).map(look).collect()
}

/// The measured series that a published one corresponds to: the longest label contained in the
/// published one's.
fn twin_of(published: &Series, figure: &Figure, taken: &[bool]) -> Option<usize> {
    let name = published.label.to_lowercase();
    let candidates = figure.series.iter().enumerate().filter(|(at, series)| {
        series.origin == Origin::Measured
            && taken.get(*at) == Some(&false)
            && !series.label.is_empty()
            && name.contains(&series.label.to_lowercase())
    });
    candidates.max_by_key(|(_, series)| series.label.len()).map(|(at, _)| at)
}

impl Look {
    /// The drawing order: limits at the bottom, measured series on top.
    pub(super) fn layer(self) -> u8 {
        match self.origin {
            Origin::Measured => 0,
            Origin::Published => 1,
            Origin::Model => 2,
            Origin::Limit => 3,
        }
    }

    pub(super) fn line_class(self) -> String {
        let dash = match self.origin {
            Origin::Measured => "",
            Origin::Published => " nf-dashed",
            Origin::Limit => " nf-dotted",
            Origin::Model => " nf-dash-dot",
        };
        format!("nf-line nf-s{}{dash}", self.colour)
    }

    /// Draws a mark, hollow if it is published or doubtful.
    pub(super) fn mark(self, canvas: &mut Canvas, at: [f64; 2], is_doubtful: bool) {
        let class = match (self.origin, is_doubtful) {
            (Origin::Limit, false) => return canvas.circle(&self.filled(), at, 1.8),
            (Origin::Published, _) | (_, true) => format!("nf-open nf-s{}", self.colour),
            (Origin::Measured | Origin::Model, false) => self.filled(),
        };
        if self.shape == 0 {
            return canvas.circle(&class, at, 3.8);
        }
        let points: Vec<[f64; 2]> =
            outline(self.shape).iter().map(|[x, y]| [at[0] + x, at[1] + y]).collect();
        canvas.path(&class, &points, true);
    }

    fn filled(self) -> String {
        format!("nf-mark nf-f{} nf-s{}", self.colour, self.colour)
    }

    /// Draws a bar: solid or hatched if measured, open if published.
    pub(super) fn bar(self, canvas: &mut Canvas, slug: &str, at: [f64; 2], size: [f64; 2]) {
        self.bar_of(canvas, slug, [at, size], false);
    }

    /// Draws a bar at this position and of this size, pale if it is doubtful.
    pub(super) fn bar_of(
        self,
        canvas: &mut Canvas,
        slug: &str,
        [at, size]: [[f64; 2]; 2],
        is_doubtful: bool,
    ) {
        let stroke = format!("nf-s{}", self.colour);
        match self.origin {
            Origin::Measured if !is_doubtful => {
                canvas.rect(&format!("nf-bar nf-f{} {stroke}", self.colour), at, size);
            }
            Origin::Model | Origin::Measured => {
                canvas.rect(&format!("nf-bar nf-pale nf-f{} {stroke}", self.colour), at, size);
            }
            Origin::Published | Origin::Limit => {
                canvas.rect(&format!("nf-bar nf-paper {stroke}"), at, size);
            }
        }
        if self.hatch > 0 {
            let ink = if self.origin == Origin::Measured {
                "p".to_owned()
            } else {
                self.colour.to_string()
            };
            let fill = format!(r#"fill="url(#{slug}-h{}-{ink})""#, self.hatch);
            canvas.rect_with("nf-hatch", at, size, &fill);
        }
        let dash = match self.origin {
            Origin::Published => " nf-dashed",
            Origin::Limit => " nf-dotted",
            Origin::Model => " nf-dash-dot",
            Origin::Measured => "",
        };
        canvas.rect(&format!("nf-edge {stroke}{dash}"), at, size);
    }

    /// The definition of the hatch that its bars refer to, if they do.
    pub(super) fn hatch_definition(self, slug: &str) -> Option<String> {
        let lines = match self.hatch {
            1 => r#"<path d="M-1 1l2 -2M0 6l6 -6M5 7l2 -2"/>"#,
            2 => r#"<path d="M-1 5l2 2M0 0l6 6M5 -1l2 2"/>"#,
            3 => r#"<path d="M0 3h6"/>"#,
            4 => r#"<path d="M3 0v6"/>"#,
            5 => r#"<path d="M0 0l6 6M0 6l6 -6"/>"#,
            _ => return None,
        };
        let (ink, class) = match self.origin {
            Origin::Measured => ("p".to_owned(), "nf-sp".to_owned()),
            _ => (self.colour.to_string(), format!("nf-s{}", self.colour)),
        };
        Some(format!(
            r#"<pattern id="{slug}-h{}-{ink}" width="6" height="6" patternUnits="userSpaceOnUse"><g class="nf-hatch-line {class}">{lines}</g></pattern>"#,
            self.hatch
        ))
    }
}

/// The outline of a mark around its position.
fn outline(shape: usize) -> &'static [[f64; 2]] {
    match shape {
        1 => &[[-3.5, -3.5], [3.5, -3.5], [3.5, 3.5], [-3.5, 3.5]],
        2 => &[[0.0, -4.8], [4.4, 3.4], [-4.4, 3.4]],
        3 => &[[0.0, -5.0], [5.0, 0.0], [0.0, 5.0], [-5.0, 0.0]],
        4 => &[[0.0, 4.8], [4.4, -3.4], [-4.4, -3.4]],
        5 => &[[-4.8, 0.0], [3.4, -4.4], [3.4, 4.4]],
        6 => &[[4.8, 0.0], [-3.4, -4.4], [-3.4, 4.4]],
        _ => &[[-5.0, -2.2], [5.0, -2.2], [5.0, 2.2], [-5.0, 2.2]],
    }
}

/// The style rules of all figures on a light background.
pub(crate) fn light_rules() -> String {
    let mut rules = FORMS.to_owned();
    rules += &paper_rules("#ffffff", "#1f2328", "#57606a", "#e4e7eb", "#8c959f");
    rules += &colour_rules(&LIGHT);
    rules
}

/// The rules that differ on a dark background.
pub(crate) fn dark_rules() -> String {
    let mut rules = paper_rules("#0d1117", "#e6edf3", "#9ea7b3", "#252c35", "#6e7681");
    rules += &colour_rules(&DARK);
    rules
}

/// The rules that do not depend on the background.
const FORMS: &str = "\
.nf-figure text{font-family:'Helvetica Neue',Helvetica,Arial,'Liberation Sans','DejaVu Sans Condensed',sans-serif}
.nf-tick{font-size:11.5px}.nf-title{font-size:12.5px}.nf-legend{font-size:12px}.nf-note{font-size:11px}
.nf-value{font-size:10.5px}.nf-doubt{font-size:12px;font-weight:bold}
.nf-grid,.nf-axis,.nf-tickmark{stroke-width:1}
.nf-line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.nf-mark{stroke-width:1}.nf-open{stroke-width:1.6}
.nf-whisker{fill:none;stroke-width:1.2}
.nf-bar{stroke:none}.nf-pale{fill-opacity:.35}.nf-edge{fill:none;stroke-width:1.2}
.nf-hatch-line{fill:none;stroke-width:1.1}
.nf-dashed{stroke-dasharray:6 3.5}.nf-dotted{stroke-dasharray:1.5 3;stroke-linecap:round}
.nf-dash-dot{stroke-dasharray:8 3 2 3}
.nf-value.nf-on-dark{fill:#fff}.nf-value.nf-on-light{fill:#16191d}
";

fn paper_rules(paper: &str, ink: &str, quiet: &str, grid: &str, axis: &str) -> String {
    format!(
        ".nf-paper,.nf-open{{fill:{paper}}}.nf-sp{{stroke:{paper}}}\n\
         .nf-tick,.nf-note{{fill:{quiet}}}\
         .nf-title,.nf-legend,.nf-value,.nf-doubt{{fill:{ink}}}\n\
         .nf-grid{{stroke:{grid}}}.nf-axis,.nf-tickmark{{stroke:{axis}}}\
         .nf-whisker-ink{{stroke:{ink}}}\n"
    )
}

fn colour_rules(colours: &[&str; COLOURS]) -> String {
    let rule = |(index, colour): (usize, &&str)| {
        format!(".nf-s{index}{{stroke:{colour}}}.nf-f{index}{{fill:{colour}}}")
    };
    let mut rules: String = colours.iter().enumerate().map(rule).collect();
    rules.push('\n');
    rules
}
