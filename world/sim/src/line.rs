//! The bytes of one connection, in both directions between link and session, for every protocol.

use nearflash_session::{Receiving, RequestingEnd};
use nearflash_shard::{Received, Sent};

use crate::memory::{Memory, gather};
use crate::misbehaviour::Crook;
use crate::network::{LinkId, Side};
use crate::outside::Outside;

/// Whether a connection continues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Lives,
    Lost,
}

/// The reason why a session accepts no more input.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The node announced the end of the connection in the protocol's terms.
    Ended,
    /// The node reported a time-out, or a regular end of the connection.
    GivenUp,
    /// The node broke the protocol, or reported that the simulated host did.
    Broken(String),
}

/// The requesting end of a protocol, and its errors as the simulator judges them.
pub(crate) trait Spoken: RequestingEnd {
    fn trouble_of(error: Self::PeerError) -> Trouble;
}

/// A connection's session, its memory, and its link.
#[derive(Debug)]
pub(crate) struct Line<'a, S> {
    pub(crate) link: LinkId,
    pub(crate) session: &'a mut S,
    pub(crate) memory: &'a mut Memory,
    /// Received bytes that the session has not taken yet.
    pub(crate) leftover: &'a mut Vec<u8>,
    /// The misbehaviour of a peer that violates the protocol.
    pub(crate) crook: Option<&'a mut Crook>,
    /// The receive limit: the bytes to take before a pause.
    pub(crate) take_max: Option<usize>,
}

impl<S: Spoken> Line<'_, S> {
    /// Takes all input that has arrived, unless the peer is deaf, and sends as much output as fits.
    ///
    /// # Panics
    /// When the node breaks the protocol, or ends a connection that keeps it. The node may end one
    /// only while it drains, or when a reset was requested.
    pub(crate) fn pump(&mut self, is_deaf: bool, outside: &mut Outside) -> Fate {
        loop {
            if !is_deaf && self.receive(outside) == Fate::Lost {
                return Fate::Lost;
            }
            while let Some(part) = self.session.wants_payload() {
                let bytes = self.memory.bytes(part.buffer)[part.offset..][..part.len].to_vec();
                self.session.provide_payload(&bytes);
            }
            if self.send(outside) == Fate::Lost || self.session.is_closing() {
                return Fate::Lost;
            }
            if is_deaf || !self.has_leftover() {
                return Fate::Lives;
            }
        }
    }

    /// Whether the session, having sent output, can now take input that it had left.
    fn has_leftover(&self) -> bool {
        !self.leftover.is_empty() && !matches!(self.session.receiving(), Receiving::Paused)
    }

    fn receive(&mut self, outside: &mut Outside) -> Fate {
        if self.has_leftover()
            && let Err(trouble) = self.feed(&[])
        {
            self.judge(&trouble, outside);
            return Fate::Lost;
        }
        loop {
            let now = outside.now;
            let len_max = self.take_max.unwrap_or(16 * 1024);
            let mut bytes = vec![0; outside.network.unread_by_host(self.link).clamp(1, len_max)];
            let received = outside.network.receive(now, self.link, Side::Caller, &mut bytes);
            outside.settle_network();
            match received {
                Received::Bytes(len) => {
                    if let Err(trouble) = self.feed(&bytes[..len]) {
                        self.judge(&trouble, outside);
                        return Fate::Lost;
                    }
                    if self.take_max.is_some() {
                        return Fate::Lives;
                    }
                }
                Received::Nothing => return Fate::Lives,
                Received::Closed => return Fate::Lost,
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let mut input = std::mem::take(self.leftover);
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        while !rest.is_empty() {
            match self.session.receiving() {
                Receiving::Paused => break,
                Receiving::Bytes => {
                    let taken = self.session.handle_input(rest).map_err(S::trouble_of)?;
                    rest = &rest[taken..];
                }
                Receiving::Payload { buffer, offset, len } => {
                    let (payload, behind) = rest.split_at(len.min(rest.len()));
                    let place = offset..offset + payload.len();
                    self.memory.bytes_mut(buffer)[place].copy_from_slice(payload);
                    self.session.handle_payload(payload);
                    rest = behind;
                }
            }
        }
        *self.leftover = rest.to_vec();
        Ok(())
    }

    /// The checks ignore the connections of peers that violate the protocol.
    pub(crate) fn judge(&self, trouble: &Trouble, outside: &Outside) {
        match trouble {
            _ if self.crook.is_some() => {}
            Trouble::GivenUp => {}
            Trouble::Ended => {
                let machine = outside.machine(outside.network.node_of(self.link));
                assert!(machine.may_end_connections(), "{:?}: the node ended it", self.link);
            }
            Trouble::Broken(how) => panic!("{:?}: the node broke the protocol: {how}", self.link),
        }
    }

    fn send(&mut self, outside: &mut Outside) -> Fate {
        let speaks = |line: &Self| line.crook.as_ref().is_none_or(|crook| crook.speaks());
        while self.session.output_len() > 0 && speaks(self) {
            let room = outside.network.room(self.link, Side::Caller);
            let mut bytes = gather(self.session.output(), room, |buffer| self.memory.bytes(buffer));
            if let Some(crook) = &mut self.crook {
                crook.spoil(&mut bytes);
            }
            match self.put(&bytes, outside) {
                Sent::Bytes(0) => return Fate::Lives,
                Sent::Bytes(len) => {
                    self.session.advance_output(len);
                    if let Some(crook) = &mut self.crook {
                        crook.sent(len);
                    }
                }
                Sent::Closed => return Fate::Lost,
            }
        }
        let noise = self.crook.as_mut().map(|crook| crook.noise()).unwrap_or_default();
        if !noise.is_empty() && self.put(&noise, outside) == Sent::Closed {
            return Fate::Lost;
        }
        Fate::Lives
    }

    fn put(&self, bytes: &[u8], outside: &mut Outside) -> Sent {
        let sent = outside.network.send(outside.now, self.link, Side::Caller, bytes);
        outside.settle_network();
        if let Sent::Bytes(len @ 1..) = sent {
            outside.note("host sends", &[u64::from(self.link.0)]);
            outside.trace.note_bytes(&bytes[..len]);
        }
        sent
    }
}
