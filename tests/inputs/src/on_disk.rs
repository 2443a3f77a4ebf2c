//! Input from a device: labels, owner blocks, foreign data, and the catalog's extents of volumes.

use nearflash_device::DeviceId;
use nearflash_direct::ownership::{OWNER_BLOCK_LEN, OwnerBlock, RECORD_OFFSET, Take};
use nearflash_media::check::check_probe;
use nearflash_request::{BlockRange, VolumeId};
use nearflash_space::slice::{SUPERBLOCK_LEN, Superblock};
use nearflash_space::{
    Epoch, Extent, GRANULE, Home, LABEL_LEN, Label, NAMESPACES_PER_SUBSYSTEM_MAX, Provisioning,
    Reservations, Space, Stripes, Volume, empty_device,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, Nanos};
use uuid::Uuid;

const DEVICE_LEN: ByteLen = ByteLen(32 * GRANULE.0);

/// Checks any contents of a device.
pub fn check_on_disk(input: &[u8]) {
    let Some((selector, bytes)) = input.split_first() else { return };
    match selector % 3 {
        0 => {
            check_label(bytes);
            check_superblock(bytes);
            check_owner_block(bytes);
        }
        1 => {
            let (head, tail) = bytes.split_at(bytes.len() / 2);
            let len = u64::from(*selector) * GRANULE.0 + 4096 * u64::from(selector % 7);
            check_probe(head, tail, len);
        }
        _ => check_restore(bytes),
    }
}

/// Checks a label with a valid checksum, so that its fields are examined: an accepted label
/// survives a round trip.
fn check_label(fields: &[u8]) {
    let mut bytes = [0; LABEL_LEN];
    for (to, from) in bytes.iter_mut().zip(fields) {
        *to = *from;
    }
    let first = Label::decode(&bytes);
    bytes[..8].copy_from_slice(b"nrflash\x1a");
    let version = 1 + u32::from(bytes[8] & 1);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..16].fill(0);
    let checksum = crc32c::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    let second = Label::decode(&bytes);
    if let Ok(label) = &second {
        assert_eq!(Label::decode(&label.encode()).as_ref(), Ok(label));
        assert_eq!(Label::choose(first, second.clone()).map(|l| l.device), Ok(label.device));
    }
}

/// Checks a superblock of a slice in the same way.
fn check_superblock(fields: &[u8]) {
    let mut bytes = [0; SUPERBLOCK_LEN];
    for (to, from) in bytes.iter_mut().zip(fields) {
        *to = *from;
    }
    let first = Superblock::decode(&bytes);
    bytes[..8].copy_from_slice(b"nrslice\x1a");
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    bytes[12..16].fill(0);
    let checksum = crc32c::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    let second = Superblock::decode(&bytes);
    if let Ok(superblock) = second {
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        let next = superblock.opened(superblock.slice).confirmed();
        assert!(next.incarnation > superblock.incarnation);
        let chosen = Superblock::choose([first, second]);
        assert!(chosen.is_err() || chosen.map(|it| it.slice) == Ok(superblock.slice));
    }
}

/// Checks an owner block in the same way. A taker can read any block.
fn check_owner_block(fields: &[u8]) {
    let mut bytes = [0; OWNER_BLOCK_LEN];
    for (to, from) in bytes.iter_mut().zip(fields) {
        *to = *from;
    }
    let mut take = Take::new(fields.len().is_multiple_of(2));
    take.handle_read(Nanos(0), &bytes);
    let record = &mut bytes[RECORD_OFFSET..];
    record[..8].copy_from_slice(b"nfowner\x1a");
    record[8..12].copy_from_slice(&1_u32.to_le_bytes());
    record[12..16].fill(0);
    let checksum = crc32c::crc32c(record);
    record[12..16].copy_from_slice(&checksum.to_le_bytes());
    take.handle_read(Nanos(1), &bytes);
    if let Ok(record) = OwnerBlock::decode(&bytes).record {
        let record = record.expect("a record with a magic is not all zeroes");
        assert_eq!(record.encode()[..], bytes[RECORD_OFFSET..]);
    }
}

/// Checks any volumes of a catalog: they are refused, or are disjoint and within the device, and
/// can be used, resized and removed.
fn check_restore(records: &[u8]) {
    let name = |text: String| text.parse().expect("a letter and a number are a name");
    let area = (ByteOffset(GRANULE.0), ByteLen(DEVICE_LEN.0 - GRANULE.0));
    let id = DeviceId(0);
    let device = empty_device(id, name("d".to_owned()), Uuid::nil(), BlockSize::B512, area);
    let mut space = Space::new(vec![device]);
    let empty = space.devices()[0].free.free_len();
    for record in records.chunks_exact(12) {
        let record: [u8; 12] = record.try_into().expect("chunks of twelve");
        let [number, flags, nsid, blocks, high, extents @ .., epoch] = record;
        let volume = Volume {
            id: VolumeId(0),
            uuid: Uuid::from_u128(u128::from(number)),
            name: name(format!("v{}", flags >> 4)),
            block_size: if flags & 1 == 0 { BlockSize::B512 } else { BlockSize::B4096 },
            blocks: Blocks(u64::from(blocks) << (high % 64)),
            subsystem: name(format!("s{}", flags & 2)),
            nsid: u32::from(nsid) * if flags & 4 == 0 { 1 } else { 64 },
            home: Home::Node,
            stripes: Stripes::NONE,
            provisioning: if flags & 8 == 0 { Provisioning::Thin } else { Provisioning::Thick },
            reservations: Reservations::default(),
            preparing: None,
            epoch: Epoch(u64::from(epoch)),
            extents: extents.chunks_exact(2).map(|extent| extent_of(id, extent)).collect(),
        };
        if space.restore(volume).is_err() {
            return;
        }
    }
    check_space(space, empty);
}

/// An extent in whole granules, and at times unaligned or beyond the address space.
fn extent_of(device: DeviceId, extent: &[u8]) -> Extent {
    let place = |byte: u8| match byte {
        0..240 => u64::from(byte) * GRANULE.0,
        240..248 => u64::from(byte),
        _ => u64::MAX - u64::from(byte) * GRANULE.0 + 1,
    };
    Extent { device, start: ByteOffset(place(extent[0])), len: ByteLen(place(extent[1])) }
}

fn check_space(mut space: Space, empty: ByteLen) {
    let volumes: Vec<Volume> = space.volumes().cloned().collect();
    let extents: Vec<Extent> = volumes.iter().flat_map(|volume| volume.extents.clone()).collect();
    for (index, extent) in extents.iter().enumerate() {
        assert!(extent.start.0 >= GRANULE.0);
        assert!(extent.end().is_some_and(|end| end.0 <= DEVICE_LEN.0));
        assert!(extents[..index].iter().all(|other| !other.overlaps(extent)));
    }
    let table = space.table();
    for (_, entry) in table.iter() {
        let last = Lba(entry.blocks.0 - 1);
        let range = BlockRange { start: last, count: Blocks(1) };
        assert!(entry.map.locate(range).is_some(), "the last block has a place");
    }
    for volume in volumes {
        assert!(volume.blocks.0 > 0 && volume.nsid > 0);
        assert!(volume.nsid <= NAMESPACES_PER_SUBSYSTEM_MAX);
        let _ = space.resize(&volume.name, ByteLen(3 * GRANULE.0), true);
        let removed = space.remove(&volume.name);
        assert!(removed.is_ok());
    }
    assert_eq!(space.devices()[0].free.free_len(), empty, "all space is given back");
}
