//! Pictures of small figures and of degenerate ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Setting, draw, svg};
use crate::exhibit::{Axis, Figure, Kind, Mark, Origin, Scale, Series};

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

fn mark(x: f64, y: f64) -> Mark {
    Mark { x, y, spread: None, is_doubtful: false }
}

fn series(label: &str, origin: Origin, points: &[Mark]) -> Series {
    Series { label: label.to_owned(), origin, points: points.to_vec() }
}

fn names(names: &[&str]) -> Scale {
    Scale::Names(names.iter().map(|name| (*name).to_owned()).collect())
}

/// The elements without the style rules, which are the same for all figures.
fn elements(figure: &Figure) -> String {
    draw("golden", "A title", figure, Setting::Page)
}

fn lines() -> Figure {
    let repeated = Mark { spread: Some([90.0, 130.0]), ..mark(4096.0, 100.0) };
    let doubtful = Mark { is_doubtful: true, ..mark(8192.0, 180.0) };
    Figure {
        kind: Kind::Lines,
        x: axis("Request size", "B", Scale::Log2),
        y: axis("Throughput", "MB/s", Scale::Linear),
        shade: None,
        series: vec![
            series("iSCSI", Origin::Measured, &[mark(2048.0, 60.0), repeated, doubtful]),
            series("wire alone", Origin::Limit, &[mark(2048.0, 90.0), mark(8192.0, 240.0)]),
            series("iSCSI, figure 5", Origin::Published, &[mark(2048.0, 40.0), mark(4096.0, 70.0)]),
        ],
    }
}

fn bars(kind: Kind) -> Figure {
    Figure {
        kind,
        x: axis("", "", names(&["read", "write"])),
        y: axis("Latency", "µs", Scale::Linear),
        shade: None,
        series: vec![
            series("direct", Origin::Measured, &[mark(0.0, 12.0), mark(1.0, 15.0)]),
            series("table 1", Origin::Published, &[mark(0.0, 20.0), mark(1.0, 31.0)]),
            series("calculated", Origin::Model, &[mark(0.0, 3.0)]),
        ],
    }
}

fn heat() -> Figure {
    Figure {
        kind: Kind::Heat,
        x: axis("Capacity", "", Scale::Linear),
        y: axis("Operations", "", Scale::Linear),
        shade: Some(axis("Saved", "%", Scale::Linear)),
        series: vec![
            series("1×", Origin::Model, &[mark(1.0, -20.0), mark(2.0, 10.0)]),
            series("2×", Origin::Model, &[mark(1.0, 15.0), mark(2.0, 40.0)]),
        ],
    }
}

#[test]
fn lines_are_drawn_so() {
    insta::assert_snapshot!(elements(&lines()));
}

#[test]
fn bars_are_drawn_so() {
    insta::assert_snapshot!(elements(&bars(Kind::Bars)));
}

#[test]
fn stacks_are_drawn_so() {
    insta::assert_snapshot!(elements(&bars(Kind::StackedBars)));
}

#[test]
fn surfaces_are_drawn_so() {
    insta::assert_snapshot!(elements(&heat()));
}

#[test]
fn a_doubtful_point_is_explained() {
    assert!(elements(&lines()).contains("doubtful"));
    assert!(!elements(&bars(Kind::Bars)).contains("doubtful"));
}

#[test]
fn published_series_are_named_so() {
    assert!(elements(&lines()).contains("iSCSI, figure 5 (published)"));
}

#[test]
fn what_has_no_place_is_counted() {
    let mut figure = lines();
    figure.y.scale = Scale::Log10;
    figure.series[0].points[0].y = 0.0;
    figure.series[0].points[1].y = -7.0;
    assert!(elements(&figure).contains("2 points have no place"));
}

#[test]
fn names_and_titles_are_text_and_nothing_else() {
    let mut figure = lines();
    figure.series[0].label = "<script>&\"'\u{0}".to_owned();
    let picture = svg("a b", "</title><script>", &figure);
    assert!(!picture.contains("<script"));
    roxmltree::Document::parse(&picture).unwrap();
}

#[test]
fn series_are_told_apart_without_colour() {
    let points = [mark(1.0, 1.0), mark(2.0, 2.0)];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let figure = Figure {
        series: names.map(|name| series(name, Origin::Measured, &points)).to_vec(),
        ..lines()
    };
    let looks = super::style::looks(&figure);
    let mut shapes: Vec<String> = looks
        .iter()
        .map(|look| {
            let mut canvas = super::canvas::Canvas::default();
            look.mark(&mut canvas, [0.0, 0.0], false);
            let text = canvas.into_text();
            let from = text.find(['d', 'r']).unwrap();
            text[from..].to_owned()
        })
        .collect();
    shapes.sort();
    shapes.dedup();
    assert_eq!(shapes.len(), names.len());
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e6..1e6_f64,
        4 => 0.0..1e3_f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![
            0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN,
            f64::MIN_POSITIVE, 1e30, -1e30, 1e-30, 4096.0,
        ]),
    ]
}

fn any_mark() -> impl Strategy<Value = Mark> {
    let spread = prop::option::of([any_number(), any_number()]);
    (any_number(), any_number(), spread, any::<bool>())
        .prop_map(|(x, y, spread, is_doubtful)| Mark { x, y, spread, is_doubtful })
}

fn any_series() -> impl Strategy<Value = Series> {
    let origin = prop::sample::select(vec![
        Origin::Measured,
        Origin::Limit,
        Origin::Published,
        Origin::Model,
    ]);
    (".{0,40}", origin, vec(any_mark(), 0..8)).prop_map(|(label, origin, points)| Series {
        label,
        origin,
        points,
    })
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![
        Just(Scale::Linear),
        Just(Scale::Log2),
        Just(Scale::Log10),
        vec(".{0,20}", 0..6).prop_map(Scale::Names),
    ];
    let unit = prop::sample::select(vec!["", "B", "µs", "IOPS", "%"]);
    (".{0,30}", unit, scale).prop_map(|(label, unit, scale)| axis(&label, unit, scale))
}

fn any_figure() -> impl Strategy<Value = Figure> {
    let kind = prop::sample::select(vec![Kind::Lines, Kind::Bars, Kind::StackedBars, Kind::Heat]);
    let shade = prop::option::of(any_axis());
    (kind, any_axis(), any_axis(), shade, vec(any_series(), 0..12))
        .prop_map(|(kind, x, y, shade, series)| Figure { kind, x, y, shade, series })
}

/// Checks that any figure yields well-formed SVG of bounded size whose elements lie within its
/// frame.
fn check_any_figure_is_drawn(figure: &Figure) {
    let picture = svg("any", "any", figure);
    let document = roxmltree::Document::parse(&picture).unwrap();
    let height: f64 = document.root_element().attribute("height").unwrap().parse().unwrap();
    assert!((300.0..4000.0).contains(&height), "{height}");
    for word in ["NaN", "inf"] {
        for node in document.descendants() {
            for attribute in node.attributes().filter(|attribute| attribute.name() != "aria-label")
            {
                assert!(!attribute.value().contains(word), "{attribute:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_figure_is_drawn(figure in any_figure()) {
        check_any_figure_is_drawn(&figure);
    }
}
