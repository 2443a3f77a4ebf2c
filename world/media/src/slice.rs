//! Opening the slices of a cluster.
//!
//! A slice is locked like any device: by `flock` on the open file through which its blocks are written,
//! or by `O_EXCL` on a block device. Both locks last until the last write of a process that was killed
//! has left the queue of the device, so no such write follows the new incarnation. A lock that ends with
//! the process, as that of `fcntl`, would not do.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_device::OnDiskError;
use nearflash_space::Name;
use nearflash_space::slice::{
    DATA_START, METADATA_START, NOTES_LEN, NOTES_START, Notes, SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS,
    Superblock,
};
use nearflash_units::ByteLen;
use rustix::fs::{fdatasync, fstat, major, minor};
use uuid::Uuid;

use crate::device::{Device, Kind};
use crate::error::OpenError;
use crate::file::{OpenFile, Storage, write_at};
use crate::open::{Candidate, Claim, Labelling, Medium, open_after};
use crate::slice_notes::SliceNotes;
use crate::spec::DeviceSpec;

/// A slice that can be taken. Nothing has been written to it yet.
#[derive(Debug)]
pub struct SliceCandidate {
    candidate: Candidate,
    found: Option<Found>,
    /// In its label, if it has one.
    uuid: Option<Uuid>,
    cluster: Uuid,
    node: Uuid,
}

/// The metadata of a slice that was used before.
#[derive(Clone, Debug)]
struct Found {
    superblock: Superblock,
    notes: Notes,
}

/// A slice, locked while this value lives.
#[derive(Debug)]
pub struct Slice {
    device: Arc<Device>,
    superblock: Mutex<Superblock>,
    notes: Arc<SliceNotes>,
}

/// Opens a slice of the cluster and checks whether it can be taken. It creates an absent file, and
/// writes nothing else. `ended`: as for [`open_after`].
///
/// # Errors
/// When it cannot be taken: it belongs to another cluster or node, holds something else, or is damaged.
pub fn open_slice(
    spec: &DeviceSpec,
    claim: Claim<'_>,
    cluster: Uuid,
    ended: Option<u32>,
) -> Result<SliceCandidate, OpenError> {
    let node = claim.node;
    let candidate = open_after(spec, Claim { cluster: Some(cluster), ..claim }, ended)?;
    let (uuid, found) = match &candidate.medium {
        Medium::File { file, label: Some(label), .. } => {
            let superblock = read_superblock(file, &spec.name)?;
            let is_its =
                |it: &Superblock| (it.slice, it.cluster, it.node) == (label.device, cluster, node);
            if superblock.as_ref().is_some_and(|it| !is_its(it)) {
                return Err(OpenError::SuperblockDiffers { name: spec.name.clone() });
            }
            let found = superblock.map(|superblock| {
                let notes = read_notes(file, &spec.name, label.device)?;
                Ok(Found { superblock, notes })
            });
            (Some(label.device), found.transpose()?)
        }
        // In memory, and in a file without a label, nothing is left of an earlier run.
        Medium::File { .. } | Medium::Ram(_) | Medium::Null(..) | Medium::Model(_) => (None, None),
    };
    Ok(SliceCandidate { candidate, found, uuid, cluster, node })
}

/// The slice's notes of its mirrors.
fn read_notes(file: &OpenFile, name: &Name, slice: Uuid) -> Result<Notes, OpenError> {
    let bytes = file.read(NOTES_START, NOTES_LEN).map_err(|source| OpenError::Io {
        name: name.clone(),
        action: "read the metadata of",
        path: name.as_str().into(),
        source,
    })?;
    Notes::decode(slice, &bytes)
        .map_err(|source| OpenError::SliceNotes { name: name.clone(), source })
}

/// The superblock; `None` for a slice whose creation was interrupted before it was written.
fn read_superblock(file: &OpenFile, name: &Name) -> Result<Option<Superblock>, OpenError> {
    let end = NOTES_START.0 + ByteLen::from_usize(NOTES_LEN).0;
    if file.len.0 < end {
        return Ok(None);
    }
    let mut copies = [Err(OnDiskError::Absent); 2];
    for (copy, offset) in copies.iter_mut().zip(SUPERBLOCK_OFFSETS) {
        let bytes = file.read(offset, SUPERBLOCK_LEN).map_err(|source| OpenError::Io {
            name: name.clone(),
            action: "read the superblock of",
            path: name.as_str().into(),
            source,
        })?;
        let bytes = bytes.first_chunk::<SUPERBLOCK_LEN>();
        *copy = bytes.map_or(Err(OnDiskError::Absent), Superblock::decode);
    }
    match Superblock::choose(copies) {
        Ok(superblock) => Ok(Some(superblock)),
        Err(OnDiskError::Absent) => Ok(None),
        Err(source) => {
            let remedy = match source {
                OnDiskError::Version { .. } => {
                    "start the node with the version that wrote it, or replace the slice"
                }
                _ => "restore the first 17 MiB of the device from a backup",
            };
            Err(OpenError::Superblock { name: name.clone(), source, remedy })
        }
    }
}

impl SliceCandidate {
    /// Its name at the node.
    pub fn name(&self) -> &Name {
        self.candidate.name()
    }

    /// Its identity; `None` for a device that is not a slice yet.
    pub fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// The superblock as it was found; `None` for a new slice.
    pub fn superblock(&self) -> Option<&Superblock> {
        self.found.as_ref().map(|found| &found.superblock)
    }

    /// Its notes of its mirrors; `None` for a new slice.
    pub fn notes(&self) -> Option<&Notes> {
        self.found.as_ref().map(|found| &found.notes)
    }

    /// Takes the slice: makes a new one of an empty device, or begins the next incarnation of an
    /// existing one, durably. `fresh` becomes the UUID of a new one.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn take(self, fresh: Uuid) -> Result<Slice, OpenError> {
        let Self { candidate, found, cluster, node, .. } = self;
        let device = Arc::new(candidate.take(fresh)?);
        begin(device, found, (cluster, node))
    }

    /// The slice as a device that is locked, and to which nothing is written before
    /// [`HeldSlice::begin`]. `fresh` becomes the UUID of a new one.
    pub fn hold(self, fresh: Uuid) -> HeldSlice {
        let Self { candidate, found, uuid, cluster, node } = self;
        let (device, labelling) = candidate.hold(fresh);
        HeldSlice { device: Arc::new(device), labelling, found, uuid, cluster, node }
    }
}

/// A slice that is locked, and whose blocks must not be used yet: nothing has been written to it.
#[derive(Debug)]
pub struct HeldSlice {
    device: Arc<Device>,
    labelling: Option<Labelling>,
    found: Option<Found>,
    uuid: Option<Uuid>,
    cluster: Uuid,
    node: Uuid,
}

impl HeldSlice {
    /// Its device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its identity in its label; `None` for a device that is not a slice yet.
    pub fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// The superblock as it was found; `None` for a new slice.
    pub fn superblock(&self) -> Option<&Superblock> {
        self.found.as_ref().map(|found| &found.superblock)
    }

    /// Its notes of its mirrors; `None` for a new slice.
    pub fn notes(&self) -> Option<&Notes> {
        self.found.as_ref().map(|found| &found.notes)
    }

    /// Makes a new slice of an empty device, or begins the next incarnation of an existing one, durably.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn begin(self) -> Result<Slice, OpenError> {
        let Self { device, labelling, found, cluster, node, .. } = self;
        let written = labelling.map_or(Ok(()), |labelling| labelling.write(&device));
        written.map_err(not_written(&device))?;
        begin(device, found, (cluster, node))
    }
}

/// Begins the next incarnation, or the first.
fn begin(
    device: Arc<Device>,
    found: Option<Found>,
    (cluster, node): (Uuid, Uuid),
) -> Result<Slice, OpenError> {
    let boot = boot_of(&device);
    let (superblock, notes) = match found {
        Some(Found { superblock, notes }) => (superblock.opened(boot), notes),
        None => {
            erase_metadata(&device).map_err(not_written(&device))?;
            let slice = device.uuid();
            let (generation, incarnation, confirmed, power_incarnation) = (1, 1, 0, 1);
            let of = (generation, incarnation, confirmed, power_incarnation);
            (first_superblock(of, (cluster, slice, node), boot), Notes::new(slice))
        }
    };
    write_superblock(&device, &superblock).map_err(not_written(&device))?;
    let notes = Arc::new(SliceNotes::new(Arc::clone(&device), notes));
    Ok(Slice { device, superblock: Mutex::new(superblock), notes })
}

fn not_written(device: &Device) -> impl Fn(io::Error) -> OpenError {
    let name = device.name().clone();
    move |source| OpenError::Io {
        name: name.clone(),
        action: "write the metadata of",
        path: name.as_str().into(),
        source,
    }
}

fn first_superblock(
    (generation, incarnation, confirmed, power_incarnation): (u64, u64, u64, u64),
    (cluster, slice, node): (Uuid, Uuid, Uuid),
    boot: Uuid,
) -> Superblock {
    Superblock { generation, cluster, slice, node, incarnation, confirmed, power_incarnation, boot }
}

impl Slice {
    /// Its identity.
    pub fn uuid(&self) -> Uuid {
        self.device.uuid()
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its length, label and metadata included.
    pub fn len(&self) -> ByteLen {
        self.device.properties().len
    }

    /// Whether it has no room for metadata and data.
    pub fn is_empty(&self) -> bool {
        self.len().0 <= DATA_START.0
    }

    /// How often it was opened for data, this time included.
    pub fn incarnation(&self) -> u64 {
        self.superblock().incarnation
    }

    /// The first incarnation since its device may have lost what was not flushed.
    pub fn power_incarnation(&self) -> u64 {
        self.superblock().power_incarnation
    }

    /// Its notes of its mirrors.
    pub fn notes(&self) -> &Arc<SliceNotes> {
        &self.notes
    }

    /// Notes durably that the cluster's store has the incarnation.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn confirm(&self) -> io::Result<()> {
        let mut superblock = self.superblock();
        let confirmed = superblock.confirmed();
        write_superblock(&self.device, &confirmed)?;
        *superblock = confirmed;
        Ok(())
    }

    fn superblock(&self) -> MutexGuard<'_, Superblock> {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Zeroes the metadata of a new slice, so that nothing of an earlier use is taken for its own.
fn erase_metadata(device: &Device) -> io::Result<()> {
    let len = ByteLen((DATA_START.0).min(device.properties().len.0) - METADATA_START.0);
    device.zero(METADATA_START, len, Storage::Kept, &mut |_| true).map(drop)
}

/// Writes the copy of the superblock's generation. A device in memory has none.
fn write_superblock(device: &Device, superblock: &Superblock) -> io::Result<()> {
    if let Kind::Uring(uring) = &device.kind {
        write_at(&uring.fd, superblock.offset(), &superblock.encode())?;
        fdatasync(&uring.fd)?;
    }
    Ok(())
}

/// A number that stays the same as long as the cache of the device cannot have been lost: that of the
/// machine's start, and for a block device also of its attachment. A device without a volatile cache keeps what
/// it has answered.
fn boot_of(device: &Device) -> Uuid {
    if !device.properties().volatile_cache {
        return Uuid::nil();
    }
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let machine = machine.ok().and_then(|text| text.trim().parse::<Uuid>().ok());
    let attachment = match &device.kind {
        Kind::Uring(uring) if uring.is_block => fstat(&uring.fd).ok().and_then(|stat| {
            let (major, minor) = (major(stat.st_rdev), minor(stat.st_rdev));
            let path = format!("/sys/dev/block/{major}:{minor}/diskseq");
            std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        }),
        _ => Some(0),
    };
    // Without both numbers, each start counts as a loss of power.
    let both = machine.zip(attachment);
    both.map_or_else(Uuid::new_v4, |(machine, attachment)| {
        Uuid::from_u128(machine.as_u128() ^ u128::from(attachment))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open;
    use nearflash_device::MirrorKey;
    use nearflash_space::slice::MirrorNote;
    use std::fs::{read, write};
    use std::os::unix::fs::FileExt as _;
    use tempfile::TempDir;

    const NODE: Uuid = Uuid::from_u128(7);
    const CLUSTER: Uuid = Uuid::from_u128(8);
    const FRESH: Uuid = Uuid::from_u128(9);
    const CLAIM: Claim<'static> = Claim { node: NODE, known: &[], cluster: None };

    /// The length of the fields of a superblock.
    const FIELDS_LEN: usize = 112;

    /// A folder with a file of 64 MiB.
    struct Bench(TempDir);

    impl Bench {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        fn path(&self) -> std::path::PathBuf {
            self.0.path().join("slice.img")
        }

        fn spec(&self, flags: &str) -> DeviceSpec {
            format!("flash=file:{}{flags}", self.path().display()).parse().unwrap()
        }

        fn take(&self) -> Slice {
            let candidate = open_slice(&self.spec(",size=64MiB"), CLAIM, CLUSTER, None).unwrap();
            candidate.take(FRESH).unwrap()
        }

        fn refused(&self, claim: Claim<'_>, cluster: Uuid) -> String {
            open_slice(&self.spec(""), claim, cluster, None).unwrap_err().to_string()
        }
    }

    #[test]
    fn each_opening_is_a_new_incarnation_and_a_confirmation_lasts() {
        let bench = Bench::new();
        let slice = bench.take();
        assert_eq!((slice.uuid(), slice.incarnation()), (FRESH, 1));
        slice.confirm().unwrap();
        drop(slice);
        for incarnation in 2..5 {
            let candidate = open_slice(&bench.spec(""), CLAIM, CLUSTER, None).unwrap();
            let found = *candidate.superblock().unwrap();
            assert_eq!((found.incarnation, found.confirmed), (incarnation - 1, 1));
            assert_eq!(found.power_incarnation, 1, "the machine runs on");
            assert_eq!(candidate.take(Uuid::nil()).unwrap().incarnation(), incarnation);
        }
    }

    #[test]
    fn a_slice_that_is_held_is_locked_and_unchanged_until_it_begins() {
        let bench = Bench::new();
        drop(bench.take());
        let before = read(bench.path()).unwrap();
        let held = open_slice(&bench.spec(""), CLAIM, CLUSTER, None).unwrap().hold(Uuid::nil());
        assert_eq!((held.uuid(), held.device().uuid()), (Some(FRESH), FRESH));
        assert!(read(bench.path()).unwrap() == before);
        let second = bench.refused(CLAIM, CLUSTER);
        assert!(second.contains("in use"), "{second}");
        let (device, slice) = (Arc::clone(held.device()), held.begin().unwrap());
        assert!(Arc::ptr_eq(&device, slice.device()));
        assert_eq!(slice.incarnation(), 2);
    }

    #[test]
    fn a_device_that_is_held_becomes_a_slice_when_it_begins() {
        let bench = Bench::new();
        let open = || open_slice(&bench.spec(",size=64MiB"), CLAIM, CLUSTER, None).unwrap();
        let held = open().hold(FRESH);
        assert_eq!(held.uuid(), None);
        assert!(read(bench.path()).unwrap().iter().all(|byte| *byte == 0));
        let taken = held.device().properties();
        drop(held.begin().unwrap());
        let candidate = open();
        assert_eq!(candidate.uuid(), Some(FRESH));
        let found = *candidate.superblock().unwrap();
        assert_eq!((found.incarnation, found.confirmed), (1, 0));
        // The trial behind the end of the file finds the same as that in the label's area.
        assert_eq!(candidate.take(Uuid::nil()).unwrap().device().properties(), taken);
    }

    #[test]
    fn a_slice_is_refused_by_others_and_not_written() {
        let bench = Bench::new();
        drop(bench.take());
        let before = read(bench.path()).unwrap();
        let other = bench.refused(CLAIM, Uuid::from_u128(1));
        assert!(other.contains("belongs to another cluster"), "{other}");
        let node = bench.refused(Claim { node: Uuid::from_u128(1), ..CLAIM }, CLUSTER);
        assert!(node.contains("belongs to another nearflash installation"), "{node}");
        let device = open(&bench.spec(""), CLAIM).unwrap_err().to_string();
        assert!(device.contains("is a slice of cluster"), "{device}");
        assert!(read(bench.path()).unwrap() == before);
    }

    #[test]
    fn a_device_of_the_node_is_no_slice() {
        let bench = Bench::new();
        drop(open(&bench.spec(",size=64MiB"), CLAIM).unwrap().take(FRESH).unwrap());
        let refused = bench.refused(CLAIM, CLUSTER);
        assert!(refused.contains("write --device instead of --slice"), "{refused}");
    }

    /// A write of the superblock that stops after any number of bytes leaves the one before it.
    #[test]
    fn a_torn_superblock_leaves_the_incarnation_before_it() {
        let bench = Bench::new();
        drop(bench.take());
        let before = read(bench.path()).unwrap();
        drop(open_slice(&bench.spec(""), CLAIM, CLUSTER, None).unwrap().take(FRESH).unwrap());
        let after = read(bench.path()).unwrap();
        let [first, second] = SUPERBLOCK_OFFSETS.map(|offset| ByteLen(offset.0).to_usize());
        let changed = if before[first..second] == after[first..second] { second } else { first };
        let file = std::fs::OpenOptions::new().write(true).open(bench.path()).unwrap();
        for torn in (0..=SUPERBLOCK_LEN).step_by(8) {
            let mut block = before[changed..changed + SUPERBLOCK_LEN].to_vec();
            block[..torn].copy_from_slice(&after[changed..changed + torn]);
            file.write_all_at(&block, ByteLen::from_usize(changed).0).unwrap();
            let found = open_slice(&bench.spec(""), CLAIM, CLUSTER, None).unwrap();
            let incarnation = found.superblock().unwrap().incarnation;
            // The bytes behind the fields are zeroes in both.
            assert_eq!(incarnation, if torn < FIELDS_LEN { 1 } else { 2 }, "{torn} bytes");
        }
    }

    #[test]
    fn a_damaged_superblock_is_refused_by_name() {
        let bench = Bench::new();
        drop(bench.take());
        let mut bytes = read(bench.path()).unwrap();
        for offset in SUPERBLOCK_OFFSETS {
            bytes[ByteLen(offset.0).to_usize() + 20] ^= 1;
        }
        write(bench.path(), &bytes).unwrap();
        let refused = bench.refused(CLAIM, CLUSTER);
        assert!(refused.contains("slice 'flash': superblock checksum is"), "{refused}");
    }

    #[test]
    fn what_a_slice_knows_of_its_mirrors_lasts() {
        let bench = Bench::new();
        let slice = bench.take();
        let mirror = |number| MirrorKey { volume: Uuid::from_u128(5), number };
        let note = |term| MirrorNote { ordinal: 1, term, tokens: [Some(6), None] };
        for number in 0..200 {
            slice.notes().set(mirror(number), note(1), |_| true).unwrap();
        }
        slice.notes().write().unwrap();
        slice.notes().set(mirror(150), note(2), |_| true).unwrap();
        slice.notes().write().unwrap();
        slice.notes().set(mirror(150), note(3), |_| true).unwrap();
        drop(slice);
        let candidate = open_slice(&bench.spec(""), CLAIM, CLUSTER, None).unwrap();
        let found = candidate.notes().unwrap();
        assert_eq!(found.get(&mirror(150)), Some(note(2)));
        assert_eq!((found.get(&mirror(199)), found.get(&mirror(200))), (Some(note(1)), None));
        let slice = candidate.take(Uuid::nil()).unwrap();
        assert_eq!(slice.notes().get(&mirror(150)), Some(note(2)));
    }
}
