//! Sentences about numbers: every one says the numbers it is drawn from, and nothing that they do not.

use crate::exhibit::{Mark, Series};
use crate::published::Stated;

use super::sweep::at;

/// With three significant digits, as tables show it; large ones in full.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 99.95 || magnitude == 0.0 {
        return grouped(value);
    }
    match magnitude {
        m if m >= 9.995 => format!("{value:.1}"),
        m if m >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Three digits that count, the rest zeros, and commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let kept = if digits.len() > 3 { rounded(value.abs(), digits.len()) } else { digits };
    let mut text = String::new();
    for (index, digit) in kept.chars().enumerate() {
        if index > 0 && (kept.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

fn rounded(value: f64, digits: usize) -> String {
    let exponent = i32::try_from(digits).unwrap_or(i32::MAX).saturating_sub(3);
    let unit = 10f64.powi(exponent);
    format!("{:.0}", (value / unit).round() * unit)
}

/// With its unit.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    if unit.is_empty() { number(value) } else { format!("{} {unit}", number(value)) }
}

/// A share or a difference, to a tenth below a hundred.
pub(super) fn percent(value: f64) -> String {
    let text = if value.abs() < 99.95 { format!("{value:.1}") } else { grouped(value) };
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// By how much `value` differs from `reference`, in words: `13 % below`, `as much as`.
pub(super) fn beside(value: f64, reference: f64, words: [&str; 2]) -> String {
    if reference <= 0.0 {
        return "not to be compared with".to_owned();
    }
    let difference = (value / reference - 1.0) * 100.0;
    let [less, more] = words;
    match difference {
        d if d.abs() < 0.05 => "equal to".to_owned(),
        d if d < 0.0 => format!("{} {less}", percent(-d)),
        d => format!("{} {more}", percent(d)),
    }
}

/// What stands behind a sentence whose numbers are doubtful.
pub(super) fn doubt<'a>(marks: impl IntoIterator<Item = &'a Mark>) -> &'static str {
    if marks.into_iter().any(|mark| mark.is_doubtful) {
        " (doubtful: it was not measured undisturbed)"
    } else {
        ""
    }
}

/// Whether a claim of a paper holds of our numbers.
pub(super) fn verdict(holds: bool) -> &'static str {
    if holds { "holds here" } else { "does not hold here" }
}

const MISSING: [&str; 2] = ["Nothing can be said of ", ": it was not measured."];

/// That something was not measured.
pub(super) fn missing(what: &str) -> String {
    let [before, after] = MISSING;
    format!("{before}{what}{after}")
}

/// Sentences of one exhibit: of all that was not measured, one.
pub(super) fn conclude(sentences: Vec<String>) -> Vec<String> {
    let [before, after] = MISSING;
    let is_missing = |sentence: &String| sentence.starts_with(before) && sentence.ends_with(after);
    let (missed, mut said): (Vec<_>, Vec<_>) = sentences.into_iter().partition(is_missing);
    let mut missed: Vec<_> = missed
        .iter()
        .filter_map(|sentence| sentence.strip_prefix(before)?.strip_suffix(after))
        .collect();
    missed.dedup();
    match missed[..] {
        [] => {}
        [what] => said.push(missing(what)),
        _ if said.is_empty() => said.push("Nothing of this was measured.".to_owned()),
        _ => said
            .push(format!("Nothing can be said of what was not measured: {}.", missed.join("; "))),
    }
    said.into_iter().map(capitalized).collect()
}

/// A sentence begins with a capital, unless its first word is a name that does not.
fn capitalized(sentence: String) -> String {
    let word = sentence.split(' ').next().unwrap_or_default();
    let is_name = word.chars().skip(1).any(|c| c.is_uppercase() || c == ':');
    let mut chars = sentence.chars();
    match chars.next() {
        Some(first) if !is_name => first.to_uppercase().chain(chars).collect(),
        _ => sentence,
    }
}

/// `1 job`, `16 jobs`.
pub(super) fn count(value: f64, one: &str) -> String {
    if value == 1.0 { format!("1 {one}") } else { format!("{value} {one}s") }
}

/// The series of this label.
pub(super) fn labelled<'a>(series: &'a [Series], label: &str) -> Option<&'a Series> {
    series.iter().find(|series| series.label == label)
}

/// The last place at which both series have a point.
pub(super) fn last_common<'a>(a: &'a Series, b: &'a Series) -> Option<(&'a Mark, &'a Mark)> {
    a.points.iter().rev().find_map(|mark| Some((mark, at(b, mark.x)?)))
}

/// The highest point.
pub(super) fn peak(series: &Series) -> Option<&Mark> {
    series.points.iter().max_by(|a, b| a.y.total_cmp(&b.y))
}

/// What a rate through the network loses against the limit beside it, and whether that is within what
/// a paper states at most.
pub(super) fn rate_lost(
    ours: &Series,
    limit: &Series,
    unit: &str,
    place: impl Fn(f64) -> String,
    claim: Option<&Stated>,
) -> String {
    let Some((mark, beside_it)) = last_common(ours, limit) else {
        return missing(&format!("{} beside {}", ours.label, limit.label));
    };
    let lost = (1.0 - mark.y / beside_it.y) * 100.0;
    let claim = claim.map_or_else(String::new, |claim| {
        let value = percent(claim.value);
        if lost <= claim.value {
            format!("; that the network takes at most {value} ({}) holds here", claim.place)
        } else {
            format!("; more than the {value} at most of the paper ({})", claim.place)
        }
    });
    format!(
        "{} {} had {}, {} {} ({}){claim}{}.",
        place(mark.x),
        ours.label,
        quantity(mark.y, unit),
        beside(mark.y, beside_it.y, ["below", "above"]),
        limit.label,
        quantity(beside_it.y, unit),
        doubt([mark, beside_it]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exhibit::Origin;

    fn series(label: &str, points: &[(f64, f64)]) -> Series {
        let mark = |&(x, y): &(f64, f64)| Mark { x, y, spread: None, is_doubtful: false };
        let points = points.iter().map(mark).collect();
        Series { label: label.into(), origin: Origin::Measured, points }
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let said = [0.0, 0.0123, 1.0, 9.999, 12.34, 512.4, 512_345.0, -1999.0].map(number);
        let meant = ["0", "0.012", "1.00", "10.0", "12.3", "512", "512,000", "-2,000"];
        assert_eq!(said, meant);
    }

    #[test]
    fn shares_have_a_tenth_where_there_is_one() {
        assert_eq!([31.5, 20.0, -3.24, 250.4].map(percent), ["31.5 %", "20 %", "-3.2 %", "250 %"]);
    }

    #[test]
    fn a_rate_is_set_beside_the_last_place_that_both_have() {
        let ours = series("direct", &[(1.0, 50.0), (8.0, 80.0)]);
        let limit = series("local", &[(1.0, 60.0), (8.0, 100.0), (64.0, 900.0)]);
        let claim = Stated { what: "lost", value: 32.0, unit: "%", place: "figure 1" };
        let place = |x: f64| format!("With {x} clients");
        let said = rate_lost(&ours, &limit, "kIOPS", place, Some(&claim));
        let meant = "With 8 clients direct had 80.0 kIOPS, 20 % below local (100 kIOPS); that the \
                     network takes at most 32 % (figure 1) holds here.";
        assert_eq!(said, meant);
        let slower = series("direct", &[(8.0, 60.0)]);
        let said = rate_lost(&slower, &limit, "kIOPS", place, Some(&claim));
        assert!(said.contains("40 % below") && said.contains("more than the 32 %"), "{said}");
    }

    #[test]
    fn what_was_not_measured_is_said_once() {
        let said = conclude(vec![missing("a"), "it is so.".into(), missing("b")]);
        let meant = ["It is so.", "Nothing can be said of what was not measured: a; b."];
        assert_eq!(said, meant);
        assert_eq!(conclude(vec![missing("a"), missing("b")]), ["Nothing of this was measured."]);
    }

    #[test]
    fn names_keep_their_letters_at_the_start_of_a_sentence() {
        let said = conclude(vec!["iSCSI is.".into(), "direct is.".into(), "direct://a is.".into()]);
        assert_eq!(said, ["iSCSI is.", "Direct is.", "direct://a is."]);
    }
}
