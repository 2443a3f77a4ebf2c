//! A slice's notes of the mirrors whose replicas are on it.
//!
//! [`NOTES_START`] is the start of [`NOTE_PAGES`] pages of 4 KiB, with two slots for each page. They are
//! written in turn, so a torn write leaves the page before it whole. A page has a header and
//! [`NOTES_PER_PAGE`] notes of 48 bytes. All numbers are little-endian.
//!
//! Of a valid page, both slots have the number of the page and the slice; that with the higher generation
//! counts. A page whose slots are both empty, or of which only a torn first write is there, has no notes.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_device::MirrorKey;
use nearflash_units::{ByteLen, ByteOffset, KIB, index};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::METADATA_START;

/// The length of a page. A multiple of every logical block size up to this.
pub const NOTE_PAGE_LEN: usize = 4096;

/// The number of pages.
pub const NOTE_PAGES: usize = 96;

/// The notes of a page.
pub const NOTES_PER_PAGE: usize = 84;

/// The start of the pages.
pub const NOTES_START: ByteOffset = ByteOffset(METADATA_START.0 + 64 * KIB);

/// The length of all pages, in both slots.
pub const NOTES_LEN: usize = 2 * NOTE_PAGES * NOTE_PAGE_LEN;

const MAGIC: [u8; 8] = *b"nrnotes\x1a";

/// Larger generations are damage, as of a superblock.
const GENERATION_MAX: u64 = 1 << 62;

/// A slice's note of a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MirrorNote {
    /// The ordinal of the replica that is on the slice.
    pub ordinal: u32,
    /// The highest term that the replica knew.
    pub term: u32,
    /// The contents that it has: those of the last addition to the membership, and those of an addition
    /// that may have taken effect.
    pub tokens: [Option<u64>; 2],
}

/// The notes of a slice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notes {
    slice: Uuid,
    pages: Vec<Page>,
    places: BTreeMap<MirrorKey, (usize, usize)>,
    /// The pages that the device does not have yet.
    changed: BTreeSet<usize>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Page {
    /// That of the device's page.
    generation: u64,
    /// By place.
    notes: BTreeMap<usize, (MirrorKey, MirrorNote)>,
}

/// A page for the device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotePage {
    /// Its place.
    pub offset: ByteOffset,
    /// Its bytes.
    pub bytes: Box<[u8; NOTE_PAGE_LEN]>,
}

/// Error: a page of notes cannot be used, and neither can the slice.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "page {0} of what it knows of its mirrors is damaged: restore the first 17 MiB of the device from a \
     backup of its present state, or replace the slice"
)]
pub struct NotesError(pub usize);

/// Error: a slice has notes of as many mirrors as it can.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the slice has {} mirrors, the maximum", NOTE_PAGES * NOTES_PER_PAGE)]
pub struct NotesFull;

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDisk {
    magic: [u8; 8],
    number: U32,
    /// CRC-32C of the page, this field as zero.
    checksum: U32,
    generation: U64,
    slice: [u8; 16],
    reserved: [u8; 24],
    notes: [NoteOnDisk; NOTES_PER_PAGE],
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct NoteOnDisk {
    /// Nil if there is no note.
    volume: [u8; 16],
    number: U32,
    term: U32,
    ordinal: U32,
    token_count: u8,
    reserved: [u8; 3],
    tokens: [U64; 2],
}

const _: () = assert!(size_of::<OnDisk>() == NOTE_PAGE_LEN);
const _: () = assert!(NOTES_LEN == 786_432 && NOTES_START.0 + 786_432 < super::DATA_START.0);

enum Slot {
    Empty,
    Damaged,
    Page(Page),
}

impl Notes {
    /// Those of a new slice.
    pub fn new(slice: Uuid) -> Self {
        let pages = vec![Page::default(); NOTE_PAGES];
        Self { slice, pages, places: BTreeMap::new(), changed: BTreeSet::new() }
    }

    /// The notes in the [`NOTES_LEN`] bytes from [`NOTES_START`] on.
    ///
    /// # Errors
    /// When neither slot of a page is valid.
    pub fn decode(slice: Uuid, area: &[u8]) -> Result<Self, NotesError> {
        let mut notes = Self::new(slice);
        let slots: Vec<&[u8; NOTE_PAGE_LEN]> = area.as_chunks::<NOTE_PAGE_LEN>().0.iter().collect();
        for (number, slots) in slots.chunks_exact(2).take(NOTE_PAGES).enumerate() {
            let both = [0, 1].map(|slot| Page::decode(slots[slot], slice, number));
            notes.pages[number] =
                match both {
                    [Slot::Page(first), Slot::Page(second)] => {
                        if second.generation > first.generation { second } else { first }
                    }
                    [Slot::Page(page), _] | [_, Slot::Page(page)] => page,
                    [Slot::Damaged, Slot::Damaged] => return Err(NotesError(number)),
                    [Slot::Empty | Slot::Damaged, _] => Page::default(),
                };
        }
        for (number, page) in notes.pages.iter().enumerate() {
            let places = page.notes.iter().map(|(place, (mirror, _))| (*mirror, (number, *place)));
            notes.places.extend(places);
        }
        Ok(notes)
    }

    /// The note of a mirror.
    pub fn get(&self, mirror: &MirrorKey) -> Option<MirrorNote> {
        let (page, place) = self.places.get(mirror)?;
        self.pages[*page].notes.get(place).map(|(_, note)| *note)
    }

    /// Changes the note of a mirror. If there is no room for another one, the note of a mirror is replaced
    /// that is not current any more.
    ///
    /// # Errors
    /// When there are notes of as many current mirrors as possible.
    pub fn set(
        &mut self,
        mirror: MirrorKey,
        note: MirrorNote,
        is_current: impl Fn(&MirrorKey) -> bool,
    ) -> Result<(), NotesFull> {
        let known = self.places.get(&mirror).copied();
        let (page, place) = match known.or_else(|| self.free_place()) {
            Some(place) => place,
            None => {
                let gone = self.places.keys().find(|it| !is_current(it)).copied();
                let gone = gone.ok_or(NotesFull)?;
                let (page, place) = self.places.remove(&gone).ok_or(NotesFull)?;
                (page, place)
            }
        };
        self.places.insert(mirror, (page, place));
        self.pages[page].notes.insert(place, (mirror, note));
        self.changed.insert(page);
        Ok(())
    }

    fn free_place(&self) -> Option<(usize, usize)> {
        let free = |(number, page): (usize, &Page)| {
            let place = (0..NOTES_PER_PAGE).find(|place| !page.notes.contains_key(place))?;
            Some((number, place))
        };
        self.pages.iter().enumerate().find_map(free)
    }

    /// The pages that the device does not have yet. When it has them all durably, call
    /// [`Self::note_written`].
    pub fn changed(&self) -> Vec<NotePage> {
        let page = |number: &usize| self.pages[*number].encode(self.slice, *number);
        self.changed.iter().map(page).collect()
    }

    /// The device has all pages.
    pub fn note_written(&mut self) {
        for number in std::mem::take(&mut self.changed) {
            self.pages[number].generation += 1;
        }
    }
}

impl Page {
    /// The page as its next generation.
    fn encode(&self, slice: Uuid, number: usize) -> NotePage {
        let mut raw = OnDisk::new_zeroed();
        raw.magic = MAGIC;
        raw.number = U32::new(u32::try_from(number).expect("pages are few"));
        raw.generation = U64::new(self.generation + 1);
        raw.slice = slice.into_bytes();
        for (place, (mirror, note)) in &self.notes {
            raw.notes[*place] = NoteOnDisk::of(mirror, note);
        }
        raw.checksum = U32::new(crc32c::crc32c(raw.as_bytes()));
        let slot = (self.generation + 1) % 2;
        let slots = ByteLen::from_usize(2 * number * NOTE_PAGE_LEN).0;
        let offset = ByteOffset(NOTES_START.0 + slots + slot * 4096);
        NotePage { offset, bytes: Box::new(zerocopy::transmute!(raw)) }
    }

    fn decode(bytes: &[u8; NOTE_PAGE_LEN], slice: Uuid, number: usize) -> Slot {
        let mut raw: OnDisk = zerocopy::transmute!(*bytes);
        if raw.magic != MAGIC {
            return Slot::Empty;
        }
        let checksum = std::mem::replace(&mut raw.checksum, U32::ZERO).get();
        let is_its = raw.slice == slice.into_bytes() && index(raw.number.get()) == number;
        let generation = raw.generation.get();
        if checksum != crc32c::crc32c(raw.as_bytes()) || !is_its || generation > GENERATION_MAX {
            return Slot::Damaged;
        }
        let notes = raw.notes.iter().enumerate();
        let notes = notes.filter_map(|(place, note)| Some((place, note.note()?))).collect();
        Slot::Page(Self { generation, notes })
    }
}

impl NoteOnDisk {
    fn of(mirror: &MirrorKey, note: &MirrorNote) -> Self {
        let tokens: Vec<u64> = note.tokens.into_iter().flatten().collect();
        let token = |place: usize| U64::new(tokens.get(place).copied().unwrap_or(0));
        Self {
            volume: mirror.volume.into_bytes(),
            number: U32::new(mirror.number),
            term: U32::new(note.term),
            ordinal: U32::new(note.ordinal),
            token_count: u8::try_from(tokens.len()).expect("there are two at most"),
            reserved: [0; 3],
            tokens: [token(0), token(1)],
        }
    }

    fn note(&self) -> Option<(MirrorKey, MirrorNote)> {
        let volume = Uuid::from_bytes(self.volume);
        let mirror = MirrorKey { volume, number: self.number.get() };
        let token =
            |place: u8| (place < self.token_count).then(|| self.tokens[usize::from(place)].get());
        let tokens = [token(0), token(1)];
        let note = MirrorNote { ordinal: self.ordinal.get(), term: self.term.get(), tokens };
        (!volume.is_nil()).then_some((mirror, note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE: Uuid = Uuid::from_u128(7);

    fn mirror(number: u32) -> MirrorKey {
        MirrorKey { volume: Uuid::from_u128(9), number }
    }

    fn note(term: u32) -> MirrorNote {
        MirrorNote { ordinal: 1, term, tokens: [Some(u64::from(term)), None] }
    }

    /// A device.
    struct Area(Vec<u8>);

    impl Area {
        fn new() -> Self {
            Self(vec![0; NOTES_LEN])
        }

        /// Writes the first bytes of each page.
        fn write(&mut self, notes: &Notes, len: usize) {
            for NotePage { offset, bytes } in notes.changed() {
                let at = ByteLen(offset.0 - NOTES_START.0).to_usize();
                self.0[at..at + len].copy_from_slice(&bytes[..len]);
            }
        }

        fn read(&self) -> Result<Notes, NotesError> {
            Notes::decode(SLICE, &self.0)
        }
    }

    fn set(notes: &mut Notes, number: u32, term: u32) {
        notes.set(mirror(number), note(term), |_| true).unwrap();
    }

    #[test]
    fn a_note_stands_on_the_device_byte_for_byte_as_it_always_did() {
        let mut notes = Notes::new(SLICE);
        let note = MirrorNote { ordinal: 3, term: 4, tokens: [Some(5), Some(6)] };
        notes.set(mirror(2), note, |_| true).unwrap();
        let pages = notes.changed();
        let NotePage { offset, bytes } = &pages[0];
        assert_eq!((pages.len(), offset.0), (1, (1 << 20) + (64 << 10) + 4096));
        assert_eq!(&bytes[..8], b"nrnotes\x1a");
        assert_eq!((bytes[8], bytes[16], bytes[39]), (0, 1, 7));
        assert_eq!((bytes[79], bytes[80], bytes[84], bytes[88], bytes[92]), (9, 2, 4, 3, 2));
        assert_eq!((bytes[96], bytes[104]), (5, 6));
        assert!(bytes[40..64].iter().chain(&bytes[112..]).all(|byte| *byte == 0));
    }

    #[test]
    fn notes_read_back_as_they_were_written_and_a_torn_write_leaves_those_before() {
        let mut area = Area::new();
        let mut notes = Notes::new(SLICE);
        for term in 1..20 {
            for len in [0, 8, 16, 40, 64, 70, 84] {
                let mut torn = notes.clone();
                set(&mut torn, 0, term + 100);
                area.write(&torn, len);
                assert_eq!(area.read().unwrap().places, notes.places, "{term} {len}");
                assert_eq!(area.read().unwrap().get(&mirror(0)), notes.get(&mirror(0)));
            }
            set(&mut notes, 0, term);
            set(&mut notes, 200 + term, term);
            area.write(&notes, NOTE_PAGE_LEN);
            notes.note_written();
            assert_eq!(area.read().unwrap(), notes);
        }
    }

    #[test]
    fn a_page_that_is_damaged_in_both_slots_is_refused() {
        let mut area = Area::new();
        let mut notes = Notes::new(SLICE);
        for term in 1..3 {
            set(&mut notes, 0, term);
            area.write(&notes, NOTE_PAGE_LEN);
            notes.note_written();
        }
        area.0[100] ^= 1;
        assert_eq!(area.read().unwrap().get(&mirror(0)), Some(note(1)), "generation 2 is damaged");
        area.0[NOTE_PAGE_LEN + 100] ^= 1;
        assert_eq!(area.read(), Err(NotesError(0)));
    }

    #[test]
    fn the_notes_of_another_slice_are_refused() {
        let mut notes = Notes::new(Uuid::from_u128(8));
        let mut area = Area::new();
        for term in 1..3 {
            set(&mut notes, 0, term);
            area.write(&notes, NOTE_PAGE_LEN);
            notes.note_written();
        }
        assert_eq!(area.read(), Err(NotesError(0)));
    }

    #[test]
    fn a_full_slice_replaces_notes_of_mirrors_that_are_gone_and_no_others() {
        let mut notes = Notes::new(SLICE);
        let most = u32::try_from(NOTE_PAGES * NOTES_PER_PAGE).unwrap();
        (0..most).for_each(|number| set(&mut notes, number, 1));
        assert_eq!(notes.changed().len(), NOTE_PAGES);
        notes.note_written();
        assert_eq!(notes.set(mirror(most), note(1), |_| true), Err(NotesFull));
        set(&mut notes, 3, 2);
        notes.set(mirror(most), note(1), |it| it.number != 7).unwrap();
        assert_eq!((notes.get(&mirror(7)), notes.get(&mirror(most))), (None, Some(note(1))));
        assert_eq!((notes.get(&mirror(3)), notes.changed().len()), (Some(note(2)), 1));
    }

    proptest! {
        /// Nothing on a device makes this panic.
        #[test]
        fn any_page_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), NOTE_PAGE_LEN)) {
            let mut area = Area::new();
            area.0[..NOTE_PAGE_LEN].copy_from_slice(&bytes);
            area.0[..8].copy_from_slice(&MAGIC);
            prop_assert!(area.read().is_ok());
        }
    }
}
