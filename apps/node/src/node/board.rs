//! The table of mirrors, and the way to the cores.
//!
//! Two threads make the table ([`Seats`]). The one that serves the tables of the cluster gives each mirror its seat.
//! The one that follows the membership shows the views. A mirror has a seat, and every core knows it, before a volume
//! lies on it.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_api::HungCoreInfo;
use nearflash_device::MirrorKey;
use nearflash_mirror::membership::View;
use nearflash_mirror::{MirrorId, Written};
use nearflash_publish::{Seat, Seats};
use nearflash_shard::Message;
use nearflash_units::{ByteLen, Nanos};

use crate::Then;
use crate::runtime::Cores;

/// The table of mirrors, and the way to the cores.
pub(crate) struct Board {
    cores: Arc<Cores>,
    seats: Mutex<Seats>,
    hung_cores: Mutex<Vec<HungCoreInfo>>,
}

impl Board {
    pub(crate) fn new(cores: Arc<Cores>) -> Self {
        let seats = Mutex::new(Seats::new(cores.core_count()));
        Self { cores, seats, hung_cores: Mutex::default() }
    }

    /// Gives mirrors their seats, or other devices under them. Returns when every core knows them.
    pub(crate) fn seat(&self, seats: impl IntoIterator<Item = (MirrorKey, Seat)>) {
        let (told, shown) = channel();
        {
            let mut all = self.seats();
            seats.into_iter().for_each(|(key, seat)| all.seat(key, seat));
            // Nobody listens any more when the wait has ended.
            let then = move || _ = told.send(());
            self.publish(&all, Box::new(then));
        }
        // The cores end only after this thread.
        let _ = shown.recv();
    }

    /// Takes the seats of mirrors that are gone. No volume lies on them any more; requests on them that are
    /// under way end.
    pub(crate) fn unseat(&self, is_gone: impl Fn(&MirrorKey) -> bool) {
        let mut all = self.seats();
        if all.unseat(is_gone) {
            self.publish(&all, Box::new(|| ()));
        }
    }

    /// Shows the cores new views. A mirror without a seat is gone.
    pub(crate) fn show(&self, views: Vec<(MirrorKey, View)>, then: Then) {
        let mut all = self.seats();
        views.into_iter().for_each(|(key, view)| all.show(key, view));
        self.publish(&all, then);
    }

    /// The mirrors that have no replica here, and the views that the cores have of them.
    pub(crate) fn elsewhere(&self) -> Vec<(MirrorKey, Option<View>)> {
        self.seats().elsewhere().collect()
    }

    /// Waits until nothing of the mirror is under way at a device of this node.
    pub(crate) fn drain(&self, mirror: &MirrorKey, then: Then) {
        match self.id_of(mirror) {
            Some(id) => {
                let mirrors: Arc<[MirrorId]> = Arc::new([id]);
                let drain = |number| Message::AwaitMirrors(number, Arc::clone(&mirrors));
                self.cores.ask_all(drain, then);
            }
            None => then(),
        }
    }

    /// Gives the cores leases.
    pub(crate) fn set_leases(&self, leases: &[(MirrorKey, Nanos)]) {
        let all = self.seats();
        let known = leases.iter().filter_map(|(key, until)| Some((all.id_of(key)?, *until)));
        let known: Vec<(MirrorId, Nanos)> = known.collect();
        self.cores.set_leases(&known);
    }

    /// The machine's clock stood still.
    pub(crate) fn end_hosts(&self) {
        self.cores.tell_all(|| Message::EndHosts);
    }

    /// Asks every core which parts of a mirror it has written. Returns the number of cores.
    pub(crate) fn ask_written(&self, mirror: &MirrorKey, session: u32) -> u16 {
        if let Some(id) = self.id_of(mirror) {
            self.cores.tell_all(|| Message::TellWritten(id, session));
        }
        self.cores.core_count()
    }

    /// Copies what differs to the replica with this session, in these parts of the mirror or everywhere.
    pub(crate) fn copy(&self, mirror: &MirrorKey, session: u32, scope: Option<Written>) {
        if let Some(id) = self.id_of(mirror) {
            let scope = scope.map(Arc::new);
            self.cores.tell_all(|| Message::CopyMirror(id, session, scope.clone()));
        }
    }

    /// The processor of each core, and the turns that it has counted.
    pub(crate) fn turns(&self) -> Vec<(usize, u64)> {
        let readings = self.cores.readings().into_iter();
        readings.map(|(processor, reading)| (processor, reading.turns)).collect()
    }

    /// Notes the cores that do not turn.
    pub(crate) fn set_hung_cores(&self, cores: Vec<HungCoreInfo>) {
        *self.hung_cores.lock().unwrap_or_else(PoisonError::into_inner) = cores;
    }

    /// The cores that do not turn, as far as this node takes part in mirrors.
    pub(crate) fn hung_cores(&self) -> Vec<HungCoreInfo> {
        self.hung_cores.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The mirror with this number.
    pub(crate) fn key_of(&self, id: MirrorId) -> Option<MirrorKey> {
        self.mirror(id).map(|(key, _)| key)
    }

    /// The mirror with this number, and its length.
    pub(crate) fn mirror(&self, id: MirrorId) -> Option<(MirrorKey, ByteLen)> {
        self.seats().mirror(id)
    }

    fn id_of(&self, mirror: &MirrorKey) -> Option<MirrorId> {
        self.seats().id_of(mirror)
    }

    fn publish(&self, seats: &Seats, then: Then) {
        // With the lock, so that the cores get the tables in their order.
        let table = Arc::new(seats.table().clone());
        self.cores.ask_all(|number| Message::Mirrors(number, Arc::clone(&table)), then);
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
