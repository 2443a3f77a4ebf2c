//! A client's sealed objects: it mints seals for the blocks that hosts and initiators share, uses the
//! objects in place of the volumes, and revokes the seals with requests in flight. Where clients have no
//! keys, each may revoke the seals of the others, which may be on other cores.
//!
//! Writes through a seal have a writer of their own. Once a revocation is confirmed, the witness and the
//! history let no write of this writer take effect.

use std::collections::BTreeMap;

use nearflash_direct::client::{
    ClientEvent, ClientOperation, GrantedKey, Void, VolumeHandle, VolumeInfo,
};
use nearflash_direct::wire::{BEARER_GOOD_MAX, Rights, Run as SealRun, SEAL_GOOD_MAX, SealTerms};
use nearflash_direct::{Secret, Status};
use nearflash_request::Nexus;

use super::{Client, Common, Life, Pending};
use crate::judge::{Asker, Checks, Io};
use crate::outside::Outside;
use crate::stamp::Writer;
use crate::witness::{Opened, Tick};
use crate::workload::Run;

/// The length of a run.
const RUN_LEN: u64 = nearflash_space::GRANULE.0;

/// A client's seals.
#[derive(Debug, Default)]
pub(crate) struct Seals {
    /// The version of the last seal. It grows over all connections.
    version: u32,
    asked: Option<(u32, Asked)>,
    object: Option<Object>,
    /// Requests through a seal may be refused once it is being revoked; when it was, they must be.
    voids: BTreeMap<Writer, Option<Tick>>,
    /// Its next request goes through the seal, if it can.
    is_chosen: bool,
    /// The last key of the node's present start, for connections with a bearer.
    kept: Option<Kept>,
    /// Its next connection has a bearer, if it can.
    lends: bool,
    /// With its bearer, it could not open the seal.
    is_shut_out: bool,
    /// The node has none for these volumes.
    is_unsupported: bool,
}

/// A key for a volume, and the node's start that gave it.
#[derive(Clone, Debug)]
struct Kept {
    granted: GrantedKey,
    volume: u32,
    start: u32,
}

/// A message that the node has not answered.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Key(u32),
    Open(Object),
    Revoke(Wanted),
}

/// The object: the first two runs of a volume, in their order or the other one.
#[derive(Clone, Copy, Debug)]
struct Object {
    volume: u32,
    handle: VolumeHandle,
    asker: Asker,
    is_swapped: bool,
}

/// A revocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    by: usize,
    volume: u32,
    version: u32,
    writer: Writer,
}

impl Object {
    fn offset(&self, in_volume: u64) -> u64 {
        if self.is_swapped { in_volume ^ RUN_LEN } else { in_volume }
    }

    /// Whether the object has all these bytes of the volume, one after the other.
    fn has(&self, volume: u32, first: u64, len: u64) -> bool {
        let (last, is_cut) = (first + len.max(1) - 1, self.is_swapped);
        volume == self.volume
            && last < 2 * RUN_LEN
            && (!is_cut || first / RUN_LEN == last / RUN_LEN)
    }
}

impl Seals {
    /// The connection has ended, and its handles with it.
    pub(super) fn end(&mut self) {
        (self.asked, self.object, self.is_shut_out) = (None, None, false);
    }

    fn of(&self, asker: Asker) -> Option<&Object> {
        self.object.as_ref().filter(|object| object.asker.writer == asker.writer)
    }

    /// Whether the message of this number was about seals.
    pub(super) fn has_asked(&self, number: u32) -> bool {
        self.asked.as_ref().is_some_and(|(asked, _)| *asked == number)
    }
}

impl Client {
    /// Who sends a request for these blocks: this connection, or its seal.
    pub(super) fn field_asker(&self, run: Run) -> Option<Asker> {
        let own = self.connection.as_ref()?.asker;
        let first = run.block.lba.0 * self.ground.block_len;
        let len = run.count * self.ground.block_len;
        let object = self.seals.object.as_ref().filter(|_| self.seals.is_chosen);
        let object = object.filter(|object| object.has(run.block.volume, first, len));
        match object {
            Some(object) => Some(object.asker),
            None => (!self.is_bearer()).then_some(own),
        }
    }

    /// Whether its connection has entered with a bearer.
    pub(super) fn is_bearer(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_bearers)
    }

    /// The bearer of its next connection, if that is to have one: every second one.
    pub(super) fn draw_bearer(&mut self, outside: &Outside) -> Option<(Box<str>, Secret)> {
        let start = outside.machine(self.route.node).starts;
        let kept = self.seals.kept.as_ref().filter(|kept| kept.start == start)?;
        self.seals.lends = !self.seals.lends;
        if !self.plan.bearers || !self.seals.lends || self.plan.crooked.is_some() {
            return None;
        }
        let bearer = kept.granted.key.bearer(kept.granted.seconds + BEARER_GOOD_MAX);
        Some((bearer.id().into(), bearer.secret().clone()))
    }

    /// With a bearer, opens a seal if it has none. Returns whether it cannot.
    pub(super) fn is_idle_bearer(&mut self, writers: &mut u32, outside: &mut Outside) -> bool {
        let is_working = self.is_bearer() && self.life == Life::Working;
        if is_working && self.seals.object.is_none() && self.seals.asked.is_none() {
            let kept = self.seals.kept.clone().filter(|_| !self.seals.is_shut_out);
            let Some(Kept { granted, volume, .. }) = kept else { return true };
            self.open_sealed(&granted, volume, writers, outside);
        }
        false
    }

    /// Whether these blocks lie in two runs of the seal through which they are used.
    pub(super) fn is_in_two_runs(&self, asker: Asker, run: Run) -> bool {
        let seam = RUN_LEN / self.ground.block_len;
        let crosses = run.block.lba.0 < seam && run.block.lba.0 + run.count > seam;
        crosses && self.seals.of(asker).is_some()
    }

    /// The handle of a request through a seal, and the request by the object's offsets.
    pub(super) fn through_seal(
        &self,
        asker: Asker,
        operation: &ClientOperation,
    ) -> Option<(VolumeHandle, ClientOperation)> {
        let object = self.seals.of(asker)?;
        let mut operation = *operation;
        match &mut operation {
            ClientOperation::Read { offset, .. }
            | ClientOperation::Write { offset, .. }
            | ClientOperation::Discard { offset, .. }
            | ClientOperation::Zero { offset, .. }
            | ClientOperation::CompareAndSwap { offset, .. }
            | ClientOperation::FetchAdd { offset, .. }
            | ClientOperation::Digest { offset, .. } => *offset = object.offset(*offset),
            ClientOperation::Flush => {}
        }
        Some((object.handle, operation))
    }

    /// Takes the next step with its seals, before it makes requests.
    pub(super) fn work_on_seals(&mut self, common: &mut Common) {
        self.seals.is_chosen = false;
        let is_used = self.plan.seals && !self.seals.is_unsupported && !self.is_deaf();
        if !is_used || self.life != Life::Working || self.plan.crooked.is_some() {
            return;
        }
        let share = if self.is_bearer() { 1000 } else { 700 };
        self.seals.is_chosen = self.seals.object.is_some() && self.dice.permille(share);
        if self.seals.asked.is_some() {
            return;
        }
        // Without keys, clients are one minter.
        let other = common.wanted.iter().position(|wanted| wanted.by != self.number);
        if let Some(other) = other.filter(|_| !self.has_key && !self.is_bearer()) {
            let wanted = common.wanted.remove(other);
            return self.revoke(wanted);
        }
        match self.seals.object {
            None if self.is_bearer() => {}
            None => self.ask_for_key(),
            Some(object)
                if self.seals.voids.get(&object.asker.writer).is_none_or(Option::is_some) =>
            {
                self.end_object(object, common);
            }
            Some(_) => {}
        }
    }

    fn ask_for_key(&mut self) {
        let Some((volume, _)) = self.workload.field.volumes.first().copied() else { return };
        let Some(connection) = &mut self.connection else { return };
        let Some(handle) = connection.volumes.get(&volume) else { return };
        // A connection that is closing fails by itself.
        if let Ok(number) = connection.session.seal_key(*handle) {
            self.seals.asked = Some((number, Asked::Key(volume)));
        }
    }

    /// Sometimes revokes its seal, or gives up one that was revoked.
    fn end_object(&mut self, object: Object, common: &mut Common) {
        let writer = object.asker.writer;
        if self.seals.voids.contains_key(&writer) {
            if self.dice.permille(500) {
                self.close_object(object);
            }
        } else if self.dice.permille(20) && !(self.has_key && self.is_bearer()) {
            let (volume, version) = (object.volume, self.seals.version + 1);
            let wanted = Wanted { by: self.number, volume, version, writer };
            self.seals.voids.insert(writer, None);
            if !self.has_key && (self.is_bearer() || self.dice.coin()) {
                common.wanted.push(wanted);
            } else {
                self.revoke(wanted);
            }
        }
    }

    /// Closes the object, unless requests on it are in flight: over rings, they may come after that.
    fn close_object(&mut self, object: Object) {
        let Some(connection) = &mut self.connection else { return };
        let writer = object.asker.writer;
        let is_of_object =
            |it: &Pending| matches!(it, Pending::Field(io) if io.asker.writer == writer);
        if !connection.pending.values().any(is_of_object) {
            self.seals.object = None;
            // A connection that is closing fails by itself.
            let _ = connection.session.close(object.handle);
        }
    }

    fn revoke(&mut self, wanted: Wanted) {
        let Some(connection) = &mut self.connection else { return };
        let Some(handle) = connection.volumes.get(&wanted.volume) else { return };
        let object = u64::try_from(wanted.by).expect("few clients");
        let void = Void::Object { object, version: wanted.version };
        if let Ok(number) = connection.session.revoke(*handle, void) {
            self.seals.asked = Some((number, Asked::Revoke(wanted)));
        }
    }

    /// Handles the answers about seals.
    pub(super) fn take_seal_events(
        &mut self,
        writers: &mut u32,
        common: &mut Common,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        for event in std::mem::take(&mut self.seal_events) {
            let Some((_, asked)) = self.seals.asked.take() else { continue };
            match (event, asked) {
                (ClientEvent::SealKey { result: Ok(granted), .. }, Asked::Key(volume)) => {
                    self.open_sealed(&granted, volume, writers, outside);
                    let start = outside.machine(self.route.node).starts;
                    self.seals.kept = Some(Kept { granted, volume, start });
                }
                (ClientEvent::SealKey { result: Err(status), .. }, _) => {
                    self.seals.is_unsupported = status == Status::UNSUPPORTED;
                }
                (ClientEvent::Opened { result, .. }, Asked::Open(object)) => {
                    self.opened_sealed(object, result);
                }
                (ClientEvent::Revoked { result, .. }, Asked::Revoke(wanted)) => {
                    assert_eq!(result, Ok(()), "client {}: a revocation", self.number);
                    common.seals_revoked += 1;
                    outside.witness.void(wanted.writer, wanted.volume);
                    let now = outside.tick();
                    let witness = &outside.witness;
                    let may_write = |writer| witness.may_write(wanted.volume, writer);
                    checks.history.rights_changed(wanted.volume, may_write, now);
                    common.voided.push((wanted.writer, now));
                }
                other => panic!("nobody asked: {other:?}"),
            }
        }
        for (writer, at) in &common.voided {
            if let Some(void @ None) = self.seals.voids.get_mut(writer) {
                *void = Some(*at);
            }
        }
    }

    fn open_sealed(
        &mut self,
        granted: &GrantedKey,
        volume: u32,
        writers: &mut u32,
        outside: &mut Outside,
    ) {
        self.seals.version += 1;
        let is_swapped = self.dice.coin();
        let mut runs = [0, RUN_LEN].map(|start| SealRun { start, len: RUN_LEN });
        if is_swapped {
            runs.reverse();
        }
        let terms = SealTerms {
            object: u64::try_from(self.number).expect("few clients"),
            uuid: [7; 16],
            version: self.seals.version,
            rights: Rights::READ_WRITE,
            good_until: granted.seconds + self.dice.pick(&[0, 1, SEAL_GOOD_MAX]),
            runs: runs.into(),
        };
        let seal = granted.key.mint(terms).expect("sound terms");
        let Some(connection) = &mut self.connection else { return };
        let Ok(number) = connection.session.open_sealed(&seal, None) else { return };
        *writers += 1;
        let asker = Asker { writer: Writer(*writers), nexus: Nexus::NONE };
        let (link, nexus, is_bearers) = (connection.link, asker.nexus, connection.is_bearers);
        let who = self.who();
        let opened = Opened { who, nexus, link, admin: None, over: None, is_bearers };
        outside.witness.opens(asker.writer, opened);
        let object = Object { volume, handle: VolumeHandle(0), asker, is_swapped };
        self.seals.asked = Some((number, Asked::Open(object)));
    }

    fn opened_sealed(&mut self, object: Object, result: Result<VolumeInfo, Status>) {
        match result {
            Ok(info) => {
                assert_eq!((info.bytes, info.epoch), (2 * RUN_LEN, self.seals.version));
                self.seals.object = Some(Object { handle: info.handle, ..object });
            }
            // It has expired, or the grants are revoked for a while.
            Err(Status::STALE_EPOCH) => self.seals.is_shut_out = true,
            Err(status) => {
                assert!(self.refusable_until > Tick(0), "client {}: {status}", self.number);
                self.seals.is_shut_out = true;
            }
        }
    }

    /// Whether a request went through a seal; then its answer is checked here.
    pub(super) fn judge_sealed(
        &mut self,
        io: &Io,
        status: Status,
        common: &mut Common,
        outside: &mut Outside,
    ) -> bool {
        let writer = io.asker.writer;
        let is_own =
            self.connection.as_ref().is_none_or(|connection| connection.asker.writer == writer);
        if is_own {
            return false;
        }
        let void = self.seals.voids.get(&writer);
        common.sealed += 1;
        common.by_bearer += u64::from(self.is_bearer());
        if let Some(Some(at)) = void {
            let is_ended = self.was_revoked() && !status.is_ok();
            let is_due = io.sent < *at || status == Status::STALE_EPOCH || is_ended;
            assert!(is_due, "client {}: {status:?} after a confirmed revocation", self.number);
        }
        match status {
            Status::STALE_EPOCH => {
                assert!(void.is_some(), "client {}: its seal is not revoked", self.number);
                common.seals_stale += 1;
            }
            Status::NOT_GRANTED | Status::NO_SUCH_VOLUME => {
                let is_due = self.was_revoked() || io.in_parts && void.is_some();
                assert!(is_due, "client {}: {status:?} through a seal", self.number);
                // A handle that the loss of a grant has ended stays ended. Requests that the client had
                // sent meanwhile may have begun before the loss, even if this one came earlier.
                if self.was_revoked() {
                    self.seals.voids.entry(writer).or_default().get_or_insert(outside.tick());
                }
            }
            _ => self.judge_answer(io.sent, status, common),
        }
        true
    }

    /// Whether its grants have ever been revoked.
    fn was_revoked(&self) -> bool {
        self.refusable_until > Tick(0)
    }
}
