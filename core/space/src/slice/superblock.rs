//! The superblock of a slice. There are two copies, of which the one with the higher generation counts.
//! They are written in turn, so a torn write leaves the other one whole.

use nearflash_device::{OnDisk, OnDiskError, choose_copy};
use nearflash_units::ByteOffset;
use uuid::Uuid;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::METADATA_START;

/// The length of a copy. A multiple of every logical block size up to this.
pub const SUPERBLOCK_LEN: usize = 4096;

/// The places of the copies.
pub const SUPERBLOCK_OFFSETS: [ByteOffset; 2] =
    [METADATA_START, ByteOffset(METADATA_START.0 + 4096)];

const MAGIC: [u8; 8] = *b"nrslice\x1a";
/// Version 1 had no [`super::Notes`].
const VERSION: u32 = 2;
const KNOWN: &str = "2";

/// The largest counter that is read. A device that is opened a million times a second reaches it after
/// a hundred thousand years; a larger one is damage, and could not grow for long.
const COUNTER_MAX: u64 = 1 << 62;

/// The fields of a superblock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Superblock {
    /// Grows with each write.
    pub generation: u64,
    /// The cluster.
    pub cluster: Uuid,
    /// The slice, as in the label.
    pub slice: Uuid,
    /// The node.
    pub node: Uuid,
    /// How often the slice was opened for data.
    pub incarnation: u64,
    /// The last incarnation that the cluster's store is known to have.
    pub confirmed: u64,
    /// The incarnation at whose start the device's cache may have been lost.
    pub power_incarnation: u64,
    /// The start of the machine: its cache survives as long as this stays the same.
    pub boot: Uuid,
}

/// The fields of one copy in their on-disk form.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    generation: U64,
    cluster: [u8; 16],
    slice: [u8; 16],
    node: [u8; 16],
    incarnation: U64,
    confirmed: U64,
    power_incarnation: U64,
    boot: [u8; 16],
    reserved: [u8; 3984],
}

const _: () = assert!(size_of::<OnDisk<Fields>>() == SUPERBLOCK_LEN);

impl Superblock {
    /// The superblock as the bytes of one copy.
    pub fn encode(&self) -> [u8; SUPERBLOCK_LEN] {
        let mut raw = Fields::new_zeroed();
        raw.generation = U64::new(self.generation);
        raw.cluster = self.cluster.into_bytes();
        raw.slice = self.slice.into_bytes();
        raw.node = self.node.into_bytes();
        raw.incarnation = U64::new(self.incarnation);
        raw.confirmed = U64::new(self.confirmed);
        raw.power_incarnation = U64::new(self.power_incarnation);
        raw.boot = self.boot.into_bytes();
        zerocopy::transmute!(OnDisk::new(MAGIC, VERSION, raw))
    }

    /// Decodes one copy.
    ///
    /// # Errors
    /// When the bytes are not a valid copy.
    pub fn decode(bytes: &[u8; SUPERBLOCK_LEN]) -> Result<Self, OnDiskError> {
        let block: OnDisk<Fields> = zerocopy::transmute!(*bytes);
        let (found, raw) = block.open(MAGIC)?;
        if found != VERSION {
            return Err(OnDiskError::Version { found, known: KNOWN });
        }
        let superblock = Self {
            generation: raw.generation.get(),
            cluster: Uuid::from_bytes(raw.cluster),
            slice: Uuid::from_bytes(raw.slice),
            node: Uuid::from_bytes(raw.node),
            incarnation: raw.incarnation.get(),
            confirmed: raw.confirmed.get(),
            power_incarnation: raw.power_incarnation.get(),
            boot: Uuid::from_bytes(raw.boot),
        };
        match superblock {
            it if it.generation > COUNTER_MAX => Err(OnDiskError::Field("generation")),
            it if it.incarnation > COUNTER_MAX => Err(OnDiskError::Field("incarnation")),
            it if it.confirmed > it.incarnation => Err(OnDiskError::Field("confirmed")),
            it if it.power_incarnation > it.incarnation => {
                Err(OnDiskError::Field("power incarnation"))
            }
            it => Ok(it),
        }
    }

    /// The copy that counts: the valid one, or, if both are valid, that with the higher generation. A copy
    /// of another version may be the newer one, so it is refused even if the other one is valid.
    ///
    /// # Errors
    /// When a copy is of another version, or neither is valid: the fault of the first, or of the second
    /// when the first is absent.
    pub fn choose(copies: [Result<Self, OnDiskError>; 2]) -> Result<Self, OnDiskError> {
        if let [Err(later @ OnDiskError::Version { .. }), _]
        | [_, Err(later @ OnDiskError::Version { .. })] = copies
        {
            return Err(later);
        }
        choose_copy(copies, |superblock| superblock.generation)
    }

    /// The place of the copy of this generation: they are written in turn.
    pub fn offset(&self) -> ByteOffset {
        SUPERBLOCK_OFFSETS[usize::from(!self.generation.is_multiple_of(2))]
    }

    /// The superblock of the next process. `boot` is the machine's present start.
    #[must_use]
    pub fn opened(&self, boot: Uuid) -> Self {
        let incarnation = self.incarnation + 1;
        let is_powered = self.boot == boot;
        Self {
            generation: self.generation + 1,
            incarnation,
            power_incarnation: if is_powered { self.power_incarnation } else { incarnation },
            boot,
            ..*self
        }
    }

    /// The superblock when the cluster's store has its incarnation.
    #[must_use]
    pub fn confirmed(&self) -> Self {
        Self { generation: self.generation + 1, confirmed: self.incarnation, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        Superblock {
            generation: 8,
            cluster: Uuid::from_u128(1),
            slice: Uuid::from_u128(2),
            node: Uuid::from_u128(3),
            incarnation: 5,
            confirmed: 4,
            power_incarnation: 3,
            boot: Uuid::from_u128(6),
        }
    }

    #[test]
    fn a_superblock_stands_on_the_device_byte_for_byte_as_it_always_did() {
        let bytes = superblock().encode();
        assert_eq!(&bytes[..8], b"nrslice\x1a");
        assert_eq!((bytes[8], bytes[16], bytes[39], bytes[55], bytes[71]), (2, 8, 1, 2, 3));
        assert_eq!((bytes[72], bytes[80], bytes[88], bytes[111]), (5, 4, 3, 6));
        assert!(bytes[112..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_opening_is_a_new_incarnation_and_a_new_start_of_the_machine_may_have_lost_the_cache() {
        let same = superblock().opened(Uuid::from_u128(6));
        assert_eq!((same.incarnation, same.power_incarnation, same.confirmed), (6, 3, 4));
        let other = superblock().opened(Uuid::from_u128(7));
        assert_eq!((other.incarnation, other.power_incarnation, other.confirmed), (6, 6, 4));
        assert_eq!(other.confirmed().confirmed, 6);
        assert_ne!(other.offset(), other.confirmed().offset(), "the other copy stays whole");
    }

    #[test]
    fn a_torn_write_leaves_the_superblock_before_it() {
        let old = superblock();
        let new = old.opened(Uuid::from_u128(7));
        let torn = || Err(OnDiskError::Checksum { found: 1, computed: 2 });
        assert_eq!(Superblock::choose([Ok(old), torn()]), Ok(old));
        assert_eq!(Superblock::choose([Ok(old), Ok(new)]), Ok(new));
        assert_eq!(Superblock::choose([Ok(new), Ok(old)]), Ok(new));
        let later = || Err(OnDiskError::Version { found: 3, known: KNOWN });
        assert_eq!(Superblock::choose([Ok(old), later()]), later(), "it may be the newer one");
        let absent = || Err(OnDiskError::Absent);
        assert_eq!(Superblock::choose([absent(), Ok(old)]), Ok(old));
        assert_eq!(Superblock::choose([absent(), torn()]), torn());
    }

    #[test]
    fn a_counter_that_cannot_grow_is_refused() {
        let last = |superblock: Superblock| Superblock::decode(&superblock.encode());
        for counter in [COUNTER_MAX + 1, u64::MAX - 1, u64::MAX] {
            let refused = last(Superblock { generation: counter, ..superblock() });
            assert_eq!(refused, Err(OnDiskError::Field("generation")));
            let refused = last(Superblock { incarnation: counter, ..superblock() });
            assert_eq!(refused, Err(OnDiskError::Field("incarnation")));
        }
    }

    proptest! {
        #[test]
        fn a_superblock_reads_back_as_it_was_written(
            ids: [u128; 4], generation in 0..=COUNTER_MAX, incarnation in 0..=COUNTER_MAX, confirmed: u64, power: u64
        ) {
            let superblock = Superblock {
                generation,
                cluster: Uuid::from_u128(ids[0]),
                slice: Uuid::from_u128(ids[1]),
                node: Uuid::from_u128(ids[2]),
                incarnation,
                confirmed: confirmed.min(incarnation),
                power_incarnation: power.min(incarnation),
                boot: Uuid::from_u128(ids[3]),
            };
            prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }

        /// No changed byte goes unnoticed, and none panics.
        #[test]
        fn a_changed_byte_is_noticed(at in 0..SUPERBLOCK_LEN, change in 1u8..) {
            let mut bytes = superblock().encode();
            bytes[at] ^= change;
            prop_assert!(Superblock::decode(&bytes).is_err());
        }
    }
}
