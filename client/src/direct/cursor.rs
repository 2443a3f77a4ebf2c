//! A volume for code that reads and writes files.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use super::pieces::behind;
use super::slices::len_of;
use super::volume::Volume;

/// A volume with a position, for code that reads and writes files. Every call goes to the node, so
/// small ones should be buffered, by [`io::BufReader`] and [`io::BufWriter`].
///
/// A read at the volume's end returns 0 bytes, and a write there fails with
/// [`io::ErrorKind::StorageFull`]. Flushing the cursor makes everything that was written durable on
/// stable media. An error's source is the [`Error`](super::Error) of the call.
#[derive(Clone, Debug)]
pub struct Cursor {
    volume: Volume,
    position: u64,
}

impl Volume {
    /// The volume with a position, for code that reads and writes files.
    pub fn cursor(&self) -> Cursor {
        Cursor { volume: self.clone(), position: 0 }
    }
}

impl Cursor {
    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    fn room(&self, wanted: usize) -> usize {
        room(self.volume.len(), self.position, wanted)
    }

    fn advance(&mut self, len: usize) -> usize {
        self.position = behind(self.position, len);
        len
    }
}

/// The maximum number of bytes of `wanted` that lie between a position and the volume's end.
pub(super) fn room(volume_len: u64, position: u64, wanted: usize) -> usize {
    let left = volume_len.saturating_sub(position);
    usize::try_from(left).map_or(wanted, |left| left.min(wanted))
}

/// The position that a seek leads to.
pub(super) fn sought(volume_len: u64, position: u64, to: SeekFrom) -> io::Result<u64> {
    let sought = match to {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::End(distance) => volume_len.checked_add_signed(distance),
        SeekFrom::Current(distance) => position.checked_add_signed(distance),
    };
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "the position is below 0");
    sought.ok_or_else(refused)
}

/// A write of `wanted` bytes of which `room` fit.
pub(super) fn check_room(room: usize, wanted: usize) -> io::Result<()> {
    match room == 0 && wanted > 0 {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    }
}

impl Read for Cursor {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.room(bytes.len());
        self.volume.read_at(&mut bytes[..len], self.position)?;
        Ok(self.advance(len))
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let len = len_of(slices.iter().map(|slice| &**slice));
        if self.room(len) < len {
            let first = slices.iter_mut().find(|slice| !slice.is_empty());
            return first.map_or(Ok(0), |slice| self.read(slice));
        }
        self.volume.read_vectored_at(slices, self.position)?;
        Ok(self.advance(len))
    }
}

impl Write for Cursor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.room(bytes.len());
        check_room(len, bytes.len())?;
        self.volume.write_at(&bytes[..len], self.position)?;
        Ok(self.advance(len))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = len_of(slices.iter().map(|slice| &**slice));
        if self.room(len) < len {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return first.map_or(Ok(0), |slice| self.write(slice));
        }
        self.volume.write_vectored_at(slices, self.position)?;
        Ok(self.advance(len))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.volume.flush()?)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = sought(self.volume.len(), self.position, to)?;
        Ok(self.position)
    }
}
