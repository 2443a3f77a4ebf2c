//! The protocol's session, as the connection of a stream drives it.

use nearflash_direct::client::ClientSession;
use nearflash_direct::wire::HEADER_LEN;
use nearflash_direct::{Chunk, Digests, PeerError, Receiving};
use nearflash_session::PayloadPart;

use super::slots::Slots;
use crate::stream;

/// One connection with its session and the buffers of operations in flight.
pub(super) type Connection = stream::Connection<ClientSession, Slots>;

impl stream::Session for ClientSession {
    type PeerError = PeerError;
    const HEADER_LEN: usize = HEADER_LEN;

    #[inline]
    fn receiving(&self) -> Receiving {
        self.receiving()
    }

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        self.handle_input(bytes)
    }

    #[inline]
    fn handle_payload(&mut self, bytes: &[u8]) {
        self.handle_payload(bytes);
    }

    /// Payload is digested when it is submitted.
    #[inline]
    fn wants_payload(&self) -> Option<PayloadPart> {
        None
    }

    fn provide_payload(&mut self, _: &[u8]) {}

    #[inline]
    fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.output()
    }

    #[inline]
    fn output_len(&self) -> usize {
        self.output_len()
    }

    #[inline]
    fn advance_output(&mut self, sent: usize) {
        self.advance_output(sent);
    }

    fn is_closing(&self) -> bool {
        self.is_closing()
    }

    #[inline]
    fn has_digests(&self) -> bool {
        self.agreed().is_none_or(|agreed| agreed.digests != Digests::NONE)
    }
}
