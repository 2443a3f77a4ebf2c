//! One core's way to one other node: connecting, opening its volumes, sending operations.

mod connection;

use std::collections::VecDeque;

use nearflash_device::{DeviceOperation, DeviceResult, OperationId, Owner};
use nearflash_direct::client::{ClientEvent, ClientSession, RequestTag, VolumeHandle, VolumeInfo};
use nearflash_direct::wire::HEADER_LEN;
use nearflash_direct::{Receiving, Status};
use nearflash_publish::{PeerConfig, RemoteVolume};
use nearflash_request::Outcome;
use nearflash_session::RequestingEnd;
use nearflash_units::{Nanos, index};

use super::pending::Pending;
use super::{LinkError, READ_SPAN, RETRY_PERIOD, client_config, result_of};
use crate::notice::Notice;
use crate::world::{Interest, Place, Received, Sent, SocketId, World};
use connection::Connection;

/// Operations that have ended.
type Ended = Vec<(OperationId, DeviceResult)>;

/// An operation that was sent over a lost connection.
#[derive(Clone, Copy, Debug)]
struct Uncertain {
    id: OperationId,
    /// The place of its volume.
    volume: usize,
    until: Nanos,
}

/// The way to another node.
#[derive(Debug)]
pub(super) struct Link {
    config: PeerConfig,
    /// The identity that every connection claims; drawn for the first one.
    identity: Option<[u8; 16]>,
    connection: Option<Connection>,
    /// There is no attempt before this time.
    retry_at: Nanos,
    /// Operations to send, oldest first.
    waiting: VecDeque<Pending>,
    /// Operations that were sent over a lost connection and may have taken effect, and the time at
    /// which they end at the latest.
    uncertain: Vec<Uncertain>,
    /// Operations that a replica has accepted.
    received: VecDeque<OperationId>,
    /// By place in the configuration: its state on the present connection.
    volumes: Vec<Handle>,
    /// The last error was reported, and no connection was complete since.
    is_reported: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Handle {
    /// To be opened at this time, or later.
    #[default]
    Closed,
    RetryAt(Nanos),
    /// Asked for, with this number.
    Asked(u32),
    Open(VolumeHandle),
}

impl Link {
    pub(super) fn new(config: PeerConfig) -> Self {
        Self {
            volumes: vec![Handle::Closed; config.volumes.len()],
            config,
            identity: None,
            connection: None,
            retry_at: Nanos(0),
            waiting: VecDeque::new(),
            uncertain: Vec::new(),
            received: VecDeque::new(),
            is_reported: false,
        }
    }

    /// Adds volumes, and takes the node's new address for the next connection: the node itself ends
    /// the present one when it moves.
    pub(super) fn follow(&mut self, PeerConfig { address, volumes, .. }: &PeerConfig) {
        self.config.address = *address;
        assert!(volumes.len() >= self.volumes.len(), "a volume keeps its place");
        let known = self.volumes.len();
        self.config.volumes.extend_from_slice(&volumes[known..]);
        self.volumes.resize(volumes.len(), Handle::Closed);
        // The node has said before at which start it is.
        let handshake = self.connection.as_ref().filter(|it| it.session.is_ready());
        if let Some(Connection { boot, .. }) = handshake {
            let recorded = volumes[known..].iter().filter(|volume| volume.is_recorded());
            for RemoteVolume { health, .. } in recorded {
                health.note_start(*boot);
            }
        }
    }

    pub(super) fn socket(&self) -> Option<SocketId> {
        self.connection.as_ref().map(|connection| connection.socket)
    }

    /// The socket can be used.
    pub(super) fn ready(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.watched = None;
            connection.is_connected = true;
        }
    }

    /// Takes an operation, and sends it if that is possible now.
    #[inline]
    pub(super) fn submit<W: World>(&mut self, pending: Pending, world: &mut W, ended: &mut Ended) {
        self.waiting.push_back(pending);
        if self.connection.is_none() && world.now() >= self.retry_at {
            self.connect(world);
        }
        self.post(world, ended);
    }

    /// Ends all operations on a volume at once: nobody needs what they do. If one is under way, its
    /// buffer is in use until the connection is closed.
    pub(super) fn abandon<W: World>(&mut self, volume: usize, world: &mut W, ended: &mut Ended) {
        let posted = self.connection.iter().flat_map(|it| it.posted.iter().flatten());
        if posted.into_iter().any(|(pending, _)| pending.volume == volume) {
            self.lose(LinkError::Closed, world);
        }
        let waiting = self.waiting.iter().filter(|pending| pending.volume == volume);
        ended.extend(waiting.map(|pending| (pending.request.id, pending.given_up())));
        self.waiting.retain(|pending| pending.volume != volume);
        self.end_uncertain(|it| it.volume == volume, ended);
    }

    /// Ends the changes of data of a connection that were not sent.
    pub(super) fn withdraw(&mut self, owner: Owner, ended: &mut Ended) {
        let is_meant = |pending: &Pending| pending.is_change_of(owner);
        let meant = self.waiting.iter().filter(|pending| is_meant(pending));
        ended.extend(meant.map(|pending| (pending.request.id, pending.given_up())));
        self.waiting.retain(|pending| !is_meant(pending));
    }

    pub(super) fn poll_received(&mut self) -> Option<OperationId> {
        self.received.pop_front()
    }

    /// The next time at which something must be done.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        let is_connected = self.is_claimed();
        let expiry = self.waiting.iter().map(|pending| pending.deadline(is_connected));
        let expiry = expiry.chain(self.uncertain.iter().map(|it| it.until)).min();
        let retry = match &self.connection {
            None => self.is_wanted().then_some(self.retry_at),
            Some(connection) if connection.awaits_answer() => {
                let max = connection.silence_max();
                let span = if connection.is_pinged { max.0 } else { max.0 / 2 };
                Some(connection.heard_at.plus(Nanos(span)))
            }
            Some(_) => None,
        };
        let reopen = self.waiting.iter().filter_map(|pending| match self.volumes[pending.volume] {
            Handle::RetryAt(at) if is_connected => Some(at),
            _ => None,
        });
        expiry.into_iter().chain(retry).chain(reopen).min()
    }

    /// Gives up what has waited for too long, and nodes that are silent; connects again.
    pub(super) fn watch_the_clock<W: World>(
        &mut self,
        is_draining: bool,
        world: &mut W,
        ended: &mut Ended,
    ) {
        if !self.is_wanted() && self.connection.is_none() {
            return;
        }
        let now = world.now();
        let is_connected = self.is_claimed();
        // The end of the node does not wait for another node.
        let is_over = is_draining && !is_connected;
        let is_late = |pending: &Pending| is_over || pending.deadline(is_connected) <= now;
        let late = self.waiting.iter().filter(|pending| is_late(pending));
        ended.extend(late.map(|pending| (pending.request.id, pending.given_up())));
        self.waiting.retain(|pending| !is_late(pending));
        // While the node answers, it says when they cannot take effect any more.
        if !self.connection.as_ref().is_some_and(|it| it.session.is_ready()) || is_over {
            self.end_uncertain(|it| is_over || it.until <= now, ended);
        }
        let is_wanted = self.is_wanted();
        match &mut self.connection {
            Some(connection) if !connection.awaits_answer() => {
                (connection.heard_at, connection.is_pinged) = (now, false);
            }
            Some(connection) => {
                let (silence, max) = (now.since(connection.heard_at), connection.silence_max());
                if silence >= max {
                    return self.lose(LinkError::Silent, world);
                }
                if silence.0 >= max.0 / 2 && !connection.is_pinged {
                    connection.is_pinged = true;
                    // Before the end of the handshake there is nothing to ask.
                    let _ = connection.session.ping();
                }
            }
            None if is_wanted && now >= self.retry_at => self.connect(world),
            None => {}
        }
        self.post(world, ended);
    }

    /// Whether operations can be sent.
    fn is_claimed(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_claimed)
    }

    /// Whether there is anything to ask the node for.
    fn is_wanted(&self) -> bool {
        !self.waiting.is_empty() || !self.uncertain.is_empty()
    }

    fn end_uncertain(&mut self, is_meant: impl Fn(&Uncertain) -> bool, ended: &mut Ended) {
        let lost = DeviceResult::Remote(Outcome::PathLost);
        let over = self.uncertain.extract_if(.., |it| is_meant(it));
        ended.extend(over.map(|it| (it.id, lost)));
    }

    fn connect<W: World>(&mut self, world: &mut W) {
        let now = world.now();
        self.retry_at = now.plus(RETRY_PERIOD);
        let Some(socket) = world.connect(self.config.address) else {
            return self.report(LinkError::Closed, world);
        };
        self.connection = Some(Connection {
            socket,
            session: ClientSession::new(client_config(&self.config, world)),
            is_connected: false,
            has_faces: self.config.volumes.iter().any(|volume| volume.face.is_some()),
            is_claimed: false,
            boot: 0,
            posted: Vec::new(),
            posted_len: 0,
            watched: Some(Interest::Output),
            heard_at: now,
            is_pinged: false,
        });
        world.watch(socket, Interest::Output);
    }

    /// Receives once. Returns whether anything came.
    #[inline]
    pub(super) fn receive<W: World>(
        &mut self,
        staging: &mut [u8],
        world: &mut W,
        ended: &mut Ended,
    ) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        if connection.watched.is_some() || !connection.is_connected {
            return false;
        }
        let place = match connection.session.receiving() {
            Receiving::Payload { buffer, offset, len } => Some(Place { buffer, offset, len }),
            Receiving::Bytes | Receiving::Paused => None,
        };
        match world.receive(connection.socket, place, staging) {
            Received::Nothing => {
                if !connection.awaits_answer() && connection.session.output_len() == 0 {
                    connection.watch(Interest::Input, world);
                }
                false
            }
            Received::Closed => {
                self.lose(LinkError::Closed, world);
                true
            }
            Received::Bytes(len) => {
                (connection.heard_at, connection.is_pinged) = (world.now(), false);
                let fed = connection.feed(place, len, staging, world);
                self.take_events(world, ended);
                if let Err(error) = fed {
                    self.lose(LinkError::Protocol(error), world);
                }
                true
            }
        }
    }

    /// Sends what is ready. Returns whether anything left.
    #[inline]
    pub(super) fn send<W: World>(&mut self, world: &mut W, ended: &mut Ended) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        if !connection.is_connected || connection.session.output_len() == 0 {
            return false;
        }
        match world.send(connection.socket, connection.session.output()) {
            Sent::Bytes(0) => false,
            Sent::Bytes(len) => {
                // A node that takes more than a ping is not silent.
                if len > HEADER_LEN {
                    (connection.heard_at, connection.is_pinged) = (world.now(), false);
                }
                connection.session.advance_output(len);
                // Answers that came before the end of their requests' payload complete with it.
                self.take_completions(world, ended);
                true
            }
            Sent::Closed => {
                self.lose(LinkError::Closed, world);
                true
            }
        }
    }

    /// Before the world waits.
    pub(super) fn watch<W: World>(&mut self, world: &mut W) {
        let Some(connection) = self.connection.as_mut().filter(|it| it.is_connected) else {
            return; // the world says when it is connected
        };
        let has_output = connection.session.output_len() > 0;
        let interest = if has_output { Interest::Both } else { Interest::Input };
        if connection.watched != Some(interest) {
            connection.watch(interest, world);
        }
    }

    fn take_events<W: World>(&mut self, world: &mut W, ended: &mut Ended) {
        while let Some(event) = self.connection.as_mut().and_then(|it| it.session.poll_event()) {
            match event {
                ClientEvent::Ready => self.handshake_over(world),
                ClientEvent::Claimed(Err(status)) => {
                    self.lose(LinkError::Claim(status), world);
                }
                ClientEvent::Claimed(Ok(())) => {
                    let Some(connection) = &mut self.connection else { return };
                    connection.is_claimed = true;
                    self.is_reported = false;
                    world.notice(Notice::NodeReached(self.config.address));
                    self.end_uncertain(|_| true, ended);
                }
                ClientEvent::Opened { number, result } => self.opened(number, result, world),
                ClientEvent::Received(tag) => self.note_received(tag),
                ClientEvent::Pong
                | ClientEvent::Attached(_)
                | ClientEvent::SealKey { .. }
                | ClientEvent::Revoked { .. }
                | ClientEvent::Files { .. } => {}
            }
        }
        self.take_completions(world, ended);
        self.post(world, ended);
    }

    /// Claims the identity, and finds out whether answered writes may be lost.
    fn handshake_over<W: World>(&mut self, world: &mut W) {
        let identity = *self.identity.get_or_insert_with(|| world.nonce());
        let Some(connection) = &mut self.connection else { return };
        let agreed = *connection.session.agreed().expect("the handshake is over");
        connection.posted.resize(index(agreed.credits_max), None);
        connection.session.claim(identity).expect("the handshake is over");
        connection.boot = agreed.boot;
        let recorded = self.config.volumes.iter().filter(|volume| volume.is_recorded());
        for RemoteVolume { name, health, .. } in recorded {
            if health.note_start(agreed.boot) {
                let error = LinkError::WritesLost { name: name.clone() };
                world.notice(Notice::NodeLost { address: self.config.address, error });
            }
        }
    }

    /// Opens the volumes for which operations wait.
    fn open_volumes(&mut self, now: Nanos) {
        let Some(connection) = self.connection.as_mut().filter(|it| it.is_claimed) else { return };
        for pending in &self.waiting {
            let handle = &mut self.volumes[pending.volume];
            let is_due = match *handle {
                Handle::Closed => true,
                Handle::RetryAt(at) => at <= now,
                Handle::Asked(_) | Handle::Open(_) => false,
            };
            if is_due {
                connection.expects(now);
                let asked = connection.session.open(&self.config.volumes[pending.volume].name);
                *handle = asked.map_or(Handle::RetryAt(now.plus(RETRY_PERIOD)), Handle::Asked);
            }
        }
    }

    fn opened<W: World>(&mut self, number: u32, result: Result<VolumeInfo, Status>, world: &mut W) {
        let place = self.volumes.iter().position(|it| *it == Handle::Asked(number));
        let Some(place) = place else { return };
        let RemoteVolume { name, uuid, device, face, .. } = &self.config.volumes[place];
        let error = match result {
            Ok(info) if info.uuid == *uuid => {
                self.volumes[place] = Handle::Open(info.handle);
                // Each core sees some of the changes, so each reports what it sees.
                if face.is_none() {
                    let (device, bytes) = (*device, info.bytes);
                    world.notice(Notice::RemoteResized { device, bytes });
                }
                return;
            }
            Ok(info) => {
                if let Some(connection) = &mut self.connection {
                    // It is open; if not, there is nothing to close.
                    let _ = connection.session.close(info.handle);
                }
                LinkError::OtherVolume { name: name.clone() }
            }
            Err(status) => LinkError::Volume { name: name.clone(), status },
        };
        self.volumes[place] = Handle::RetryAt(world.now().plus(RETRY_PERIOD));
        self.report(error, world);
    }

    /// Sends waiting operations while the node takes any, in order for each volume.
    #[inline]
    fn post<W: World>(&mut self, world: &mut W, ended: &mut Ended) {
        let now = world.now();
        let Some(connection) = self.connection.as_mut().filter(|it| it.is_claimed) else { return };
        let mut place = 0;
        while let Some(mut pending) = self.waiting.get(place).copied() {
            let Handle::Open(handle) = self.volumes[pending.volume] else {
                place += 1;
                continue;
            };
            // The age is looked at immediately before an operation is sent.
            if pending.deadline(true) <= now {
                self.waiting.remove(place);
                ended.push((pending.request.id, pending.given_up()));
                continue;
            }
            let RemoteVolume { health, face, .. } = &self.config.volumes[pending.volume];
            let (covered, sent) = (health.covered(), face.zip(pending.cause.sent_in));
            match connection.submit((handle, sent), &mut pending, covered, world) {
                Ok(true) => {}
                Ok(false) => ended.push((pending.request.id, DeviceResult::Unsupported)),
                Err(_) => break,
            }
            self.waiting.remove(place);
        }
        let is_open = |volume: &Handle| matches!(volume, Handle::Open(_));
        if !self.waiting.is_empty() && !self.volumes.iter().all(is_open) {
            self.open_volumes(now);
        }
    }

    fn take_completions<W: World>(&mut self, world: &mut W, ended: &mut Ended) {
        while let Some(connection) = &mut self.connection {
            let Some(completion) = connection.session.poll_completion() else { return };
            let posted = connection.posted[index(completion.tag.0)].take();
            let (mut pending, covered) = posted.expect("a request completes once");
            connection.posted_len -= 1;
            let boot = connection.boot;
            match completion.status {
                Status::OK if pending.part_done(world.now()) => self.waiting.push_front(pending),
                Status::STALE_EPOCH => self.refresh(pending, world),
                // Damaged on its way, and refused before it took effect.
                Status::DATA_DIGEST => self.waiting.push_front(pending),
                status => {
                    let result = match status {
                        Status::OK => self.note_done(&pending, boot, covered),
                        _ => pending.refused(result_of(status)),
                    };
                    if status == Status::NO_SUCH_VOLUME {
                        self.forget(pending.volume);
                    }
                    ended.push((pending.request.id, result));
                }
            }
        }
    }

    /// A replica has accepted the request: it will be applied.
    fn note_received(&mut self, RequestTag(tag): RequestTag) {
        let Some(connection) = &self.connection else { return };
        let posted = connection.posted.get(index(tag)).and_then(Option::as_ref);
        let (pending, _) = posted.expect("only requests under way are accepted");
        if pending.is_whole() {
            self.received.push_back(pending.request.id);
        }
    }

    /// Keeps in mind whether answered writes are on stable media. Returns the result of an operation that
    /// was answered as done.
    fn note_done(&self, pending: &Pending, boot: u64, covered: u64) -> DeviceResult {
        let volume = &self.config.volumes[pending.volume];
        if !volume.is_recorded() {
            return DeviceResult::Done;
        }
        let is_flush = pending.request.operation == DeviceOperation::Flush;
        if pending.leaves_unflushed() {
            volume.health.note_written(boot);
        } else if is_flush {
            volume.health.note_flushed(covered);
        }
        DeviceResult::Done
    }

    /// The volume is gone. The next operation opens its name, which another volume may have by now.
    fn forget(&mut self, volume: usize) {
        let (state, connection) = (&mut self.volumes[volume], &mut self.connection);
        if let (Handle::Open(handle), Some(connection)) = (*state, connection) {
            // It is open; if not, there is nothing to close.
            let _ = connection.session.close(handle);
            *state = Handle::Closed;
        }
    }

    /// The volume has changed: the node refused the operation, which is sent again.
    fn refresh<W: World>(&mut self, pending: Pending, world: &mut W) {
        let state = &mut self.volumes[pending.volume];
        if let (Handle::Open(handle), Some(connection)) = (*state, &mut self.connection) {
            connection.expects(world.now());
            let asked = connection.session.refresh(handle);
            let retry = Handle::RetryAt(world.now().plus(RETRY_PERIOD));
            *state = asked.map_or(retry, Handle::Asked);
        }
        self.waiting.push_front(pending);
    }

    /// The connection is over. Operations that may have taken effect end; the others wait.
    fn lose<W: World>(&mut self, error: LinkError, world: &mut W) {
        let Some(connection) = self.connection.take() else { return };
        world.close(connection.socket);
        self.volumes.fill(Handle::Closed);
        let until = world.now().plus(READ_SPAN);
        for (pending, _) in connection.posted.into_iter().flatten() {
            if pending.is_repeatable() {
                self.waiting.push_back(pending);
            } else {
                let (id, volume) = (pending.request.id, pending.volume);
                self.uncertain.push(Uncertain { id, volume, until });
            }
        }
        self.report(error, world);
    }

    /// Reports an error, once until a connection is complete.
    fn report<W: World>(&mut self, error: LinkError, world: &mut W) {
        if !std::mem::replace(&mut self.is_reported, true) {
            world.notice(Notice::NodeLost { address: self.config.address, error });
        }
    }
}
