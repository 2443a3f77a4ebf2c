//! The hand-over of a sealed file: with an ioctl on an open file, a mount of a volume of files tells a
//! process how it reaches the bytes of the file without the mount.
//!
//! | bytes | answer to [`SEAL_IOCTL`] and [`SEAL_WITHOUT_PAGES_IOCTL`] | |
//! | --- | --- | --- |
//! | 0..4 | magic | `NFHO` in ASCII |
//! | 4..6 | place_len | p, the length of the place |
//! | 6..8 | seal_len | s, the length of the seal |
//! | 8..10 | bearer_len | b, the length of the bearer; 0 if the node admits anonymous clients |
//! | 10..12 | reserved | 0 |
//! | 12..12 + p | place | the node's URL, without a volume |
//! | then s bytes | seal | the form of OPEN_SEALED; docs/direct-protocol.md |
//! | then b bytes | bearer | its secret, and its name; docs/direct-protocol.md |
//! | up to 1024 | reserved | 0 |
//!
//! The seal has no more rights than the descriptor on which the ioctl was called. After it has written
//! through the seal, the process calls [`WRITTEN_IOCTL`], at most once a second, and the mount changes
//! the time of the file.
//!
//! The kernel keeps pages of files that processes map, and those can differ from the volume. The holder of a
//! seal looks for pages at each call (cachestat(2)). A seal without pages spares it that: the mount voids the
//! seal before it gives the kernel the bytes of a page. Pages can be there from earlier, so the holder looks
//! once after it has got the seal, and gives the seal up if there are any.
//!
//! fdatasync(2) makes the bytes of a file durable, and the length and the place by which they are found. With
//! [`DURABLE_SIZE_IOCTL`], the mount says that the latter two are durable. Then a flush of the volume is all
//! that is needed, for as long as the seal is not void and the file has this size: each change of the place
//! voids the seal first.

use nearflash_direct::{Bearer, Seal};

use super::url::Url;

/// The length of the answer in bytes.
pub const HANDOVER_LEN: usize = 1024;
/// Asks for a [`Handover`] of the open file: `_IOR('N', 0x5e, char[1024])`.
pub const SEAL_IOCTL: u32 = 0x8400_4e5e;
/// Asks for a [`Handover`] whose seal is void as soon as the kernel keeps pages of the open file:
/// `_IOR('N', 0x60, char[1024])`.
pub const SEAL_WITHOUT_PAGES_IOCTL: u32 = 0x8400_4e60;
/// Tells that the open file was written through its seal: `_IO('N', 0x5f)`.
pub const WRITTEN_IOCTL: u32 = 0x0000_4e5f;
/// Asks for the size of the open file, as a little-endian u64: `_IOR('N', 0x61, char[8])`. The mount refuses
/// while the size or the place of any byte is not durable.
pub const DURABLE_SIZE_IOCTL: u32 = 0x8008_4e61;

const MAGIC: [u8; 4] = *b"NFHO";
const HEADER_LEN: usize = 12;

/// A sealed file, and the node that has its bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Handover {
    /// The node, with the digests that its clients use. It names no volume and no key.
    pub place: Url,
    /// The seal.
    pub seal: Seal,
    /// The bearer with which the process enters, if the mount has a credential.
    pub bearer: Option<Bearer>,
}

impl Handover {
    /// The answer; `None` when the place is too long for it.
    pub fn encode(&self) -> Option<[u8; HANDOVER_LEN]> {
        let place = self.place.without_credentials();
        let seal = self.seal.encode();
        let bearer = self.bearer.as_ref().map_or_else(Vec::new, Bearer::encode);
        let mut bytes = [0; HANDOVER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        let mut end = HEADER_LEN;
        for (index, part) in [place.as_bytes(), &seal, &bearer].into_iter().enumerate() {
            let len = u16::try_from(part.len()).ok()?;
            bytes[4 + 2 * index..6 + 2 * index].copy_from_slice(&len.to_le_bytes());
            bytes.get_mut(end..end + part.len())?.copy_from_slice(part);
            end += part.len();
        }
        Some(bytes)
    }

    /// Reads an answer; `None` when it is not one of this layout.
    pub fn decode(bytes: &[u8; HANDOVER_LEN]) -> Option<Self> {
        let (header, rest) = bytes.split_at(HEADER_LEN);
        let len = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (place, rest) = rest.split_at_checked(len(4))?;
        let (seal, rest) = rest.split_at_checked(len(6))?;
        let bearer = rest.get(..len(8))?;
        if header[..4] != MAGIC {
            return None;
        }
        let place = std::str::from_utf8(place).ok()?.parse().ok()?;
        let bearer = match bearer {
            [] => None,
            bytes => Some(Bearer::decode(bytes).ok()?),
        };
        Some(Self { place, seal: Seal::decode(seal).ok()?, bearer })
    }
}

#[cfg(test)]
mod tests {
    use nearflash_direct::wire::{Rights, SealKey};
    use nearflash_direct::{Run, SealTerms};
    use proptest::prelude::*;

    use super::*;

    fn key() -> SealKey {
        SealKey::derive(None, 1, [3; 16], [4; 16])
    }

    fn seal() -> Seal {
        let terms = SealTerms {
            object: 7,
            uuid: [1; 16],
            version: 2,
            rights: Rights::READ,
            good_until: 60,
            runs: [Run { start: 4096, len: 8192 }].into(),
        };
        key().mint(terms).unwrap()
    }

    #[test]
    fn a_handover_names_the_node_and_no_secret_but_that_of_a_bearer() {
        let url = "direct+local:/run/a b.sock/data?digest=header&key=app&secret-file=/etc/app";
        let bearer = Some(key().bearer(60));
        let given = Handover { place: url.parse().unwrap(), seal: seal(), bearer };
        let taken = Handover::decode(&given.encode().unwrap()).unwrap();
        assert_eq!(taken.place, "direct+local:/run/a b.sock?digest=header".parse().unwrap());
        assert_eq!((taken.seal, taken.bearer), (given.seal, given.bearer));
        let long = format!("direct+local:/{}.sock", "x".repeat(HANDOVER_LEN));
        assert_eq!(
            Handover { place: long.parse().unwrap(), seal: seal(), bearer: None }.encode(),
            None
        );
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), HANDOVER_LEN),
            lens in [0_u8..64, 0_u8..120, 0_u8..120],
        ) {
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[4..10].copy_from_slice(&[lens[0], 0, lens[1], 0, lens[2], 0]);
            if let Some(read) = Handover::decode(bytes.as_slice().try_into().unwrap()) {
                prop_assert!(read.encode().is_some());
            }
        }
    }
}
