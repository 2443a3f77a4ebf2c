//! Numbered places for the commands in flight of a connection.
//!
//! Invariants: a slot is free or taken. Taking and returning it alternate, which release builds
//! check too, so a late answer never reaches another command. No memory is allocated per command.

use std::ops::{Index, IndexMut};

/// The slots. A free slot keeps its value. The slot that was returned last is taken first, since it
/// is still cached.
#[derive(Debug, Default)]
pub struct SlotTable<T> {
    slots: Box<[Slot<T>]>,
    free: Vec<u16>,
}

#[derive(Debug)]
struct Slot<T> {
    value: T,
    /// Grows with each take and each return: odd while the slot is taken.
    turns: u16,
}

impl<T> SlotTable<T> {
    /// A table of this many slots, each with a value from `empty`.
    pub fn new(count: u16, empty: impl Fn() -> T) -> Self {
        let slots = (0..count).map(|_| Slot { value: empty(), turns: 0 }).collect();
        Self { slots, free: (0..count).rev().collect() }
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.slots.len()
    }

    /// How many are taken.
    pub const fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is free.
    pub const fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes a free slot.
    #[inline]
    pub fn take(&mut self) -> Option<u16> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[usize::from(index)];
        slot.turns = slot.turns.wrapping_add(1);
        Some(index)
    }

    /// Returns a slot.
    ///
    /// # Panics
    /// When it was not taken. Otherwise the holder of its number would complete another command.
    #[inline]
    pub fn give_back(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        assert!(slot.is_taken(), "a slot is given back once");
        slot.turns = slot.turns.wrapping_add(1);
        self.free.push(index);
    }

    /// The taken slot with a number that a peer has chosen.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.slots.get(index).filter(|slot| slot.is_taken()).map(|slot| &slot.value)
    }

    /// A number of 31 bits for a taken slot, which is not valid for the slot's next command.
    #[inline]
    pub fn tag(&self, index: u16) -> u32 {
        u32::from(self.slots[usize::from(index)].turns >> 1) << 16 | u32::from(index)
    }

    /// The taken slot of such a number.
    #[inline]
    pub fn by_tag(&self, tag: u32) -> Option<u16> {
        let index = u16::try_from(tag & 0xFFFF).ok()?;
        self.get(usize::from(index)).filter(|_| self.tag(index) == tag).map(|_| index)
    }

    /// The taken slots.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let numbered = (0..).zip(&self.slots);
        numbered.filter(|(_, slot)| slot.is_taken()).map(|(index, slot)| (index, &slot.value))
    }

    /// The taken slots with their numbers, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut T)> {
        let numbered = (0..).zip(&mut self.slots);
        numbered.filter(|(_, slot)| slot.is_taken()).map(|(index, slot)| (index, &mut slot.value))
    }
}

impl<T> Slot<T> {
    const fn is_taken(&self) -> bool {
        self.turns & 1 == 1
    }
}

impl<T> Index<u16> for SlotTable<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u16) -> &T {
        &self.slots[usize::from(index)].value
    }
}

impl<T> IndexMut<u16> for SlotTable<T> {
    #[inline]
    fn index_mut(&mut self, index: u16) -> &mut T {
        &mut self.slots[usize::from(index)].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_slots_as_asked_for() {
        let mut slots = SlotTable::new(2, || ());
        let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
        assert!(slots.is_full() && slots.take().is_none() && first != second);
        slots.give_back(first);
        assert_eq!((slots.count(), slots.in_use(), slots.take()), (2, 1, Some(first)));
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn a_slot_that_is_given_back_twice_is_our_own_fault() {
        let mut slots = SlotTable::new(2, || ());
        let index = slots.take().unwrap();
        slots.give_back(index);
        slots.give_back(index);
    }

    #[test]
    fn a_tag_is_good_for_one_command_of_its_slot() {
        let mut slots = SlotTable::new(1, || ());
        let mut last = None;
        for _ in 0..70_000 {
            let index = slots.take().unwrap();
            let tag = slots.tag(index);
            assert_eq!(slots.by_tag(tag), Some(index));
            assert!(last.is_none_or(|last| slots.by_tag(last).is_none()));
            slots.give_back(index);
            assert_eq!(slots.by_tag(tag), None);
            last = Some(tag);
        }
        assert_eq!(slots.by_tag(0xFFFF_FFFF), None);
    }

    #[test]
    fn only_taken_slots_are_found() {
        let mut slots = SlotTable::new(3, || 7);
        let index = slots.take().unwrap();
        slots[index] = 8;
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(index, &8)]);
        assert_eq!(
            (slots.get(usize::from(index)), slots.get(1), slots.get(99)),
            (Some(&8), None, None)
        );
    }
}
