//! The contents of a volume, as far as a call must know them that cuts it off.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;

use nearflash_files::{SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS, Superblock};
use nearflash_media::{Device, PROBE_LEN, recognised};
use nearflash_planner::usage::Usage;
use nearflash_planner::{Lost, Refusal};
use nearflash_space::{Volume, VolumeError};
use nearflash_units::{ByteLen, ByteOffset, index};
use uuid::Uuid;

use super::Node;
use super::quiesce::PATIENCE;
use crate::error::NodeError;

/// The unit in which devices are read.
const UNIT: u64 = 4096;

/// The recognised contents of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Contents {
    /// Nothing that has a signature.
    Unknown,
    /// Files, which need a volume of this length.
    Files(ByteLen),
    /// A file system, a partition table, or the like.
    Named(&'static str),
}

impl Contents {
    fn of(head: &[u8], tail: &[u8], len: ByteLen) -> Self {
        // A damaged copy has a signature nevertheless.
        let copy = |offset: ByteOffset| {
            let start = usize::try_from(offset.0).ok()?;
            let bytes = head.get(start..start + SUPERBLOCK_LEN)?.try_into().ok()?;
            Some(Superblock::decode(bytes).ok()?.volume_len)
        };
        match SUPERBLOCK_OFFSETS.into_iter().filter_map(copy).max() {
            Some(needed) => Self::Files(needed),
            None => recognised(head, tail, len.0).map_or(Self::Unknown, Self::Named),
        }
    }

    /// Refuses a length that cuts off what is recognised. Files are never cut off: they would be lost as a
    /// whole.
    fn check(self, volume: &Volume, to: ByteLen, force: bool) -> Result<(), Refusal> {
        let name = volume.name.clone();
        match self {
            Self::Files(needed) if to < needed => Err(Refusal::FilesNeed { name, needed }),
            Self::Files(_) | Self::Unknown => Ok(()),
            Self::Named(_) if force => Ok(()),
            Self::Named(what) => Err(Refusal::Holds { name, what, lost: Lost::Past(to) }),
        }
    }
}

/// The facts about a volume before it is cut off.
#[derive(Clone, Debug)]
pub(super) struct BeforeCut {
    uuid: Uuid,
    usage: Usage,
    contents: Contents,
}

impl BeforeCut {
    /// Refuses to cut off a volume.
    pub(super) fn check(&self, volume: &Volume, to: ByteLen, force: bool) -> Result<(), Refusal> {
        if volume.uuid != self.uuid {
            // Another call has just replaced the volume.
            return Err(VolumeError::NotFound(volume.name.clone()).into());
        }
        self.usage.check(&volume.name, Lost::Past(to), force)?;
        self.contents.check(volume, to, force)
    }
}

impl Node {
    /// Looks who uses a volume of this node that is to be cut off, and what it holds. It asks the cores and
    /// reads the device, so it must not be called under the lock of changes.
    pub(super) fn before_cut(&self, volume: Volume, force: bool) -> Result<BeforeCut, NodeError> {
        let (uuid, usage) = (volume.uuid, self.usage(&volume, force));
        let contents = match self.contents_of(volume) {
            Err(_) if force => Contents::Unknown,
            contents => contents?,
        };
        Ok(BeforeCut { uuid, usage, contents })
    }

    /// The contents of a volume of this node. A device that hangs is waited for no longer than a change.
    fn contents_of(&self, volume: Volume) -> Result<Contents, NodeError> {
        let (name, devices) = (volume.name.clone(), self.devices());
        let failed = |source| NodeError::Unreadable { name: name.clone(), source };
        let (sender, read) = channel();
        let look = move || {
            // The call has given up meanwhile if nobody takes it.
            let _ = sender.send(read_contents(&volume, &devices));
        };
        Builder::new().name("contents".to_owned()).spawn(look).map_err(failed)?;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        read.recv_timeout(PATIENCE).map_err(late).and_then(|read| read).map_err(failed)
    }
}

fn read_contents(volume: &Volume, devices: &[Arc<Device>]) -> io::Result<Contents> {
    let len = volume.len();
    // Devices are read in units of 4 KiB, and extents are longer than their volume rather than shorter.
    let whole = |at: u64| at.next_multiple_of(UNIT);
    let read = |start: u64, end: u64| {
        read_volume(volume, devices, (ByteOffset(start), ByteLen(whole(end) - start)))
    };
    let head = read(0, len.0.min(PROBE_LEN.0))?;
    let start = len.0.saturating_sub(PROBE_LEN.0) / UNIT * UNIT;
    let tail = read(start, len.0)?;
    Ok(Contents::of(&head, &tail[..ByteLen(len.0 - start).to_usize()], len))
}

fn read_volume(
    volume: &Volume,
    devices: &[Arc<Device>],
    (start, len): (ByteOffset, ByteLen),
) -> io::Result<Vec<u8>> {
    let (mut bytes, mut place) = (vec![0; len.to_usize()], 0);
    let end = start.0 + len.0;
    for extent in &volume.extents {
        let (from, to) = (start.0.max(place), end.min(place + extent.len.0));
        if from < to {
            let part = ByteLen(from - start.0).to_usize()..ByteLen(to - start.0).to_usize();
            let offset = ByteOffset(extent.start.0 + (from - place));
            devices[index(extent.device.0)].read(offset, &mut bytes[part])?;
        }
        place += extent.len.0;
    }
    Ok(bytes)
}
