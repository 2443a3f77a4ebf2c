//! Keys that new ones have replaced, and that are still valid for a while, so that a host is configured
//! meanwhile.

use nearflash_units::UnixTime;

/// A key that a new one has replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Previous<K> {
    /// The key.
    pub key: K,
    /// The moment from which it is not valid any more.
    pub until: UnixTime,
}

impl<K: Eq> Previous<K> {
    /// The previous key once `new` has replaced `old`, if it is valid for a while. `earlier` is the previous key
    /// before that: it stays if the new key is the old one, so that a repeated command changes the time alone.
    pub(crate) fn after(
        (old, earlier): (K, Option<Self>),
        new: &K,
        until: Option<UnixTime>,
    ) -> Option<Self> {
        let key = if old == *new { earlier?.key } else { old };
        Some(Self { key, until: until? })
    }

    /// Whether it is valid at `now`.
    pub fn is_valid(&self, now: UnixTime) -> bool {
        now < self.until
    }
}
