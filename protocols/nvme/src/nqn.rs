//! NVMe Qualified Names, which identify hosts and subsystems.
//!
//! Spec: NVMe Base 2.0, 4.5. Invariant: an [`Nqn`] and its terminating NUL fit into a 256-byte
//! field.

use std::fmt;
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The maximum length of a name in bytes, without the terminating NUL. NVMe Base 2.0, 4.5.
pub const NQN_LEN_MAX: usize = 223;

/// The name of every discovery subsystem. NVMe Base 2.0, 3.1.2.3.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// A valid NVMe qualified name; cheap to clone.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Nqn(Arc<str>);

/// Why a text is not a valid NVMe qualified name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NqnError {
    /// The text is empty.
    #[error("the name is empty")]
    Empty,
    /// Longer than [`NQN_LEN_MAX`], or no NUL in the field.
    #[error("the name is longer than 223 bytes")]
    TooLong,
    /// The text does not begin with `nqn.`.
    #[error("the name does not begin with 'nqn.'")]
    Prefix,
    /// Not UTF-8, or contains a control character or white space.
    #[error("the name contains a character that is not allowed")]
    Character,
}

impl Nqn {
    /// Validates a name.
    ///
    /// # Errors
    /// If it is empty or too long, or has another prefix, a control character or white space.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        match name {
            "" => Err(NqnError::Empty),
            _ if name.len() > NQN_LEN_MAX => Err(NqnError::TooLong),
            _ if !name.starts_with("nqn.") => Err(NqnError::Prefix),
            _ if name.chars().any(|c| c.is_control() || c.is_whitespace()) => {
                Err(NqnError::Character)
            }
            _ => Ok(Self(name.into())),
        }
    }

    /// The well-known name of discovery subsystems.
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.into())
    }

    /// Whether this is the well-known name of discovery subsystems.
    pub fn is_discovery(&self) -> bool {
        &*self.0 == DISCOVERY_NQN
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Nqn {
    type Err = NqnError;

    fn from_str(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

/// The name that a host sends in Connect. Some hosts leave it empty, which the specification does
/// not allow. Such a host can only connect to subsystems that allow any host.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum HostName {
    /// A host with a name.
    Named(Nqn),
    /// The field is empty.
    Unnamed,
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::Unnamed => f.write_str("unnamed"),
        }
    }
}

/// A name in a data structure: NUL-terminated in 256 bytes.
#[derive(Clone, Copy, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned)]
#[repr(C)]
pub struct NqnField(pub [u8; 256]);
const _: () = assert!(size_of::<NqnField>() == 256);

impl NqnField {
    /// An empty field.
    pub const EMPTY: Self = Self([0; 256]);

    /// The name in the field.
    ///
    /// # Errors
    /// If the text before the first NUL is not a valid name.
    pub fn get(&self) -> Result<Nqn, NqnError> {
        let len = self.0.iter().position(|byte| *byte == 0).ok_or(NqnError::TooLong)?;
        let name = std::str::from_utf8(&self.0[..len]).map_err(|_| NqnError::Character)?;
        Nqn::new(name)
    }

    /// The host name in the field.
    ///
    /// # Errors
    /// If the field is neither empty nor a valid name.
    pub fn host(&self) -> Result<HostName, NqnError> {
        match self.get() {
            Ok(name) => Ok(HostName::Named(name)),
            Err(NqnError::Empty) => Ok(HostName::Unnamed),
            Err(error) => Err(error),
        }
    }
}

impl From<&Nqn> for NqnField {
    fn from(name: &Nqn) -> Self {
        let mut field = [0; 256];
        field[..name.0.len()].copy_from_slice(name.0.as_bytes());
        Self(field)
    }
}

impl fmt::Debug for NqnField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(name) => write!(f, "{:?}", name.as_str()),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_hosts_are_names() {
        for name in [
            DISCOVERY_NQN,
            "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427",
            "nqn.2014-08.com.vmware:nvme:esx-1",
            "nqn.2016-06.io.spdk:cnode1",
            "nqn.2026-11.io.nearflash:data",
        ] {
            let parsed = Nqn::new(name).unwrap();
            assert_eq!(parsed.as_str(), name);
            assert_eq!(NqnField::from(&parsed).get(), Ok(parsed));
        }
    }

    #[test]
    fn what_is_no_name_is_refused_by_its_reason() {
        assert_eq!(Nqn::new(""), Err(NqnError::Empty));
        assert_eq!(Nqn::new("iqn.2026-11.io.nearflash:data"), Err(NqnError::Prefix));
        assert_eq!(Nqn::new("nqn.a b"), Err(NqnError::Character));
        assert_eq!(Nqn::new(&format!("nqn.{}", "x".repeat(219))).map(|_| ()), Ok(()));
        assert_eq!(Nqn::new(&format!("nqn.{}", "x".repeat(220))), Err(NqnError::TooLong));
    }

    #[test]
    fn a_field_without_nul_or_with_broken_text_is_refused() {
        assert_eq!(NqnField([b'n'; 256]).get(), Err(NqnError::TooLong));
        let mut broken = [0; 256];
        broken[..5].copy_from_slice(b"nqn.\xFF");
        assert_eq!(NqnField(broken).get(), Err(NqnError::Character));
        assert_eq!(NqnField::EMPTY.get(), Err(NqnError::Empty));
    }
}
