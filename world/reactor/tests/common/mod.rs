//! A reactor without a shard, and a client with rings at the other end.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_device::DeviceId;
use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_engine::Foreign;
use nearflash_media::{Claim, open};
use nearflash_reactor::{Epoch, Reactor, ReactorConfig, SPIN_MAX};
use nearflash_ring::{Area, ClientEnd, Geometry, Slice, receive_passed};
use nearflash_session::{Chunk, Origin};
use nearflash_shard::{Event, RingId, RingSpec, Sent, SocketId, Submitted, World};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

pub(crate) const DATA_LEN: u64 = 1 << 20;

const NAME: OperationId = OperationId { io: 7, op: 1, generation: 2 };

/// A reactor with these devices.
pub(crate) fn reactor(specs: &[String]) -> Reactor {
    let claim = Claim { node: Uuid::from_u128(1), known: &[], cluster: None };
    let device = |spec: &String| {
        let spec = spec.parse().unwrap();
        Arc::new(open(&spec, claim).unwrap().take(Uuid::from_u128(2)).unwrap())
    };
    Reactor::new(ReactorConfig {
        epoch: Epoch::now(),
        pool_len: ByteLen(1 << 20),
        devices: specs.iter().map(device).collect(),
        listeners: Vec::new(),
        spin_max: SPIN_MAX,
        notices: Box::new(|_| {}),
        tls: None,
    })
    .unwrap()
}

/// A client with rings.
pub(crate) struct Client {
    pub end: ClientEnd,
    pub area: Area,
    pub stream: UnixStream,
    pub socket: SocketId,
    pub ring: RingId,
}

impl Client {
    pub(crate) fn attach(reactor: &mut Reactor) -> Self {
        let (stream, far_end) = UnixStream::pair().unwrap();
        let socket = SocketId(far_end.into_raw_fd().try_into().unwrap());
        reactor.attach(socket);
        let spec = RingSpec { entries: 8, data_len: ByteLen(DATA_LEN), owner: Origin::User(7) };
        let ring = reactor.attach_ring(socket, spec).unwrap();
        let sent = reactor.send(socket, [Chunk::Bytes(b"answer")].into_iter());
        assert_eq!(sent, Sent::Bytes(6));
        let (mut bytes, mut descriptors) = ([0; 64], Vec::new());
        assert_eq!(receive_passed(stream.as_fd(), &mut bytes, &mut descriptors).unwrap(), 6);
        let mut descriptors = descriptors.into_iter();
        let memory = descriptors.next().unwrap();
        let geometry = Geometry::new(8, DATA_LEN).unwrap();
        let (end, area) = ClientEnd::new(&memory, descriptors.next().unwrap(), geometry).unwrap();
        Self { end, area, stream, socket, ring }
    }

    /// Reads or writes the whole slice at the start of a device.
    pub(crate) fn operate(&self, reactor: &mut Reactor, device: u32, slice: &Slice, writes: bool) {
        let (region, offset) = (self.ring.0, slice.offset().into());
        let len = u32::try_from(slice.len()).unwrap();
        let buffer = reactor.pool().lend(Foreign { region, offset, len });
        let buffer_offset = ByteLen(0);
        let operation = match writes {
            true => DeviceOperation::Write { buffer, buffer_offset, durable: false },
            false => DeviceOperation::Read { buffer: Some(buffer), buffer_offset },
        };
        let request = DeviceRequest {
            id: NAME,
            device: DeviceId(device),
            operation,
            offset: ByteOffset(1 << 20),
            len: ByteLen(len.into()),
        };
        let result = match reactor.submit(request) {
            Submitted::Done(result) => result,
            Submitted::Queued => completion(reactor),
        };
        assert_eq!(result, DeviceResult::Done);
        reactor.pool().give_back(buffer);
    }
}

/// Turns until a device operation has ended.
fn completion(reactor: &mut Reactor) -> DeviceResult {
    let end = Instant::now() + Duration::from_secs(20);
    let mut events = Vec::new();
    while Instant::now() < end {
        reactor.poll(&mut events);
        for event in events.drain(..) {
            if let Event::Device(NAME, result) = event {
                return result;
            }
        }
    }
    panic!("the device does not answer");
}
