//! Names in the folder of a run, which both what is measured and what is told of it know.

/// Every measured point, a line each.
pub(crate) const POINTS_FILE: &str = "points.jsonl";
