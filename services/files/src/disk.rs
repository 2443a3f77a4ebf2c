//! The volume below the files, as an interface: a volume of a node, or the device of a test.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use nearflash::Volume;
use nearflash::direct::{self, Bearer, Ownership, Rights, Seal, SealKey, SealTerms, Status};
use nearflash_files::Run;
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

/// The reason for which a node refuses writes of a part of a block.
pub(crate) const NOT_LOCAL: &str =
    "it belongs to a cluster or to another node, and files need a volume on a device of this node";

fn not_local() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, NOT_LOCAL)
}

/// Error: writes may have been lost together with a connection.
pub(crate) fn lost() -> io::Error {
    let reason =
        "the connection to the node was lost, and the last writes may be, too: repeat them";
    io::Error::new(io::ErrorKind::ConnectionReset, reason)
}

/// The properties of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskProperties {
    /// The name, for messages.
    pub name: String,
    /// The UUID.
    pub uuid: Uuid,
    /// The length.
    pub len: ByteLen,
    /// Whether it can be written.
    pub is_writable: bool,
}

/// A volume: bytes by offset. A write is durable after the next flush that succeeds, unless
/// [`Self::losses`] has changed since before the write.
pub trait Disk: fmt::Debug + Send + Sync {
    /// The properties.
    fn properties(&self) -> DiskProperties;

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// When the volume cannot be read.
    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()>;

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// When the volume cannot be written; some of the bytes may have been.
    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()>;

    /// Looks whether the volume can hold files: a node writes parts of blocks only of its own volumes.
    ///
    /// # Errors
    /// When it cannot.
    fn check_holder(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes zeroes.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()>;

    /// Releases storage whose contents are no longer needed.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()>;

    /// Makes all writes durable that have returned since the last of [`Self::losses`].
    ///
    /// # Errors
    /// When one of them may be lost, now or later.
    fn flush(&self) -> io::Result<()>;

    /// The seals of the volume, if its owner can give some.
    fn seals(&self) -> Option<&dyn Seals> {
        None
    }

    /// Counts all losses that have happened. Otherwise, some may be noticed later.
    ///
    /// # Errors
    /// When the volume cannot be reached.
    fn check_losses(&self) -> io::Result<()> {
        Ok(())
    }

    /// The number of times so far that writes which had returned, and were not flushed, may have been
    /// lost.
    fn losses(&self) -> u64 {
        0
    }

    /// Gives the volume back, if this process owns it. Nothing is written any more.
    ///
    /// # Errors
    /// When the release cannot be written. The next owner then waits for a while.
    fn release(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The terms of a seal that the owner of a volume gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SealedRuns {
    /// The number of the object.
    pub object: u64,
    /// The version of the object's seals.
    pub version: u32,
    /// The rights.
    pub rights: Rights,
    /// The object's blocks in order. Every run but the last has whole MiB.
    pub runs: Vec<Run>,
}

/// The seals that the owner of a volume gives to other processes, and revokes.
pub trait Seals: Send + Sync {
    /// Voids the seals of all earlier owners.
    ///
    /// # Errors
    /// When the node cannot be reached, or refuses.
    fn begin(&self) -> io::Result<()>;

    /// Mints a seal, which can be opened within a minute.
    ///
    /// # Errors
    /// When the node has no seals, or cannot be reached.
    fn mint(&self, runs: &SealedRuns) -> io::Result<Seal>;

    /// A bearer, with which a process can open the seals that are minted from now on.
    ///
    /// # Errors
    /// As [`Self::mint`].
    fn bearer(&self) -> io::Result<Bearer>;

    /// Voids the seals of an object below a version. When this returns, nothing that they allowed is under
    /// way.
    ///
    /// # Errors
    /// When the node cannot be reached, or refuses.
    fn revoke(&self, object: u64, version: u32) -> io::Result<()>;
}

/// A volume of a node.
///
/// A connection that was lost and replaced is a loss if the node has been started anew meanwhile, and may have lost
/// writes that a flush over the next connection does not cover. Without a loss, the owner's calls that change the
/// volume are repeated: nobody else has written, and the node has ended what came over the former connection.
#[derive(Debug)]
pub struct VolumeDisk {
    volume: Volume,
    /// Released when the disk is dropped, if it was not before.
    ownership: Mutex<Option<Ownership>>,
    seal_key: Mutex<Option<HeldKey>>,
}

/// How often a change is repeated.
const REPEATS_MAX: u32 = 2;

/// The key of seals, and the number of connections that had been replaced before the node gave it. A node
/// that was started anew does not know the key any more.
#[derive(Debug)]
struct HeldKey {
    key: SealKey,
    replaced_connections: u64,
}

impl VolumeDisk {
    /// The disk of a volume that was just opened.
    pub fn new(volume: Volume) -> Self {
        Self { volume, ownership: Mutex::new(None), seal_key: Mutex::default() }
    }

    /// The disk of a volume that this process owns, until the disk is dropped.
    pub fn owned(ownership: Ownership) -> Self {
        let volume = ownership.volume().clone();
        Self { volume, ownership: Mutex::new(Some(ownership)), seal_key: Mutex::default() }
    }

    /// Changes the volume. A change whose connection was lost is repeated if this process owns the volume, and the
    /// node has lost nothing.
    fn change(
        &self,
        change: impl Fn(&Volume) -> Result<(), nearflash::Error>,
    ) -> Result<(), nearflash::Error> {
        let losses = self.volume.losses();
        let is_owned =
            || self.ownership.lock().expect("nothing panics while it holds it").is_some();
        let mut repeats = 0;
        loop {
            match change(&self.volume) {
                Err(nearflash::Error::ConnectionLost(_) | nearflash::Error::Unknown(_))
                    if repeats < REPEATS_MAX
                        && is_owned()
                        && self.volume.check_connections().is_ok()
                        && self.volume.losses() == losses =>
                {
                    repeats += 1;
                }
                done => return done,
            }
        }
    }

    fn seal_key(&self) -> Result<SealKey, nearflash::Error> {
        let replaced_connections = self.volume.replaced_connections();
        let mut held = self.seal_key.lock().expect("nothing panics while it holds the key");
        match &*held {
            Some(held) if held.replaced_connections == replaced_connections => Ok(held.key.clone()),
            _ => {
                let key = self.volume.seal_key()?;
                *held = Some(HeldKey { key: key.clone(), replaced_connections });
                Ok(key)
            }
        }
    }
}

impl Disk for VolumeDisk {
    fn properties(&self) -> DiskProperties {
        let info = self.volume.info();
        DiskProperties {
            name: self.volume.name().to_owned(),
            uuid: Uuid::from_bytes(info.uuid),
            len: ByteLen(info.len),
            is_writable: info.is_writable,
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        Ok(self.volume.read_at(bytes, offset.0)?)
    }

    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()> {
        self.change(|volume| volume.write_at(bytes, offset.0)).map_err(|error| {
            match error.status() {
                Some(Status::UNSUPPORTED) => not_local(),
                _ => error.into(),
            }
        })
    }

    fn check_holder(&self) -> io::Result<()> {
        // A node refuses seals of the same volumes, and looks at nothing else first.
        match self.volume.seal_key() {
            Err(error) if error.status() == Some(Status::UNSUPPORTED) => Err(not_local()),
            _ => Ok(()),
        }
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        Ok(self.change(|volume| volume.write_zeroes(offset.0, len.0))?)
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        Ok(self.change(|volume| volume.discard(offset.0, len.0))?)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(self.change(Volume::flush)?)
    }

    fn check_losses(&self) -> io::Result<()> {
        Ok(self.volume.check_connections()?)
    }

    fn losses(&self) -> u64 {
        self.volume.losses()
    }

    fn seals(&self) -> Option<&dyn Seals> {
        let ownership = self.ownership.lock().expect("nothing panics while it holds it");
        ownership.as_ref().map(|_| -> &dyn Seals { self })
    }

    fn release(&self) -> io::Result<()> {
        let ownership = self.ownership.lock().expect("nothing panics while it holds it").take();
        ownership.map_or(Ok(()), |ownership| Ok(ownership.release()?))
    }
}

/// The longest time for which a new seal can be opened.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// The time for which a process can enter with its bearer, when it connects again.
const BEARER_GOOD_FOR: Duration = Duration::from_secs(3600);

impl Seals for VolumeDisk {
    fn begin(&self) -> io::Result<()> {
        let key = match self.volume.seal_key() {
            Ok(key) => key,
            // No owner could give seals of this volume.
            Err(error) if has_no_seals(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let used_up = || io::Error::other("its last seal key is used up: restart the node");
        let next = key.generation().checked_add(1).ok_or_else(used_up)?;
        Ok(self.volume.revoke_keys(next)?)
    }

    fn mint(&self, sealed: &SealedRuns) -> io::Result<Seal> {
        let key = self.seal_key()?;
        let run = |run: &Run| direct::Run { start: run.offset().0, len: run.len().0 };
        let terms = SealTerms {
            object: sealed.object,
            uuid: self.volume.info().uuid,
            version: sealed.version,
            rights: sealed.rights,
            good_until: key.good_for(GOOD_FOR),
            runs: sealed.runs.iter().map(run).collect(),
        };
        key.mint(terms).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    fn bearer(&self) -> io::Result<Bearer> {
        Ok(self.seal_key()?.bearer(BEARER_GOOD_FOR))
    }

    fn revoke(&self, object: u64, version: u32) -> io::Result<()> {
        Ok(self.volume.revoke(object, version)?)
    }
}

/// Whether the node has no seals of the volume.
fn has_no_seals(error: &nearflash::Error) -> bool {
    matches!(error.status(), Some(Status::INVALID_OPCODE | Status::UNSUPPORTED))
}
