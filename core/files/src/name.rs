//! Names and paths, with the limits of Linux: `NAME_MAX` and `PATH_MAX`.

use std::fmt;

/// The longest name, in bytes.
pub const NAME_LEN_MAX: usize = 255;

/// The longest path, in bytes.
pub const PATH_LEN_MAX: usize = 4096;

/// The name of an entry of a directory: 1 to [`NAME_LEN_MAX`] bytes, which need not be text, without
/// `/` and NUL, and neither `.` nor `..`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(Box<[u8]>);

/// A path from the root of a volume: the names from the first directory on. The root has none.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Path(Vec<Name>);

/// Error: bytes are not a valid name or path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// There are no bytes.
    #[error("the name is empty")]
    Empty,
    /// The name is too long.
    #[error("a name of {0} bytes is too long: the maximum is {NAME_LEN_MAX}")]
    TooLong(usize),
    /// The path is too long.
    #[error("a path of {0} bytes is too long: the maximum is {PATH_LEN_MAX}")]
    PathTooLong(usize),
    /// The name has a byte that no name has.
    #[error("a name contains neither '/' nor NUL")]
    Byte,
    /// The name has a meaning of its own in paths.
    #[error("'.' and '..' are not valid names: write the path from the root of the volume")]
    Dots,
}

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// When the bytes are not a valid name.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        match bytes {
            [] => Err(NameError::Empty),
            _ if bytes.len() > NAME_LEN_MAX => Err(NameError::TooLong(bytes.len())),
            b"." | b".." => Err(NameError::Dots),
            _ if bytes.contains(&b'/') || bytes.contains(&0) => Err(NameError::Byte),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Path {
    /// Divides a path at its slashes. Repeated slashes count as one; those at the start and the end
    /// are ignored.
    ///
    /// # Errors
    /// When the path is too long, or a name in it is not valid.
    pub fn parse(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.len() > PATH_LEN_MAX {
            return Err(NameError::PathTooLong(bytes.len()));
        }
        let names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.map(Name::new).collect::<Result<_, _>>().map(Self)
    }

    /// The names, from the first directory on.
    pub fn names(&self) -> &[Name] {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the directory of the last name; the root for the root.
    pub(crate) fn parent(&self) -> Self {
        self.first(self.0.len().saturating_sub(1))
    }

    /// The path of the first `count` names.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self(self.0[..count].to_vec())
    }

    /// The path of the entry `name` of this directory.
    #[must_use]
    pub fn join(&self, name: &Name) -> Self {
        Self(self.0.iter().chain([name]).cloned().collect())
    }
}

/// The path of an entry of the root.
impl From<&Name> for Path {
    fn from(name: &Name) -> Self {
        Self(vec![name.clone()])
    }
}

/// Shows the name as text; bytes that are not UTF-8 are replaced.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

/// Shows the path from the root, with a slash before every name.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_has_1_to_255_bytes_without_slash_and_nul() {
        assert_eq!(Name::new(b""), Err(NameError::Empty));
        assert_eq!(Name::new(&[b'a'; 256]), Err(NameError::TooLong(256)));
        assert!(Name::new(&[0xFF; 255]).is_ok());
        for dots in [&b"."[..], b".."] {
            assert_eq!(Name::new(dots), Err(NameError::Dots));
        }
        assert!(Name::new(b"...").is_ok());
        for wrong in [&b"a/b"[..], b"a\0"] {
            assert_eq!(Name::new(wrong), Err(NameError::Byte));
        }
    }

    #[test]
    fn a_path_is_divided_at_its_slashes() {
        for text in ["a/b", "/a/b", "//a//b//"] {
            assert_eq!(Path::parse(text.as_bytes()).unwrap().to_string(), "/a/b");
        }
        for text in ["", "/", "///"] {
            assert!(Path::parse(text.as_bytes()).unwrap().is_root());
        }
        assert_eq!(Path::parse(b"a/../b"), Err(NameError::Dots));
        assert_eq!(Path::parse(&[b'/'; 4097]), Err(NameError::PathTooLong(4097)));
        assert!(Path::parse(&[b'/'; 4096]).is_ok());
    }

    proptest! {
        /// Any bytes are parsed without a panic, and the names are those between the slashes.
        #[test]
        fn any_bytes_are_a_path_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(path) = Path::parse(&bytes) {
                let joined = path.names().iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
                prop_assert_eq!(Path::parse(&joined), Ok(path));
            }
        }
    }
}
