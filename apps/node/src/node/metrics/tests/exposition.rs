//! A strict parser of the text format of OpenMetrics 1.0, for the types that the node uses. It
//! panics with the line that is not valid.

use std::collections::{BTreeMap, BTreeSet};

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

struct Family<'a> {
    name: &'a str,
    kind: &'a str,
}

/// All samples of a valid text.
pub(super) fn parse(text: &str) -> Vec<Series> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    assert!(body.is_empty() || body.ends_with('\n'));
    let mut lines = body.lines().peekable();
    let (mut names, mut all) = (BTreeSet::new(), Vec::new());
    while lines.peek().is_some() {
        let family = family(&mut lines);
        assert!(names.insert(family.name), "{} is described twice", family.name);
        let mut series = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            series.push(sample(&family, line));
        }
        check(&family, &series);
        all.extend(series);
    }
    all
}

/// HELP, TYPE, and UNIT if there is a unit.
fn family<'a>(lines: &mut std::iter::Peekable<std::str::Lines<'a>>) -> Family<'a> {
    let help = lines.next().and_then(|line| line.strip_prefix("# HELP ")).expect("HELP is first");
    let (name, help) = help.split_once(' ').expect("a help text");
    assert!(is_name(name) && !help.is_empty(), "{name} {help}");
    let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("then TYPE");
    let kind = kind.strip_prefix(name).and_then(|it| it.strip_prefix(' ')).expect("its name");
    assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{name} is a {kind}");
    let unit = lines.next_if(|line| line.starts_with("# UNIT "));
    if let Some(unit) = unit.and_then(|line| line.strip_prefix("# UNIT ")) {
        let unit = unit.strip_prefix(name).and_then(|it| it.strip_prefix(' ')).expect("its name");
        assert!(name.ends_with(&format!("_{unit}")), "{name} ends with its unit {unit}");
    }
    Family { name, kind }
}

fn is_name(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

fn sample(family: &Family<'_>, line: &str) -> Series {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, rest) = line.split_at(end);
    let suffixes: &[&str] = match family.kind {
        "counter" => &["_total"],
        "gauge" => &[""],
        _ => &["_bucket", "_count", "_sum"],
    };
    let suffix = name.strip_prefix(family.name).expect(line);
    assert!(suffixes.contains(&suffix), "{line}");
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest, line),
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ').expect(line);
    let value: f64 = value.parse().expect(line);
    assert!(value.is_finite(), "{line}");
    Series { name: name.to_owned(), labels, value }
}

/// The labels up to the closing brace, and the rest of the line.
fn labels<'a>(mut rest: &'a str, line: &str) -> (BTreeMap<String, String>, &'a str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect(line);
        assert!(is_name(name), "{line}");
        let (value, after) = quoted(after, line);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return (labels, after.strip_prefix('}').expect(line)),
        }
    }
}

/// A value up to the closing quotation mark, and what follows.
fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next() {
                Some((_, '\\')) => '\\',
                Some((_, '"')) => '"',
                Some((_, 'n')) => '\n',
                other => panic!("escape {other:?} in {line}"),
            }),
            c => value.push(c),
        }
    }
    panic!("no end of a value in {line}")
}

/// No sample occurs twice, and the buckets of a histogram grow up to its count.
fn check(family: &Family<'_>, series: &[Series]) {
    let mut keys = BTreeSet::new();
    for Series { name, labels, .. } in series {
        assert!(keys.insert((name, labels)), "{name} {labels:?} occurs twice");
    }
    if family.kind != "histogram" {
        return;
    }
    let of = |suffix: &str| {
        let name = format!("{}_{suffix}", family.name);
        series.iter().filter(move |it| it.name == name)
    };
    for Series { labels, value: count, .. } in of("count") {
        let is_its = |it: &&Series| {
            let mut others = it.labels.clone();
            others.remove("le").is_some() && others == *labels
        };
        let buckets: Vec<(f64, f64)> = of("bucket")
            .filter(is_its)
            .map(|it| (it.labels["le"].replace("+Inf", "inf").parse().unwrap(), it.value))
            .collect();
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{labels:?} {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{labels:?}");
        assert!(of("sum").any(|it| it.labels == *labels), "{labels:?} has a sum");
    }
}
