//! The control side of a single shard: it makes the changes that sessions request, one at a time,
//! publishes their restrictions to the shard, and answers when the shard has adopted them.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_device::DeviceId;
use nearflash_engine::Owner;
use nearflash_publish::{Publication, Served};
use nearflash_request::{Change, ChangeKind, ChangeResult, Tag, VolumeId};
use nearflash_shard::{Event, Message};
use nearflash_space::{Epoch, Extent, GRANULE, Map, Reservations, VolumeEntry, VolumeTable};
use nearflash_units::{BlockSize, Blocks, ByteOffset};

/// The number of blocks of each volume. Every device has one volume, with the device's number.
pub(crate) const VOLUME_BLOCKS: u64 = 2048;
const VOLUME_COUNT: usize = 2;

/// A change that a session waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) owner: Owner,
    pub(crate) tag: Tag,
    pub(crate) change: Box<Change>,
}

#[derive(Debug, Default)]
pub(crate) struct Control {
    reservations: [Reservations; VOLUME_COUNT],
    waiting: VecDeque<Wanted>,
    /// The answer that is due when the shard has confirmed the newest number.
    shown: Option<(Owner, (VolumeId, Tag), ChangeResult)>,
    number: u64,
    /// The parts that no change replaces.
    start: Served,
}

impl Control {
    /// A control side that serves this, and its volumes.
    pub(crate) fn new(start: Served) -> Self {
        Self { start, ..Self::default() }
    }

    /// The current state.
    pub(crate) fn served(&self) -> Arc<Served> {
        Arc::new(Served { volumes: self.table(), ..self.start.clone() })
    }

    fn table(&self) -> Arc<VolumeTable> {
        let entry = |(device, reservations): (u32, &Reservations)| {
            let start = ByteOffset(GRANULE.0);
            let extent = Extent { device: DeviceId(device), start, len: GRANULE };
            let map = Map::new(Epoch(1), BlockSize::B512, Blocks(VOLUME_BLOCKS), &[extent]);
            let entry = VolumeEntry::from(map.expect("the extent holds the volume"));
            let restriction = reservations.restriction().map(Arc::new);
            (VolumeId(device), VolumeEntry { restriction, ..entry })
        };
        Arc::new(VolumeTable::new((0..).zip(&self.reservations).map(entry)))
    }

    /// Queues a session's change.
    pub(crate) fn want(&mut self, wanted: Wanted, events: &mut Vec<Event>) {
        self.waiting.push_back(wanted);
        self.go_on(events);
    }

    /// Records that the shard has adopted the volumes with this number.
    pub(crate) fn confirmed(&mut self, number: u64, events: &mut Vec<Event>) {
        if let Some((owner, asked, result)) = self.shown.take_if(|_| number == self.number) {
            events.push(Event::Message(Message::Changed(owner, asked, result)));
            self.go_on(events);
        }
    }

    fn go_on(&mut self, events: &mut Vec<Event>) {
        if self.shown.is_some() {
            return;
        }
        let Some(Wanted { owner, tag, change }) = self.waiting.pop_front() else { return };
        let index = usize::try_from(change.volume.0).expect("few volumes");
        let (result, raised) = self.reservations[index].apply(&change);
        self.number += 1;
        let quiesce: &[VolumeId] = match change.kind {
            // Sessions abort commands because of a reset; the device operations of these are waited
            // for.
            ChangeKind::Reset(_) | ChangeKind::EndTasks(_) => &[change.volume],
            _ => &[],
        };
        let publication = Publication {
            number: self.number,
            served: self.served(),
            raised: raised.into(),
            quiesce: quiesce.into(),
        };
        events.push(Event::Message(Message::Serve(Arc::new(publication))));
        self.shown = Some((owner, (change.volume, tag), result));
    }
}
