//! File names in the folder of a run, shared by the store and the report.

/// The measured points, one JSON document per line.
pub(crate) const POINTS_FILE: &str = "points.jsonl";
