//! The table of mirrors that the cores apply: each mirror's seat, joined with its view.
//!
//! The seats come from the tables of the cluster: a mirror's number, and the devices under it. The views come
//! from the membership: which part this node has in the mirror. A seat without a view has no role. A view
//! without a seat is that of a mirror that is gone.

use std::collections::BTreeMap;

use nearflash_cluster::compile::MirrorLayout;
use nearflash_cluster::{face_name, face_uuid};
use nearflash_device::{DeviceId, MirrorKey};
use nearflash_mirror::membership::{RemoteView, View};
use nearflash_mirror::{Core, Local, MirrorEntry, MirrorId, MirrorTable, REMOTES_MAX, Role, Term};
use nearflash_request::VolumeId;
use nearflash_space::{Epoch, Extent, Home, Reservations, Stripes, Volume};
use nearflash_units::{BlockSize, ByteLen, ByteOffset};

/// The devices of a mirror on this node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seat {
    /// Its number on this node.
    pub id: MirrorId,
    /// Its length.
    pub len: ByteLen,
    /// The ordinal and the place of the replica of this node.
    pub own: Option<(u32, Local)>,
    /// The faces on the nodes of the other replicas.
    pub faces: Vec<Faces>,
    /// The devices of all replicas release blocks.
    pub deallocates: bool,
}

/// The devices that stand for a mirror on another node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Faces {
    /// The ordinal of that node's replica.
    pub ordinal: u32,
    /// The mirror, as its primary serves it.
    pub primary: DeviceId,
    /// The replica. Only a node with a replica writes another one.
    pub replica: Option<DeviceId>,
}

/// The mirrors of a node with so many cores.
#[derive(Debug, Default)]
pub struct Seats {
    cores: u16,
    table: MirrorTable,
    seats: BTreeMap<MirrorKey, Seat>,
    keys: BTreeMap<MirrorId, MirrorKey>,
    views: BTreeMap<MirrorKey, View>,
}

impl Seats {
    /// No mirrors yet.
    pub fn new(cores: u16) -> Self {
        Self { cores, ..Self::default() }
    }

    /// The table for the cores.
    pub fn table(&self) -> &MirrorTable {
        &self.table
    }

    /// Gives a mirror its seat, or other devices under it.
    pub fn seat(&mut self, key: MirrorKey, seat: Seat) {
        self.keys.insert(seat.id, key);
        self.seats.insert(key, seat);
        self.enter(key);
    }

    /// Takes the seats of mirrors that are gone. Returns whether there is any.
    pub fn unseat(&mut self, is_gone: impl Fn(&MirrorKey) -> bool) -> bool {
        let gone: Vec<MirrorKey> = self.seats.keys().copied().filter(is_gone).collect();
        for key in &gone {
            let Some(seat) = self.seats.remove(key) else { continue };
            self.keys.remove(&seat.id);
            self.views.remove(key);
            self.table = self.table.with(seat.id, None);
        }
        !gone.is_empty()
    }

    /// Shows a new view of a mirror. One without a seat is gone.
    pub fn show(&mut self, key: MirrorKey, view: View) {
        if self.seats.contains_key(&key) {
            self.views.insert(key, view);
            self.enter(key);
        }
    }

    /// The mirrors that have no replica here, and their views.
    pub fn elsewhere(&self) -> impl Iterator<Item = (MirrorKey, Option<View>)> {
        let without = self.seats.iter().filter(|(_, seat)| seat.own.is_none());
        without.map(|(key, _)| (*key, self.views.get(key).copied()))
    }

    /// The number of a mirror.
    pub fn id_of(&self, mirror: &MirrorKey) -> Option<MirrorId> {
        self.seats.get(mirror).map(|seat| seat.id)
    }

    /// The mirror with this number, and its length.
    pub fn mirror(&self, id: MirrorId) -> Option<(MirrorKey, ByteLen)> {
        let key = self.keys.get(&id)?;
        Some((*key, self.seats.get(key)?.len))
    }

    fn enter(&mut self, key: MirrorKey) {
        if let Some(seat) = self.seats.get(&key) {
            let entry = entry(key, seat, self.views.get(&key), self.cores);
            self.table = self.table.with(seat.id, Some(entry));
        }
    }
}

fn entry(key: MirrorKey, seat: &Seat, view: Option<&View>, cores: u16) -> MirrorEntry {
    let remote = |view: RemoteView| {
        let faces = seat.faces.iter().find(|faces| faces.ordinal == view.ordinal)?;
        Some(view.on(faces.replica?))
    };
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
        remotes: view
            .map_or([None; REMOTES_MAX], |view| view.remotes.map(|view| view.and_then(remote))),
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

/// A face of a mirror, as a volume for the other nodes; `None` if its blocks have no valid size.
pub fn face_of(layout: &MirrorLayout, device: DeviceId, home: Home) -> Option<Volume> {
    let block_size = BlockSize::from_bytes(layout.block_size)?;
    let is_replica = home == Home::ReplicaFace;
    let name = face_name(layout.key, is_replica);
    Some(Volume {
        id: VolumeId(0),
        uuid: face_uuid(layout.key, is_replica),
        subsystem: name.clone(),
        name,
        block_size,
        blocks: block_size.blocks_in(layout.len),
        preparing: None,
        nsid: 1,
        epoch: Epoch(1),
        extents: vec![Extent { device, start: ByteOffset(0), len: layout.len }],
        provisioning: layout.provisioning,
        reservations: Reservations::default(),
        home,
        stripes: Stripes::NONE,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const KEY: MirrorKey = MirrorKey { volume: Uuid::from_u128(7), number: 0 };

    fn seat(id: u32, has_own: bool) -> Seat {
        let local = Local { device: DeviceId(0), start: ByteOffset(0), volatile_cache: false };
        let faces = Faces { ordinal: 1, primary: DeviceId(5), replica: Some(DeviceId(6)) };
        let own = has_own.then_some((0, local));
        Seat { id: MirrorId(id), len: ByteLen(4096), own, faces: vec![faces], deallocates: true }
    }

    fn view(role: Role, primary: u32) -> View {
        let remote = |ordinal, session| Some(RemoteView { ordinal, session, has_all: true });
        // The place of the second one is not known here.
        let (term, remotes) = (Term(3), [remote(2, 8), remote(1, 9)]);
        let (needs_lease, session, stay) = (false, 4, 0);
        View { term, role, primary, remotes, needs_lease, session, stay, kept_since: Term(1) }
    }

    #[test]
    fn a_mirror_has_a_role_when_it_has_both_a_seat_and_a_view() {
        let mut seats = Seats::new(2);
        seats.show(KEY, view(Role::Primary, 0));
        seats.seat(KEY, seat(3, true));
        let entry = seats.table().entry(MirrorId(3)).unwrap();
        assert_eq!((entry.role, entry.owner), (Role::Nobody, Core(1)), "its view was of another");
        seats.show(KEY, view(Role::Primary, 0));
        let entry = seats.table().entry(MirrorId(3)).unwrap();
        assert_eq!((entry.role, entry.primary), (Role::Primary, None));
        let remotes = entry.remotes.map(|it| it.map(|it| (it.device, it.session)));
        assert_eq!(remotes, [None, Some((DeviceId(6), 9))]);
        assert_eq!(seats.mirror(MirrorId(3)), Some((KEY, ByteLen(4096))));
        assert!(seats.unseat(|_| true) && seats.table().entry(MirrorId(3)).is_none());
        assert!(!seats.unseat(|_| true) && seats.id_of(&KEY).is_none());
    }

    #[test]
    fn a_view_from_the_time_of_a_replica_gives_no_role_after_it() {
        let mut seats = Seats::new(1);
        seats.seat(KEY, seat(0, true));
        seats.show(KEY, view(Role::Secondary, 1));
        seats.seat(KEY, seat(0, false));
        let entry = seats.table().entry(MirrorId(0)).unwrap();
        assert_eq!((entry.role, entry.primary), (Role::Nobody, Some(DeviceId(5))));
        let elsewhere: Vec<_> = seats.elsewhere().collect();
        assert_eq!(elsewhere, [(KEY, Some(view(Role::Secondary, 1)))]);
    }
}
