//! A connection to another node: its session, the operations under way, and how long it has been silent.

use nearflash_direct::client::{ClientSession, RequestTag, SubmitError, VolumeHandle};
use nearflash_direct::{Face, Receiving};
use nearflash_request::SentIn;
use nearflash_session::RequestingEnd;
use nearflash_units::{Nanos, index};

use super::super::pending::{Part, Pending};
use super::super::{CLAIM_MAX, CONNECT_MAX, FACE_SILENCE_MAX, SILENCE_MAX};
use crate::world::{Interest, Place, SocketId, World};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: SocketId,
    pub(super) session: ClientSession,
    /// The world has connected it.
    pub(super) is_connected: bool,
    /// It leads to mirrors.
    pub(super) has_faces: bool,
    /// The claim was answered: operations may be sent.
    pub(super) is_claimed: bool,
    /// The node's answer to HELLO: [`nearflash_direct::client::Agreed::boot`].
    pub(super) boot: u64,
    /// The operations under way, by tag, with the writes that each of them covers if it is a flush.
    pub(super) posted: Vec<Option<(Pending, u64)>>,
    pub(super) posted_len: usize,
    /// An [`crate::Event::Ready`] follows, for this interest.
    pub(super) watched: Option<Interest>,
    /// When it began, when bytes last came, or when there was nothing to wait for.
    pub(super) heard_at: Nanos,
    pub(super) is_pinged: bool,
}

impl Connection {
    pub(super) fn watch<W: World>(&mut self, interest: Interest, world: &mut W) {
        self.watched = Some(interest);
        world.watch(self.socket, interest);
    }

    /// The node is asked for something: its silence counts from now on.
    pub(super) fn expects(&mut self, now: Nanos) {
        if !self.awaits_answer() {
            (self.heard_at, self.is_pinged) = (now, false);
        }
    }

    /// The longest silence. The answer to a claim may wait for a device.
    pub(super) fn silence_max(&self) -> Nanos {
        match (self.is_connected, self.session.is_ready(), self.is_claimed) {
            (false, ..) => CONNECT_MAX,
            (_, true, false) => CLAIM_MAX,
            _ if self.has_faces => FACE_SILENCE_MAX,
            _ => SILENCE_MAX,
        }
    }

    /// Whether the node owes something.
    pub(super) fn awaits_answer(&self) -> bool {
        self.posted_len > 0 || !self.is_claimed || self.session.has_unanswered()
    }

    /// Hands received bytes to the session: first those in the place, then those behind it.
    pub(super) fn feed<W: World>(
        &mut self,
        place: Option<Place>,
        len: usize,
        staging: &[u8],
        world: &mut W,
    ) -> Result<(), nearflash_direct::PeerError> {
        let mut placed = 0;
        if let Some(Place { buffer, offset, len: room }) = place {
            placed = len.min(room);
            self.session.handle_payload(&world.pool().bytes(buffer)[offset..offset + placed]);
        }
        let mut rest = &staging[..len - placed];
        while !rest.is_empty() {
            match self.session.receiving() {
                Receiving::Bytes => {
                    let taken = self.session.handle_input(rest)?;
                    rest = &rest[taken..];
                }
                Receiving::Payload { buffer, offset, len } => {
                    let (payload, behind) = rest.split_at(len.min(rest.len()));
                    let into = &mut world.pool().bytes_mut(buffer)[offset..offset + payload.len()];
                    into.copy_from_slice(payload);
                    self.session.handle_payload(payload);
                    rest = behind;
                }
                Receiving::Paused => break,
            }
        }
        Ok(())
    }

    /// Sends the next part of an operation; `false` if the protocol does not have the operation.
    pub(super) fn submit<W: World>(
        &mut self,
        (handle, sent): (VolumeHandle, Option<(Face, SentIn)>),
        pending: &mut Pending,
        covered: u64,
        world: &mut W,
    ) -> Result<bool, SubmitError> {
        self.expects(world.now());
        let agreed = self.session.agreed().ok_or(SubmitError::NotConnected)?;
        let digests = agreed.digests.data;
        let (len_max, zeroes) = (agreed.len_max, agreed.zero);
        let Some(part) = pending.next_part(len_max, zeroes) else { return Ok(false) };
        let Part { operation, payload, buffer_offset } = part;
        let bytes = match payload {
            Some((buffer, start, len)) if digests => &world.pool().bytes(buffer)[start..][..len],
            _ => &[],
        };
        let session = &mut self.session;
        let RequestTag(tag) = match sent {
            None => session.submit_at(handle, &operation, buffer_offset, bytes)?,
            Some(sent) => {
                let data = (buffer_offset, bytes);
                session.submit_on_face(handle, &operation, data, sent)?
            }
        };
        self.posted[index(tag)] = Some((*pending, covered));
        self.posted_len += 1;
        Ok(true)
    }
}
