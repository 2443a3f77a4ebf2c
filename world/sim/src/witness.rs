//! Observes every write given to a device, and checks that the device may receive it then.
//!
//! A write whose connection is lost without an answer may take effect until its device operation
//! ends. That operation must begin before the node closes the connection's socket. The exceptions are
//! the second half of a compare-and-write, which waits for its fence first, and a write to a part of
//! a device's block, which follows a read of the rest. So once a connection is closed and its device
//! operations have ended, its writes never change anything again.
//!
//! A peer may return and be told that its earlier commands are over: a host whose old controller
//! ended, an initiator that reinstates its session, or a client that claims its identity. Then no
//! operation of its old connections is under way. The same holds when the node reports that a
//! client or an initiator's session is gone.
//!
//! When the end of a connection has arrived at its node, or its keep-alive timer has expired, no write begins that
//! lies in the node's sockets and rings: the peer may repeat it elsewhere. The node has [`END_SEEN_MAX`] to notice.
//!
//! A peer may lose its access, by a reservation or because its grants or its seal were revoked. From the moment
//! at which the node confirms this, none of its operations is under way, and none begins.
//!
//! Invariants checked: each write is given to a device at most once; a write answered as not done
//! is never given to a device.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_request::{Access, Nexus};
use nearflash_units::{Lba, Nanos};

use crate::history::Block;
use crate::machine::NodeId;
use crate::network::LinkId;
use crate::reservations::Rules;
use crate::stamp::{Stamp, Value, Writer};

/// How long after the end of a connection a node may still begin its writes.
const END_SEEN_MAX: Nanos = Nanos::from_millis(200);

/// A moment in the order of everything that hosts and devices do. No two are the same.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Tick(pub u64);

impl Tick {
    /// Later than every moment.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// The state of one write of one block on its device.
#[derive(Clone, Copy, Debug)]
struct Fate {
    ended: Tick,
}

/// The protocol by which a peer connects.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Door {
    NvmeTcp,
    Iscsi,
    Direct,
}

impl Door {
    /// Its index among all protocols.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::NvmeTcp => 0,
            Self::Iscsi => 1,
            Self::Direct => 2,
        }
    }
}

/// A peer that reads and writes, on any number of connections.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Who {
    pub(crate) door: Door,
    pub(crate) number: u32,
}

/// A connection on which a peer writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) who: Who,
    /// The peer's nexus in the terms of reservations.
    pub(crate) nexus: Nexus,
    pub(crate) link: LinkId,
    /// For an I/O queue: the admin queue of its controller.
    pub(crate) admin: Option<LinkId>,
    /// The node that it is connected to, if that is not the node of the volumes.
    pub(crate) over: Option<NodeId>,
    /// A client has entered with a bearer. It claims no identity, so that no claim ends the connection.
    pub(crate) is_bearers: bool,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    opened: Opened,
    /// When the peer or the control side was told that nothing of this connection is under way any
    /// more.
    silent: Tick,
}

type Place = (u32, Lba, Writer, u32);

#[derive(Debug, Default)]
pub(crate) struct Witness {
    fates: BTreeMap<Place, Fate>,
    /// Writes that were answered as not done.
    refused: BTreeSet<Place>,
    writers: BTreeMap<Writer, Connection>,
    /// The host that owns each admin queue's link.
    admins: BTreeMap<LinkId, Who>,
    /// The core's turn in which the node closed each link.
    closed: BTreeMap<LinkId, u64>,
    /// The reservations of each volume that are in force on at least one core.
    in_force: BTreeMap<u32, Vec<Rules>>,
    /// Clients without any grant.
    revoked: BTreeSet<Who>,
    /// Writers whose seal is void.
    voided: BTreeSet<Writer>,
    /// Blocks that a peer rewrites with their own content, by connection, with the number of such
    /// requests under way.
    touched: BTreeMap<(Block, Writer), u32>,
    /// A write to the primary's device waits for the other replica, while its connection may be closed.
    pub(crate) is_mirrored: bool,
    /// Nothing holds up writes between nodes: those of other nodes' hosts begin as soon as others.
    pub(crate) is_swift: bool,
}

/// The first place in a volume.
fn first_of(volume: u32) -> Place {
    (volume, Lba(0), Writer(0), 0)
}

fn place(stamp: &Stamp) -> Place {
    (stamp.volume, stamp.lba, stamp.writer, stamp.sequence)
}

impl Witness {
    /// A host connects an admin queue.
    pub(crate) fn joins(&mut self, host: Who, admin: LinkId) {
        self.admins.insert(admin, host);
    }

    /// A peer opens a connection on which it will write.
    pub(crate) fn opens(&mut self, writer: Writer, opened: Opened) {
        self.writers.insert(writer, Connection { opened, silent: Tick::NEVER });
    }

    /// The protocol of a writer.
    pub(crate) fn door_of(&self, writer: Writer) -> Option<Door> {
        self.writers.get(&writer).map(|connection| connection.opened.who.door)
    }

    /// The node over which a writer reaches the volumes of another one.
    pub(crate) fn over(&self, writer: Writer) -> Option<NodeId> {
        self.writers.get(&writer).and_then(|connection| connection.opened.over)
    }

    /// The node grants a controller to the host at `admin`. The host's commands on an earlier
    /// controller there have ended for good: the host may repeat its unanswered writes.
    pub(crate) fn granted(&mut self, admin: LinkId, is_there: impl Fn(LinkId) -> bool, now: Tick) {
        let Some(host) = self.admins.get(&admin).copied() else { return };
        let left = self.writers_of(|it| {
            let admin = it.admin.filter(|admin| is_there(*admin));
            it.who == host && admin.is_some_and(|admin| self.closed.contains_key(&admin))
        });
        self.fall_silent(&left, now);
    }

    /// An initiator or a client is connected again, at `link`, and was told that its earlier
    /// commands are over.
    pub(crate) fn is_back(&mut self, who: Who, link: LinkId, now: Tick) {
        let left = self.writers_of(|it| it.who == who && it.link != link && !it.is_bearers);
        self.fall_silent(&left, now);
    }

    /// A client's connection is gone, and so are all its requests.
    pub(crate) fn is_gone(&mut self, link: LinkId, now: Tick) {
        let left = self.writers_of(|it| it.link == link);
        self.fall_silent(&left, now);
    }

    /// An initiator's session is over, and so are all its requests.
    pub(crate) fn is_over(&mut self, nexus: Nexus, now: Tick) {
        let left = self.writers_of(|it| it.nexus == nexus && self.closed.contains_key(&it.link));
        self.fall_silent(&left, now);
    }

    fn writers_of(&self, is_meant: impl Fn(&Opened) -> bool) -> BTreeSet<Writer> {
        // A node does not wait for another one for longer than a while.
        let is_near = |opened: &Opened| opened.over.is_none();
        let meant =
            self.writers.iter().filter(|(_, it)| is_near(&it.opened) && is_meant(&it.opened));
        meant.map(|(writer, _)| *writer).collect()
    }

    fn fall_silent(&mut self, left: &BTreeSet<Writer>, now: Tick) {
        for (_, connection) in self.writers.iter_mut().filter(|(writer, _)| left.contains(writer)) {
            connection.silent = connection.silent.min(now);
        }
        self.touched.retain(|(_, writer), _| !left.contains(writer));
        let under_way = self.under_way(..).find(|(_, _, writer, _)| left.contains(writer));
        assert!(under_way.is_none(), "{under_way:?} is under way and whose it is is back, or gone");
    }

    fn under_way(
        &self,
        range: impl std::ops::RangeBounds<Place>,
    ) -> impl Iterator<Item = Place> + '_ {
        let fates = self.fates.range(range);
        fates.filter(|(_, fate)| fate.ended == Tick::NEVER).map(|(place, _)| *place)
    }

    /// The node closes a link.
    pub(crate) fn closed(&mut self, link: LinkId, turn: u64) {
        self.closed.insert(link, turn);
    }

    /// From now on exactly these reservations of a volume are in force on some core. A peer
    /// excluded by all of them has no operation under way.
    pub(crate) fn goes_by(&mut self, volume: u32, rules: Vec<Rules>) {
        self.in_force.insert(volume, rules);
        self.check_rights(volume);
    }

    /// Revokes a client's grants, or restores them.
    pub(crate) fn set_revoked(&mut self, client: Who, is_revoked: bool) {
        if is_revoked {
            self.revoked.insert(client);
        } else {
            self.revoked.remove(&client);
        }
        let volumes: BTreeSet<u32> = self.fates.keys().map(|(volume, ..)| *volume).collect();
        volumes.into_iter().for_each(|volume| self.check_rights(volume));
    }

    /// The node has confirmed that the seal of a writer is void.
    pub(crate) fn void(&mut self, writer: Writer, volume: u32) {
        self.voided.insert(writer);
        self.check_rights(volume);
    }

    fn check_rights(&self, volume: u32) {
        for place in self.under_way(first_of(volume)..first_of(volume + 1)) {
            let may = self.may_write(volume, place.2);
            assert!(may, "{place:?} is under way, and whose it is has lost its right");
        }
    }

    /// Whether any state in force allows a writer to write to a volume.
    pub(crate) fn may_write(&self, volume: u32, writer: Writer) -> bool {
        let Some(Connection { opened, .. }) = self.writers.get(&writer) else { return true };
        let allows = |rules: &Rules| rules.allow(opened.nexus, Access::Write);
        !self.revoked.contains(&opened.who)
            && !self.voided.contains(&writer)
            && self.in_force.get(&volume).is_none_or(|rules| rules.iter().any(allows))
    }

    /// A peer is about to rewrite a block with its own content.
    pub(crate) fn touches(&mut self, block: Block, writer: Writer) {
        *self.touched.entry((block, writer)).or_default() += 1;
    }

    /// The rewrite is over.
    pub(crate) fn touched(&mut self, block: Block, writer: Writer) {
        if let Some(count) = self.touched.get_mut(&(block, writer)) {
            *count -= 1;
        }
    }

    /// Whether a peer rewrites the block with this content, which it already held.
    fn is_touched(&self, stamp: &Stamp) -> bool {
        let block = Block { volume: stamp.volume, lba: stamp.lba };
        let has_ended = self.fates.get(&place(stamp)).is_some_and(|it| it.ended != Tick::NEVER);
        let mut touches = self.touched.range((block, Writer(0))..=(block, Writer(u32::MAX)));
        has_ended && touches.any(|(_, count)| *count > 0)
    }

    /// A write was answered as not done.
    pub(crate) fn refused(&mut self, stamp: &Stamp) {
        let is_known = self.fates.contains_key(&place(stamp));
        assert!(!is_known, "{stamp:?} was given to a device, and answered as not done");
        self.refused.insert(place(stamp));
    }

    /// A write was answered for good: it does not take effect any more, unless it has.
    pub(crate) fn answered(&mut self, stamp: &Stamp) {
        let is_over = self.fates.get(&place(stamp)).is_none_or(|it| it.ended != Tick::NEVER);
        assert!(is_over, "{stamp:?} is under way, and was answered");
        self.refused.insert(place(stamp));
    }

    /// Blocks are given to a device. With `before`, the bytes that the device has there now, blocks that
    /// it has already are only written back: its own blocks are larger, and changed in part.
    pub(crate) fn submitted(
        &mut self,
        bytes: &[u8],
        before: Option<&[u8]>,
        block_len: usize,
        turn: u64,
        over_for: impl Fn(LinkId) -> Option<Nanos>,
    ) {
        for (index, block) in bytes.chunks_exact(block_len).enumerate() {
            let Value::Written(stamp) = Value::of(block) else { continue };
            if self.is_touched(&stamp) {
                continue;
            }
            let start = index * block_len;
            if before.is_some_and(|before| before[start..start + block_len] == *block) {
                let is_over = self.end_of(&stamp) != Tick::NEVER;
                assert!(is_over, "{stamp:?} is under way in a block that another write changes");
                continue;
            }
            let place = place(&stamp);
            let twin = self.fates.insert(place, Fate { ended: Tick::NEVER });
            assert!(twin.is_none(), "{stamp:?} was given to a device twice");
            assert!(!self.refused.contains(&place), "{stamp:?} was answered, and began then");
            let may = self.may_write(stamp.volume, stamp.writer);
            assert!(may, "{stamp:?} began, and whose it is had lost its right");
            let connection = self.writers.get(&stamp.writer);
            let is_silent = connection.is_some_and(|connection| connection.silent != Tick::NEVER);
            assert!(!is_silent, "{stamp:?} began after whose it is was back, or gone");
            let swift = connection
                .filter(|it| self.is_swift || it.opened.over.is_none() && !self.is_mirrored);
            let over_for = swift.and_then(|it| over_for(it.opened.link));
            let is_given_up = stamp.count == 0
                && before.is_none_or(|_| self.is_mirrored)
                && over_for.is_some_and(|span| span > END_SEEN_MAX);
            assert!(!is_given_up, "{stamp:?} began {over_for:?} after its connection was over");
            let near = connection.filter(|it| it.opened.over.is_none());
            let closed = near.and_then(|it| self.closed.get(&it.opened.link));
            // A write of a part of a larger block follows the read of the rest.
            let is_first = stamp.count == 0 && before.is_none() && !self.is_mirrored;
            let is_late = is_first && closed.is_some_and(|closed| *closed < turn);
            assert!(!is_late, "{stamp:?} began after its connection was closed");
        }
    }

    /// The operation that writes these blocks has ended.
    pub(crate) fn ended(&mut self, bytes: &[u8], block_len: usize, now: Tick) {
        for block in bytes.chunks_exact(block_len) {
            let Value::Written(stamp) = Value::of(block) else { continue };
            if let Some(fate) = self.fates.get_mut(&place(&stamp)) {
                // A block rewritten with its own content ended before.
                fate.ended = fate.ended.min(now);
            }
        }
    }

    /// The moment after which a write can no longer take effect, even if its connection is lost.
    pub(crate) fn end_of(&self, stamp: &Stamp) -> Tick {
        self.fates.get(&place(stamp)).map_or(Tick::NEVER, |fate| fate.ended)
    }

    /// The moment since which no operation of a writer is under way or begins.
    pub(crate) fn silent_since(&self, writer: Writer) -> Tick {
        self.writers.get(&writer).map_or(Tick::NEVER, |connection| connection.silent)
    }

    /// A node's power goes: its operations under way never end.
    pub(crate) fn lose_power(&mut self, node: NodeId, now: Tick) {
        let volumes = node.volumes();
        let gone = self.fates.range_mut(first_of(volumes.start)..first_of(volumes.end));
        gone.for_each(|(_, fate)| fate.ended = fate.ended.min(now));
        self.touched.retain(|(block, _), _| !volumes.contains(&block.volume));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Writer = Writer(3);
    const WHO: Who = Who { door: Door::Direct, number: 0 };
    const STAMP: Stamp = Stamp { volume: 0, lba: Lba(5), writer: WRITER, sequence: 1, count: 0 };

    fn bytes(stamp: Stamp) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        stamp.write(&mut bytes);
        bytes
    }

    fn witness() -> Witness {
        let mut witness = Witness::default();
        let link = LinkId(1);
        witness.opens(
            WRITER,
            Opened {
                who: WHO,
                nexus: Nexus::NONE,
                link,
                admin: None,
                over: None,
                is_bearers: false,
            },
        );
        witness
    }

    /// A write that is under way.
    fn with_write() -> Witness {
        let mut witness = witness();
        witness.submitted(&bytes(STAMP), None, 512, 1, |_| None);
        witness
    }

    #[test]
    #[should_panic(expected = "has lost its right")]
    fn a_write_of_one_that_lost_its_right_is_not_under_way_then() {
        with_write().set_revoked(WHO, true);
    }

    #[test]
    fn a_write_that_ended_before_the_right_to_it_was_lost_is_nothing_wrong() {
        let mut witness = with_write();
        witness.ended(&bytes(STAMP), 512, Tick(7));
        witness.set_revoked(WHO, true);
        assert_eq!(witness.end_of(&STAMP), Tick(7));
    }

    #[test]
    #[should_panic(expected = "had lost its right")]
    fn a_write_of_one_without_right_does_not_begin() {
        let mut witness = witness();
        witness.set_revoked(WHO, true);
        witness.submitted(&bytes(STAMP), None, 512, 1, |_| None);
    }

    #[test]
    #[should_panic(expected = "was answered, and began then")]
    fn a_write_that_was_refused_does_not_begin() {
        let mut witness = witness();
        witness.refused(&STAMP);
        witness.submitted(&bytes(STAMP), None, 512, 1, |_| None);
    }

    #[test]
    #[should_panic(expected = "answered as not done")]
    fn a_write_that_began_is_not_refused() {
        with_write().refused(&STAMP);
    }

    #[test]
    #[should_panic(expected = "whose it is is back")]
    fn who_is_back_has_nothing_under_way_of_what_it_left() {
        with_write().is_back(WHO, LinkId(2), Tick(9));
    }

    #[test]
    #[should_panic(expected = "or gone")]
    fn who_is_gone_has_nothing_under_way() {
        with_write().is_gone(LinkId(1), Tick(9));
    }

    #[test]
    #[should_panic(expected = "began after")]
    fn who_is_gone_begins_nothing() {
        let mut witness = witness();
        witness.is_gone(LinkId(1), Tick(9));
        witness.submitted(&bytes(STAMP), None, 512, 1, |_| None);
    }

    #[test]
    #[should_panic(expected = "given to a device twice")]
    fn a_write_is_given_to_a_device_once() {
        let mut witness = with_write();
        witness.ended(&bytes(STAMP), 512, Tick(7));
        witness.submitted(&bytes(STAMP), None, 512, 2, |_| None);
    }

    #[test]
    fn a_block_that_a_larger_block_contains_is_written_back_with_it() {
        let mut witness = with_write();
        witness.ended(&bytes(STAMP), 512, Tick(7));
        witness.submitted(&bytes(STAMP), Some(&bytes(STAMP)), 512, 2, |_| None);
        assert_eq!(witness.end_of(&STAMP), Tick(7));
    }

    #[test]
    #[should_panic(expected = "another write changes")]
    fn a_block_that_is_being_written_is_not_written_back() {
        let mut witness = with_write();
        witness.submitted(&bytes(STAMP), Some(&bytes(STAMP)), 512, 2, |_| None);
    }

    #[test]
    fn what_somebody_writes_back_is_no_second_write() {
        let mut witness = with_write();
        witness.ended(&bytes(STAMP), 512, Tick(7));
        witness.touches(Block { volume: 0, lba: STAMP.lba }, Writer(8));
        witness.submitted(&bytes(STAMP), None, 512, 2, |_| None);
        witness.ended(&bytes(STAMP), 512, Tick(9));
        assert_eq!(witness.end_of(&STAMP), Tick(7));
    }
}
