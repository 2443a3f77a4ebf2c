//! The turns of a connection whose socket speaks TLS.

use std::os::fd::{AsFd, OwnedFd};

use nearflash_session::{Receiving, RequestingEnd};
use nearflash_tls::Stream;

use super::Memory;
use super::connection::Connection;
use super::error::LinkError;
use super::received::Received;
use super::secured::{Secured, broken};

impl<S: RequestingEnd, M: Memory> Connection<S, M> {
    /// A connection over a non-blocking socket that speaks TLS, whose handshake is over. The first
    /// turn sends the session's first bytes.
    pub(crate) fn secured(
        (socket, stream): (OwnedFd, Box<Stream>),
        session: S,
        memory: M,
        staging_len: usize,
    ) -> Self {
        let mut connection = Self::new(socket, session, memory, staging_len);
        connection.secured = Some(Box::new(Secured::new(stream)));
        connection
    }

    /// Sends all queued data, batch by batch, as far as the socket accepts it.
    pub(super) fn send_secured(&mut self) -> Result<bool, LinkError<S::PeerError>> {
        let Self { socket, session, memory, secured: Some(secured), .. } = self else {
            return Ok(false);
        };
        let mut moved = false;
        while secured.send_records(socket.as_fd())? && session.output_len() > 0 {
            let sealed = secured.seal_batch(session.output(), memory).map_err(broken)?;
            session.advance_output(sealed);
            moved = true;
        }
        Ok(moved)
    }

    /// Receives once. The staging buffer is empty.
    pub(super) fn receive_secured(&mut self) -> Result<Received, LinkError<S::PeerError>> {
        let receiving = self.session.receiving();
        if receiving == Receiving::Paused {
            return if self.is_over() { Err(LinkError::Closed) } else { Ok(Received::NOTHING) };
        }
        let Self { socket, memory, staging, secured: Some(secured), .. } = self else {
            return Ok(Received::NOTHING);
        };
        let place: &mut [u8] = match receiving {
            Receiving::Payload { buffer, offset, len } => {
                &mut memory.bytes_mut(buffer)[offset..][..len]
            }
            Receiving::Bytes | Receiving::Paused => &mut [],
        };
        let place_len = place.len();
        let Some(received) = secured.receive(socket.as_fd(), [place, &mut staging[..]])? else {
            return Ok(Received::NOTHING);
        };
        let in_place = received.len.min(place_len);
        if let Receiving::Payload { buffer, offset, .. } = receiving
            && in_place > 0
        {
            if offset == 0 {
                self.forecast.begun(buffer);
            }
            self.session.handle_payload(&self.memory.bytes(buffer)[offset..][..in_place]);
        }
        self.staged = 0..received.len - in_place;
        self.consume()?;
        Ok(received)
    }
}

impl<S, M> Drop for Connection<S, M> {
    fn drop(&mut self) {
        if let Some(secured) = &mut self.secured {
            secured.close(self.socket.as_fd());
        }
    }
}
