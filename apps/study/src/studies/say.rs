//! Sentences about numbers. Each states the numbers that it is drawn from, and claims nothing more.
//!
//! An exhibit has at most three sentences, of which the first answers its study's question;
//! everything else is in its table. Sentences do not use words for better and worse, which numbers
//! could contradict: they state signed differences and ranges.

use crate::exhibit::{Mark, Series};

use super::sweep::at;

/// A number with three significant digits as in tables; numbers of three and more digits in full.
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

/// Rounds to three significant digits, with commas between thousands.
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

/// A number with its unit.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    if unit.is_empty() { number(value) } else { format!("{} {unit}", number(value)) }
}

/// A percentage, with one decimal below 100.
pub(super) fn percent(value: f64) -> String {
    let text = if value.abs() < 99.95 { format!("{value:.1}") } else { grouped(value) };
    match text.strip_suffix(".0").unwrap_or(&text) {
        "-0" => "0 %".to_owned(),
        text => format!("{text} %"),
    }
}

/// A signed difference: `+12 %`, `-3.2 %`, `0 %`. A large one becomes `2.5 times as much`.
pub(super) fn signed(value: f64) -> String {
    if let Some(times) = in_times(value) {
        return format!("{times} as much");
    }
    match percent(value.abs()) {
        none if none == "0 %" => none,
        less if value < 0.0 => format!("-{less}"),
        more => format!("+{more}"),
    }
}

/// Shows a difference in per cent as a factor, if it is above 100 %: `2.5 times`. `None` otherwise:
/// `+100 %` and `-60 %` stay percentages.
pub(crate) fn in_times(change: f64) -> Option<String> {
    (change.round() > 100.0).then(|| times(1.0 + change / 100.0))
}

/// Compares `value` with `reference`, whose name follows: `-20 % against the wire alone`, or `2.5
/// times the wire alone`.
pub(super) fn against(value: f64, reference: f64, name: &str) -> String {
    let change = change(value, reference);
    match in_times(change) {
        Some(times) => format!("{times} {name}"),
        None => format!("{} against {name}", signed(change)),
    }
}

/// A part of a whole, whose name follows: `65 % of`, or `2.5 times`.
pub(super) fn part_of(value: f64, whole: f64) -> String {
    let as_share = || format!("{} of", percent(value / whole * 100.0));
    in_times(change(value, whole)).unwrap_or_else(as_share)
}

/// The difference of `value` from `reference`, in per cent.
pub(super) fn change(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

/// A factor: `2.5 times`; equality is `1.00 times`.
pub(super) fn times(value: f64) -> String {
    let text = number(value);
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{} times", if short == "1" { &text } else { short })
}

/// The range of named numbers: `-3 % (direct) to +12 % (iSCSI)`.
pub(super) fn range(named: &[(&str, f64)], show: impl Fn(f64) -> String) -> Option<String> {
    let known = || named.iter().filter(|(_, value)| value.is_finite());
    let (least, low) = known().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (most, high) = known().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (low, high) = (show(*low), show(*high));
    // Names can have parentheses themselves: `tgt (iSCSI)`.
    let plain = |name: &str| name.replace(" (", ", ").replace(')', "");
    let (least, most) = (plain(least), plain(most));
    Some(match known().count() {
        1 => format!("{low} ({least})"),
        _ if low == high => format!("{low} (all alike)"),
        _ => format!("{low} ({least}) to {high} ({most})"),
    })
}

/// The number of cases for which a paper's claim holds: `holds for 2 of 3 ways`.
pub(super) fn holds_for(held: usize, of: usize, what: &str) -> String {
    match (held, of) {
        (0, 1) => "does not hold here".to_owned(),
        (1, 1) => "holds here".to_owned(),
        (0, _) => format!("holds for none of {of} {what}"),
        (held, of) if held == of => format!("holds for all {of} {what}"),
        (held, of) => format!("holds for {held} of {of} {what}"),
    }
}

/// The number of values that satisfy the predicate.
pub(super) fn held(values: &[(&str, f64)], is_so: impl Fn(f64) -> bool) -> usize {
    values.iter().filter(|(_, value)| is_so(*value)).count()
}

/// The suffix of a sentence that uses doubtful numbers.
pub(super) fn doubt<'a>(marks: impl IntoIterator<Item = &'a Mark>) -> &'static str {
    if marks.into_iter().any(|mark| mark.is_doubtful) { " (doubtful)" } else { "" }
}

/// The sentence of an exhibit without measured points.
const NOTHING: &str = "Nothing of this was measured.";

/// The sentences of an exhibit: the answer to its study's question, and at most two more.
pub(super) fn conclude<const N: usize>(
    lead: Option<String>,
    details: [Option<String>; N],
) -> Vec<String> {
    const { assert!(N <= 2, "all else is in the table") };
    let said = lead.into_iter().chain(details.into_iter().flatten());
    let mut said: Vec<String> = said.map(capitalized).collect();
    // If only one position of an axis was measured, it is both ends, and both sentences are equal.
    said.dedup();
    if said.is_empty() { vec![NOTHING.to_owned()] } else { said }
}

/// Capitalizes a sentence, unless its first word is a name that must not change.
fn capitalized(sentence: String) -> String {
    let word = sentence.split(' ').next().unwrap_or_default();
    let is_name = word.chars().skip(1).any(|c| c.is_uppercase() || c == ':');
    let mut chars = sentence.chars();
    match chars.next() {
        Some(first) if !is_name => first.to_uppercase().chain(chars).collect(),
        _ => sentence,
    }
}

/// A count with its noun: `1 job`, `16 jobs`.
pub(super) fn count(value: f64, one: &str) -> String {
    if value == 1.0 { format!("1 {one}") } else { format!("{value} {one}s") }
}

/// The series with this label.
pub(super) fn labelled<'a>(series: &'a [Series], label: &str) -> Option<&'a Series> {
    series.iter().find(|series| series.label == label)
}

/// The highest mark.
pub(super) fn peak(series: &Series) -> Option<&Mark> {
    series.points.iter().max_by(|a, b| a.y.total_cmp(&b.y))
}

/// Marks of several ways and of their limit, at one position of an axis.
#[derive(Clone, Debug)]
pub(super) struct Lineup<'a> {
    /// The position.
    pub(super) x: f64,
    /// The reference.
    pub(super) limit: &'a Mark,
    /// The ways that have a mark at the position.
    pub(super) ways: Vec<(&'a str, &'a Mark)>,
}

impl<'a> Lineup<'a> {
    /// At the last position that the limit shares with any of the ways.
    pub(super) fn last(ways: &[&'a Series], limit: &'a Series) -> Option<Self> {
        limit.points.iter().rev().find_map(|mark| Self::at(ways, mark))
    }

    /// At the first position that the limit shares with any of the ways.
    pub(super) fn first(ways: &[&'a Series], limit: &'a Series) -> Option<Self> {
        limit.points.iter().find_map(|mark| Self::at(ways, mark))
    }

    fn at(ways: &[&'a Series], limit: &'a Mark) -> Option<Self> {
        if limit.y <= 0.0 {
            return None;
        }
        let of = |way: &&'a Series| Some((way.label.as_str(), at(way, limit.x)?));
        let ways: Vec<_> = ways.iter().filter_map(of).collect();
        (!ways.is_empty()).then_some(Self { x: limit.x, limit, ways })
    }

    /// The difference of each way from the limit, in per cent.
    pub(super) fn changes(&self) -> Vec<(&'a str, f64)> {
        let of = |(label, mark): &(&'a str, &'a Mark)| (*label, change(mark.y, self.limit.y));
        self.ways.iter().map(of).collect()
    }

    /// The values of the ways.
    pub(super) fn values(&self) -> Vec<(&'a str, f64)> {
        self.ways.iter().map(|(label, mark)| (*label, mark.y)).collect()
    }

    /// The way with the highest value.
    pub(super) fn best(&self) -> Option<(&'a str, &'a Mark)> {
        self.ways.iter().copied().max_by(|a, b| a.1.y.total_cmp(&b.1.y))
    }

    /// The marks of the ways and of the limit.
    pub(super) fn marks(&self) -> impl Iterator<Item = &'a Mark> {
        self.ways.iter().map(|(_, mark)| *mark).chain([self.limit])
    }

    /// The suffix of a sentence about these marks.
    pub(super) fn doubt(&self) -> &'static str {
        doubt(self.marks())
    }
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
        let said = [31.5, 20.0, -3.24, 250.4, -0.0].map(percent);
        assert_eq!(said, ["31.5 %", "20 %", "-3.2 %", "250 %", "0 %"]);
    }

    #[test]
    fn differences_have_a_sign_unless_there_is_none() {
        let said = [12.0, -3.24, 0.04, -0.04, 0.0, 100.0].map(signed);
        assert_eq!(said, ["+12 %", "-3.2 %", "0 %", "0 %", "0 %", "+100 %"]);
        assert_eq!([change(8.0, 10.0), change(15.0, 10.0)].map(signed), ["-20 %", "+50 %"]);
    }

    #[test]
    fn more_than_twice_as_much_is_said_in_times_and_less_never() {
        let said = [100.4, 100.6, 150.0, 1_210.0, 29_900.0, -99.9].map(signed);
        let meant = [
            "+100 %",
            "2.01 times as much",
            "2.5 times as much",
            "13.1 times as much",
            "300 times as much",
            "-99.9 %",
        ];
        assert_eq!(said, meant);
        let against = [8.0, 10.0, 20.0, 25.0, 0.0].map(|value| against(value, 10.0, "the wire"));
        let meant = [
            "-20 % against the wire",
            "0 % against the wire",
            "+100 % against the wire",
            "2.5 times the wire",
            "-100 % against the wire",
        ];
        assert_eq!(against, meant);
        let parts = [6.5, 13.3, 25.0].map(|value| part_of(value, 10.0));
        assert_eq!(parts, ["65 % of", "133 % of", "2.5 times"]);
    }

    #[test]
    fn factors_have_no_zeros_at_their_end_but_of_what_is_the_same() {
        let said = [1.0, 0.848, 2.0, 3.2, 10.04, 72.7, 164.4, 43_600.0].map(times);
        let meant = [
            "1.00 times",
            "0.848 times",
            "2 times",
            "3.2 times",
            "10 times",
            "72.7 times",
            "164 times",
            "43,600 times",
        ];
        assert_eq!(said, meant);
    }

    #[test]
    fn a_range_names_its_ends_whatever_their_order_and_signs() {
        let of = |values: &[(&str, f64)]| range(values, signed);
        let both = of(&[("b", 12.0), ("a", -3.0), ("c", 1.0)]);
        assert_eq!(both.as_deref(), Some("-3 % (a) to +12 % (b)"));
        assert_eq!(of(&[("b", 12.0)]).as_deref(), Some("+12 % (b)"));
        assert_eq!(of(&[("tgt (iSCSI)", 12.0)]).as_deref(), Some("+12 % (tgt, iSCSI)"));
        assert_eq!(of(&[("a", 5.01), ("b", 4.99)]).as_deref(), Some("+5 % (all alike)"));
        assert_eq!(of(&[("a", f64::NAN)]), None);
    }

    #[test]
    fn a_claim_holds_for_all_for_some_or_for_none() {
        let said = [(3, 3), (2, 3), (0, 3), (1, 1), (0, 1)].map(|(n, of)| holds_for(n, of, "ways"));
        let meant = [
            "holds for all 3 ways",
            "holds for 2 of 3 ways",
            "holds for none of 3 ways",
            "holds here",
            "does not hold here",
        ];
        assert_eq!(said, meant);
    }

    #[test]
    fn ways_stand_beside_their_limit_at_the_last_place_that_any_of_them_shares_with_it() {
        let direct = series("direct", &[(1.0, 50.0), (8.0, 80.0)]);
        let tgt = series("tgt", &[(1.0, 20.0)]);
        let limit = series("local", &[(1.0, 40.0), (8.0, 100.0), (64.0, 900.0)]);
        let last = Lineup::last(&[&direct, &tgt], &limit).unwrap();
        assert_eq!((last.x, last.ways.len()), (8.0, 1));
        assert!((last.changes()[0].1 + 20.0).abs() < 1e-9);
        let first = Lineup::first(&[&direct, &tgt], &limit).unwrap();
        assert_eq!((first.x, first.ways.len()), (1.0, 2));
        assert_eq!(first.best().unwrap().0, "direct");
        assert!(Lineup::last(&[&tgt], &series("none", &[(1.0, 0.0)])).is_none());
    }

    #[test]
    fn what_was_not_measured_is_not_spoken_of_and_nothing_is_said_so() {
        let said = conclude(None, [Some("it is so.".to_owned()), None]);
        assert_eq!(said, ["It is so."]);
        assert_eq!(conclude(None, [None]), ["Nothing of this was measured."]);
        let twice = || Some("it is so.".to_owned());
        assert_eq!(conclude(twice(), [twice()]), ["It is so."], "nothing is said twice");
    }

    #[test]
    fn names_keep_their_letters_at_the_start_of_a_sentence() {
        let said = ["iSCSI is.", "direct is.", "direct://a is."]
            .map(|said| conclude(Some(said.into()), []).remove(0));
        assert_eq!(said, ["iSCSI is.", "Direct is.", "direct://a is."]);
    }
}
