//! Resource usage of a busy and of an idle node.

use nearflash_units::{ByteLen, Nanos};
use serde::Serialize;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{Arena, Ops, Timing};
use nearflash_bench::engine::{Needs, NvmeTcpEngine, Opener, Remote};
use nearflash_bench::subject::NvmeTcpTarget;

/// Additional pairs of connections (admin and I/O).
const IDLE_CONTROLLERS: u32 = 100;
/// How long an idle node is observed.
const IDLE_SPAN: Nanos = Nanos::from_secs(5);
/// Queue depth of the busy connection, and queue size of the idle ones.
const DEPTH: u32 = 128;
const OP_LEN: ByteLen = ByteLen(4096);

/// Memory and processor time of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resources {
    /// Resident memory after a load on one connection at depth 128.
    pub busy_len: ByteLen,
    /// Growth of resident memory per additional idle connection.
    pub per_connection_len: ByteLen,
    /// Number of additional connections.
    pub connections: u32,
    /// Fraction of a core that the node uses with all connections open and idle.
    pub idle_share: f64,
}

/// Measures the resource usage of the arena's node; `null` is its volume on the null device.
///
/// # Errors
/// When the process has ended or refuses that many connections.
pub fn resources(arena: &Arena<'_>, null: &NvmeTcpTarget) -> Result<Resources, BenchError> {
    let Arena { node, cores, range_len, .. } = *arena;
    let timing = Timing { ramp: Nanos(0), span: Nanos::from_millis(500), rounds: 1 };
    let short = Arena { node, cores, range_len, timing };
    short.rounds(&[null], Ops::reads(OP_LEN, DEPTH), &mut |_| {})?;
    let busy_len = node.resident_len()?;
    let idle = (0..IDLE_CONTROLLERS)
        .map(|_| idle_connections(null))
        .collect::<Result<Vec<_>, BenchError>>()?;
    let grown = node.resident_len()?.0.saturating_sub(busy_len.0);
    let connections = 2 * IDLE_CONTROLLERS;
    let before = node.cpu_time()?;
    std::thread::sleep(IDLE_SPAN.to_duration());
    let used = node.cpu_time()?.since(before).total;
    drop(idle);
    Ok(Resources {
        busy_len,
        per_connection_len: ByteLen(grown / u64::from(connections)),
        connections,
        idle_share: used.0 as f64 / IDLE_SPAN.0 as f64,
    })
}

impl Resources {
    /// Rows of the table that [`to_markdown`](crate::to_markdown) creates.
    pub fn to_markdown(&self) -> String {
        let verdict = |reached| if reached { "reached" } else { "missed" };
        let mib = self.busy_len.0 as f64 / 1_048_576.0;
        let kib = self.per_connection_len.0 as f64 / 1024.0;
        let percent = self.idle_share * 100.0;
        format!(
            "| resident memory, one connection at depth 128 | < 64 MiB | | {mib:.1} MiB | | | | {} |\n\
             | growth per further idle connection ({} opened) | < 64 KiB | | {kib:.1} KiB | | | | {} |\n\
             | CPU of the idle node with connections open | < 1 % | | {percent:.2} % | | | | {} |\n",
            verdict(mib < 64.0),
            self.connections,
            verdict(kib < 64.0),
            verdict(percent < 1.0),
        )
    }
}

#[derive(Serialize)]
pub(super) struct ResourcesPart {
    resident_bytes: u64,
    bytes_per_idle_connection: u64,
    idle_connections: u32,
    idle_cpu_share: f64,
}

impl ResourcesPart {
    pub(super) fn of(resources: &Resources) -> Self {
        Self {
            resident_bytes: resources.busy_len.0,
            bytes_per_idle_connection: resources.per_connection_len.0,
            idle_connections: resources.connections,
            idle_cpu_share: resources.idle_share,
        }
    }
}

/// An idle pair of an admin and an I/O connection.
fn idle_connections(null: &NvmeTcpTarget) -> Result<(Remote, NvmeTcpEngine), BenchError> {
    let depth = usize::try_from(DEPTH).expect("usize is at least 32 bits wide");
    let needs = Needs { op_len: OP_LEN, offset: ByteLen(0), depth, job_count: 1 };
    let remote = Remote::connect(null, needs)?;
    let engine = remote.open(depth, OP_LEN)?;
    Ok((remote, engine))
}
