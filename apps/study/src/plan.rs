//! What a study measures: points, each one subject under one set of loads.

use nearflash_bench::floor::Headers;
use nearflash_bench::subject::Target;
use nearflash_bench::workload::Pattern;
use nearflash_units::{ByteLen, Nanos};

/// Names a point for ever: `quicksan-bandwidth/iscsi/read/4KiB`. An interrupted run finds by it what
/// it has measured already, so everything that distinguishes points of one study is in it.
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
    /// What is measured.
    pub subject: Subject,
    /// What is done to it, all at once: one load, or several tenants.
    pub loads: Vec<Load>,
}

/// What is measured.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Subject {
    /// The bare exchange over TCP of this machine, with these headers: the wire's share.
    Wire(Headers),
    /// A medium of this machine over io_uring, without a node: the device's share.
    Local(Medium),
    /// Volumes behind a node of this machine that is started for the run, one volume per medium.
    /// Clients are given to the volumes in turn.
    Node {
        /// How clients come in.
        door: Door,
        /// What the volumes lie on.
        media: Vec<Medium>,
        /// How sessions are set.
        session: SessionOptions,
    },
    /// A volume behind another program of this machine, when it is installed.
    Peer {
        /// Which.
        peer: Peer,
        /// What the volume lies on.
        medium: Medium,
    },
    /// What the user named with `--target`.
    Url(Target),
}

/// How clients reach a node.
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

/// Options of sessions, for the doors that have them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SessionOptions {
    /// Connections of an iSCSI session, or queues of an NVMe/TCP host; 0 for one.
    pub connections: u16,
    /// Header digests.
    pub header_digest: bool,
    /// Data digests.
    pub data_digest: bool,
    /// Cores of the node; 0 for one.
    pub node_cores: u16,
}

/// What bytes lie on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Medium {
    /// Nothing: answered at once, or after a delay.
    Null {
        /// Of a read.
        read_delay: Nanos,
        /// Of a write.
        write_delay: Nanos,
    },
    /// Memory of the node: the first, second… device of it.
    Memory(u8),
    /// The file or device of `--local`, or a scratch file; the first, second… of them.
    File(u8),
}

/// Another program that serves flash, measured by the same loads.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// fio with io_uring on the medium itself.
    Fio,
    /// Debian's `tgt`: iSCSI.
    Tgt,
    /// nbdkit, over NBD.
    Nbdkit,
}

/// What clients do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Load {
    /// Direction and order.
    pub pattern: Pattern,
    /// Of a mixed pattern, the share of reads, in per cent.
    pub read_percent: u8,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// In flight, for each client.
    pub depth: u32,
    /// Clients at the same time.
    pub clients: u32,
    /// Where they work.
    pub layout: Layout,
    /// Operations per second at most, all clients together; latency counts from the intended time.
    pub rate_iops: Option<u64>,
}

/// Where clients work.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Layout {
    /// All on the same range (fio's shared file).
    #[default]
    Shared,
    /// Each on a range of its own (IOR's file or range per task).
    RangePerClient,
}

/// What a study measures, in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The points.
    pub points: Vec<Point>,
    /// What belongs to the study and cannot be measured here.
    pub unable: Vec<Unable>,
}

/// A part of a study that cannot run.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Unable {
    /// Which part.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What it would need.
    pub needs: String,
}
