//! The table of mirrors that the cores apply.
//!
//! Two threads make it. The one that serves the tables of the cluster gives each mirror a seat: its number
//! and the devices under it. The one that follows the membership says which part this node has in it. A
//! mirror has a seat, and every core knows it, before a volume lies on it.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_api::HungCoreInfo;
use nearflash_device::{DeviceId, MirrorKey};
use nearflash_mirror::membership::View;
use nearflash_mirror::{
    Core, Local, MirrorEntry, MirrorId, MirrorTable, Remote, Role, Term, Written,
};
use nearflash_shard::Message;
use nearflash_units::{ByteLen, Nanos};

use crate::Then;
use crate::runtime::Cores;

/// The devices of a mirror on this node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Seat {
    /// Its number on this node.
    pub(crate) id: MirrorId,
    pub(crate) len: ByteLen,
    /// The ordinal and the place of the replica of this node.
    pub(crate) own: Option<(u32, Local)>,
    /// The faces on the nodes of the other replicas. If this node has a replica, there is at most one.
    pub(crate) faces: Vec<Faces>,
    /// The devices of all replicas release blocks.
    pub(crate) deallocates: bool,
}

/// The devices that stand for a mirror on another node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Faces {
    /// The ordinal of that node's replica.
    pub(crate) ordinal: u32,
    pub(crate) primary: DeviceId,
    /// Only a node with a replica writes another one.
    pub(crate) replica: Option<DeviceId>,
}

/// The table of mirrors, and the way to the cores.
pub(crate) struct Board {
    cores: Arc<Cores>,
    state: Mutex<State>,
    hung_cores: Mutex<Vec<HungCoreInfo>>,
}

#[derive(Default)]
struct State {
    table: MirrorTable,
    seats: BTreeMap<MirrorKey, Seat>,
    keys: BTreeMap<MirrorId, MirrorKey>,
    views: BTreeMap<MirrorKey, View>,
}

impl Board {
    pub(crate) fn new(cores: Arc<Cores>) -> Self {
        Self { cores, state: Mutex::default(), hung_cores: Mutex::default() }
    }

    /// Gives mirrors their seats, or other devices under them. Returns when every core knows them.
    pub(crate) fn seat(&self, seats: impl IntoIterator<Item = (MirrorKey, Seat)>) {
        let (told, shown) = channel();
        {
            let mut state = self.state();
            for (key, seat) in seats {
                state.keys.insert(seat.id, key);
                state.seats.insert(key, seat);
                state.enter(key, self.cores.core_count());
            }
            // Nobody listens any more when the wait has ended.
            self.publish(
                &state,
                Box::new(move || {
                    let _ = told.send(());
                }),
            );
        }
        // The cores end only after this thread.
        let _ = shown.recv();
    }

    /// Takes the seats of mirrors that are gone. No volume lies on them any more; requests on them that are
    /// under way end.
    pub(crate) fn unseat(&self, is_gone: impl Fn(&MirrorKey) -> bool) {
        let mut state = self.state();
        let gone: Vec<MirrorKey> = state.seats.keys().copied().filter(is_gone).collect();
        for key in &gone {
            let Some(seat) = state.seats.remove(key) else { continue };
            state.keys.remove(&seat.id);
            state.views.remove(key);
            state.table = state.table.with(seat.id, None);
        }
        if !gone.is_empty() {
            self.publish(&state, Box::new(|| ()));
        }
    }

    /// Shows the cores new views. A mirror without a seat is gone.
    pub(crate) fn show(&self, views: Vec<(MirrorKey, View)>, then: Then) {
        let mut state = self.state();
        for (key, view) in views {
            if state.seats.contains_key(&key) {
                state.views.insert(key, view);
                state.enter(key, self.cores.core_count());
            }
        }
        self.publish(&state, then);
    }

    /// The mirrors that have no replica here, and the views that the cores have of them.
    pub(crate) fn elsewhere(&self) -> Vec<(MirrorKey, Option<View>)> {
        let state = self.state();
        let without = state.seats.iter().filter(|(_, seat)| seat.own.is_none());
        without.map(|(key, _)| (*key, state.views.get(key).copied())).collect()
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
        let state = self.state();
        let known = leases.iter();
        let known = known.filter_map(|(key, until)| Some((state.seats.get(key)?.id, *until)));
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
        let state = self.state();
        let key = state.keys.get(&id)?;
        Some((*key, state.seats.get(key)?.len))
    }

    fn id_of(&self, mirror: &MirrorKey) -> Option<MirrorId> {
        self.state().seats.get(mirror).map(|seat| seat.id)
    }

    fn publish(&self, state: &State, then: Then) {
        // With the lock, so that the cores get the tables in their order.
        let table = Arc::new(state.table.clone());
        self.cores.ask_all(|number| Message::Mirrors(number, Arc::clone(&table)), then);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Enters a mirror into the table.
    fn enter(&mut self, key: MirrorKey, cores: u16) {
        if let Some(seat) = self.seats.get(&key) {
            let entry = entry(key, seat, self.views.get(&key), cores);
            self.table = self.table.with(seat.id, Some(entry));
        }
    }
}

fn entry(key: MirrorKey, seat: &Seat, view: Option<&View>, cores: u16) -> MirrorEntry {
    let other = seat.faces.first().and_then(|faces| faces.replica);
    let remote = |session| other.map(|device| Remote { device, session, volatile_cache: true });
    let at_primary = |view: &View| {
        let is_own = seat.own.is_some_and(|(ordinal, _)| ordinal == view.primary);
        let faces = seat.faces.iter().find(|faces| faces.ordinal == view.primary);
        faces.filter(|_| !is_own).map(|faces| faces.primary)
    };
    let owner = seat.id.0 % u32::from(cores.max(1));
    MirrorEntry {
        key,
        term: view.map_or(Term(0), |view| view.term),
        len: seat.len,
        role: view.map_or(Role::Nobody, |view| role(seat, view)),
        owner: Core(u16::try_from(owner).expect("it is less than the number of cores")),
        local: seat.own.map(|(_, local)| local),
        remote: view.and_then(|view| view.remote).and_then(remote),
        primary: view.and_then(at_primary),
        session: view.map_or(0, |view| view.session),
        needs_lease: view.is_some_and(|view| view.needs_lease),
        stay: view.map_or(0, |view| view.stay),
        kept_since: view.map_or(Term(0), |view| view.kept_since),
        zeroes: true,
        deallocates: seat.deallocates,
    }
}

/// The role of this node. A view from the time when it had a replica may outlive the replica.
fn role(seat: &Seat, view: &View) -> Role {
    match view.role {
        Role::Primary | Role::Secondary if seat.own.is_none() => Role::Nobody,
        role => role,
    }
}
