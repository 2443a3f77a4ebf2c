//! Receives the records of a handshake one at a time, so that the records behind it are left to the kernel.

use nearflash_shard::{Received, SocketId};

use crate::sockets;

/// Content type, version and length. RFC 8446, 5.1.
const HEADER_LEN: usize = 5;

/// The content type of a record that means nothing since TLS 1.3, and that clients send in front of the last one of a
/// handshake. RFC 8446, D.4.
const CHANGE_CIPHER_SPEC: u8 = 20;

/// The part of a record that has arrived.
#[derive(Debug, Default)]
pub(crate) struct HandshakeInput {
    header: [u8; HEADER_LEN],
    header_len: usize,
    /// The bytes behind the header that have not arrived.
    left: usize,
}

impl HandshakeInput {
    /// Receives bytes of one record, up to its end, or of two, if the first one means nothing.
    pub(crate) fn receive(&mut self, socket: SocketId, into: &mut [u8]) -> Received {
        let (mut filled, mut is_second) = (0, false);
        loop {
            let end = into.len().min(filled + self.wanted());
            if end == filled {
                return Received::Bytes(filled);
            }
            match sockets::receive_bytes(socket, &mut into[filled..end]) {
                Received::Bytes(len) => {
                    let complete = self.take(&into[filled..filled + len]);
                    filled += len;
                    match complete {
                        Some(CHANGE_CIPHER_SPEC) if !is_second => is_second = true,
                        Some(_) => return Received::Bytes(filled),
                        None => {}
                    }
                }
                Received::Nothing if filled > 0 => return Received::Bytes(filled),
                other => return other,
            }
        }
    }

    /// The bytes that the next step may receive; not zero.
    fn wanted(&self) -> usize {
        if self.header_len < HEADER_LEN { HEADER_LEN - self.header_len } else { self.left }
    }

    /// Bytes have arrived, not more than [wanted](Self::wanted). Returns the content type of a record that is
    /// complete.
    fn take(&mut self, bytes: &[u8]) -> Option<u8> {
        if self.header_len < HEADER_LEN {
            let end = self.header_len + bytes.len();
            self.header[self.header_len..end].copy_from_slice(bytes);
            self.header_len = end;
            let [.., high, low] = self.header;
            self.left = usize::from(u16::from_be_bytes([high, low]));
        } else {
            self.left -= bytes.len();
        }
        if self.header_len < HEADER_LEN || self.left > 0 {
            return None;
        }
        let [content_type, ..] = self.header;
        *self = Self::default();
        Some(content_type)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However the bytes arrive, and whatever the room for them, bytes behind a record of a handshake stay.
        #[test]
        fn no_call_receives_bytes_behind_a_record(
            records in prop::collection::vec((any::<bool>(), 0..2000_u16), 1..6),
            room in 1..5000_usize,
            cuts in prop::collection::vec(1..900_usize, 1..9),
        ) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let socket = sockets::socket_id(ours.as_raw_fd());
            let (mut stream, mut ends) = (Vec::new(), Vec::new());
            for (is_handshake, len) in records {
                stream.extend_from_slice(&[if is_handshake { 22 } else { 20 }, 3, 3]);
                stream.extend_from_slice(&len.to_be_bytes());
                stream.resize(stream.len() + usize::from(len), 7);
                ends.extend(is_handshake.then_some(stream.len()));
            }
            let (mut input, mut into) = (HandshakeInput::default(), vec![0; room]);
            let (mut received, mut rest, mut cuts) = (Vec::new(), &stream[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                theirs.write_all(now).unwrap();
                rest = later;
                while let Received::Bytes(len) = input.receive(socket, &mut into) {
                    let (start, end) = (received.len(), received.len() + len);
                    prop_assert!(ends.iter().all(|it| *it <= start || *it >= end));
                    received.extend_from_slice(&into[..len]);
                }
            }
            prop_assert!(received == stream);
        }
    }
}
