//! Line charts.

use super::canvas::{Anchor, Canvas};
use super::frame::Frame;
use super::style::Look;
use crate::exhibit::{Mark, Series};

/// Half the length of a whisker's cap.
const CAP: f64 = 3.0;

/// Draws all series: limits first, so that measured series are on top.
pub(super) fn draw(canvas: &mut Canvas, frame: &Frame, series: &[Series], looks: &[Look]) {
    let mut order: Vec<(&Series, Look)> = series.iter().zip(looks.iter().copied()).collect();
    order.sort_by_key(|(_, look)| std::cmp::Reverse(look.layer()));
    for (series, look) in &order {
        // A gap in the data is a gap in the line.
        for run in series.points.split(|mark| frame.at(mark.x, mark.y).is_none()) {
            let places: Vec<[f64; 2]> =
                run.iter().filter_map(|mark| frame.at(mark.x, mark.y)).collect();
            if places.len() > 1 {
                canvas.path(&look.line_class(), &places, false);
            }
        }
    }
    for (series, look) in &order {
        for mark in &series.points {
            let Some(at) = frame.at(mark.x, mark.y) else { continue };
            whisker(canvas, frame, mark, at[0], &format!("nf-s{}", look.colour));
            look.mark(canvas, at, mark.is_doubtful);
            if mark.is_doubtful {
                doubt(canvas, [at[0] + 5.0, at[1] - 5.0]);
            }
        }
    }
}

/// The interquartile range, unless it is too short to be visible.
pub(super) fn whisker(canvas: &mut Canvas, frame: &Frame, mark: &Mark, x: f64, class: &str) {
    let Some([Some(low), Some(high)]) =
        mark.spread.map(|spread| spread.map(|value| frame.y_at(value)))
    else {
        return;
    };
    if (low - high).abs() < 1.0 {
        return;
    }
    let class = format!("nf-whisker {class}");
    canvas.line(&class, [x, low], [x, high]);
    canvas.line(&class, [x - CAP, low], [x + CAP, low]);
    canvas.line(&class, [x - CAP, high], [x + CAP, high]);
}

/// The sign of a doubtful point.
pub(super) fn doubt(canvas: &mut Canvas, at: [f64; 2]) {
    canvas.text("nf-doubt", at, Anchor::Middle, "?");
}
