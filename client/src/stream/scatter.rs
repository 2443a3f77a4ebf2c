//! Receiving the data of many reads with one call, each where it belongs.
//!
//! Behind payload that is awaited come, if the forecast holds, a header and the next read's payload,
//! and so on. So one call is given all those places. Headers are then taken one after the other,
//! and as long as each says what was forecast, its payload is where it belongs already; from the
//! first that does not, the bytes are moved to the staging buffer and taken as any others. The
//! buffers that were written to meanwhile belong to reads of which no data has come, so nothing is
//! lost there.

use std::io::IoSliceMut;

use nearflash_request::BufferId;
use nearflash_session::Receiving;
use rustix::io::readv;

use super::connection::{Connection, STAGED_BEHIND_PAYLOAD_LEN};
use super::error::{LinkError, taken};
use super::forecast::Place;
use super::{Memory, Session};

/// Payloads of one call behind the first.
const AHEAD_MAX: usize = 64;
/// Bytes of one call behind the first payload.
const AHEAD_LEN_MAX: usize = 1 << 20;

/// What one call was given behind the first payload.
#[derive(Debug, Default)]
pub(super) struct Scatter {
    /// One header behind the other.
    headers: Vec<u8>,
    ahead: Vec<Place>,
}

impl Scatter {
    /// Takes over the forecast, as much of it as one call may bring.
    fn plan(&mut self, header_len: usize, forecast: impl Iterator<Item = Place>) {
        self.ahead.clear();
        let mut len = 0;
        for place in forecast.take(AHEAD_MAX) {
            len += header_len + place.len;
            if len > AHEAD_LEN_MAX {
                break;
            }
            self.ahead.push(place);
        }
        self.headers.resize(AHEAD_MAX * header_len, 0);
    }
}

impl<S: Session, M: Memory> Connection<S, M> {
    /// Payload in place and, by forecast, all that follows it: how much came, of how much.
    pub(super) fn receive_scattered(
        &mut self,
        buffer: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<(Option<usize>, usize), LinkError<S::PeerError>> {
        self.scatter.plan(S::HEADER_LEN, self.forecast.next());
        let behind = STAGED_BEHIND_PAYLOAD_LEN.min(self.staging.len());
        let mut buffers: Vec<_> = self.memory.all_mut().map(Some).collect();
        let mut slices = Vec::with_capacity(2 * self.scatter.ahead.len() + 2);
        let mut offered = len + behind;
        let mut place = |buffer: BufferId| buffers[index(buffer)].take();
        let first = place(buffer).expect("no other is the first");
        slices.push(IoSliceMut::new(&mut first[offset..][..len]));
        let headers = self.scatter.headers.chunks_exact_mut(S::HEADER_LEN);
        for (ahead, header) in self.scatter.ahead.iter().zip(headers) {
            // A buffer that two reads share is in one place only.
            let Some(payload) = place(ahead.buffer) else { break };
            slices.push(IoSliceMut::new(header));
            slices.push(IoSliceMut::new(&mut payload[..ahead.len]));
            offered += S::HEADER_LEN + ahead.len;
        }
        slices.push(IoSliceMut::new(&mut self.staging[..behind]));
        let received = taken(readv(&self.socket, &mut slices))?;
        let ahead = slices.len() / 2 - 1;
        drop(slices);
        self.scatter.ahead.truncate(ahead);
        if let Some(received) = received {
            let in_place = received.min(len);
            if in_place > 0 {
                self.session.handle_payload(&self.memory.bytes(buffer)[offset..][..in_place]);
            }
            self.take_ahead(received - in_place)?;
        }
        Ok((received, offered))
    }

    /// Takes what came behind the first payload.
    fn take_ahead(&mut self, len: usize) -> Result<(), LinkError<S::PeerError>> {
        let mut left = len;
        for position in 0..self.scatter.ahead.len() {
            if left == 0 {
                return Ok(());
            }
            let header = &self.scatter.headers[position * S::HEADER_LEN..][..S::HEADER_LEN];
            let header = &header[..left.min(S::HEADER_LEN)];
            let used = self.session.handle_input(header).map_err(LinkError::Peer)?;
            left -= used;
            let place = self.scatter.ahead[position];
            let is_whole = used == S::HEADER_LEN;
            if left == 0 {
                return Ok(());
            }
            if !is_whole || !self.is_forecast(place) {
                self.regather(position, used, left);
                self.forecast.missed();
                return Ok(());
            }
            self.forecast.begun(place.buffer);
            let in_place = left.min(place.len);
            self.session.handle_payload(&self.memory.bytes(place.buffer)[..in_place]);
            left -= in_place;
        }
        self.staged = 0..left;
        Ok(())
    }

    #[inline]
    fn is_forecast(&self, place: Place) -> bool {
        let Place { buffer, len } = place;
        self.session.receiving() == Receiving::Payload { buffer, offset: 0, len }
    }

    /// Moves the last `left` bytes that came, from byte `used` of the header at `position` on, to
    /// the staging buffer.
    #[cold]
    fn regather(&mut self, position: usize, used: usize, left: usize) {
        let mut linear = Vec::with_capacity(left + STAGED_BEHIND_PAYLOAD_LEN);
        let headers = self.scatter.headers.chunks_exact(S::HEADER_LEN);
        let ahead = self.scatter.ahead.iter().zip(headers).skip(position);
        for (at, (place, header)) in ahead.enumerate() {
            linear.extend_from_slice(&header[if at == 0 { used } else { 0 }..]);
            linear.extend_from_slice(&self.memory.bytes(place.buffer)[..place.len]);
            if linear.len() >= left {
                break;
            }
        }
        let behind = STAGED_BEHIND_PAYLOAD_LEN.min(self.staging.len());
        linear.extend_from_slice(&self.staging[..behind]);
        if self.staging.len() < left {
            self.staging.resize(left, 0);
        }
        self.staging[..left].copy_from_slice(&linear[..left]);
        self.staged = 0..left;
    }
}

#[inline]
fn index(buffer: BufferId) -> usize {
    usize::try_from(buffer.0).expect("usize is at least 32 bits wide")
}
