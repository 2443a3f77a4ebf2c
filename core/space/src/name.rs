//! Names that people give to volumes, devices and subsystems.

use std::fmt;
use std::str::FromStr;

/// Longest name, in bytes. It becomes the last part of an NQN, which has 223.
pub const NAME_LEN_MAX: usize = 63;

/// A name: 1 to 63 of `a-z A-Z 0-9 . _ -`, the first a letter or a digit. So it needs no quoting in
/// a shell, a URL, an NQN or a file name.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(Box<str>);

/// Error: a text is not a name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{0}' is not a valid name: use 1 to {NAME_LEN_MAX} letters, digits, '.', '_' or '-', \
     beginning with a letter or a digit"
)]
pub struct ParseNameError(Box<str>);

impl Name {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let first_allowed = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if first_allowed && text.len() <= NAME_LEN_MAX && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(ParseNameError(text.into()))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_quoting_anywhere() {
        for text in ["data", "vol-1", "0", "A.b_c", &"x".repeat(63)] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_name_is_refused_by_name() {
        for text in ["", "-a", ".a", "a b", "a/b", "a=b", "a:b", "grün", &"x".repeat(64)] {
            let refused = text.parse::<Name>().unwrap_err();
            assert!(refused.to_string().starts_with(&format!("'{text}'")), "{refused}");
        }
    }
}
