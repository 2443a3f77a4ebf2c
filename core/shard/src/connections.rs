//! The connections of a shard, by key. A key is never reused, so that an answer for a closed
//! connection finds no connection.

use nearflash_engine::Owner;
use nearflash_units::index;
use slab::Slab;

use crate::connection::Connection;

/// Names a connection on its core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    slot: u32,
    generation: u32,
}

impl Key {
    pub(crate) fn to_owner(self) -> Owner {
        Owner(u64::from(self.generation) << 32 | u64::from(self.slot))
    }

    pub(crate) const fn slot(self) -> u32 {
        self.slot
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves are cut out by their width")]
    pub(crate) fn from_owner(owner: Owner) -> Self {
        Self { slot: owner.0 as u32, generation: (owner.0 >> 32) as u32 }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    connection: Box<Connection>,
}

#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Slab<Slot>,
    generation: u32,
}

impl Connections {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn insert(&mut self, connection: Box<Connection>) -> Key {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let slot = self.slots.insert(Slot { generation, connection });
        let slot = u32::try_from(slot).expect("connections are bounded");
        Key { slot, generation }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Connection> {
        let slot = self.slots.get(index(key.slot))?;
        (slot.generation == key.generation).then_some(&*slot.connection)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(index(key.slot))?;
        (slot.generation == key.generation).then_some(&mut *slot.connection)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Box<Connection>> {
        self.get_mut(key)?;
        Some(self.slots.remove(index(key.slot)).connection)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Connection)> {
        self.slots.iter().map(|(index, slot)| {
            let index = u32::try_from(index).expect("connections are bounded");
            (Key { slot: index, generation: slot.generation }, &*slot.connection)
        })
    }

    /// The keys for which `wanted` holds.
    pub(crate) fn keys(&self, wanted: impl Fn(&Connection) -> bool) -> Vec<Key> {
        self.iter().filter(|(_, connection)| wanted(connection)).map(|(key, _)| key).collect()
    }
}
