//! Counts as real numbers.

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}
