//! The label of a device: the installation that it belongs to, its name, and its data area.
//!
//! The label has two equal copies of 4 KiB, at 0 and at 512 KiB. Both are within the first MiB,
//! which is reserved for the label. Neither is at the device's end, for two reasons. A device that
//! was grown or truncated still has both, so an error message can name it. And tools that write to
//! a device by mistake (partition tables, `mkfs`, `wipefs`) write to its first and its last 64 KiB,
//! so they do not touch the second copy. The first copy is written and made durable before the
//! second, so one is always complete. The valid copy with the higher generation counts.
//!
//! Every copy begins with the header of [`OnDisk`]. This version refuses a version that it does not know.

use nearflash_device::{OnDisk, OnDiskError, choose_copy};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use uuid::Uuid;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{GRANULE, NAME_LEN_MAX, Name};

/// Length of one copy. A multiple of every logical block size up to this.
pub const LABEL_LEN: usize = 4096;

/// Where the copies stand.
pub const LABEL_OFFSETS: [ByteOffset; 2] = [ByteOffset(0), ByteOffset(MIB / 2)];

/// The offset at which data may begin; the bytes before it belong to the label.
pub const LABEL_AREA_LEN: ByteLen = GRANULE;

const MAGIC: [u8; 8] = *b"nrflash\x1a";
const VERSION: u32 = 1;
/// The version of the label of a slice, which names the cluster, too. A program that knows only the first
/// one refuses it instead of putting volumes where the cluster has its data.
const VERSION_OF_SLICE: u32 = 2;
const KNOWN: &str = "1 and 2";

/// The fields of a label.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Label {
    /// Increases with every write of the label.
    pub generation: u64,
    /// The device's UUID.
    pub device: Uuid,
    /// The UUID of the installation that it belongs to.
    pub node: Uuid,
    /// The cluster whose slice it is; `None` for a device of a node alone.
    pub cluster: Option<Uuid>,
    /// The device's name in that installation.
    pub name: Name,
    /// The device's length when the label was written.
    pub device_len: ByteLen,
    /// The start of the data area.
    pub data_start: ByteOffset,
    /// The length of the data area.
    pub data_len: ByteLen,
}

/// The fields of one copy in their on-disk form.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    generation: U64,
    device: [u8; 16],
    node: [u8; 16],
    device_len: U64,
    data_start: U64,
    data_len: U64,
    /// Padded with NUL.
    name: [u8; NAME_LEN_MAX + 1],
    /// From version 2 on; zeroes before.
    cluster: [u8; 16],
    reserved: [u8; 3936],
}
const _: () = assert!(size_of::<OnDisk<Fields>>() == LABEL_LEN);

impl Label {
    /// The label as the bytes of one copy.
    pub fn encode(&self) -> [u8; LABEL_LEN] {
        let mut raw = Fields::new_zeroed();
        raw.cluster = self.cluster.map_or([0; 16], Uuid::into_bytes);
        raw.generation = U64::new(self.generation);
        raw.device = *self.device.as_bytes();
        raw.node = *self.node.as_bytes();
        raw.device_len = U64::new(self.device_len.0);
        raw.data_start = U64::new(self.data_start.0);
        raw.data_len = U64::new(self.data_len.0);
        let name = self.name.as_str().as_bytes();
        raw.name[..name.len()].copy_from_slice(name);
        let version = if self.cluster.is_some() { VERSION_OF_SLICE } else { VERSION };
        zerocopy::transmute!(OnDisk::new(MAGIC, version, raw))
    }

    /// Decodes one copy.
    ///
    /// # Errors
    /// When the bytes are not a valid copy.
    pub fn decode(bytes: &[u8; LABEL_LEN]) -> Result<Self, OnDiskError> {
        let block: OnDisk<Fields> = zerocopy::transmute!(*bytes);
        let (version, raw) = block.open(MAGIC)?;
        let cluster = Uuid::from_bytes(raw.cluster);
        let cluster = match version {
            VERSION => None,
            VERSION_OF_SLICE if !cluster.is_nil() => Some(cluster),
            VERSION_OF_SLICE => return Err(OnDiskError::Field("cluster")),
            found => return Err(OnDiskError::Version { found, known: KNOWN }),
        };
        let label = Self {
            generation: raw.generation.get(),
            device: Uuid::from_bytes(raw.device),
            node: Uuid::from_bytes(raw.node),
            cluster,
            name: decode_name(&raw.name).ok_or(OnDiskError::Field("name"))?,
            device_len: ByteLen(raw.device_len.get()),
            data_start: ByteOffset(raw.data_start.get()),
            data_len: ByteLen(raw.data_len.get()),
        };
        label.checked()
    }

    fn checked(self) -> Result<Self, OnDiskError> {
        let whole = |n: u64| n.is_multiple_of(GRANULE.0);
        let end = self.data_start.checked_add(self.data_len);
        if self.data_start.0 < LABEL_AREA_LEN.0 || !whole(self.data_start.0) {
            return Err(OnDiskError::Field("data start"));
        }
        if !whole(self.data_len.0) || end.is_none_or(|end| end.0 > self.device_len.0) {
            return Err(OnDiskError::Field("data length"));
        }
        Ok(self)
    }

    /// The copy that counts: the valid one, or, if both are valid, that with the higher generation.
    ///
    /// # Errors
    /// When neither is valid: the fault of the first, or of the second when the first is absent.
    pub fn choose(
        first: Result<Self, OnDiskError>,
        second: Result<Self, OnDiskError>,
    ) -> Result<Self, OnDiskError> {
        choose_copy([first, second], |label| label.generation)
    }
}

fn decode_name(field: &[u8]) -> Option<Name> {
    let len = field.iter().position(|b| *b == 0)?;
    let (text, padding) = field.split_at(len);
    let text = std::str::from_utf8(text).ok()?;
    padding.iter().all(|b| *b == 0).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label() -> Label {
        Label {
            generation: 7,
            device: Uuid::from_u128(1),
            node: Uuid::from_u128(2),
            cluster: None,
            name: "flash".parse().unwrap(),
            device_len: ByteLen(64 * MIB),
            data_start: ByteOffset(MIB),
            data_len: ByteLen(63 * MIB),
        }
    }

    #[test]
    fn a_label_stands_on_the_device_byte_for_byte_as_it_always_did() {
        let bytes = label().encode();
        assert_eq!(&bytes[..8], b"nrflash\x1a");
        assert_eq!(&bytes[8..12], &[1, 0, 0, 0]);
        assert_eq!(&bytes[16..24], &[7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((bytes[39], bytes[55]), (1, 2));
        assert_eq!(&bytes[80..86], b"flash\0");
        assert!(bytes[144..].iter().all(|b| *b == 0));
        assert_eq!(&bytes[12..16], &[11, 140, 116, 111]);
    }

    #[test]
    fn foreign_bytes_and_zeroes_are_no_label() {
        assert_eq!(Label::decode(&[0; LABEL_LEN]), Err(OnDiskError::Absent));
        assert_eq!(Label::decode(&[0xA5; LABEL_LEN]), Err(OnDiskError::Absent));
    }

    #[test]
    fn a_later_version_is_refused_rather_than_guessed() {
        let block: OnDisk<Fields> = zerocopy::transmute!(label().encode());
        let bytes = zerocopy::transmute!(OnDisk::new(MAGIC, 3, block.fields));
        assert_eq!(Label::decode(&bytes), Err(OnDiskError::Version { found: 3, known: KNOWN }));
    }

    #[test]
    fn a_data_area_outside_the_device_or_over_the_label_is_refused() {
        let decoded = |label: Label| Label::decode(&label.encode()).unwrap_err();
        let field = |field| OnDiskError::Field(field);
        assert_eq!(decoded(Label { data_start: ByteOffset(0), ..label() }), field("data start"));
        assert_eq!(decoded(Label { data_len: ByteLen(64 * MIB), ..label() }), field("data length"));
        assert_eq!(decoded(Label { data_len: ByteLen(u64::MAX), ..label() }), field("data length"));
    }

    #[test]
    fn the_whole_copy_of_the_higher_generation_counts() {
        let older = || Ok(label());
        let newer = || Ok(Label { generation: 8, ..label() });
        let torn = || Err(OnDiskError::Checksum { found: 1, computed: 2 });
        let absent = || Err(OnDiskError::Absent);
        assert_eq!(Label::choose(older(), newer()), newer());
        assert_eq!(Label::choose(newer(), older()), newer());
        assert_eq!(Label::choose(torn(), older()), older());
        assert_eq!(Label::choose(newer(), absent()), newer());
        assert_eq!(Label::choose(absent(), torn()), torn());
        assert_eq!(Label::choose(absent(), absent()), absent());
    }

    /// Any bytes decode without a panic, and what decodes is written as the same bytes.
    fn check_label_decodes_without_panic(bytes: &[u8; LABEL_LEN]) {
        if let Ok(label) = Label::decode(bytes) {
            assert_eq!(Label::decode(&label.encode()), Ok(label));
        }
    }

    proptest! {
        #[test]
        fn a_label_reads_back_as_it_was_written(
            generation: u64, device: u128, node: u128, cluster: u128, granules in 0u64..1 << 40, name in "[a-z0-9][a-zA-Z0-9._-]{0,62}"
        ) {
            let label = Label {
                generation,
                device: Uuid::from_u128(device),
                node: Uuid::from_u128(node),
                cluster: (cluster != 0).then(|| Uuid::from_u128(cluster)),
                name: name.parse().unwrap(),
                device_len: ByteLen((granules + 1) * GRANULE.0),
                data_start: ByteOffset(GRANULE.0),
                data_len: ByteLen(granules * GRANULE.0),
            };
            prop_assert_eq!(Label::decode(&label.encode()), Ok(label));
        }

        /// No single changed byte goes unnoticed, and none panics.
        #[test]
        fn a_changed_byte_is_noticed(at in 0..LABEL_LEN, change in 1u8..) {
            let mut bytes = label().encode();
            bytes[at] ^= change;
            prop_assert!(Label::decode(&bytes).is_err());
            check_label_decodes_without_panic(&bytes);
        }
    }
}
