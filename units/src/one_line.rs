//! Keeps messages on one line, even if they quote text of a user or a peer.

use std::fmt::{self, Write};

/// The text with every control character escaped as in a Rust string: no message breaks its line,
/// moves a terminal's cursor, or looks like two.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaped(f), "{}", self.0)
    }
}

struct Escaped<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_the_rest_is_not() {
        assert_eq!(OneLine("a 'b' \\ ü").to_string(), "a 'b' \\ ü");
        assert_eq!(OneLine("a\nb\r\n\u{1b}[2Jc\n").to_string(), "a\\nb\\r\\n\\u{1b}[2Jc\\n");
        assert_eq!(OneLine("").to_string(), "");
    }
}
