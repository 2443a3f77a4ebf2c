//! The superblock of a volume of files: what the volume is, and where its metadata lies.
//!
//! It has two copies of 4 KiB, at 0 and at 4 KiB, which are written in turn: a copy of generation `g`
//! goes to place `g mod 2`, and is durable before the other place is written. One valid copy
//! therefore always exists, and the valid copy with the higher generation counts. The block at 8 KiB
//! is reserved for the owner of the volume. The rest of the first MiB is reserved.
//!
//! Three words of feature bits say what a program must know. It ignores unknown bits of the first,
//! does not write with unknown bits of the second, and refuses unknown bits of the third.

use nearflash_device::{OnDisk, OnDiskError, choose_copy};
use nearflash_units::{Blocks, ByteLen, ByteOffset, Lba};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::run::ALIGNMENT;
use crate::{BLOCK, Run};

/// The length of one copy.
pub const SUPERBLOCK_LEN: usize = 4096;

/// The places of the copies.
pub const SUPERBLOCK_OFFSETS: [ByteOffset; 2] = [ByteOffset(0), ByteOffset(4096)];

/// The place of the owner block, which says which process may change the files.
pub const OWNER_BLOCK_OFFSET: ByteOffset = ByteOffset(8192);

/// The first block that metadata or files may use.
pub const DATA_START: Lba = Lba(ALIGNMENT);

/// The number of metadata runs that a superblock has room for.
pub const METADATA_RUNS_MAX: usize = 64;

const MAGIC: [u8; 8] = *b"nrfiles\x1a";
/// Version 1 had no permissions, and no kinds but files and directories. Version 2 had no checksums of the
/// metadata store's blocks.
const VERSION: u32 = 3;
const KNOWN: &str = "3";

/// The fields of a superblock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Superblock {
    /// Increases with every write.
    pub generation: u64,
    /// The UUID of the volume, which another volume with a copy of these bytes does not have.
    pub volume: Uuid,
    /// The length of the volume when the superblock was written.
    pub volume_len: ByteLen,
    /// Features that a program may ignore.
    pub compatible: u64,
    /// Features that a program must know to write.
    pub write_incompatible: u64,
    /// Features that a program must know to read.
    pub incompatible: u64,
    /// The length of the metadata store, at most that of its runs.
    pub metadata_len: ByteLen,
    /// The runs of the metadata store, in their order.
    pub metadata_runs: Vec<Run>,
}

/// The use that this version of the program can make of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Support {
    /// It can read and write files.
    Full,
    /// It can read files.
    ReadOnly,
    /// It cannot use the volume.
    None,
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDiskRun {
    start: U64,
    count: U64,
}

/// The fields of one copy in their on-disk form.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    generation: U64,
    volume: [u8; 16],
    volume_len: U64,
    block_size: U32,
    run_count: U32,
    compatible: U64,
    write_incompatible: U64,
    incompatible: U64,
    metadata_len: U64,
    runs: [OnDiskRun; METADATA_RUNS_MAX],
    reserved: [u8; 2984],
}
const _: () = assert!(size_of::<OnDisk<Fields>>() == SUPERBLOCK_LEN);

impl Superblock {
    /// The superblock as the bytes of one copy.
    ///
    /// # Panics
    /// When there are more than [`METADATA_RUNS_MAX`] runs.
    pub fn encode(&self) -> [u8; SUPERBLOCK_LEN] {
        assert!(self.metadata_runs.len() <= METADATA_RUNS_MAX, "the owner counts the runs");
        let mut raw = Fields::new_zeroed();
        raw.generation = U64::new(self.generation);
        raw.volume = *self.volume.as_bytes();
        raw.volume_len = U64::new(self.volume_len.0);
        raw.block_size = U32::new(BLOCK.bytes());
        raw.run_count = U32::new(u32::try_from(self.metadata_runs.len()).expect("at most 64"));
        raw.compatible = U64::new(self.compatible);
        raw.write_incompatible = U64::new(self.write_incompatible);
        raw.incompatible = U64::new(self.incompatible);
        raw.metadata_len = U64::new(self.metadata_len.0);
        for (place, run) in raw.runs.iter_mut().zip(&self.metadata_runs) {
            place.start = U64::new(run.start.0);
            place.count = U64::new(run.count.0);
        }
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
        if raw.block_size.get() != BLOCK.bytes() {
            return Err(OnDiskError::Field("block size"));
        }
        let run_count = nearflash_units::index(raw.run_count.get());
        let runs = raw.runs.get(..run_count).ok_or(OnDiskError::Field("metadata runs"))?;
        let runs = runs.iter().map(|run| Run::checked(run.start.get(), run.count.get()));
        let superblock = Self {
            generation: raw.generation.get(),
            volume: Uuid::from_bytes(raw.volume),
            volume_len: ByteLen(raw.volume_len.get()),
            compatible: raw.compatible.get(),
            write_incompatible: raw.write_incompatible.get(),
            incompatible: raw.incompatible.get(),
            metadata_len: ByteLen(raw.metadata_len.get()),
            metadata_runs: runs
                .collect::<Option<_>>()
                .ok_or(OnDiskError::Field("metadata runs"))?,
        };
        superblock.checked()
    }

    fn checked(self) -> Result<Self, OnDiskError> {
        let area = Self::area(self.volume_len).ok_or(OnDiskError::Field("volume length"))?;
        let mut runs = self.metadata_runs.clone();
        runs.sort_unstable();
        let overlap = runs.windows(2).any(|pair| pair[0].overlaps(pair[1]));
        if runs.is_empty() || overlap || !runs.iter().all(|run| area.contains(*run)) {
            return Err(OnDiskError::Field("metadata runs"));
        }
        if self.metadata_len.0 == 0 || self.metadata_len > self.metadata_capacity() {
            return Err(OnDiskError::Field("metadata length"));
        }
        Ok(self)
    }

    /// The blocks of a volume that metadata and files may use; `None` if there are none.
    pub fn area(volume_len: ByteLen) -> Option<Run> {
        let end = BLOCK.blocks_in(volume_len).0;
        (end > DATA_START.0).then(|| Run::between(DATA_START.0, end))
    }

    /// The length of all metadata runs.
    pub fn metadata_capacity(&self) -> ByteLen {
        let count = self.metadata_runs.iter().map(|run| run.count.0).sum();
        BLOCK.len(Blocks(count)).expect("runs that do not overlap fit the volume")
    }

    /// The use that this program can make of the volume.
    pub fn support(&self) -> Support {
        match (self.incompatible, self.write_incompatible) {
            (0, 0) => Support::Full,
            (0, _) => Support::ReadOnly,
            _ => Support::None,
        }
    }

    /// The place of this copy among [`SUPERBLOCK_OFFSETS`].
    pub fn offset(&self) -> ByteOffset {
        SUPERBLOCK_OFFSETS[usize::from(self.generation % 2 == 1)]
    }

    /// The copy that counts: the valid one, or, if both are valid, that with the higher generation.
    ///
    /// # Errors
    /// When neither is valid: the fault of the first, or of the second when the first is absent.
    pub fn choose(
        first: Result<Self, OnDiskError>,
        second: Result<Self, OnDiskError>,
    ) -> Result<Self, OnDiskError> {
        choose_copy([first, second], |superblock| superblock.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::MIB;
    use proptest::prelude::*;

    fn run(start: u64, count: u64) -> Run {
        Run { start: Lba(start), count: Blocks(count) }
    }

    fn superblock() -> Superblock {
        Superblock {
            generation: 7,
            volume: Uuid::from_u128(1),
            volume_len: ByteLen(64 * MIB),
            compatible: 0,
            write_incompatible: 0,
            incompatible: 0,
            metadata_len: ByteLen(MIB),
            metadata_runs: vec![run(256, 1024)],
        }
    }

    fn field(superblock: &Superblock) -> OnDiskError {
        Superblock::decode(&superblock.encode()).unwrap_err()
    }

    #[test]
    fn foreign_bytes_zeroes_and_later_versions_are_refused() {
        assert_eq!(Superblock::decode(&[0; SUPERBLOCK_LEN]), Err(OnDiskError::Absent));
        assert_eq!(Superblock::decode(&[0xA5; SUPERBLOCK_LEN]), Err(OnDiskError::Absent));
        let block: OnDisk<Fields> = zerocopy::transmute!(superblock().encode());
        let later = OnDisk::new(MAGIC, VERSION + 1, block.fields);
        let refused = OnDiskError::Version { found: VERSION + 1, known: KNOWN };
        assert_eq!(Superblock::decode(&zerocopy::transmute!(later)), Err(refused));
    }

    #[test]
    fn metadata_outside_the_volume_or_in_two_places_at_once_is_refused() {
        let with = |metadata_runs| Superblock { metadata_runs, ..superblock() };
        let refused = OnDiskError::Field("metadata runs");
        for runs in [
            vec![],
            vec![run(0, 1024)],
            vec![run(255, 2)],
            vec![run(256, 1 << 20)],
            vec![run(u64::MAX, 2)],
            vec![run(512, 256), run(767, 2)],
        ] {
            assert_eq!(field(&with(runs)), refused);
        }
        let too_long = Superblock { metadata_len: ByteLen(4 * MIB + 1), ..superblock() };
        assert_eq!(field(&too_long), OnDiskError::Field("metadata length"));
        let empty = Superblock { metadata_len: ByteLen(0), ..superblock() };
        assert_eq!(field(&empty), OnDiskError::Field("metadata length"));
        let small = Superblock { volume_len: ByteLen(MIB), ..superblock() };
        assert_eq!(field(&small), OnDiskError::Field("volume length"));
    }

    #[test]
    fn unknown_features_are_ignored_prevent_writes_or_prevent_all() {
        assert_eq!(Superblock { compatible: 1, ..superblock() }.support(), Support::Full);
        assert_eq!(
            Superblock { write_incompatible: 1, ..superblock() }.support(),
            Support::ReadOnly
        );
        assert_eq!(Superblock { incompatible: 1, ..superblock() }.support(), Support::None);
    }

    #[test]
    fn the_whole_copy_of_the_higher_generation_counts() {
        let older = || Ok(superblock());
        let newer = || Ok(Superblock { generation: 8, ..superblock() });
        let torn = || Err(OnDiskError::Checksum { found: 1, computed: 2 });
        let absent = || Err(OnDiskError::Absent);
        assert_eq!(Superblock::choose(older(), newer()), newer());
        assert_eq!(Superblock::choose(newer(), older()), newer());
        assert_eq!(Superblock::choose(torn(), older()), older());
        assert_eq!(Superblock::choose(newer(), absent()), newer());
        assert_eq!(Superblock::choose(absent(), torn()), torn());
        assert_eq!(Superblock::choose(absent(), absent()), absent());
        assert_ne!(older().map(|it| it.offset()), newer().map(|it| it.offset()));
    }

    proptest! {
        #[test]
        fn a_superblock_reads_back_as_it_was_written(
            generation: u64, volume: u128, compatible: u64, counts in prop::collection::vec(1_u64..99, 1..=METADATA_RUNS_MAX),
        ) {
            let mut next = 256;
            let metadata_runs: Vec<Run> = counts.iter().map(|count| {
                next += count + 1;
                run(next - count, *count)
            }).collect();
            let superblock = Superblock {
                generation, volume: Uuid::from_u128(volume), compatible, metadata_runs,
                metadata_len: ByteLen(4096), ..superblock()
            };
            prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0..SUPERBLOCK_LEN, change in 1_u8..) {
            let mut bytes = superblock().encode();
            bytes[at] ^= change;
            prop_assert!(Superblock::decode(&bytes).is_err());
        }

        /// Hostile numbers with a valid checksum decode without a panic.
        #[test]
        fn hostile_fields_are_refused_without_a_panic(
            run_count: u32, runs in prop::collection::vec((any::<u64>(), any::<u64>()), METADATA_RUNS_MAX), lens: (u64, u64),
        ) {
            let block: OnDisk<Fields> = zerocopy::transmute!(superblock().encode());
            let mut raw = block.fields;
            raw.run_count = U32::new(run_count % 70);
            raw.volume_len = U64::new(lens.0);
            raw.metadata_len = U64::new(lens.1);
            for (place, (start, count)) in raw.runs.iter_mut().zip(runs) {
                *place = OnDiskRun { start: U64::new(start), count: U64::new(count) };
            }
            let block = OnDisk::new(MAGIC, VERSION, raw);
            if let Ok(superblock) = Superblock::decode(&zerocopy::transmute!(block)) {
                prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
            }
        }
    }
}
