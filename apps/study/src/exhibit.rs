//! The content of a report, independent of its form: figures, tables and findings.

use crate::finding::Finding;

/// A figure with its table, findings and notes.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Exhibit {
    /// Stem of its file names: `iops-clients`, `block-size-read-mbs`.
    pub slug: String,
    /// The heading.
    pub title: String,
    /// The corresponding figure in the papers: `QuickSAN, figure 5`.
    pub source: String,
    /// The figure; `None` if the exhibit is only a table.
    pub figure: Option<Figure>,
    /// Every number of the figure, and more.
    pub table: Table,
    /// The claims that its numbers confirm or contradict.
    pub findings: Vec<Finding>,
    /// Limits of the comparison: hardware that differs, contradictions in the paper.
    pub notes: Vec<String>,
}

/// Series over two axes.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// The form of the figure.
    pub kind: Kind,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The quantity shown by the shade of a heat map; `None` for all other figures.
    pub shade: Option<Axis>,
    /// The series.
    pub series: Vec<Series>,
}

/// The form of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Marks joined by lines.
    Lines,
    /// Groups of bars, one group per category of the x axis.
    Bars,
    /// Bars whose series are stacked.
    StackedBars,
    /// A heat map. The series are its rows from bottom to top, named by their labels. A point's `y`
    /// is its shade. If values have both signs, the scale diverges from a neutral zero.
    Heat,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// The unit: `µs`, `MB/s`; empty for a pure number.
    pub unit: String,
    /// The mapping of values to positions.
    pub scale: Scale,
}

/// The mapping of values to positions on an axis.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic with base 2, as for block sizes and queue depths.
    Log2,
    /// Logarithmic with base 10.
    Log10,
    /// Categorical: value `n` is the `n`-th name.
    Names(Vec<String>),
}

/// A series of points.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// The origin of the numbers.
    pub origin: Origin,
    /// The points, by ascending `x`.
    pub points: Vec<Mark>,
}

/// The origin of numbers. Each is drawn differently, also in black and white.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured in this run.
    Measured,
    /// The wire or the device alone, in this run.
    Limit,
    /// Printed in a paper, on other hardware.
    Published,
    /// Calculated.
    Model,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Mark {
    /// The horizontal value.
    pub x: f64,
    /// The vertical value: the median.
    pub y: f64,
    /// First and third quartile, if the point has several runs.
    pub spread: Option<[f64; 2]>,
    /// None of its runs is comparable.
    pub is_doubtful: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Table {
    /// Headings, with units.
    pub columns: Vec<String>,
    /// Rows of as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number, shown with three significant digits and stored in full.
    Number(f64),
    /// A difference in per cent: shown in words, stored as a number.
    #[serde(rename = "number")]
    Change(f64),
    /// Nothing was measured.
    Missing,
}

impl Cell {
    /// Whether the cell is right-aligned.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Change(_))
    }
}
