//! Identifies the contents of a device from its first and its last MiB. Pure.
//!
//! A device that is not all zero holds data. The table of signatures only names the data, so that a
//! person can recognise the mistake.

use nearflash_space::GRANULE;
use nearflash_units::ByteLen;

/// A known magic number at a known place.
struct Signature {
    what: &'static str,
    place: Place,
    magic: &'static [u8],
}

/// The place of a signature.
enum Place {
    /// At this offset from the start.
    Start(usize),
    /// At this distance before the end.
    End(usize),
    /// At any multiple of `step` in this range from the start.
    Within { from: usize, to: usize, step: usize },
    /// In the last whole block of this size that is aligned to it.
    LastAligned(u64),
}

const fn at(what: &'static str, offset: usize, magic: &'static [u8]) -> Signature {
    Signature { what, place: Place::Start(offset), magic }
}

const EXT: &str = "an ext2, ext3 or ext4 file system";
const XFS: &str = "an XFS file system";
const BTRFS: &str = "a btrfs file system";
const FAT: &str = "a FAT file system";
const GPT: &str = "a GPT partition table";
const MBR: &str = "a partition table or boot sector";
const LVM: &str = "an LVM physical volume";
const MD: &str = "a member of an MD array";
const ZFS: &str = "a member of a ZFS pool";
const SWAP: &str = "swap space";
const DAMAGED_LABEL: &str = "a damaged nearflash label";

/// The name of a volume of files.
pub const FILES: &str = "files of nearflash";

const ZFS_UBERBLOCKS: Place = Place::Within { from: 128 << 10, to: 256 << 10, step: 1 << 10 };

/// The signatures, specific ones before the formats that may contain them. From the formats'
/// documentation.
const SIGNATURES: &[Signature] = &[
    at("a LUKS encrypted volume", 0, b"LUKS\xba\xbe"),
    at(XFS, 0, b"XFSB"),
    at(EXT, 0x438, b"\x53\xef"),
    at(BTRFS, 0x1_0040, b"_BHRfS_M"),
    at("an F2FS file system", 0x400, b"\x10\x20\xf5\xf2"),
    at("an EROFS file system", 0x400, b"\xe2\xe1\xf5\xe0"),
    at("a NILFS2 file system", 0x406, b"\x34\x34"),
    at("a JFS file system", 0x8000, b"JFS1"),
    at("a ReiserFS file system", 0x1_0034, b"ReIsEr"),
    at("a GFS2 file system", 0x1_0000, b"\x01\x16\x19\x70"),
    at("an APFS container", 32, b"NXSB"),
    at("a squashfs file system", 0, b"hsqs"),
    at("an ISO 9660 or UDF file system", 0x8001, b"CD001"),
    at("an NTFS file system", 3, b"NTFS    "),
    at("an exFAT file system", 3, b"EXFAT   "),
    at("a BitLocker volume", 3, b"-FVE-FS-"),
    at(FAT, 82, b"FAT32   "),
    at(FAT, 54, b"FAT16   "),
    at(FAT, 54, b"FAT12   "),
    at(SWAP, 4096 - 10, b"SWAPSPACE2"),
    at(SWAP, 4096 - 10, b"SWAP-SPACE"),
    at(SWAP, 65_536 - 10, b"SWAPSPACE2"),
    at(LVM, 0, b"LABELONE"),
    at(LVM, 512, b"LABELONE"),
    at(LVM, 1024, b"LABELONE"),
    at(LVM, 1536, b"LABELONE"),
    at("a Stratis pool", 512, b"!Stra0tis\x86\xff\x02^\x41rh"),
    at("a VDO volume", 0, b"dmvdo001"),
    at("a Ceph BlueStore device", 0, b"bluestore block device"),
    at("an SPDK blobstore", 0, b"SPDKBLOB"),
    at("a bcachefs file system", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"),
    at("a bcache device", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    at(MD, 0, b"\xfc\x4e\x2b\xa9"),
    at(MD, 4096, b"\xfc\x4e\x2b\xa9"),
    Signature { what: MD, place: Place::End(8192), magic: b"\xfc\x4e\x2b\xa9" },
    Signature { what: MD, place: Place::LastAligned(65_536), magic: b"\xfc\x4e\x2b\xa9" },
    Signature { what: ZFS, place: ZFS_UBERBLOCKS, magic: b"\x0c\xb1\xba\0\0\0\0\0" },
    Signature { what: ZFS, place: ZFS_UBERBLOCKS, magic: b"\0\0\0\0\0\xba\xb1\x0c" },
    at("a qcow2 disk image", 0, b"QFI\xfb"),
    at("a VMDK disk image", 0, b"KDMV"),
    at("a VHDX disk image", 0, b"vhdxfile"),
    at(GPT, 512, b"EFI PART"),
    at(GPT, 4096, b"EFI PART"),
    Signature { what: GPT, place: Place::End(512), magic: b"EFI PART" },
    Signature { what: GPT, place: Place::End(4096), magic: b"EFI PART" },
    at(FILES, 0, b"nrfiles\x1a"),
    at(FILES, 4096, b"nrfiles\x1a"),
    at(DAMAGED_LABEL, 0, b"nrflash\x1a"),
    at(DAMAGED_LABEL, 512 << 10, b"nrflash\x1a"),
    at(MBR, 510, b"\x55\xaa"),
];

/// The first and the last bytes of a device or a volume that identify its contents are this many, or all.
pub const PROBE_LEN: ByteLen = GRANULE;

/// The contents of a device of `device_len` bytes with these first and last bytes; `None` when both
/// are all zero.
pub fn what_it_holds(head: &[u8], tail: &[u8], device_len: u64) -> Option<&'static str> {
    let blank = is_zero(head) && is_zero(tail);
    signature(head, tail, device_len).or((!blank).then_some("data that is not nearflash's"))
}

/// The file system, or other structure with a signature, that a device or a volume of `device_len` bytes
/// holds. Unlike [`what_it_holds`], it takes no notice of any other data.
pub fn recognised(head: &[u8], tail: &[u8], device_len: u64) -> Option<&'static str> {
    // Nobody has checked the label.
    let name = |what| if what == DAMAGED_LABEL { "volumes of a nearflash node" } else { what };
    signature(head, tail, device_len).map(name)
}

fn signature(head: &[u8], tail: &[u8], device_len: u64) -> Option<&'static str> {
    let found = SIGNATURES.iter().find(|signature| signature.stands(head, tail, device_len));
    found.map(|signature| signature.what)
}

impl Signature {
    fn stands(&self, head: &[u8], tail: &[u8], device_len: u64) -> bool {
        let from_end = |distance: usize| tail.len().checked_sub(distance);
        match self.place {
            Place::Start(offset) => self.is_at(head, Some(offset)),
            Place::End(distance) => self.is_at(tail, from_end(distance)),
            Place::Within { from, to, step } => {
                (from..to).step_by(step).any(|offset| self.is_at(head, Some(offset)))
            }
            Place::LastAligned(size) => {
                let start = (device_len / size * size).saturating_sub(size);
                let distance = usize::try_from(device_len - start).ok();
                self.is_at(tail, distance.and_then(from_end))
            }
        }
    }

    fn is_at(&self, bytes: &[u8], offset: Option<usize>) -> bool {
        let there = offset.and_then(|offset| bytes.get(offset..)?.get(..self.magic.len()));
        there == Some(self.magic)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 20;

    /// A device of 8 MiB that is zero but for these bytes.
    fn probe(from_start: &[(usize, &[u8])], from_end: &[(usize, &[u8])]) -> Option<&'static str> {
        let (mut head, mut tail) = (vec![0; LEN], vec![0; LEN]);
        for (offset, bytes) in from_start {
            head[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        for (distance, bytes) in from_end {
            tail[LEN - distance..LEN - distance + bytes.len()].copy_from_slice(bytes);
        }
        what_it_holds(&head, &tail, 8 << 20)
    }

    #[test]
    fn a_blank_device_holds_nothing() {
        assert_eq!(probe(&[], &[]), None);
    }

    #[test]
    fn one_byte_that_is_not_zero_is_something() {
        let data = Some("data that is not nearflash's");
        assert_eq!(probe(&[(LEN - 1, b"x")], &[]), data);
        assert_eq!(probe(&[], &[(1, b"x")]), data);
    }

    /// The first bytes that mkfs.xfs, mkswap, pvcreate, mdadm, sgdisk and others write.
    #[test]
    fn what_a_device_holds_is_called_by_its_name() {
        assert_eq!(probe(&[(0, b"XFSB\0\0\x10\0")], &[]), Some(XFS));
        assert_eq!(probe(&[(0x1_0040, b"_BHRfS_M")], &[]), Some(BTRFS));
        assert_eq!(probe(&[(512, b"LABELONE\x01\0\0\0")], &[]), Some(LVM));
        assert_eq!(probe(&[(4086, b"SWAPSPACE2")], &[]), Some(SWAP));
        assert_eq!(probe(&[(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0")], &[]), Some(MD));
        assert_eq!(probe(&[(510, b"\x55\xaa"), (512, b"EFI PART")], &[]), Some(GPT));
        assert_eq!(probe(&[(510, b"\x55\xaa")], &[]), Some(MBR));
        assert_eq!(
            probe(&[(3, b"NTFS    "), (510, b"\x55\xaa")], &[]),
            Some("an NTFS file system")
        );
        let uberblock = (131_072 + 4096, &b"\x0c\xb1\xba\0\0\0\0\0"[..]);
        assert_eq!(probe(&[uberblock], &[]), Some(ZFS));
    }

    #[test]
    fn what_stands_at_the_end_is_found_too() {
        assert_eq!(probe(&[], &[(512, b"EFI PART")]), Some(GPT));
        assert_eq!(probe(&[], &[(8192, b"\xfc\x4e\x2b\xa9")]), Some(MD));
        assert_eq!(probe(&[], &[(65_536, b"\xfc\x4e\x2b\xa9")]), Some(MD));
    }

    #[test]
    fn data_without_a_signature_is_recognised_as_nothing() {
        let (mut head, tail) = (vec![7; LEN], vec![7; LEN]);
        assert_eq!(recognised(&head, &tail, 8 << 20), None);
        head[4096..4104].copy_from_slice(b"nrfiles\x1a");
        assert_eq!(recognised(&head, &tail, 8 << 20), Some(FILES));
        head[..8].copy_from_slice(b"nrflash\x1a");
        head[4096] = 0;
        assert_eq!(recognised(&head, &tail, 8 << 20), Some("volumes of a nearflash node"));
    }

    #[test]
    fn an_end_shorter_than_a_signature_wants_is_no_panic() {
        assert_eq!(what_it_holds(&[0; 16], &[0; 16], 16), None);
        assert_eq!(what_it_holds(&[], &[], 0), None);
    }
}
