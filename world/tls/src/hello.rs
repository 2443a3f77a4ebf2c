//! The identities in a ClientHello. RFC 8446, 4.2.11.

/// The identities of an extension `pre_shared_key` that are looked up, at most: each one costs a derivation.
const IDENTITIES_MAX: usize = 4;
/// `obfuscated_ticket_age` behind each identity.
const AGE_LEN: usize = 4;

/// The identities that the extension offers, in order. It ends where the extension is not valid.
pub(crate) fn identities(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = vector(extension).map_or(&[][..], |(identities, _)| identities);
    std::iter::from_fn(move || {
        let (identity, behind) = vector(rest)?;
        rest = behind.get(AGE_LEN..)?;
        Some(identity)
    })
    .take(IDENTITIES_MAX)
}

/// The bytes of a vector with a length of two bytes, and the bytes behind it.
fn vector(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_identities_of_an_extension_are_found_in_order() {
        let extension = [0, 15, 0, 1, b'a', 0, 0, 0, 0, 0, 2, b'b', b'c', 0, 0, 0, 0, 9, 9];
        let found: Vec<_> = identities(&extension).collect();
        assert_eq!(found, [&b"a"[..], b"bc"]);
        assert_eq!(identities(&[]).count(), 0);
        assert_eq!(identities(&[0, 3, 0, 9, 1]).count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_have_few_identities_or_none(bytes: Vec<u8>) {
            prop_assert!(identities(&bytes).count() <= IDENTITIES_MAX);
        }
    }
}
