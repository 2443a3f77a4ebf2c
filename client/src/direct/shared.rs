//! The parameters that all connections of a client share.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use super::credentials::Credentials;
use super::options::Options;
use super::url::Url;

/// The parameters of a client's connections.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) url: Url,
    pub(super) credentials: Credentials,
    pub(super) options: Options,
}

impl Shared {
    /// The parameters of a connection that must be ready at `deadline`.
    pub(super) fn until(&self, deadline: Option<Instant>) -> Cow<'_, Self> {
        let Some(deadline) = deadline else { return Cow::Borrowed(self) };
        let left = deadline.saturating_duration_since(Instant::now());
        // Sockets refuse a time-out of 0.
        let silence_max = self.options.silence_max.min(left).max(Duration::from_millis(1));
        Cow::Owned(Self { options: self.options.silence_max(silence_max), ..self.clone() })
    }
}
