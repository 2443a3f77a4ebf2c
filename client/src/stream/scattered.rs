//! Receives the data of many reads in place with one call.
//!
//! If the forecast holds, expected payload is followed by a header and the next read's payload, and
//! so on. So one call gets all of these buffers. The headers are then processed one after the
//! other. As long as each matches the forecast, its payload is already in place; from the first
//! mismatch on, the bytes are moved to the staging buffer and processed as usual. The buffers that
//! were overwritten belong to reads whose data has not arrived, so no data is lost.
//!
//! When few reads are in flight, a call receives half of them: the server works on the next requests
//! while the client receives the second half. Otherwise each end waits for the other.

use std::io::IoSliceMut;

use nearflash_request::BufferId;
use nearflash_session::{Receiving, RequestingEnd};
use rustix::io::readv;

use super::Memory;
use super::connection::Connection;
use super::error::{LinkError, taken};
use super::forecast::Place;
use super::scatter::{AHEAD_MAX, AHEAD_MIN, STAGED_BEHIND_PAYLOAD_LEN, low_half};

/// The maximum number of reads in flight of which half are received at a time. With more, the
/// further calls cost as much as they gain (see `docs/performance.md`).
const HALVED_MAX: usize = 16;

impl<S: RequestingEnd, M: Memory> Connection<S, M> {
    /// The number of payloads to receive after the first, if few enough reads are in flight.
    fn half(&self) -> Option<usize> {
        let in_flight = 1 + self.forecast.len();
        (in_flight <= HALVED_MAX).then(|| (in_flight / 2).max(AHEAD_MIN) - 1)
    }

    /// Receives payload in place and, by forecast, all that follows it or half of that. Returns the
    /// number of received bytes, and the room that was offered: for a half one byte more, so that the
    /// caller leaves the rest for its next turn.
    pub(super) fn receive_scattered(
        &mut self,
        buffer: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<(Option<usize>, usize), LinkError<S::PeerError>> {
        let half = self.half();
        self.scatter.plan(S::HEADER_LEN, half.unwrap_or(AHEAD_MAX), self.forecast.next());
        self.scatter.sort(buffer);
        // After a half comes the header of the next answer, and then its payload, in place.
        let is_half = half.is_some_and(|half| self.scatter.ahead.len() == half);
        let behind = if is_half { S::HEADER_LEN } else { STAGED_BEHIND_PAYLOAD_LEN };
        let behind = behind.min(self.staging.len());
        let mut slices = Vec::with_capacity(2 * self.scatter.order.len() + 1);
        slices.push(IoSliceMut::new(&mut []));
        let headers = self.scatter.headers.chunks_exact_mut(S::HEADER_LEN);
        for header in headers.take(self.scatter.ahead.len()) {
            slices.push(IoSliceMut::new(header));
            slices.push(IoSliceMut::new(&mut []));
        }
        slices.push(IoSliceMut::new(&mut self.staging[..behind]));
        let (mut buffers, mut passed) = (self.memory.all_mut(), 0);
        for (number, place) in
            self.scatter.order.iter().map(|word| (low_half(word >> 32), low_half(*word)))
        {
            let payload = buffers.nth(number - passed).expect("the buffer is there");
            passed = number + 1;
            slices[2 * place] = IoSliceMut::new(match place.checked_sub(1) {
                None => &mut payload[offset..][..len],
                Some(ahead) => &mut payload[..self.scatter.ahead[ahead].len],
            });
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let offered = offered + usize::from(is_half);
        let received = taken(readv(&self.socket, &mut slices))?;
        drop((slices, buffers));
        if let Some(received) = received {
            let in_place = received.min(len);
            if in_place > 0 {
                self.session.handle_payload(&self.memory.bytes(buffer)[offset..][..in_place]);
            }
            self.take_ahead(received - in_place)?;
        }
        Ok((received, offered))
    }

    /// Processes the bytes after the first payload.
    fn take_ahead(&mut self, len: usize) -> Result<(), LinkError<S::PeerError>> {
        let mut left = len;
        for position in 0..self.scatter.ahead.len() {
            if left == 0 {
                self.scatter.learn(position);
                return Ok(());
            }
            let header = &self.scatter.headers[position * S::HEADER_LEN..][..S::HEADER_LEN];
            let header = &header[..left.min(S::HEADER_LEN)];
            let used = self.session.handle_input(header).map_err(LinkError::Peer)?;
            left -= used;
            let place = self.scatter.ahead[position];
            let is_whole = used == S::HEADER_LEN;
            if left == 0 {
                self.scatter.learn(position);
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
        self.scatter.learn(self.scatter.ahead.len());
        self.staged = 0..left;
        Ok(())
    }

    #[inline]
    fn is_forecast(&self, place: Place) -> bool {
        let Place { buffer, len } = place;
        self.session.receiving() == Receiving::Payload { buffer, offset: 0, len }
    }

    /// Moves the last `left` received bytes to the staging buffer, from byte `used` of the header
    /// at `position` on.
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
