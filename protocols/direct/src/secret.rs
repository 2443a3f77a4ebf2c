//! The secret of a key.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// The length of a secret, in bytes.
pub const SECRET_LEN: usize = 32;

/// The secret of a key: overwritten when dropped, never printed, compared in constant time.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; SECRET_LEN]);

impl Secret {
    /// The secret of these bytes.
    pub const fn new(bytes: [u8; SECRET_LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new([0xAB; 32]);
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn secrets_are_equal_when_every_byte_is() {
        let secret = Secret::new([7; 32]);
        assert_eq!(secret, Secret::new([7; 32]));
        for place in 0..32 {
            let mut bytes = [7; 32];
            bytes[place] ^= 1;
            assert_ne!(secret, Secret::new(bytes), "byte {place}");
        }
    }
}
