//! A world for one shard that executes everything at once: sockets are queues of bytes, devices are
//! memory, and time advances only by hand.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use nearflash_device::{DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult};
use nearflash_engine::{CoreId, Pool};
use nearflash_nvme_tcp::Chunk;
use nearflash_publish::Served;
use nearflash_shard::{
    Door, Event, Interest, Message, Notice, Peer, PeerState, Place, Received, Sent, ShardStatus,
    SocketId, Submitted, World,
};
use nearflash_units::{BlockSize, ByteLen, Nanos};

use crate::control::{Control, Wanted};

/// The length of each device.
pub(crate) const DEVICE_LEN: usize = 2 << 20;
/// The device whose operations end and fail on request. The other one never fails.
pub(crate) const SLOW_DEVICE: u32 = 0;

/// A connection, seen from outside.
#[derive(Debug, Default)]
pub(crate) struct Socket {
    /// Bytes that the peer has sent and the shard has not received.
    pub(crate) input: VecDeque<u8>,
    /// Bytes that the shard has sent, for peers that read them.
    pub(crate) output: Vec<u8>,
    pub(crate) keeps_output: bool,
    /// The number of bytes that the shard can send before the peer has to read.
    pub(crate) room: usize,
    /// Whether the peer is gone.
    pub(crate) is_lost: bool,
    /// Whether the shard has closed the connection.
    pub(crate) is_closed: bool,
    interest: Option<Interest>,
}

impl Socket {
    fn can_read(&self) -> bool {
        self.is_lost || !self.input.is_empty()
    }

    fn can_write(&self) -> bool {
        self.is_lost || self.room > 0
    }

    fn is_ready(&self) -> bool {
        match self.interest {
            Some(Interest::Input) => self.can_read(),
            Some(Interest::Output) => self.can_write(),
            Some(Interest::Both) => self.can_read() || self.can_write(),
            Some(Interest::End) => self.is_lost,
            None => false,
        }
    }
}

/// The world of the shard.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) now: Nanos,
    pub(crate) pool: Pool,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) events: Vec<Event>,
    /// The operations of the slow device, oldest first.
    pub(crate) queued: VecDeque<DeviceRequest>,
    pub(crate) status: Option<Box<ShardStatus>>,
    pub(crate) control: Control,
    nonces: u64,
    devices: [Vec<u8>; 2],
}

impl Outside {
    pub(crate) fn new(pool_len: ByteLen, start: Served) -> Self {
        Self {
            now: Nanos::from_secs(1),
            pool: Pool::new(pool_len),
            sockets: Vec::new(),
            events: Vec::new(),
            queued: VecDeque::new(),
            status: None,
            control: Control::new(start),
            nonces: 0,
            devices: [vec![0; DEVICE_LEN], vec![0; DEVICE_LEN]],
        }
    }

    pub(crate) fn properties() -> [DeviceProperties; 2] {
        [DeviceProperties {
            len: ByteLen::from_usize(DEVICE_LEN),
            block_size: BlockSize::B512,
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: true,
        }; 2]
    }

    /// Connects a peer.
    pub(crate) fn open(&mut self, door: Door) -> SocketId {
        let socket = SocketId(u32::try_from(self.sockets.len()).expect("few sockets"));
        self.sockets.push(Socket { room: usize::MAX, ..Socket::default() });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4420));
        let peer = Peer::Address(address);
        self.events.push(Event::Accepted { socket, door, peer, local: address });
        socket
    }

    pub(crate) fn socket(&mut self, socket: SocketId) -> &mut Socket {
        &mut self.sockets[usize::try_from(socket.0).expect("few sockets")]
    }

    /// Ends an operation of the slow device, which `choice` selects.
    pub(crate) fn end_operation(&mut self, choice: usize, result: DeviceResult) {
        if self.queued.is_empty() {
            return;
        }
        let request = self.queued.remove(choice % self.queued.len()).expect("within the queue");
        if result == DeviceResult::Done {
            self.perform(request);
        }
        self.events.push(Event::Device(request.id, result));
    }

    fn perform(&mut self, request: DeviceRequest) {
        let start = usize::try_from(request.offset.0).expect("within a device");
        let len = request.len.to_usize();
        let device = usize::try_from(request.device.0).expect("two devices");
        let device = &mut self.devices[device];
        match request.operation {
            DeviceOperation::Read { buffer: Some(buffer), buffer_offset } => {
                let place = &mut self.pool.bytes_mut(buffer)[buffer_offset.to_usize()..][..len];
                place.copy_from_slice(&device[start..start + len]);
            }
            DeviceOperation::Write { buffer, buffer_offset, .. } => {
                let place = &self.pool.bytes(buffer)[buffer_offset.to_usize()..][..len];
                device[start..start + len].copy_from_slice(place);
            }
            DeviceOperation::WriteZeroes { .. } | DeviceOperation::Deallocate => {
                device[start..start + len].fill(0);
            }
            // Every block is allocated here.
            DeviceOperation::Read { buffer: None, .. }
            | DeviceOperation::Flush
            | DeviceOperation::Allocation => {}
        }
    }
}

impl World for Outside {
    fn now(&self) -> Nanos {
        self.now
    }

    fn nonce(&mut self) -> [u8; 16] {
        self.nonces += 1;
        u128::from(self.nonces).to_le_bytes()
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events);
        for (socket, id) in self.sockets.iter_mut().zip(0..) {
            if !socket.is_closed && socket.is_ready() {
                socket.interest = None;
                events.push(Event::Ready(SocketId(id)));
            }
        }
    }

    fn receive(&mut self, socket: SocketId, place: Option<Place>, staging: &mut [u8]) -> Received {
        let index = usize::try_from(socket.0).expect("few sockets");
        let Self { sockets, pool, .. } = self;
        let socket = &mut sockets[index];
        assert!(!socket.is_closed, "nothing is received from a closed socket");
        if socket.input.is_empty() {
            return if socket.is_lost { Received::Closed } else { Received::Nothing };
        }
        let mut moved = 0;
        if let Some(Place { buffer, offset, len }) = place {
            moved += drain(&mut socket.input, &mut pool.bytes_mut(buffer)[offset..offset + len]);
        }
        moved += drain(&mut socket.input, staging);
        Received::Bytes(moved)
    }

    fn unread(&self, socket: SocketId) -> usize {
        self.sockets[usize::try_from(socket.0).expect("few sockets")].input.len()
    }

    fn peer_state(&mut self, socket: SocketId) -> PeerState {
        let is_over = self.sockets[usize::try_from(socket.0).expect("few sockets")].is_lost;
        PeerState { is_over, ..PeerState::default() }
    }

    fn send<'a>(&mut self, socket: SocketId, chunks: impl Iterator<Item = Chunk<'a>>) -> Sent {
        let index = usize::try_from(socket.0).expect("few sockets");
        let Self { sockets, pool, .. } = self;
        let socket = &mut sockets[index];
        assert!(!socket.is_closed, "nothing is sent to a closed socket");
        if socket.is_lost {
            return Sent::Closed;
        }
        let mut sent = 0;
        for chunk in chunks {
            let left = socket.room - sent;
            let len = chunk.len().min(left);
            if socket.keeps_output {
                match chunk {
                    Chunk::Bytes(bytes) => socket.output.extend_from_slice(&bytes[..len]),
                    Chunk::Buffer { buffer, offset, .. } => {
                        socket.output.extend_from_slice(&pool.bytes(buffer)[offset..][..len]);
                    }
                    Chunk::Zeroes(_) => socket.output.extend(std::iter::repeat_n(0, len)),
                }
            }
            sent += len;
            if sent == socket.room {
                break;
            }
        }
        if socket.room != usize::MAX {
            socket.room -= sent;
        }
        Sent::Bytes(sent)
    }

    fn watch(&mut self, socket: SocketId, interest: Interest) {
        self.socket(socket).interest = Some(interest);
    }

    fn shut_down_output(&mut self, _socket: SocketId) {}

    fn close(&mut self, socket: SocketId) {
        let socket = self.socket(socket);
        assert!(!socket.is_closed, "a socket is closed once");
        socket.is_closed = true;
        socket.input.clear();
    }

    fn detach(&mut self, _socket: SocketId) {
        unreachable!("there is one core")
    }

    fn attach(&mut self, _socket: SocketId) {
        unreachable!("there is one core")
    }

    fn submit(&mut self, request: DeviceRequest) -> Submitted {
        if request.device.0 == SLOW_DEVICE {
            self.queued.push_back(request);
            return Submitted::Queued;
        }
        self.perform(request);
        Submitted::Done(DeviceResult::Done)
    }

    fn post(&mut self, _core: CoreId, _message: Message) {
        unreachable!("there is one core")
    }

    fn stop_listening(&mut self) {}

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Status(_, _, status) => self.status = Some(status),
            Notice::Change { owner, tag, change, .. } => {
                self.control.want(Wanted { owner, tag, change }, &mut self.events);
            }
            Notice::Quiesced(_, number) => {
                self.control.confirmed(number, &mut self.events);
            }
            _ => {}
        }
    }
}

fn drain(from: &mut VecDeque<u8>, to: &mut [u8]) -> usize {
    let len = from.len().min(to.len());
    // Copies whole slices: copies byte by byte would dominate the run time.
    let (first, second) = from.as_slices();
    let first_len = first.len().min(len);
    to[..first_len].copy_from_slice(&first[..first_len]);
    to[first_len..len].copy_from_slice(&second[..len - first_len]);
    from.drain(..len);
    len
}
