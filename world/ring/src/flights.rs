//! The payload of requests in flight: slices that no other code holds while the node may access
//! them.
//!
//! A slice moves in here with its request and out with the answer. So no safe code has a reference
//! to bytes that the node may write to. This module reads only those fields of an entry that locate
//! the bytes (`docs/direct-protocol.md`, "Messages").
//!
//! Invariant: a request names only bytes of its own payload.

use std::sync::Arc;

use crate::area::{Area, Slice};
use crate::geometry::Entry;
use crate::geometry::index;
use crate::memory::Memory;

const OPCODE_AT: usize = 0;
const TAG_AT: usize = 4;
const LEN_AT: usize = 16;
const PLACE_AT: usize = 24;
/// The opcodes FLUSH, DISCARD and ZERO, the only requests without payload in the data area.
const WITHOUT_PAYLOAD: [u8; 3] = [0x03, 0x04, 0x07];
/// The length of the operands of one atomic operation: two words.
const WORDS_LEN: u32 = 16;

/// The payload of a request.
#[derive(Debug)]
pub enum Payload<'a> {
    /// No payload, for FLUSH, DISCARD and ZERO.
    None,
    /// The operands of an atomic operation, which are copied.
    Words(&'a [u8]),
    /// A slice, which the end owns until [`reclaimed`](crate::ClientEnd::reclaim).
    Slice(Slice),
}

/// The slice of one request.
#[derive(Debug, Default)]
enum Flight {
    #[default]
    None,
    /// In flight: the node may access it.
    Away(Slice),
    /// Answered.
    Back(Slice),
}

/// The slices of requests in flight, by tag.
#[derive(Debug)]
pub(crate) struct Flights {
    memory: Arc<Memory>,
    flights: Box<[Flight]>,
    /// The memory of operands, by tag. It is never dereferenced. `None` in a data area that has no
    /// room for it.
    words: Option<Slice>,
}

impl Flights {
    pub(crate) fn new(memory: &Arc<Memory>, entries: u32, area: &mut Area) -> Self {
        let flights = (0..entries).map(|_| Flight::None).collect();
        let words = area.take(index((entries * WORDS_LEN).into()));
        Self { memory: Arc::clone(memory), flights, words }
    }

    /// Takes the payload of a request, and returns the request with its location.
    #[inline]
    pub(crate) fn depart(&mut self, entry: &Entry, payload: Payload<'_>) -> Entry {
        let len = index(field(entry, LEN_AT).into());
        let place = match payload {
            Payload::None => {
                assert!(WITHOUT_PAYLOAD.contains(&entry[OPCODE_AT]), "the request needs payload");
                return *entry;
            }
            Payload::Words(bytes) => {
                let place = self.words_at(field(entry, TAG_AT));
                assert!(len <= index(WORDS_LEN.into()) && bytes.len() == len, "operands are words");
                self.memory.copy_in(place.into(), bytes);
                place
            }
            Payload::Slice(slice) => {
                assert!(slice.lies_in(&self.memory), "the slice is of another data area");
                assert!(len <= slice.len(), "the slice is shorter than the request");
                let place = slice.offset();
                let flight = &mut self.flights[index(field(entry, TAG_AT).into())];
                assert!(!matches!(flight, Flight::Away(_)), "the tag is in flight");
                *flight = Flight::Away(slice);
                place
            }
        };
        let mut entry = *entry;
        entry[PLACE_AT..PLACE_AT + 4].copy_from_slice(&place.to_le_bytes());
        entry
    }

    fn words_at(&self, tag: u32) -> u32 {
        let words = self.words.as_ref().expect("the data area has room for operands");
        assert!(index(tag.into()) < self.flights.len(), "tags are below the ring's entries");
        words.offset() + tag * WORDS_LEN
    }

    /// Records that the node has answered these requests.
    #[inline]
    pub(crate) fn land(&mut self, answers: &[Entry]) {
        for answer in answers {
            let tag = index(field(answer, TAG_AT).into());
            // An answer without a request is an error of the session, which detects it.
            let Some(flight) = self.flights.get_mut(tag) else { continue };
            *flight = match std::mem::take(flight) {
                Flight::Away(slice) => Flight::Back(slice),
                other => other,
            };
        }
    }

    #[inline]
    pub(crate) fn reclaim(&mut self, tag: u32) -> Option<Slice> {
        let flight = self.flights.get_mut(index(tag.into()))?;
        match std::mem::take(flight) {
            Flight::Back(slice) => Some(slice),
            other => {
                *flight = other;
                None
            }
        }
    }

    pub(crate) fn copy_out(&self, tag: u32, into: &mut [u8]) -> bool {
        let Some(Flight::Away(slice) | Flight::Back(slice)) = self.flights.get(index(tag.into()))
        else {
            return false;
        };
        let len = into.len().min(slice.capacity());
        self.memory.copy_out(slice.offset().into(), &mut into[..len]);
        true
    }
}

/// Abandons the slices of unanswered requests: the node may access them at any time from now on.
impl Drop for Flights {
    fn drop(&mut self) {
        for flight in &mut self.flights {
            if let Flight::Away(slice) = std::mem::take(flight) {
                slice.abandon();
            }
        }
        if let Some(words) = self.words.take() {
            words.abandon();
        }
    }
}

#[inline]
fn field(entry: &Entry, at: usize) -> u32 {
    u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::ENTRY_LEN;
    use crate::geometry::Geometry;

    const READ: u8 = 0x01;
    const FLUSH: u8 = 0x03;
    const ZERO: u8 = 0x07;
    const FETCH_ADD: u8 = 0x46;

    fn flights() -> (Flights, Area) {
        let (memory, _fd) = Memory::create(Geometry::new(4, 16 * 4096).unwrap()).unwrap();
        let memory = Arc::new(memory);
        let mut area = Area::new(Arc::clone(&memory));
        (Flights::new(&memory, 4, &mut area), area)
    }

    fn entry(opcode: u8, tag: u32, len: u32) -> Entry {
        let mut entry = [0; ENTRY_LEN];
        entry[OPCODE_AT] = opcode;
        entry[TAG_AT..][..4].copy_from_slice(&tag.to_le_bytes());
        entry[LEN_AT..][..4].copy_from_slice(&len.to_le_bytes());
        entry
    }

    #[test]
    fn a_slice_is_away_until_its_request_is_answered() {
        let (mut flights, mut area) = flights();
        let slice = area.take(5000).unwrap();
        let place = slice.offset();
        let request = flights.depart(&entry(READ, 3, 5000), Payload::Slice(slice));
        assert_eq!(field(&request, PLACE_AT), place, "the node is told where");
        assert!(flights.reclaim(3).is_none());
        flights.land(&[entry(READ | 0x80, 2, 0), entry(READ | 0x80, 99, 0)]);
        assert!(flights.reclaim(3).is_none(), "another one was answered");
        flights.land(&[entry(READ | 0x80, 3, 0)]);
        assert_eq!(flights.reclaim(3).unwrap().len(), 5000);
        assert!(flights.reclaim(3).is_none(), "it comes back once");
    }

    #[test]
    fn what_was_in_flight_when_the_end_was_dropped_is_never_given_out_again() {
        let (mut flights, mut area) = flights();
        let all: Vec<Slice> = std::iter::from_fn(|| area.take(4096)).collect();
        let count = all.len();
        for (tag, slice) in (0..3).zip(all) {
            let _ = flights.depart(&entry(READ, tag, 4096), Payload::Slice(slice));
        }
        flights.land(&[entry(READ | 0x80, 0, 0)]);
        drop(flights);
        let again = std::iter::from_fn(|| area.take(4096).map(std::mem::forget)).count();
        assert_eq!(again, count - 2, "all but the two that were not answered, and the operands");
    }

    #[test]
    fn operands_lie_apart_by_tag() {
        let (mut flights, _area) = flights();
        let places = [0, 3].map(|tag| {
            let request = flights.depart(&entry(FETCH_ADD, tag, 8), Payload::Words(&[7; 8]));
            field(&request, PLACE_AT)
        });
        assert_eq!(places[1] - places[0], 3 * WORDS_LEN);
        let mut seen = [0; 8];
        flights.memory.copy_out(places[1].into(), &mut seen);
        assert_eq!(seen, [7; 8]);
    }

    #[test]
    fn a_lost_write_is_copied_out() {
        let (mut flights, mut area) = flights();
        let mut slice = area.take(5).unwrap();
        slice.copy_from_slice(b"flash");
        let _ = flights.depart(&entry(0x42, 1, 5), Payload::Slice(slice));
        let mut bytes = [0; 5];
        assert!(flights.copy_out(1, &mut bytes) && !flights.copy_out(2, &mut bytes));
        assert_eq!(bytes, *b"flash");
    }

    #[test]
    #[should_panic(expected = "needs payload")]
    fn a_read_without_a_place_of_its_own_is_refused() {
        let (mut flights, _area) = flights();
        let _ = flights.depart(&entry(FLUSH, 0, 0), Payload::None);
        let _ = flights.depart(&entry(ZERO, 0, 1 << 30), Payload::None);
        let _ = flights.depart(&entry(READ, 0, 4096), Payload::None);
    }

    #[test]
    #[should_panic(expected = "shorter than the request")]
    fn a_request_longer_than_its_slice_is_refused() {
        let (mut flights, mut area) = flights();
        let slice = area.take(4096).unwrap();
        let _ = flights.depart(&entry(READ, 0, 4097), Payload::Slice(slice));
    }

    #[test]
    #[should_panic(expected = "another data area")]
    fn a_slice_of_another_area_is_refused() {
        let ((mut flights, _area), (_others, mut other)) = (flights(), self::flights());
        let slice = other.take(4096).unwrap();
        let _ = flights.depart(&entry(READ, 0, 4096), Payload::Slice(slice));
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_tag_in_flight_is_refused() {
        let (mut flights, mut area) = flights();
        for _ in 0..2 {
            let slice = area.take(4096).unwrap();
            let _ = flights.depart(&entry(READ, 0, 4096), Payload::Slice(slice));
        }
    }

    #[test]
    fn the_fields_are_those_of_the_document() {
        let document = include_str!("../../../docs/direct-protocol.md");
        for row in [
            "| 0 | opcode |",
            "| 4..8 | tag |",
            "| 16..20 | len |",
            "| 24..28 | place |",
            "| `FLUSH` | 0x03 |",
            "| `DISCARD` | 0x04 |",
            "| `ZERO` | 0x07 |",
        ] {
            assert!(document.contains(row), "the document has no row '{row}'");
        }
    }
}
