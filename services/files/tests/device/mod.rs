//! A volume in memory that records its writes, so that a loss of power at any of them can be
//! replayed, and that can fail from one of them on.
#![allow(dead_code)] // each test uses a part

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use nearflash::direct::{self, Bearer, Seal, SealTerms};
use nearflash_direct::wire::SealKey;
use nearflash_files_service::{
    CheckReport, Disk, DiskProperties, FileCalls, FileSystem, Files, FilesError, Kind, Path, Paths,
    Run, SealedRuns, Seals,
};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

const PAGE_LEN: usize = 4096;
const SECTOR_LEN: usize = 512;
/// The number of ways in which the power is lost at each moment.
const IMAGES_PER_MOMENT: usize = 3;

/// Random numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// The bytes of a volume; pages that were never written are zero.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Image(BTreeMap<usize, Arc<[u8; PAGE_LEN]>>);

impl Image {
    pub(crate) fn write(&mut self, bytes: &[u8], offset: usize) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = ((offset + done) / PAGE_LEN, (offset + done) % PAGE_LEN);
            let len = (PAGE_LEN - within).min(bytes.len() - done);
            let part = &bytes[done..done + len];
            let page = self.0.entry(page).or_insert_with(|| Arc::new([0; PAGE_LEN]));
            Arc::make_mut(page)[within..within + len].copy_from_slice(part);
            done += len;
        }
    }

    pub(crate) fn read(&self, bytes: &mut [u8], offset: usize) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = ((offset + done) / PAGE_LEN, (offset + done) % PAGE_LEN);
            let len = (PAGE_LEN - within).min(bytes.len() - done);
            match self.0.get(&page) {
                Some(page) => bytes[done..done + len].copy_from_slice(&page[within..within + len]),
                None => bytes[done..done + len].fill(0),
            }
            done += len;
        }
    }

    pub(crate) fn apply(&mut self, operation: &Operation) {
        if let Operation::Write { bytes, offset } = operation {
            self.write(bytes, *offset);
        }
    }

    /// Applies what remains of an operation.
    fn apply_fate(&mut self, operation: &Operation, fate: Fate, dice: &mut Dice) {
        match (operation, fate) {
            (Operation::Write { .. }, Fate::Kept) => self.apply(operation),
            (Operation::Write { bytes, offset }, Fate::Torn) => {
                for (at, sector) in bytes.chunks(SECTOR_LEN).enumerate() {
                    if dice.below(2) == 0 {
                        self.write(sector, offset + at * SECTOR_LEN);
                    }
                }
            }
            (Operation::Write { .. }, Fate::Dropped) | (Operation::Flush, _) => {}
        }
    }
}

/// The part of a write without a flush that remains after a loss of power.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kept,
    Dropped,
    Torn,
}

/// The fates of all writes without a flush. A commit is whole only if many writes are kept, so that
/// independent draws alone would hardly ever lose one other write.
fn fates(count: usize, dice: &mut Dice) -> Vec<Fate> {
    let any = [Fate::Kept, Fate::Dropped, Fate::Torn];
    let drawn: Vec<Fate> = (0..count).map(|_| any[index_below(3, dice)]).collect();
    let one = index_below(count.max(1), dice);
    let lost = [Fate::Dropped, Fate::Torn][index_below(2, dice)];
    let only_one_is_lost = (0..count).map(|at| if at == one { lost } else { Fate::Kept });
    match dice.below(4) {
        0 => drawn,
        1 => (0..count).map(|at| if at < one { Fate::Kept } else { Fate::Dropped }).collect(),
        _ => only_one_is_lost.collect(),
    }
}

fn index_below(end: usize, dice: &mut Dice) -> usize {
    usize::try_from(dice.below(u64::try_from(end).unwrap())).unwrap()
}

/// An operation that changes the volume or makes changes durable.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Write { bytes: Vec<u8>, offset: usize },
    Flush,
}

/// A volume in memory. Clones are the same volume.
#[derive(Clone, Debug)]
pub(crate) struct Device(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    properties: DiskProperties,
    image: Image,
    operations: Vec<Operation>,
    /// The number of operations that succeed.
    operations_max: usize,
    /// The seals that were given and are not void.
    seals: Vec<SealedRuns>,
    /// The objects that were revoked, each with the number of operations before.
    revoked: Vec<(u64, usize)>,
    /// The number of times that the volume was given back.
    releases: usize,
    /// The bytes as of the last flush.
    durable: Image,
    losses: u64,
    /// The operation at which the power is lost once.
    lost_at: Option<usize>,
}

impl Device {
    pub(crate) fn new(len: ByteLen) -> Self {
        Self::holding(Image::default(), len)
    }

    pub(crate) fn holding(image: Image, len: ByteLen) -> Self {
        let uuid = Uuid::from_u128(7);
        let properties = DiskProperties { name: "data".to_owned(), uuid, len, is_writable: true };
        let (operations, operations_max) = (Vec::new(), usize::MAX);
        let (releases, durable, losses) = (0, image.clone(), 0);
        Self(Arc::new(Mutex::new(State {
            properties,
            image,
            operations,
            operations_max,
            seals: Vec::new(),
            revoked: Vec::new(),
            releases,
            durable,
            losses,
            lost_at: None,
        })))
    }

    /// The volume as an owner or a reader takes it.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    pub(crate) fn image(&self) -> Image {
        self.0.lock().unwrap().image.clone()
    }

    /// The seals that are not void.
    pub(crate) fn seals(&self) -> Vec<SealedRuns> {
        self.0.lock().unwrap().seals.clone()
    }

    /// The objects that were revoked so far, each with the number of operations before.
    pub(crate) fn revoked(&self) -> Vec<(u64, usize)> {
        self.0.lock().unwrap().revoked.clone()
    }

    /// The operations so far.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.0.lock().unwrap().operations.clone()
    }

    pub(crate) fn operation_count(&self) -> usize {
        self.0.lock().unwrap().operations.len()
    }

    /// Lets every operation fail after this number of them.
    pub(crate) fn fail_after(&self, operations_max: usize) {
        self.0.lock().unwrap().operations_max = operations_max;
    }

    /// Loses the connection, and with it all writes since the last flush if the machine of the node
    /// loses its power, too.
    pub(crate) fn lose(&self, is_power_lost: bool) {
        let mut state = self.0.lock().unwrap();
        state.losses += 1;
        if is_power_lost {
            state.image = state.durable.clone();
        }
    }

    /// Loses the connection and the power at this operation, which fails.
    pub(crate) fn lose_at(&self, operation: usize) {
        self.0.lock().unwrap().lost_at = Some(operation);
    }

    /// The number of times that the volume was given back.
    pub(crate) fn releases(&self) -> usize {
        self.0.lock().unwrap().releases
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut DiskProperties)) {
        change(&mut self.0.lock().unwrap().properties);
    }

    pub(crate) fn poke(&self, bytes: &[u8], offset: usize) {
        self.0.lock().unwrap().image.write(bytes, offset);
    }

    fn operate(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.operations.len() >= state.operations_max {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if state.lost_at.is_some_and(|at| state.operations.len() >= at) {
            state.lost_at = None;
            state.losses += 1;
            state.image = state.durable.clone();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        state.image.apply(&operation);
        if matches!(operation, Operation::Flush) {
            state.durable = state.image.clone();
        }
        state.operations.push(operation);
        Ok(())
    }
}

fn index(offset: ByteOffset) -> usize {
    usize::try_from(offset.0).unwrap()
}

impl Disk for Device {
    fn properties(&self) -> DiskProperties {
        self.0.lock().unwrap().properties.clone()
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        assert!(offset.0 + ByteLen::of(bytes).0 <= state.properties.len.0, "within the volume");
        state.image.read(bytes, index(offset));
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()> {
        assert!(offset.0 + ByteLen::of(bytes).0 <= self.properties().len.0, "within the volume");
        self.operate(Operation::Write { bytes: bytes.to_vec(), offset: index(offset) })
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        self.write_at(&vec![0; len.to_usize()], offset)
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        self.write_zeroes(offset, len)
    }

    fn flush(&self) -> io::Result<()> {
        self.operate(Operation::Flush)
    }

    fn seals(&self) -> Option<&dyn Seals> {
        Some(self)
    }

    fn losses(&self) -> u64 {
        self.0.lock().unwrap().losses
    }

    fn release(&self) -> io::Result<()> {
        self.0.lock().unwrap().releases += 1;
        Ok(())
    }
}

impl Seals for Device {
    fn begin(&self) -> io::Result<()> {
        self.0.lock().unwrap().seals.clear();
        Ok(())
    }

    fn mint(&self, sealed: &SealedRuns) -> io::Result<Seal> {
        let mut state = self.0.lock().unwrap();
        state.seals.push(sealed.clone());
        let uuid = state.properties.uuid.into_bytes();
        let run = |run: &Run| direct::Run { start: run.offset().0, len: run.len().0 };
        let terms = SealTerms {
            object: sealed.object,
            uuid,
            version: sealed.version,
            rights: sealed.rights,
            good_until: 60,
            runs: sealed.runs.iter().map(run).collect(),
        };
        Ok(SealKey::derive(None, 1, uuid, [0; 16]).mint(terms).expect("the terms are valid"))
    }

    fn bearer(&self) -> io::Result<Bearer> {
        let uuid = self.0.lock().unwrap().properties.uuid.into_bytes();
        Ok(SealKey::derive(None, 1, uuid, [0; 16]).bearer(60))
    }

    fn revoke(&self, object: u64, version: u32) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.operations.len() >= state.operations_max {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        state.seals.retain(|seal| seal.object != object || seal.version >= version);
        let moment = state.operations.len();
        state.revoked.push((object, moment));
        Ok(())
    }
}

/// The volume after a loss of power at each of the moments, in order: durable writes are whole, and
/// of the others, each is whole, gone or torn.
pub(crate) fn replay(
    operations: &[Operation],
    dice: &mut Dice,
    each: impl FnMut(usize, Image, &mut Dice),
) {
    replay_at(operations, dice, |_, _| true, each);
}

/// [`replay`] at the moments that `is_chosen` chooses.
pub(crate) fn replay_at(
    operations: &[Operation],
    dice: &mut Dice,
    is_chosen: impl Fn(usize, &mut Dice) -> bool,
    mut each: impl FnMut(usize, Image, &mut Dice),
) {
    let mut durable = Image::default();
    let mut pending: Vec<&Operation> = Vec::new();
    for moment in 0..=operations.len() {
        let images = if is_chosen(moment, dice) { IMAGES_PER_MOMENT } else { 0 };
        for _ in 0..images {
            let mut image = durable.clone();
            let fates = fates(pending.len(), dice);
            for (operation, fate) in pending.iter().zip(fates) {
                image.apply_fate(operation, fate, dice);
            }
            each(moment, image, dice);
        }
        match operations.get(moment) {
            Some(Operation::Flush) => pending.drain(..).for_each(|it| durable.apply(it)),
            Some(operation) => pending.push(operation),
            None => {}
        }
    }
}

/// The source of a file whose every 16 bytes are its stamp and their offset.
pub(crate) struct Stamped {
    pub(crate) stamp: u64,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Stamped {
    pub(crate) fn new(stamp: u64, len: u64) -> Self {
        Self { stamp, at: 0, len }
    }

    /// The unit of 16 bytes that holds this offset.
    fn unit(stamp: u64, offset: u64) -> [u8; 16] {
        let mut unit = [0; 16];
        unit[..8].copy_from_slice(&stamp.to_le_bytes());
        unit[8..].copy_from_slice(&(offset / 16).to_le_bytes());
        unit
    }
}

impl Read for Stamped {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.len - self.at).unwrap().min(out.len());
        let mut rest = &mut out[..len];
        while !rest.is_empty() {
            let unit = Self::unit(self.stamp, self.at);
            let within = usize::try_from(self.at % 16).unwrap();
            let part = rest.len().min(16 - within);
            rest[..part].copy_from_slice(&unit[within..within + part]);
            rest = &mut rest[part..];
            self.at += u64::try_from(part).unwrap();
        }
        Ok(len)
    }
}

/// All paths of a volume: the stamp and the length of each file, `None` for a directory. Panics if
/// a byte is not the one that belongs to its file and its offset.
pub(crate) type Tree = BTreeMap<String, Option<(u64, u64)>>;

pub(crate) fn tree<F: FileCalls>(files: &Arc<Paths<F>>) -> Tree {
    let mut all = Tree::new();
    walk(files, &Path::default(), &mut all);
    all
}

fn walk<F: FileCalls>(files: &Arc<Paths<F>>, directory: &Path, all: &mut Tree) {
    for (entry, _) in files.list(directory, None, usize::MAX).unwrap() {
        let path = directory.join(&entry.name);
        match entry.kind {
            Kind::Directory => {
                all.insert(path.to_string(), None);
                walk(files, &path, all);
            }
            _ => {
                let found = stamp(files, &path).unwrap();
                all.insert(path.to_string(), Some(found));
            }
        }
    }
}

/// The stamp and the length of a file, all of whose bytes are compared.
fn stamp<F: FileCalls>(files: &Arc<Paths<F>>, path: &Path) -> Result<(u64, u64), FilesError> {
    let mut bytes = Vec::new();
    files.get(path, &mut bytes, &mut |_| {})?;
    let len = u64::try_from(bytes.len()).unwrap();
    let Some(first) = bytes.first_chunk() else { return Ok((0, len)) };
    let stamp = u64::from_le_bytes(*first);
    let mut expected = Vec::new();
    Stamped::new(stamp, len).read_to_end(&mut expected).unwrap();
    assert!(bytes == expected, "{path} has bytes of another file, or at another offset");
    Ok((stamp, len))
}

pub(crate) fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

/// A process that changes the files of a volume by paths.
pub(crate) type Owner = Arc<Paths<FileSystem>>;

pub(crate) fn own(disk: Arc<dyn Disk>) -> Result<Owner, FilesError> {
    Ok(Arc::new(Paths::new(FileSystem::open(disk)?)))
}

/// A process that reads the files of a volume by paths.
pub(crate) fn reading(disk: Arc<dyn Disk>) -> Result<Arc<Paths<Files>>, FilesError> {
    Ok(Arc::new(Paths::new(Files::open(disk)?)))
}

/// The length of the space that files can still use.
pub(crate) fn free_len(owner: &Owner) -> ByteLen {
    owner.files().usage().unwrap().free
}

/// Checks all metadata. No file is open.
pub(crate) fn check(owner: &mut Owner) -> Result<CheckReport, FilesError> {
    Arc::get_mut(owner).unwrap().files_mut().check()
}
