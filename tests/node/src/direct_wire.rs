//! A direct client that sends handmade bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use nearflash_direct::wire::{
    AnswerHeader, Features, HelloAnswer, HelloRequest, NEW_HANDLE, NONCE_LEN, OpenAnswer,
    RequestHeader, VERSION,
};
use nearflash_direct::{Opcode, Status};
use zerocopy::{FromBytes, IntoBytes};

use crate::PATIENCE;
use crate::node::Node;

/// A request without payload.
pub fn request(opcode: Opcode, tag: u32, offset: u64, len: u32) -> RequestHeader {
    RequestHeader {
        opcode: opcode.0,
        tag: tag.into(),
        offset: offset.into(),
        len: len.into(),
        ..RequestHeader::default()
    }
}

/// OPEN of a volume whose name has this length.
pub fn open_request(name_len: usize) -> RequestHeader {
    let len = u32::try_from(name_len).expect("names are short");
    RequestHeader { volume: NEW_HANDLE.into(), ..request(Opcode::OPEN, 0, 0, len) }
}

/// A TCP connection for the direct protocol.
#[derive(Debug)]
pub struct DirectWire(TcpStream);

impl DirectWire {
    /// Connects, and sends nothing.
    ///
    /// # Panics
    /// When no node listens.
    pub fn dial(node: &Node<'_>) -> Self {
        let stream = TcpStream::connect(node.direct_address()).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Self(stream)
    }

    /// Connects an anonymous client, up to the end of its handshake.
    ///
    /// # Panics
    /// When the node refuses it.
    pub fn enter(node: &Node<'_>) -> Self {
        let mut wire = Self::dial(node);
        let hello = HelloRequest {
            magic: HelloRequest::MAGIC,
            version_min: VERSION.into(),
            version_max: VERSION.into(),
            features: Features::default(),
            nonce: [7; NONCE_LEN],
        };
        let len = u32::try_from(hello.as_bytes().len()).expect("it is short");
        wire.send(request(Opcode::HELLO, 0, 0, len).as_bytes());
        wire.send(hello.as_bytes());
        let (answer, payload) = wire.answer();
        assert_eq!(answer.status(), Status::OK);
        let answer = HelloAnswer::read_from_bytes(&payload).expect("a HELLO's answer");
        assert_eq!(answer.proof_wanted, 0, "nobody has to prove anything yet");
        wire
    }

    /// Opens a volume. Returns its handle and properties.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn open(&mut self, volume: &str) -> (u16, OpenAnswer) {
        self.send(open_request(volume.len()).as_bytes());
        self.send(volume.as_bytes());
        let (answer, payload) = self.answer();
        assert_eq!(answer.status(), Status::OK);
        let handle = u16::try_from(answer.value.get()).expect("handles have 16 bits");
        (handle, OpenAnswer::read_from_bytes(&payload).expect("an OPEN's answer"))
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.0
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the node does not accept them.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the node takes bytes");
    }

    /// Sends bytes to a node that may have closed the connection.
    pub fn send_in_vain(&mut self, bytes: &[u8]) {
        // The error of a closed connection may come now or later.
        let _ = self.0.write_all(bytes);
    }

    /// Sends a request, and returns its answer.
    pub fn ask(&mut self, request: RequestHeader) -> (AnswerHeader, Vec<u8>) {
        self.send(request.as_bytes());
        self.answer()
    }

    /// Receives the next answer and its payload.
    ///
    /// # Panics
    /// When no answer comes.
    pub fn answer(&mut self) -> (AnswerHeader, Vec<u8>) {
        let mut header = [0; size_of::<AnswerHeader>()];
        self.0.read_exact(&mut header).expect("the node answers");
        let header = AnswerHeader::read_from_bytes(&header).expect("it has the length");
        let len = usize::try_from(header.len.get()).expect("usize is at least 32 bits wide");
        let mut payload = vec![0; len];
        self.0.read_exact(&mut payload).expect("the node sends what it says");
        (header, payload)
    }

    /// The status of the node's goodbye, after which it closes the connection.
    ///
    /// # Panics
    /// When it does neither.
    pub fn goodbye(mut self) -> Status {
        let status = loop {
            let (header, _) = self.answer();
            if header.opcode == Opcode::GOODBYE.answer().0 {
                break header.status();
            }
        };
        self.assert_closed();
        status
    }

    /// Checks that the node closes the connection, and sends nothing more.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_closed(mut self) {
        match self.0.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("the connection stays open: {other:?}"),
        }
    }
}
