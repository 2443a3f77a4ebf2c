//! What a study shows: figures, tables and sentences, without form.

/// A figure, its table, and what it says.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Exhibit {
    /// Names its files: `iops-clients`, `block-size-read-mbs`.
    pub slug: String,
    /// What is shown.
    pub title: String,
    /// Where the papers show it: `QuickSAN, figure 5`.
    pub source: String,
    /// The picture; some exhibits are only a table.
    pub figure: Option<Figure>,
    /// Every number of the picture, and more.
    pub table: Table,
    /// One sentence each, drawn from the data.
    pub conclusions: Vec<String>,
    /// What limits the comparison: hardware that differs, contradictions in the paper.
    pub notes: Vec<String>,
}

/// Series over two axes.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// How it is drawn.
    pub kind: Kind,
    /// To the right.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Of a heat surface, what the shade measures; `None` for all other figures.
    pub shade: Option<Axis>,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Marks joined by lines.
    Lines,
    /// Groups of bars, one group per category of the x axis.
    Bars,
    /// The same, the series stacked on one another.
    StackedBars,
    /// A surface: the series are its rows from below upwards, named by their labels; a point's `y` is
    /// its shade, from below zero through neutral zero to above, where values have both signs.
    Heat,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// In which unit: `µs`, `MB/s`; empty for a bare number.
    pub unit: String,
    /// How values lie on it.
    pub scale: Scale,
}

/// How values lie on an axis.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of two, as block sizes and depths.
    Log2,
    /// By powers of ten.
    Log10,
    /// Not at all: value `n` is the `n`-th of these names.
    Names(Vec<String>),
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The points, by ascending `x`.
    pub points: Vec<Mark>,
}

/// Where numbers come from: drawn differently, in black and white too.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured in this run.
    Measured,
    /// The wire or the device alone, in this run.
    Limit,
    /// Printed in a paper, of other hardware.
    Published,
    /// Calculated.
    Model,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Mark {
    /// To the right.
    pub x: f64,
    /// Up: the median.
    pub y: f64,
    /// A quarter and three quarters, if it was repeated.
    pub spread: Option<[f64; 2]>,
    /// No run of it can stand beside others.
    pub is_doubtful: bool,
}

/// Rows under headings.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Table {
    /// Headings, with units.
    pub columns: Vec<String>,
    /// Cells, as many in each row as there are headings.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, shown with three significant digits; files have all of it.
    Number(f64),
    /// A difference in per cent, shown as a sentence would say it; files have the number.
    #[serde(rename = "number")]
    Change(f64),
    /// Nothing was measured.
    Missing,
}

impl Cell {
    /// Whether it stands on the right.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Change(_))
    }
}
