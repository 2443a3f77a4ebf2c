//! Bytes: a size, a position, and the notation of sizes.

use std::fmt;

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ByteLen(pub u64);

/// A position in bytes, from the start of the object that holds it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ByteOffset(pub u64);

impl ByteLen {
    /// The size as an index of slices.
    ///
    /// # Panics
    /// When the length exceeds the address space of this machine, which no length of an object in
    /// memory does.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).expect("a length in memory fits usize")
    }

    /// The length of an object in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_usize(bytes.len())
    }

    /// The length of an object in memory.
    pub fn from_usize(len: usize) -> Self {
        Self(u64::try_from(len).expect("usize is at most 64 bits wide"))
    }
}

impl ByteOffset {
    /// The position `len` later; `None` past the end of the address space.
    pub fn checked_add(self, len: ByteLen) -> Option<Self> {
        self.0.checked_add(len.0).map(Self)
    }
}

/// Writes the size in the largest binary unit that divides it exactly, as [`parse_size`] reads it.
impl fmt::Display for ByteLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let exact = units.iter().find(|(shift, _)| self.0 != 0 && self.0 & ((1 << shift) - 1) == 0);
        match exact {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// The reason why a size is not valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseSizeError {
    text: String,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a size: write a whole number and a unit, for example 512, 64KiB or 8GiB",
            self.text
        )
    }
}

impl std::error::Error for ParseSizeError {}

/// Parses a size: a whole number and an optional unit. `K`, `KiB` and `k` all mean 2^10, as in fio;
/// `KB`, `MB`, `GB`, `TB` mean powers of ten.
///
/// # Errors
/// When the text does not have that form, or exceeds 2^64 - 1 bytes.
pub fn parse_size(text: &str) -> Result<ByteLen, ParseSizeError> {
    let refused = || ParseSizeError { text: text.to_owned() };
    let digits_len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_len);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(refused()),
    };
    let count: u64 = digits.parse().map_err(|_| refused())?;
    count.checked_mul(factor).map(ByteLen).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("4096"), Ok(ByteLen(4096)));
        assert_eq!(parse_size("4k"), Ok(ByteLen(4096)));
        assert_eq!(parse_size("16GiB"), Ok(ByteLen(16 << 30)));
        assert_eq!(parse_size("1 MB"), Ok(ByteLen(1_000_000)));
    }

    #[test]
    fn a_size_that_is_none_is_refused_by_name() {
        for text in ["", "GiB", "-1", "1.5GiB", "1PiBs", "99999999999TiB"] {
            let refused = parse_size(text).unwrap_err();
            assert!(refused.to_string().contains(&format!("'{text}'")), "{refused}");
        }
    }

    #[test]
    fn a_displayed_size_is_read_back_as_the_same() {
        for len in [0, 1, 512, 1024, 1536, 8 << 30, (8 << 30) + 512, u64::MAX] {
            assert_eq!(parse_size(&ByteLen(len).to_string()), Ok(ByteLen(len)));
        }
    }
}
