//! The plan of a study: points, each one subject under one set of loads.

use nearflash_bench::floor::Headers;
use nearflash_bench::subject::Target;
use nearflash_bench::workload::Pattern;
use nearflash_units::{ByteLen, Nanos};

use crate::simulation::Model;

/// The permanent name of a point: `quicksan-bandwidth/iscsi/read/4KiB`. A resumed run finds the
/// points that are already measured by it, so it contains everything that distinguishes points of
/// one study.
#[derive(
    Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize,
)]
#[serde(transparent)]
pub struct PointId(pub String);

/// One subject under one set of loads.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name.
    pub id: PointId,
    /// The subject.
    pub subject: Subject,
    /// The loads, which run at the same time: one, or several tenants. None for a model, which
    /// describes its own.
    pub loads: Vec<Load>,
}

/// The subject of a measurement.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Subject {
    /// The bare TCP exchange on this machine with these headers: the wire's share.
    Wire(Headers),
    /// A medium of this machine over io_uring, without a node: the device's share.
    Local(Medium),
    /// Volumes of a node that is started on this machine for the run, one volume per medium.
    /// Clients are assigned to the volumes in turn.
    Node {
        door: Door,
        /// The media of the volumes.
        media: Vec<Medium>,
        /// Options of the sessions.
        session: SessionOptions,
    },
    /// A volume in the space of a cluster, whose nodes and etcd are started on this machine for the run.
    /// Each client reaches it over one of the nodes, in turn.
    Space {
        door: Door,
        nodes: u8,
        /// The nodes that have the volume's blocks.
        spread: Spread,
    },
    /// A volume served by another program on this machine, if it is installed.
    Peer {
        peer: Peer,
        /// The medium of the volume.
        medium: Medium,
    },
    /// A file that a program reads and writes with pread(2) and pwrite(2).
    File {
        /// The way from the program to the medium.
        way: FileWay,
        /// The medium of the file, or of the volume that holds it.
        medium: Medium,
    },
    /// A volume that the user named with `--target`.
    Url(Target),
    /// A model that this process computes.
    Model(Model),
}

impl Subject {
    /// The medium of a volume of files that the node serves for this subject.
    pub(crate) fn medium_of_files(&self) -> Option<Medium> {
        match self {
            Self::File { way: FileWay::Mount | FileWay::Interposed, medium } => Some(*medium),
            _ => None,
        }
    }
}

/// The way from a program to the bytes of a file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileWay {
    /// The kernel's file system on the medium, without a node.
    Kernel,
    /// A volume of files of our node, mounted over shared memory.
    Mount,
    /// The same mount, with the program under `nearflash run`.
    Interposed,
}

/// The nodes of a space that have the blocks of a volume.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Spread {
    /// All of them, stripe by stripe: QuickSAN's distributed form.
    Distributed,
    /// The first one: QuickSAN's centralized form.
    Centralized,
}

/// The protocol and transport by which clients reach a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Door {
    /// iSCSI over TCP.
    Iscsi,
    /// NVMe over TCP.
    NvmeTcp,
    /// The direct protocol over TCP.
    Direct,
    /// The direct protocol over shared memory.
    DirectLocal,
}

/// Session options, for the protocols that have them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SessionOptions {
    /// Connections of an iSCSI session, or I/O queues of an NVMe/TCP host; 0 means 1.
    pub connections: u16,
    /// Header digests.
    pub header_digest: bool,
    /// Data digests.
    pub data_digest: bool,
    /// Cores of the node; 0 means 1.
    pub node_cores: u16,
}

/// The medium of a volume or range.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Medium {
    /// Stores nothing: completes at once, or after a delay.
    Null {
        /// Delay of a read.
        read_delay: Nanos,
        /// Delay of a write.
        write_delay: Nanos,
    },
    /// Memory of the node; the index selects its device.
    Memory(u8),
    /// The file or device of `--local`, or a scratch file; the index selects the range.
    File(u8),
}

/// Another program that serves flash, measured with the same loads.
#[derive(
    Clone, Copy, Debug, Eq, Hash, PartialEq, clap::ValueEnum, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Peer {
    /// fio on the medium itself
    Fio,
    /// Debian's iSCSI target
    Tgt,
    /// nbdkit, over NBD
    Nbdkit,
}

/// The load that clients generate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Load {
    /// Direction and order.
    pub pattern: Pattern,
    /// The share of reads in per cent, for mixed patterns.
    pub read_percent: u8,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// Queue depth of each client.
    pub depth: u32,
    /// Concurrent clients.
    pub clients: u32,
    /// The ranges that clients access.
    pub layout: Layout,
    /// Upper limit in operations per second over all clients; latency is then measured from the
    /// intended start.
    pub rate_iops: Option<u64>,
}

/// The ranges that clients access.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Layout {
    /// All access the same range (fio's shared file).
    #[default]
    Shared,
    /// Each accesses a range of its own (IOR's file or range per task).
    RangePerClient,
}

/// The points that a study measures, in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The points.
    pub points: Vec<Point>,
    /// Parts of the study that cannot be measured here.
    pub unable: Vec<Unable>,
}

/// A part of a study that cannot be measured here.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Unable {
    /// The part.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The requirement.
    pub needs: String,
}
