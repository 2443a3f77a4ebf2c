//! The mirrors that a node knows, as its cores see them.
//!
//! A table never changes: a change makes a further one, which shares the pages that stay the same. So a
//! core takes a table as a whole, and needs no lock for it.
//!
//! Mirrors are devices with numbers of their own, as a node's table of [`DeviceKind`]s says. The layout
//! above this crate maps blocks to them, and knows neither their replicas nor their terms.

use std::sync::Arc;

use nearflash_device::{DeviceId, MirrorKey};
use nearflash_request::SentIn;
use nearflash_units::{ByteLen, ByteOffset, index};
use serde::{Deserialize, Serialize};

/// The places that a mirror can have: at most two replicas are in sync, and a third one joins.
pub const PLACES_MAX: usize = 3;

/// The replicas on other nodes.
pub const REMOTES_MAX: usize = PLACES_MAX - 1;

/// The entries of a page of the table.
const PAGE_LEN: u32 = 64;

/// Devices have smaller numbers, mirrors included: [`crate::OPERATIONS`] has to stay free of the
/// layout's flushes, which are numbered by device.
pub const DEVICES_MAX: u32 = 1 << 30;

/// The meaning of a node's device number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DeviceKind {
    /// A device of this node.
    Local,
    /// A volume of another node, or a face of a mirror there.
    Remote,
    /// A mirror.
    Mirror(MirrorId),
    /// The *replica face* of a mirror on this node: the replica here, as its primary writes it.
    Replica(MirrorId),
}

/// A mirror's place in the table of its node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MirrorId(pub u32);

/// The number of a membership of a mirror. It grows with each change.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Term(pub u32);

impl Term {
    /// Before the first one.
    pub(crate) const fn first() -> Self {
        Self(0)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn is_first(&self) -> bool {
        *self == Self::first()
    }
}

/// A core of this node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Core(pub u16);

/// The part that this node has in a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// It orders the writes.
    Primary,
    /// It has a replica, and applies what the primary sends.
    Secondary,
    /// It takes nothing from the primary, and forwards to it.
    Elsewhere,
    /// Nobody is primary, as far as this node knows. Operations are held.
    Nobody,
}

/// The replica on this node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Local {
    /// The device.
    pub device: DeviceId,
    /// The first byte of the replica on it.
    pub start: ByteOffset,
    /// Completed writes may be lost at a power failure until a flush.
    pub volatile_cache: bool,
}

/// A replica on another node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remote {
    /// The remote device that stands for it: the *replica face* of the mirror there.
    pub device: DeviceId,
    /// The number of the JOIN by which it was taken back last. All replicas of a table have different ones.
    pub session: u32,
    /// It has everything that was answered, and is not being copied to.
    pub has_all: bool,
    /// Completed writes may be lost at a power failure until a flush.
    pub volatile_cache: bool,
}

/// A replica of a mirror, as the primary sees it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// The replica of this node.
    Local,
    /// The one on another node that has this session.
    Remote(u32),
}

impl Side {
    /// Whether it is the replica of this node.
    pub fn is_local(self) -> bool {
        self == Self::Local
    }
}

/// A mirror, as one node sees it in one term.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MirrorEntry {
    /// Its identity.
    pub key: MirrorKey,
    /// The term.
    pub term: Term,
    /// Its length.
    pub len: ByteLen,
    /// The role of this node for it.
    pub role: Role,
    /// The core of this node that has its locks. It is the same one in all tables.
    pub owner: Core,
    /// The replica of this node.
    pub local: Option<Local>,
    /// At the primary: the other replicas to which writes go: those that are in sync, or to which everything
    /// is being copied. They stay while a primary has stopped for a handover. A replica keeps its place here.
    pub remotes: [Option<Remote>; REMOTES_MAX],
    /// Not at the primary: the remote device that stands for the mirror at its primary, its *primary
    /// face*.
    pub primary: Option<DeviceId>,
    /// At a secondary: the session that replica writes must carry.
    pub session: u32,
    /// At the primary: reads need leases of the nodes of the other replicas in sync.
    pub needs_lease: bool,
    /// Changes when this node's replica has not been in sync for a while.
    pub stay: u32,
    /// The term since which no answered write was lost: [`crate::membership::Record::kept_since`].
    pub kept_since: Term,
    /// The devices of all replicas can write zeroes. A device that cannot must not find out after
    /// another one has done it.
    pub zeroes: bool,
    /// The devices of all replicas release blocks.
    pub deallocates: bool,
}

impl MirrorEntry {
    /// The term and the session that an operation carries to another node.
    pub(crate) fn sent_in(&self, session: u32) -> SentIn {
        SentIn { term: self.term.0, session, is_digest: false }
    }

    /// Whether writes go to other replicas.
    pub(crate) fn has_remotes(&self) -> bool {
        self.remotes.iter().any(Option::is_some)
    }

    /// The other replica with this session.
    pub(crate) fn remote_in(&self, session: u32) -> Option<Remote> {
        self.remotes.iter().flatten().find(|it| it.session == session).copied()
    }

    /// Whether the mirror has the whole range.
    pub(crate) fn holds(&self, offset: ByteOffset, len: ByteLen) -> bool {
        offset.0.checked_add(len.0).is_some_and(|end| end <= self.len.0)
    }
}

type Page = [Option<MirrorEntry>; PAGE_LEN as usize];

/// All mirrors of a node.
#[derive(Clone, Debug, Default)]
pub struct MirrorTable {
    pages: Vec<Arc<Page>>,
}

impl MirrorTable {
    /// A table without mirrors.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same table with another entry; `None` removes one.
    ///
    /// # Panics
    /// When a primary has no replica, which is a bug of the caller.
    #[must_use]
    pub fn with(&self, mirror: MirrorId, entry: Option<MirrorEntry>) -> Self {
        let is_sound = |e: &MirrorEntry| e.role != Role::Primary || e.local.is_some();
        assert!(entry.as_ref().is_none_or(is_sound), "a primary has a replica");
        let mut pages = self.pages.clone();
        let page = index(mirror.0 / PAGE_LEN);
        if pages.len() <= page {
            pages.resize_with(page + 1, || Arc::new([None; PAGE_LEN as usize]));
        }
        Arc::make_mut(&mut pages[page])[index(mirror.0 % PAGE_LEN)] = entry;
        Self { pages }
    }

    /// A mirror.
    #[inline]
    pub fn entry(&self, mirror: MirrorId) -> Option<&MirrorEntry> {
        self.pages.get(index(mirror.0 / PAGE_LEN))?[index(mirror.0 % PAGE_LEN)].as_ref()
    }

    /// All mirrors.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (MirrorId, &MirrorEntry)> {
        let entries = self.pages.iter().flat_map(|page| page.iter());
        (0..).map(MirrorId).zip(entries).filter_map(|(id, entry)| Some((id, entry.as_ref()?)))
    }
}
