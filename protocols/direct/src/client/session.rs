//! The session itself.

use nearflash_session::{Chunk, Output, Receiving};

use super::{
    Agreed, ClientCompletion, ClientConfig, ClientEvent, ClientOperation, RequestTag, SubmitError,
    VolumeHandle, VolumeInfo,
};
use crate::error::PeerError;
use crate::wire::HEADER_LEN;

/// The application's end of one connection.
#[derive(Debug)]
pub struct ClientSession {
    config: ClientConfig,
    output: Output,
    closing: bool,
}

impl ClientSession {
    /// The end of a connection that was just made. HELLO is in its output.
    ///
    /// # Panics
    /// When the key's name is empty or longer than [`crate::wire::NAME_LEN_MAX`].
    pub fn new(config: ClientConfig) -> Self {
        Self { config, output: Output::default(), closing: false }
    }

    /// What was agreed, once the handshake is over.
    pub fn agreed(&self) -> Option<&Agreed> {
        let _ = &self.config;
        None
    }

    /// Opens a volume by name. [`ClientEvent::Opened`] will have the number returned here.
    ///
    /// # Errors
    /// When the session is not connected.
    pub fn open(&mut self, name: &str) -> Result<u32, SubmitError> {
        let _ = name;
        Err(SubmitError::NotConnected)
    }

    /// Asks again what a volume is, after [`crate::Status::STALE_EPOCH`]. Its handle stays; requests
    /// submitted from the event on carry the new epoch. A volume that is another by now answers
    /// [`crate::Status::NO_SUCH_VOLUME`].
    ///
    /// # Errors
    /// When the session is not connected or the volume not open.
    pub fn refresh(&mut self, volume: VolumeHandle) -> Result<u32, SubmitError> {
        let _ = volume;
        Err(SubmitError::NotConnected)
    }

    /// Gives a handle back: nothing more is submitted on it.
    ///
    /// # Errors
    /// When the session is not connected or the volume not open.
    pub fn close(&mut self, volume: VolumeHandle) -> Result<(), SubmitError> {
        let _ = volume;
        Err(SubmitError::NotConnected)
    }

    /// Asks whether anybody is there.
    ///
    /// # Errors
    /// When the session is not connected.
    pub fn ping(&mut self) -> Result<(), SubmitError> {
        Err(SubmitError::NotConnected)
    }

    /// Asks for rings of so many entries, a power of two, and a data area of so many bytes. To be
    /// called when nothing is in flight.
    ///
    /// # Errors
    /// When the session is not connected or the node offers none.
    pub fn attach(&mut self, entries: u32, data_len: u64) -> Result<(), SubmitError> {
        let _ = (entries, data_len);
        Err(SubmitError::NotConnected)
    }

    /// An open volume.
    pub fn volume(&self, volume: VolumeHandle) -> Option<&VolumeInfo> {
        let _ = volume;
        None
    }

    /// Queues a request. `payload` is what a write's buffer holds, looked at only when data digests
    /// were agreed.
    ///
    /// # Errors
    /// When it was not taken.
    pub fn submit(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        payload: &[u8],
    ) -> Result<RequestTag, SubmitError> {
        let _ = (volume, operation, payload);
        Err(SubmitError::NotConnected)
    }

    /// The entry of a request for the submission ring. Payload and, for atomic operations, the
    /// operands ([`ClientOperation::operands`]) are at `place` in the data area, from before until
    /// the request completes.
    ///
    /// # Errors
    /// When it was not taken.
    pub fn submit_entry(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        place: u32,
    ) -> Result<(RequestTag, [u8; HEADER_LEN]), SubmitError> {
        let _ = (volume, operation, place);
        Err(SubmitError::NotConnected)
    }

    /// An entry of the completion ring, copied out of it.
    ///
    /// # Errors
    /// When the node broke the protocol: the session is closing.
    pub fn handle_entry(&mut self, entry: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let _ = entry;
        Ok(())
    }

    /// Where the next bytes of the stream belong.
    pub fn receiving(&self) -> Receiving {
        Receiving::Bytes
    }

    /// Takes bytes of the stream: all headers and small payload in them. Returns how many were
    /// consumed. It stops where payload begins. However the stream is cut, the outcome is the same.
    ///
    /// # Errors
    /// When the node broke the protocol or ended the connection: the session is closing.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        Ok(bytes.len())
    }

    /// The next bytes of the payload are in the buffer that [`Self::receiving`] named; here they
    /// are once more.
    ///
    /// # Panics
    /// When that many were not awaited.
    pub fn handle_payload(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The next request that is over.
    pub fn poll_completion(&mut self) -> Option<ClientCompletion> {
        None
    }

    /// What else has happened.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        None
    }

    /// How many more requests can be submitted now.
    pub fn credits_left(&self) -> u32 {
        0
    }

    /// How many requests are in flight: submitted, and their completion not polled.
    pub fn requests_in_flight(&self) -> usize {
        0
    }

    /// The requests in flight that were not answered: on a lost connection, those of which nobody
    /// here knows whether they were done.
    pub fn in_flight(&self) -> impl Iterator<Item = RequestTag> {
        std::iter::empty()
    }

    /// What to send, in stream order, from where the last send stopped.
    pub fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.output.chunks()
    }

    /// How many bytes that is.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// The first `sent` bytes of [`Self::output`] are sent.
    ///
    /// # Panics
    /// When more was sent than there is.
    pub fn advance_output(&mut self, sent: usize) {
        self.output.advance(sent, &mut |_| {});
    }

    /// Ends the connection: GOODBYE is the last that is sent.
    pub fn goodbye(&mut self) {
        self.closing = true;
    }

    /// Whether the connection ends: close it once the output is sent.
    pub fn is_closing(&self) -> bool {
        self.closing
    }
}

impl ClientOperation {
    /// What an atomic operation is about, as it stands at its place in the data area: the first
    /// `len` of these bytes.
    pub fn operands(&self) -> ([u8; 16], usize) {
        let mut operands = [0; 16];
        let mut put = |words: &[u64]| {
            for (place, word) in operands.chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            words.len() * 8
        };
        let len = match *self {
            Self::CompareAndSwap { expected, new, .. } => put(&[expected, new]),
            Self::FetchAdd { addend, .. } => put(&[addend]),
            Self::Read { .. } | Self::Write { .. } | Self::Flush | Self::Discard { .. } => 0,
        };
        (operands, len)
    }
}
