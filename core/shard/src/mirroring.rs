//! Mirrors: what a device number leads to, and the ways between the engine, the mirrors, the devices of
//! this node and the other nodes.
//!
//! A host's operation on a mirror goes from the engine to [`Mirrors`], which orders it, and gives
//! operations on devices: a local one, or a remote one that stands for a face of the mirror at another
//! node. A request that another node sends on a face of a mirror of this node goes through the engine as
//! any other. The volume of the *primary face* lies on the mirror; the volume of the *replica face* lies on
//! a device of its own kind, whose operations [`Mirrors`] accepts or refuses.
//!
//! Rules. A request on the primary face is executed only if this node is the primary in the term that the
//! request carries: nobody forwards on. No memory that a client can change is written to a mirror, because
//! the replicas could differ.

#[cfg(test)]
mod resync;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use nearflash_device::{
    Believed, Cause, DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult,
    Health, OperationId,
};
use nearflash_direct::wire::DIGEST_BLOCK_LEN;
use nearflash_direct::{Status, block_digest, digests_len};
use nearflash_engine::{CoreId, Pool};
use nearflash_mirror::{
    Buffers, Core, DeviceKind, DigestKey, MirrorId, MirrorTable, Mirrors, OPERATIONS, Refusal,
    Role, Side, Submission, Term,
};
use nearflash_request::{BufferId, Outcome};
use nearflash_units::{ByteLen, Nanos, index};

use crate::connections::Key;
use crate::message::Message;
use crate::notice::Notice;
use crate::shard::Shard;
use crate::world::{Submitted, World};

/// The length of the blocks that a copy compares.
const BLOCK_LEN: usize = DIGEST_BLOCK_LEN as usize;

/// The time between two reports of one kind on a mirror.
const REPORT_PERIOD: Nanos = Nanos::from_secs(1);

/// A thing that is told at most once in [`REPORT_PERIOD`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Report {
    /// A replica has failed.
    Failed(Side),
    Repaired,
}

/// One core's mirrors.
#[derive(Debug)]
pub(crate) struct Mirroring {
    pub(crate) mirrors: Mirrors,
    kinds: Arc<[DeviceKind]>,
    health: Arc<[Arc<Health>]>,
    properties: Arc<[DeviceProperties]>,
    /// The number of devices before the first one that is not local.
    locals: u32,
    /// Whether any device is a mirror, or a face of one.
    is_used: bool,
    /// Operations of the mirrors that a device has done at once.
    done: Vec<(OperationId, DeviceResult)>,
    /// The flushes and durable writes of mirrors on local devices. The layout has those of volumes.
    believed: Believed,
    /// Questions whether mirrors are drained.
    waits: Vec<(u64, Arc<[MirrorId]>)>,
    /// When each thing was reported last.
    reported: BTreeMap<(MirrorId, Report), Nanos>,
}

impl Mirroring {
    pub(crate) fn new(core: CoreId, table: Arc<MirrorTable>) -> Self {
        Self {
            mirrors: Mirrors::new(Core(core.0), table),
            kinds: Arc::new([]),
            health: Arc::new([]),
            properties: Arc::new([]),
            locals: 0,
            is_used: false,
            done: Vec::new(),
            believed: Believed::default(),
            waits: Vec::new(),
            reported: BTreeMap::new(),
        }
    }

    /// Replaces the kinds of the devices, and what is known of them.
    ///
    /// # Panics
    /// When a device changes its kind, or a local one follows others, which are bugs of the caller.
    pub(crate) fn set_devices(
        &mut self,
        kinds: Arc<[DeviceKind]>,
        health: Arc<[Arc<Health>]>,
        properties: Arc<[DeviceProperties]>,
    ) {
        assert_eq!(kinds.len(), health.len(), "each device has a kind");
        assert_eq!(kinds.len(), properties.len(), "each device has its properties");
        assert!(kinds.starts_with(&self.kinds), "a device keeps its kind");
        let locals = kinds.iter().take_while(|kind| **kind == DeviceKind::Local).count();
        let is_of_mirror =
            |kind: &DeviceKind| matches!(kind, DeviceKind::Mirror(_) | DeviceKind::Replica(_));
        assert!(!kinds[locals..].contains(&DeviceKind::Local), "the local devices come first");
        self.locals = u32::try_from(locals).expect("devices are few");
        self.is_used = kinds.iter().any(is_of_mirror);
        for (kind, health) in kinds.iter().zip(health.iter()).skip(self.kinds.len()) {
            if let DeviceKind::Mirror(mirror) = *kind {
                self.mirrors.set_health(mirror, Arc::clone(health));
            }
        }
        (self.kinds, self.health, self.properties) = (kinds, health, properties);
    }

    /// Whether any device is a mirror, or a face of one.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    #[inline]
    pub(crate) fn is_local(&self, device: DeviceId) -> bool {
        device.0 < self.locals
    }

    /// Whether the operation is one of the mirrors, and not of the engine.
    #[inline]
    pub(crate) fn is_own(id: OperationId) -> bool {
        id.io >= OPERATIONS
    }

    /// The time at which [`Shard::watch_mirrors`] must be called, apart from the looks at other cores'
    /// operations.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.mirrors.poll_timeout()
    }

    /// Whether operations wait for those of other cores.
    pub(crate) fn awaits_others(&self) -> bool {
        self.believed.awaits_others()
    }

    /// Reads the clock. Mirrors must not judge a result by a time before it.
    #[inline]
    pub(crate) fn read_clock<W: World>(&mut self, world: &W) {
        if self.is_used {
            self.mirrors.set_now(world.clock());
        }
    }

    pub(crate) fn await_drained(&mut self, number: u64, mirrors: Arc<[MirrorId]>) {
        self.waits.push((number, mirrors));
    }

    /// The result of an operation of the mirrors on a device, local or remote.
    fn handle_result(&mut self, id: OperationId, result: DeviceResult, now: Nanos) {
        if let Some(result) = self.believed.weigh(id, result, &self.health, now) {
            self.mirrors.handle_device(id, result);
        }
    }

    /// The mirrors are about to submit an operation to a local device.
    #[inline]
    fn begin(&mut self, request: &DeviceRequest) {
        self.believed.begin(request, &self.health, &self.properties);
    }

    /// Ends the operations on local devices that need not wait for those of other cores any longer.
    #[inline]
    fn prove(&mut self, now: Nanos) {
        while let Some((id, result)) = self.believed.poll_proven(&self.health, now) {
            self.mirrors.handle_device(id, result);
        }
    }

    fn is_due_for_report(&mut self, report: (MirrorId, Report), now: Nanos) -> bool {
        let last = self.reported.get(&report);
        if last.is_some_and(|last| now < last.plus(REPORT_PERIOD)) {
            return false;
        }
        self.reported.retain(|_, last| now < last.plus(REPORT_PERIOD));
        self.reported.insert(report, now);
        true
    }
}

impl Shard {
    /// A device operation of the engine that is not for a local device.
    pub(crate) fn submit_elsewhere<W: World>(
        &mut self,
        (request, cause): (DeviceRequest, Cause),
        world: &mut W,
    ) {
        match self.mirroring.kinds[index(request.device.0)] {
            DeviceKind::Local => unreachable!("the caller has looked"),
            DeviceKind::Remote => self.peers.submit(request, (cause, None), world),
            DeviceKind::Mirror(mirror) => self.submit_to_mirror(mirror, (request, cause), world),
            DeviceKind::Replica(mirror) => self.submit_to_replica(mirror, (request, cause), world),
        }
    }

    fn submit_to_mirror<W: World>(
        &mut self,
        mirror: MirrorId,
        (request, cause): (DeviceRequest, Cause),
        world: &mut W,
    ) {
        if let Some(sent) = cause.sent_in {
            let role = self.mirroring.mirrors.role(mirror);
            let term = role.map_or(0, |(_, term)| term.0);
            if role != Some((Role::Primary, Term(sent.term))) {
                let is_stale = term != sent.term;
                let status = if is_stale { Status::STALE_TERM } else { Status::NOT_PRIMARY };
                return self.refuse(cause, request.id, (status, term), world);
            }
        } else if let DeviceOperation::Write { buffer, .. } = request.operation
            && world.pool().foreign(buffer).is_some()
        {
            // The volume was local when its session looked. The client asks again, and its bytes are copied.
            let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
            return self.engine.handle_device(request.id, refused, world.pool());
        }
        self.mirroring.mirrors.submit_from(mirror, request, cause);
    }

    fn submit_to_replica<W: World>(
        &mut self,
        mirror: MirrorId,
        (request, cause): (DeviceRequest, Cause),
        world: &mut W,
    ) {
        let Some(sent) = cause.sent_in else {
            let refused = DeviceResult::Unsupported;
            return self.engine.handle_device(request.id, refused, world.pool());
        };
        if let Err(refusal) = self.mirroring.mirrors.accept(mirror, request, sent) {
            let term = self.mirroring.mirrors.role(mirror).map_or(0, |(_, term)| term.0);
            return self.refuse(cause, request.id, (status_of(refusal), term), world);
        }
        let key = Key::from_owner(cause.owner);
        if cause.is_whole
            && request.operation.changes_data()
            && let Some(connection) = self.connections.get_mut(key)
            && let Some(session) = connection.session.direct_mut()
        {
            session.handle_accepted(cause.tag);
            self.mark_dirty(key);
        }
    }

    /// A request on a face is not executed.
    #[cold]
    fn refuse<W: World>(
        &mut self,
        cause: Cause,
        id: OperationId,
        (status, term): (Status, u32),
        world: &mut W,
    ) {
        let connection = self.connections.get_mut(Key::from_owner(cause.owner));
        let connection = connection.expect("a connection stays until its requests are answered");
        if let Some(session) = connection.session.direct_mut() {
            session.handle_refused(cause.tag, status, term);
        }
        let refused = DeviceResult::Remote(Outcome::Aborted);
        self.engine.handle_device(id, refused, world.pool());
    }

    /// The result of a device operation, of the engine or of the mirrors.
    #[inline]
    pub(crate) fn device_ended<W: World>(
        &mut self,
        id: OperationId,
        result: DeviceResult,
        world: &mut W,
    ) {
        if Mirroring::is_own(id) {
            self.mirroring.handle_result(id, result, world.now());
        } else {
            self.engine.handle_device(id, result, world.pool());
        }
    }

    /// Moves what the mirrors have ready. Returns whether anything moved.
    #[inline]
    pub(crate) fn settle_mirrors<W: World>(&mut self, world: &mut W) -> bool {
        if !self.mirroring.is_used {
            return false;
        }
        let mut moved = false;
        while let Some(id) = self.peers.poll_received() {
            moved = true;
            self.mirroring.mirrors.handle_received(id);
        }
        self.mirroring.prove(world.now());
        if self.mirroring.mirrors.is_copying() {
            self.mirroring.mirrors.copy(&mut PoolBuffers(world.pool()));
        }
        while let Some(device) = self.mirroring.mirrors.poll_abandoned() {
            self.peers.abandon(device, world);
        }
        while let Some(submission) = self.mirroring.mirrors.poll_device() {
            moved = true;
            self.submit_for_mirror(submission, world);
            if !self.mirroring.mirrors.has_submissions() {
                self.handle_done(world);
            }
        }
        while let Some((id, result)) = self.mirroring.mirrors.poll_ended() {
            moved = true;
            self.engine.handle_device(id, result, world.pool());
        }
        while let Some((core, message)) = self.mirroring.mirrors.poll_message() {
            moved = true;
            self.tell(CoreId(core.0), Message::Mirror(message), world);
        }
        self.tell_of_mirrors(world);
        moved
    }

    fn submit_for_mirror<W: World>(&mut self, submission: Submission, world: &mut W) {
        let Submission { request, cause, digests, .. } = submission;
        match self.mirroring.kinds[index(request.device.0)] {
            DeviceKind::Remote => return self.peers.submit(request, (cause, digests), world),
            DeviceKind::Local => {}
            kind => unreachable!("a replica lies on a device, and not on {kind:?}"),
        }
        if let DeviceOperation::Write { buffer, .. } = request.operation
            && world.pool().foreign(buffer).is_some()
        {
            // A read that is repaired, for a client that can change the bytes.
            return self.mirroring.mirrors.handle_device(request.id, DeviceResult::Unsupported);
        }
        self.mirroring.begin(&request);
        if let Submitted::Done(result) = world.submit(request) {
            self.mirroring.done.push((request.id, result));
        }
    }

    /// The results of operations that were done at once: they share one look at the clock.
    fn handle_done<W: World>(&mut self, world: &W) {
        if self.mirroring.done.is_empty() {
            return;
        }
        self.mirroring.read_clock(world);
        let mut done = std::mem::take(&mut self.mirroring.done);
        for (id, result) in done.drain(..) {
            self.mirroring.handle_result(id, result, world.now());
        }
        self.mirroring.done = done;
    }

    /// Tells the control plane which parts of a mirror this core has written.
    pub(crate) fn tell_written<W: World>(&mut self, mirror: MirrorId, session: u32, world: &mut W) {
        let written = Box::new(self.mirroring.mirrors.written(mirror));
        world.notice(Notice::MirrorWritten { mirror, session, written });
    }

    /// Tells the control plane which replicas have failed, and which mirrors are drained.
    fn tell_of_mirrors<W: World>(&mut self, world: &mut W) {
        let now = world.now();
        while let Some((mirror, result, side)) = self.mirroring.mirrors.poll_failure() {
            let report = (mirror, Report::Failed(side));
            if self.mirroring.is_due_for_report(report, now) {
                world.notice(Notice::ReplicaFailed { mirror, result, side });
            }
        }
        while let Some(mirror) = self.mirroring.mirrors.poll_repaired() {
            if self.mirroring.is_due_for_report((mirror, Report::Repaired), now) {
                world.notice(Notice::ReadRepaired { mirror });
            }
        }
        while let Some(mirror) = self.mirroring.mirrors.poll_lost() {
            world.notice(Notice::MirrorWritesLost { mirror });
        }
        while let Some(copied) = self.mirroring.mirrors.poll_copied() {
            world.notice(Notice::MirrorCopied(copied));
        }
        let core = self.config.core;
        let Mirroring { mirrors, waits, .. } = &mut self.mirroring;
        let is_drained = |awaited: &[MirrorId]| awaited.iter().all(|it| mirrors.is_drained(*it));
        for (number, _) in waits.extract_if(.., |(_, awaited)| is_drained(awaited)) {
            world.notice(Notice::MirrorsDrained(core, number));
        }
    }

    /// Lets the mirrors look at what waits, if it is time. Returns whether it was.
    pub(crate) fn watch_mirrors<W: World>(&mut self, world: &W) -> bool {
        let Some(at) = self.mirroring.poll_timeout() else { return false };
        let now = world.clock();
        if at > now {
            return false;
        }
        self.mirroring.mirrors.set_now(now);
        self.mirroring.mirrors.handle_timeout();
        true
    }
}

/// The buffers of copies: those of this core's pool.
struct PoolBuffers<'a>(&'a mut Pool);

impl Buffers for PoolBuffers<'_> {
    fn take(&mut self, len: ByteLen) -> Option<BufferId> {
        self.0.take(len)
    }

    fn take_for_digests(&mut self, len: ByteLen) -> Option<BufferId> {
        let len = u32::try_from(len.0).expect("a piece is much shorter");
        self.0.take(ByteLen(digests_len(len).into()))
    }

    fn give(&mut self, buffer: BufferId) {
        self.0.give_back(buffer);
    }

    fn differing(
        &mut self,
        here: BufferId,
        there: BufferId,
        len: ByteLen,
        key: &DigestKey,
    ) -> Vec<Range<u64>> {
        differing(&self.0.bytes(here)[..len.to_usize()], self.0.bytes(there), key)
    }
}

/// The runs of blocks whose digests are not those of another node.
fn differing(blocks: &[u8], digests: &[u8], key: &DigestKey) -> Vec<Range<u64>> {
    let (digests, _) = digests.as_chunks();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (place, (block, digest)) in (0..).zip(blocks.chunks(BLOCK_LEN).zip(digests)) {
        let start = place * BLOCK_LEN as u64;
        let end = start + BLOCK_LEN as u64;
        match runs.last_mut() {
            _ if block_digest(key, block) == *digest => {}
            Some(run) if run.end == start => run.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

fn status_of(refusal: Refusal) -> Status {
    match refusal {
        Refusal::StaleTerm(_) | Refusal::StaleSession(_) => Status::STALE_TERM,
        Refusal::NoReplica | Refusal::NotSecondary => Status::DEVICE_UNAVAILABLE,
        Refusal::OutOfRange => Status::OUT_OF_RANGE,
        Refusal::Operation => Status::UNSUPPORTED,
    }
}

#[cfg(test)]
mod tests {
    use nearflash_mirror::{Local, MirrorEntry, REMOTES_MAX};
    use nearflash_units::{BlockSize, ByteOffset};

    use super::*;

    #[test]
    fn blocks_whose_digests_differ_are_copied_in_runs() {
        let (key, mut blocks) = ([3; 16], vec![0; 6 * BLOCK_LEN]);
        let digests: Vec<u8> =
            blocks.chunks(BLOCK_LEN).flat_map(|it| block_digest(&key, it)).collect();
        assert_eq!(differing(&blocks, &digests, &key), []);
        for at in [0, 2 * BLOCK_LEN - 1, 5 * BLOCK_LEN] {
            blocks[at] = 1;
        }
        assert_eq!(differing(&blocks, &digests, &key), [0..8192, 20480..24576]);
        assert_eq!(differing(&blocks, &digests, &[4; 16]).len(), 1, "of another copy");
    }

    /// The table of a node without a replica.
    fn elsewhere(kept_since: Term) -> Arc<MirrorTable> {
        let entry = MirrorEntry {
            term: Term(kept_since.0 + 5),
            role: Role::Elsewhere,
            local: None,
            remotes: [None; REMOTES_MAX],
            primary: Some(DeviceId(1)),
            kept_since,
            ..resync::entry()
        };
        Arc::new(MirrorTable::new().with(MirrorId(0), Some(entry)))
    }

    fn properties(volatile_cache: bool) -> DeviceProperties {
        DeviceProperties {
            len: ByteLen(1 << 20),
            block_size: BlockSize::from_bytes(4096).unwrap(),
            volatile_cache,
            reads_as_zeroes: false,
            deallocates: false,
        }
    }

    #[test]
    fn a_flush_of_a_replica_waits_for_other_operations_only_if_its_device_has_a_volatile_cache() {
        for volatile_cache in [false, true] {
            let local = Local { device: DeviceId(0), start: ByteOffset(0), volatile_cache };
            let entry =
                MirrorEntry { local: Some(local), remotes: [None; REMOTES_MAX], ..resync::entry() };
            let table = Arc::new(MirrorTable::new().with(MirrorId(0), Some(entry)));
            let mut mirroring = Mirroring::new(CoreId::FIRST, table);
            let kinds = [DeviceKind::Local, DeviceKind::Mirror(MirrorId(0))];
            let health = [Arc::new(Health::default()), Arc::new(Health::default())];
            let properties = [properties(volatile_cache), properties(volatile_cache)];
            mirroring.set_devices(kinds.into(), health.clone().into(), properties.into());
            let _of_another_core = health[0].begin();
            let (device, offset, len) = (DeviceId(0), ByteOffset(0), ByteLen(0));
            let id = OperationId { io: OPERATIONS, op: 0, generation: 0 };
            let flush = DeviceOperation::Flush;
            mirroring.begin(&DeviceRequest { id, device, operation: flush, offset, len });
            let known =
                mirroring.believed.weigh(id, DeviceResult::Done, &mirroring.health, Nanos(0));
            assert_eq!(known.is_none(), volatile_cache);
            assert_eq!(mirroring.awaits_others(), volatile_cache);
        }
    }

    #[test]
    fn the_device_that_is_a_mirror_becomes_suspect_when_answered_writes_are_lost() {
        let mut mirroring = Mirroring::new(CoreId::FIRST, elsewhere(Term(0)));
        let kinds = [DeviceKind::Mirror(MirrorId(0)), DeviceKind::Remote];
        let health = [Arc::new(Health::default()), Arc::new(Health::default())];
        let properties = [properties(true), properties(true)];
        mirroring.set_devices(kinds.into(), health.clone().into(), properties.into());
        let id = OperationId { io: 1, op: 0, generation: 0 };
        let operation = DeviceOperation::WriteZeroes { deallocate: false };
        let (device, offset, len) = (DeviceId(0), ByteOffset(0), ByteLen(4096));
        let request = DeviceRequest { id, device, operation, offset, len };
        mirroring.mirrors.submit_from(MirrorId(0), request, Cause::NONE);
        let sent = mirroring.mirrors.poll_device().unwrap().request.id;
        mirroring.handle_result(sent, DeviceResult::Done, Nanos(0));
        assert_eq!(mirroring.mirrors.poll_ended(), Some((id, DeviceResult::Done)));
        mirroring.mirrors.set_table(elsewhere(Term(3)));
        assert_eq!([&health[0], &health[1]].map(|it| it.is_suspect()), [true, false]);
        assert_eq!(mirroring.mirrors.poll_lost(), Some(MirrorId(0)));
    }
}
