//! SVG as text: the elements that figures consist of.

use std::fmt::Write;

/// A document to which elements are appended.
#[derive(Clone, Debug, Default)]
pub(super) struct Canvas {
    text: String,
}

/// Horizontal alignment of a text at its position.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// Everything drawn so far.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Appends elements verbatim.
    pub(super) fn raw(&mut self, elements: &str) {
        self.text += elements;
        self.text.push('\n');
    }

    pub(super) fn line(&mut self, class: &str, from: [f64; 2], to: [f64; 2]) {
        let [x1, y1, x2, y2] = [from[0], from[1], to[0], to[1]].map(coordinate);
        self.element(format_args!(
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        ));
    }

    pub(super) fn rect(&mut self, class: &str, at: [f64; 2], size: [f64; 2]) {
        self.rect_with(class, at, size, "");
    }

    /// A rectangle with further attributes.
    pub(super) fn rect_with(&mut self, class: &str, at: [f64; 2], size: [f64; 2], more: &str) {
        let [x, y, width, height] =
            [at[0], at[1], size[0].max(0.0), size[1].max(0.0)].map(coordinate);
        let more = if more.is_empty() { String::new() } else { format!(" {more}") };
        self.element(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"{more}/>"#
        ));
    }

    /// A path through points, closed or not.
    pub(super) fn path(&mut self, class: &str, points: &[[f64; 2]], closed: bool) {
        let mut d = String::new();
        for (index, [x, y]) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{command}{} {}", coordinate(*x), coordinate(*y));
        }
        if closed {
            d.push('Z');
        }
        self.element(format_args!(r#"<path class="{class}" d="{d}"/>"#));
    }

    pub(super) fn circle(&mut self, class: &str, at: [f64; 2], radius: f64) {
        let [x, y, r] = [at[0], at[1], radius].map(coordinate);
        self.element(format_args!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{r}"/>"#));
    }

    pub(super) fn text(&mut self, class: &str, at: [f64; 2], anchor: Anchor, text: &str) {
        let [x, y] = at.map(coordinate);
        let anchor = anchor.name();
        let text = escape(text);
        self.element(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Text that rises from the lower left and ends at its position.
    pub(super) fn slanted(&mut self, class: &str, at: [f64; 2], text: &str) {
        let [x, y] = at.map(coordinate);
        let text = escape(text);
        self.element(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="end" transform="rotate(-30 {x} {y})">{text}</text>"#
        ));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{element}");
    }
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// Rounds to a tenth of a pixel, which is invisible and keeps reports small and tests readable.
pub(super) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    let short = text.strip_suffix(".0").unwrap_or(&text);
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Escapes text for XML and HTML, and drops characters that XML does not allow.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' | '\r' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            other if other.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

/// Estimates the width of a text in pixels at a font size. It is never below the width in the fonts
/// that figures request, so no fonts are needed to draw.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let per_em: f64 = text.chars().map(letter_width).sum();
    per_em * size
}

fn letter_width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' | 'I' | ' ' | '\u{a0}' => 0.3,
        '\u{202f}' => 0.2,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.9,
        'A'..='Z' => 0.68,
        '0'..='9' | 'a'..='z' => 0.57,
        other if other.is_ascii() => 0.6,
        '\u{80}'..='\u{24f}' | 'μ' | '–' | '…' | '−' => 0.62,
        _ => 1.0,
    }
}

/// Truncates a text to this width.
pub(super) fn fitted(text: &str, size: f64, width_max: f64) -> String {
    if text_width(text, size) <= width_max {
        return text.to_owned();
    }
    let mut width = text_width("…", size);
    let mut out = String::new();
    for letter in text.chars() {
        width += letter_width(letter) * size;
        if width > width_max {
            break;
        }
        out.push(letter);
    }
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// Breaks a text between words into lines of this width; longer words are truncated.
pub(super) fn wrapped(text: &str, size: f64, width_max: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (lines.last_mut(), longer) {
            (Some(line), Some(longer)) if text_width(&longer, size) <= width_max => *line = longer,
            _ => lines.push(fitted(word, size, width_max)),
        }
    }
    lines
}
