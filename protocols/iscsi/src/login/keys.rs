//! The keys of authentication in one text. RFC 7143, 12.1.

/// The values of the keys received.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Keys<'a> {
    pub(super) method: Option<&'a str>,
    /// The initiator's list, or the target's choice.
    pub(super) algorithm: Option<&'a str>,
    pub(super) identifier: Option<&'a str>,
    pub(super) challenge: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) response: Option<&'a str>,
}

impl<'a> Keys<'a> {
    /// Takes a pair with one of these keys. Returns its previous value; `None` for other keys.
    pub(super) fn take(&mut self, key: &str, value: &'a str) -> Option<Option<&'a str>> {
        let place = match key {
            "AuthMethod" => &mut self.method,
            "CHAP_A" => &mut self.algorithm,
            "CHAP_I" => &mut self.identifier,
            "CHAP_C" => &mut self.challenge,
            "CHAP_N" => &mut self.name,
            "CHAP_R" => &mut self.response,
            _ => return None,
        };
        Some(place.replace(value))
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no CHAP key was received.
    pub(super) fn is_method_only(&self) -> bool {
        *self == Self { method: self.method, ..Self::default() }
    }
}
