//! Metrics.

use serde::{Deserialize, Serialize};

/// Shows the metrics of the node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsShow {}

/// Metrics.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Metrics {
    /// The text, in the format of OpenMetrics 1.0.
    pub text: String,
}
