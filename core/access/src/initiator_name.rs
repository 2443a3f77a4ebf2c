//! The name of an iSCSI initiator.

use std::fmt;
use std::str::FromStr;

/// The length of the longest iSCSI name, in bytes. RFC 7143, 4.2.7.1.
const LEN_MAX: usize = 223;

/// An iSCSI name in lower case, the form in which names are compared. RFC 7143, 4.2.7.2.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InitiatorName(Box<str>);

/// The error of a text that is not an iSCSI name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an iSCSI name begins with iqn., eui. or naa. and has letters, digits, '.', '-' and ':'")]
pub struct ParseInitiatorNameError;

impl InitiatorName {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InitiatorName {
    type Err = ParseInitiatorNameError;

    fn from_str(text: &str) -> Result<Self, ParseInitiatorNameError> {
        let text = text.to_ascii_lowercase();
        let kind = ["iqn.", "eui.", "naa."].iter().find_map(|kind| text.strip_prefix(kind));
        // The standard does not allow the underscore, but some initiators use it.
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte);
        match kind {
            Some(rest)
                if !rest.is_empty() && rest.bytes().all(allowed) && text.len() <= LEN_MAX =>
            {
                Ok(Self(text.into()))
            }
            _ => Err(ParseInitiatorNameError),
        }
    }
}

impl fmt::Display for InitiatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiator_names_are_compared_in_small_letters() {
        let name = |text: &str| text.parse::<InitiatorName>();
        assert_eq!(
            name("IQN.2004-10.com.Ubuntu:01:9D2E").unwrap().as_str(),
            "iqn.2004-10.com.ubuntu:01:9d2e"
        );
        assert!(name("eui.02004567A425678D").is_ok() && name("naa.52004567BA64678D").is_ok());
        for text in [
            "",
            "iqn.",
            "nqn.x",
            "iqn.a b",
            "iqn.a,b",
            "iqn.a/b",
            &format!("iqn.{}", "x".repeat(220)),
        ] {
            assert_eq!(name(text), Err(ParseInitiatorNameError), "{text}");
        }
    }
}
