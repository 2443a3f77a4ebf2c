//! ASCII fields: left-justified, padded with spaces. NVMe Base 2.0, 1.4.2 (ASCII string).

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A space-padded ASCII field of `N` bytes.
#[derive(Clone, Copy, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned)]
#[repr(transparent)]
pub struct Ascii<const N: usize>(pub [u8; N]);

impl<const N: usize> Ascii<N> {
    /// The text, truncated to the field. Characters that are not printable ASCII become `?`.
    pub fn new(text: &str) -> Self {
        let mut field = [b' '; N];
        for (place, c) in field.iter_mut().zip(text.chars()) {
            let printable = c == ' ' || c.is_ascii_graphic();
            *place = u8::try_from(c).ok().filter(|_| printable).unwrap_or(b'?');
        }
        Self(field)
    }

    /// The text without trailing spaces and NULs; bytes that are not printable become `?`.
    pub fn text(&self) -> String {
        let end = self.0.iter().rposition(|byte| !matches!(byte, b' ' | 0)).map_or(0, |at| at + 1);
        let printable = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        };
        self.0[..end].iter().map(printable).collect()
    }
}

impl<const N: usize> fmt::Debug for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_padded_with_spaces_and_cut_to_the_field() {
        assert_eq!(Ascii::<8>::new("0.1").0, *b"0.1     ");
        assert_eq!(Ascii::<4>::new("nearflash").0, *b"near");
        assert_eq!(Ascii::<8>::new("a\u{e9}\n").text(), "a??");
    }

    #[test]
    fn padding_of_either_kind_is_taken_off() {
        assert_eq!(Ascii(*b"4420\0\0\0\0").text(), "4420");
        assert_eq!(Ascii(*b"4420    ").text(), "4420");
        assert_eq!(Ascii([b' '; 4]).text(), "");
    }
}
