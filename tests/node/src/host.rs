//! The NVMe/TCP host of the client crate, with one command at a time or many.

use nearflash::nvme_tcp::{
    Controller, HostError, HostIdentity, Io, IoCompletion, Namespace, NamespaceId, Options,
    QueueId, QueueOptions, QueuePair, Status,
};
use nearflash_nvme_tcp::Digests;
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use uuid::Uuid;

use crate::node::Node;
use crate::wire::subsystem;
use nearflash_bench::consistency::Stamp;

/// The maximum number of commands in flight on a queue pair.
const DEPTH: u16 = 32;
/// The length of the longest command.
const LEN_MAX: ByteLen = ByteLen(128 << 10);

/// A host with I/O queues for one volume.
pub struct Host {
    /// The host's controller.
    pub controller: Controller,
    /// The volume's namespace.
    pub namespace: Namespace,
    /// The host's I/O queues, from the first.
    pub queues: Vec<QueuePair>,
}

impl Host {
    /// Connects to a volume with one I/O queue, as a new host.
    pub fn connect(node: &Node<'_>, volume: &str) -> Self {
        Self::connect_with(node, volume, 1, Digests::NONE)
    }

    /// [`Self::connect`] with several queues, and digests.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn connect_with(node: &Node<'_>, volume: &str, queues: u16, digests: Digests) -> Self {
        let identity = HostIdentity::from_uuid(Uuid::new_v4());
        let options = Options::new(node.address(), subsystem(volume), identity).digests(digests);
        Self::with_options(options, queues).expect("the node takes the host")
    }

    /// Connects with these options, and several queues.
    ///
    /// # Errors
    /// When the node refuses the controller.
    ///
    /// # Panics
    /// When it refuses more than that.
    pub fn with_options(options: Options, queues: u16) -> Result<Self, HostError> {
        // The keep-alive time-out is long, since a test thread does not call `tend`.
        let keep_alive = Nanos::from_secs(120);
        let options = options.keep_alive(keep_alive).timeout(Nanos::from_secs(30));
        let mut controller = Controller::connect(&options)?;
        let namespace = controller.namespace(NamespaceId(1)).expect("the volume is there");
        let granted = controller.request_queue_pairs(queues).expect("queues are to be had");
        assert_eq!(granted, queues);
        let connect = |queue| {
            let options = QueueOptions::for_ops(DEPTH, LEN_MAX);
            QueuePair::connect(&controller, QueueId(queue), options).expect("the queue is free")
        };
        let queues = (1..=queues).map(connect).collect();
        Ok(Self { controller, namespace, queues })
    }

    /// The length of a block, in bytes.
    pub fn block_len(&self) -> usize {
        let len = self.namespace.block_size.bytes();
        usize::try_from(len).expect("blocks are small")
    }

    /// Writes 8 MiB in commands of 128 KiB, and reads them.
    ///
    /// # Panics
    /// When a command fails, or other bytes are read.
    pub fn write_and_read(&mut self) {
        let piece = |number: u8| -> Vec<u8> {
            (0..=250).cycle().skip(number.into()).take(128 << 10).collect()
        };
        let count = (128 << 10) / self.block_len();
        let step = u64::try_from(count).expect("few blocks");
        for number in 0..64 {
            assert!(self.write(u64::from(number) * step, &piece(number)).is_success());
        }
        for number in 0..64 {
            let (status, bytes) = self.read(u64::from(number) * step, count);
            assert!(status.is_success() && bytes == piece(number), "piece {number}");
        }
    }

    /// Writes whole blocks.
    pub fn write(&mut self, lba: u64, bytes: &[u8]) -> Status {
        self.write_by(0, lba, bytes, false)
    }

    /// Writes whole blocks with force unit access.
    pub fn write_durably(&mut self, lba: u64, bytes: &[u8]) -> Status {
        self.write_by(0, lba, bytes, true)
    }

    /// Writes a stamped block.
    pub fn write_stamp(&mut self, stamp: Stamp) -> Status {
        let block = stamp.block(self.block_len());
        self.write(stamp.lba, &block)
    }

    fn write_by(&mut self, queue: usize, lba: u64, bytes: &[u8], durably: bool) -> Status {
        let count = self.blocks(bytes.len());
        let pair = &mut self.queues[queue];
        let buffer = pair.take_buffer(ByteLen::from_usize(bytes.len())).expect("room for one");
        pair.bytes_mut(buffer)[..bytes.len()].copy_from_slice(bytes);
        let start = Lba(lba);
        let io = Io::Write { start, count, buffer, force_unit_access: durably };
        let status = self.run(queue, io);
        self.queues[queue].give_back(buffer);
        status
    }

    /// Reads whole blocks.
    pub fn read(&mut self, lba: u64, count: usize) -> (Status, Vec<u8>) {
        let len = count * self.block_len();
        let pair = &mut self.queues[0];
        let buffer = pair.take_buffer(ByteLen::from_usize(len)).expect("room for one");
        pair.bytes_mut(buffer).fill(0xA5);
        let count = self.blocks(len);
        let status = self.run(0, Io::Read { start: Lba(lba), count, buffer });
        let bytes = self.queues[0].bytes(buffer)[..len].to_vec();
        self.queues[0].give_back(buffer);
        (status, bytes)
    }

    /// Reads a block's stamp; `None` when the block has no valid stamp.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn read_stamp(&mut self, lba: u64) -> Option<Stamp> {
        let (status, block) = self.read(lba, 1);
        assert!(status.is_success(), "block {lba}: {status}");
        Stamp::of(&block)
    }

    /// Sends a flush.
    pub fn flush(&mut self) -> Status {
        self.run(0, Io::Flush)
    }

    /// Executes a single command on one queue.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn run(&mut self, queue: usize, io: Io) -> Status {
        let pair = &mut self.queues[queue];
        pair.submit(0, &self.namespace, io).expect("the queue is free");
        let mut done = Vec::new();
        while done.is_empty() {
            let moved = pair.poll(&mut done).expect("the connection stays");
            if !moved {
                let pair = std::slice::from_ref(pair);
                QueuePair::wait_any(pair, Nanos::from_secs(1)).expect("the system waits");
            }
        }
        let IoCompletion { status, .. } = done[0];
        status
    }

    /// Checks that the host can still write and read.
    ///
    /// # Panics
    /// When it cannot.
    pub fn assert_works(&mut self) {
        static SEQUENCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let sequence = SEQUENCE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stamp = Stamp { lba: 0, sequence };
        assert_eq!(self.write_stamp(stamp), Status::SUCCESS);
        assert_eq!(self.read_stamp(0), Some(stamp));
    }

    fn blocks(&self, len: usize) -> Blocks {
        let blocks = len / self.block_len();
        Blocks(u64::try_from(blocks).expect("a number of blocks"))
    }
}

/// Checks that a new host can connect to volume `data`, write and read.
///
/// # Panics
/// When it cannot.
pub fn assert_serves(node: &Node<'_>) {
    Host::connect(node, "data").assert_works();
}
