//! Values of labels. Hosts choose their names, so a value may contain anything.

use std::borrow::Cow;
use std::fmt::{self, Write};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// The value of a label, without the characters that readers of lines may take for the end of one.
/// The library escapes the others, as OpenMetrics 1.0 says.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Label(Cow<'static, str>);

impl Label {
    /// A value of our own, of plain characters.
    pub(super) const fn plain(value: &'static str) -> Self {
        Self(Cow::Borrowed(value))
    }

    /// Any value. The line feed has an escape; other control characters are replaced.
    pub(super) fn of(value: &str) -> Self {
        let is_unsafe =
            |c: char| c.is_control() && c != '\n' || matches!(c, '\u{2028}' | '\u{2029}');
        Self(Cow::Owned(value.replace(is_unsafe, "\u{fffd}")))
    }
}

impl EncodeLabelValue for &Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}
