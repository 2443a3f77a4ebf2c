//! Credentials and grants of direct clients: their types, and the text forms of ranges, rights and
//! secrets. The rules for changing them are in [`crate::Grants`].
//!
//! Pure: the caller supplies the time and the bytes of a new secret.

use std::fmt;
use std::str::FromStr;

use nearflash_files::{NameError, Path};
use nearflash_units::{ByteLen, ByteOffset, ParseSizeError, UnixTime, parse_size};
use uuid::Uuid;

use nearflash_space::Name;

/// The length of a secret in bytes.
pub const SECRET_LEN: usize = 32;

/// The key that a client proves to know. `Debug` does not show it.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret([u8; SECRET_LEN]);

/// Error: a text is not a secret. It does not repeat the text, which may be a mistyped secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a secret is 64 hexadecimal digits, as 'nearflash credential create' prints them")]
pub struct ParseSecretError;

impl Secret {
    /// Makes a secret of these bytes.
    pub fn new(bytes: [u8; SECRET_LEN]) -> Self {
        Self(bytes)
    }

    /// The secret's bytes.
    pub fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// The secret as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        // One allocation: growing the string would leave parts of the secret in freed memory.
        let mut text = String::with_capacity(2 * SECRET_LEN);
        for digit in self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
            text.push(char::from_digit(digit.into(), 16).expect("four bits are a digit"));
        }
        text
    }
}

impl FromStr for Secret {
    type Err = ParseSecretError;

    fn from_str(text: &str) -> Result<Self, ParseSecretError> {
        if text.len() != 2 * SECRET_LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseSecretError);
        }
        let mut bytes = [0; SECRET_LEN];
        for (place, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * place..2 * place + 2).ok_or(ParseSecretError)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ParseSecretError)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A key id and a secret, by which a client authenticates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Credential {
    /// The key id.
    pub id: Name,
    /// The secret that the client proves to know.
    pub secret: Secret,
    /// The moment from which the credential is no longer valid; `None`: it does not expire.
    pub expires: Option<UnixTime>,
}

/// A grant's number. A node never uses a number twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct GrantNumber(pub u64);

/// Who has the rights of a grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Holder {
    /// The credential with this key id.
    Credential(Name),
    /// Everyone with the seal that the node has minted under a key of this secret.
    Seal(Secret),
}

/// Rights of a credential, or through a seal, on a range of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The grant's number.
    pub number: GrantNumber,
    /// Who has the rights.
    pub holder: Holder,
    /// The volume's UUID. A later volume of the same name is not covered.
    pub volume: Uuid,
    /// The part of the volume that the grant covers.
    pub covers: Covered,
    /// The operations that the grant allows.
    pub rights: Rights,
    /// The moment from which the grant allows nothing; `None`: it does not expire.
    pub expires: Option<UnixTime>,
}

impl Grant {
    /// The key id of the credential that has the rights; `None` for a seal.
    pub fn credential(&self) -> Option<&Name> {
        match &self.holder {
            Holder::Credential(id) => Some(id),
            Holder::Seal(_) => None,
        }
    }
}

/// The part of a volume that a grant covers. The two kinds are never mixed up: a grant on files covers no
/// byte of the volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Covered {
    /// These bytes.
    Range(GrantRange),
    /// The files in this directory, and below it, as their owner serves them.
    Files(GrantPath),
}

/// A directory of a volume of files, in a grant. It is always text, so that records and lists have it as
/// it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantPath(Path);

/// Error: a text is not the path of a directory.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseGrantPathError {
    /// It does not begin at the root.
    #[error("'{0}' is not a path from the root of the volume: write /{0}")]
    Relative(Box<str>),
    /// A name in it is not valid.
    #[error("the path of a grant: {0}")]
    Name(#[from] NameError),
}

impl GrantPath {
    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for GrantPath {
    type Err = ParseGrantPathError;

    fn from_str(text: &str) -> Result<Self, ParseGrantPathError> {
        let path = Path::parse(text.as_bytes())?;
        match text.starts_with('/') {
            true => Ok(Self(path)),
            false => Err(ParseGrantPathError::Relative(text.into())),
        }
    }
}

impl fmt::Display for GrantPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

/// The operations that a grant allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// Read.
    Read,
    /// Read and write, flush and discard, compare-and-swap and fetch-and-add.
    ReadWrite,
}

/// Error: a text is neither `r` nor `rw`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is not a valid set of rights: write r or rw")]
pub struct ParseRightsError(Box<str>);

impl FromStr for Rights {
    type Err = ParseRightsError;

    fn from_str(text: &str) -> Result<Self, ParseRightsError> {
        match text {
            "r" => Ok(Self::Read),
            "rw" => Ok(Self::ReadWrite),
            _ => Err(ParseRightsError(text.into())),
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "r",
            Self::ReadWrite => "rw",
        })
    }
}

/// A range of a volume's bytes; not empty. Its text form is `START..END`, where `END` is exclusive.
/// Without `START` the range begins at byte 0; without `END` it reaches to the end of the volume,
/// also after the volume grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GrantRange {
    start: ByteOffset,
    end: Option<ByteOffset>,
}

/// Error: a text is not a range.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ParseGrantRangeError {
    /// The text has no `..`.
    #[error("'{0}' is not a valid range: write START..END, for example 0..8GiB or 8GiB..")]
    Form(Box<str>),
    /// The start or the end is not a size.
    #[error(transparent)]
    Size(#[from] ParseSizeError),
    /// The end is at or before the start.
    #[error("the range {start}..{end} is empty: its end is exclusive")]
    Empty { start: ByteLen, end: ByteLen },
}

impl GrantRange {
    /// The whole volume, also after it grows.
    pub const WHOLE: Self = Self { start: ByteOffset(0), end: None };

    /// The range from `start` up to `end`, or to the end of the volume.
    ///
    /// # Errors
    /// When the range is empty.
    pub fn new(start: ByteOffset, end: Option<ByteOffset>) -> Result<Self, ParseGrantRangeError> {
        match end {
            Some(end) if end.0 <= start.0 => {
                Err(ParseGrantRangeError::Empty { start: ByteLen(start.0), end: ByteLen(end.0) })
            }
            _ => Ok(Self { start, end }),
        }
    }

    /// The first byte of the range.
    pub fn start(&self) -> ByteOffset {
        self.start
    }

    /// The first byte after the range; `None` when it reaches to the end of the volume.
    pub fn end(&self) -> Option<ByteOffset> {
        self.end
    }
}

impl FromStr for GrantRange {
    type Err = ParseGrantRangeError;

    fn from_str(text: &str) -> Result<Self, ParseGrantRangeError> {
        let form = || ParseGrantRangeError::Form(text.into());
        let (start, end) = text.split_once("..").ok_or_else(form)?;
        let place = |text: &str| match text {
            "" => Ok(None),
            text => parse_size(text).map(|len| Some(ByteOffset(len.0))),
        };
        Self::new(place(start)?.unwrap_or(ByteOffset(0)), place(end)?)
    }
}

impl fmt::Display for GrantRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |place: ByteOffset| match place.0 {
            0 => "0".to_owned(),
            bytes => ByteLen(bytes).to_string(),
        };
        let end = self.end.map(place).unwrap_or_default();
        f.pad(&format!("{}..{end}", place(self.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_read_and_shown_as_people_write_them() {
        for text in ["0..8GiB", "8GiB..", "0..", "512B..4KiB", "1..2"] {
            let range: GrantRange = text.parse().unwrap();
            assert_eq!(range.to_string().parse::<GrantRange>(), Ok(range));
        }
        assert_eq!("..".parse(), Ok(GrantRange::WHOLE));
        assert_eq!("..1KiB".parse(), GrantRange::new(ByteOffset(0), Some(ByteOffset(1024))));
        assert_eq!("0..8GiB".parse::<GrantRange>().unwrap().to_string(), "0..8GiB");
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_to_write() {
        let refused = |text: &str| text.parse::<GrantRange>().unwrap_err().to_string();
        assert_eq!(
            refused("8GiB"),
            "'8GiB' is not a valid range: write START..END, for example 0..8GiB or 8GiB.."
        );
        assert!(refused("a..b").starts_with("'a' is not a size"));
        assert!(refused("1..2..3").starts_with("'2..3' is not a size"));
        for text in ["1KiB..1KiB", "2..1", "0..0"] {
            assert!(refused(text).ends_with("is empty: its end is exclusive"));
        }
    }

    #[test]
    fn a_path_is_that_of_a_directory_from_the_root_on() {
        for (text, shown) in [("/", "/"), ("/models", "/models"), ("//a//b c/ü/", "/a/b c/ü")] {
            let path: GrantPath = text.parse().unwrap();
            assert_eq!(path.to_string(), shown);
            assert_eq!(shown.parse(), Ok(path));
        }
        let long = format!("/{}", "n".repeat(256));
        for (text, refused) in [
            ("models", "write /models"),
            ("", "write /"),
            ("/a/../b", "'..'"),
            ("/a\0", "NUL"),
            (&long, "256 bytes is too long"),
        ] {
            let error = text.parse::<GrantPath>().unwrap_err().to_string();
            assert!(error.contains(refused), "{error}");
        }
    }

    #[test]
    fn rights_are_read_or_read_and_write() {
        for text in ["r", "rw"] {
            assert_eq!(text.parse::<Rights>().unwrap().to_string(), text);
        }
        for text in ["", "w", "RW", "rwx"] {
            let refused = text.parse::<Rights>().unwrap_err().to_string();
            assert_eq!(refused, format!("'{text}' is not a valid set of rights: write r or rw"));
        }
    }

    #[test]
    fn a_secret_is_not_shown_by_accident() {
        let secret = Secret::new([0xA5; SECRET_LEN]);
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(!format!("{:?}", "a5".repeat(31).parse::<Secret>()).contains("a5"));
    }

    proptest! {
        #[test]
        fn a_secret_is_read_as_it_is_written(bytes: [u8; SECRET_LEN]) {
            let secret = Secret::new(bytes);
            prop_assert_eq!(secret.to_hex().parse(), Ok(secret));
        }

        #[test]
        fn no_text_is_too_strange_for_a_secret_or_a_range(text in "\\PC{0,70}") {
            let _ = text.parse::<Secret>();
            let _ = text.parse::<GrantRange>();
        }
    }
}
