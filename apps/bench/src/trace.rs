//! The trace of the target's node during a run, over the node's control socket.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearflash_api::client::ask;
use nearflash_api::socket::default_data_dir;
use nearflash_api::{TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX, TraceRun, TracedRequest};
use nearflash_units::{ByteLen, Nanos};

use crate::args::BenchArgs;
use crate::report::{NodeStages, NodeUnknown};
use crate::subject::Target;
use crate::workload::Direction;

/// The node traces one in so many requests. A prime, so that a regular load does not give the same one each time.
const EVERY: u32 = 17;

/// A trace under way.
pub(crate) struct Tracing {
    thread: JoinHandle<Result<Vec<TracedRequest>, NodeUnknown>>,
    requests: Meant,
}

/// The requests of a run, as the node sees them.
struct Meant {
    protocol: &'static str,
    operation: &'static str,
    len: ByteLen,
}

impl Meant {
    fn is(&self, request: &TracedRequest) -> bool {
        let Self { protocol, operation, len } = self;
        request.protocol == *protocol && request.operation == *operation && request.bytes == len.0
    }
}

impl Tracing {
    /// Begins a trace once the ramp of the run is over.
    pub(crate) fn start(args: &BenchArgs) -> Self {
        let drive = args.drive();
        let seconds = drive.runtime.unwrap_or_default().0 / 1_000_000_000;
        let call = TraceRun {
            seconds: seconds.clamp(1, TRACE_SECONDS_MAX),
            every: EVERY,
            records: TRACE_REQUESTS_MAX,
            volume: volume(&args.target),
        };
        let (data_dir, ramp) = (args.data_dir.clone(), drive.ramp);
        let protocol = protocol(&args.target);
        let operation = match args.rw.single_direction() {
            Some(Direction::Write) => "write",
            Some(Direction::Read) | None => "read",
        };
        let requests = Meant { protocol, operation, len: args.bs };
        Self { thread: thread::spawn(move || trace(data_dir, ramp, call)), requests }
    }

    /// The stages of the run's requests in the node.
    pub(crate) fn finish(self) -> Result<NodeStages, NodeUnknown> {
        let failed = |_| Err(NodeUnknown::Control("the trace has failed".to_owned()));
        let mut requests = self.thread.join().unwrap_or_else(failed)?;
        requests.retain(|request| self.requests.is(request));
        NodeStages::of(&requests, EVERY)
    }
}

fn trace(
    data_dir: Option<PathBuf>,
    ramp: Nanos,
    call: TraceRun,
) -> Result<Vec<TracedRequest>, NodeUnknown> {
    let unknown = |error: &dyn std::fmt::Display| NodeUnknown::Control(error.to_string());
    let data_dir = data_dir.map_or_else(default_data_dir, Ok).map_err(|error| unknown(&error))?;
    thread::sleep(Duration::from_nanos(ramp.0));
    let trace = ask(&data_dir, call).map_err(|error| unknown(&error))?;
    Ok(trace.requests)
}

/// The volume, if the target names it. A subsystem or a target may have several volumes.
fn volume(target: &Target) -> Option<String> {
    match target {
        Target::Direct(url) => url.volume.clone(),
        _ => None,
    }
}

fn protocol(target: &Target) -> &'static str {
    match target {
        Target::Iscsi(_) => "iscsi",
        Target::Direct(_) => "direct",
        _ => "nvme-tcp",
    }
}
