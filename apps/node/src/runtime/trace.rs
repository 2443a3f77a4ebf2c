//! Traces: the order to every core, and the collection of the records.

use std::collections::BTreeMap;

use nearflash_engine::{CoreId, TraceOrder, Traced};
use nearflash_reactor::{Courier, Replies, Reply, STATUS_PATIENCE};
use nearflash_request::VolumeId;
use nearflash_shard::Message;

use super::common::Post;
use crate::Ticket;

/// The requests to trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TraceSpec {
    /// One in so many.
    pub(crate) every: u32,
    /// Only those to this volume.
    pub(crate) volume: Option<VolumeId>,
    /// The maximum number on each core.
    pub(crate) records_max: usize,
}

/// The traced requests of a core.
#[derive(Clone, Debug)]
pub(crate) struct CoreTrace {
    /// The processor.
    pub(crate) processor: usize,
    /// `None` if the core did not answer in time.
    pub(crate) traced: Option<Traced>,
}

/// Begins a trace on every core. The memory of the records is allocated here, not on the
/// cores. The ticket is over when every core has all its records.
pub(super) fn begin(courier: &Courier<Post>, replies: &Replies, spec: &TraceSpec) -> Ticket {
    let TraceSpec { every, volume, records_max } = *spec;
    let number = replies.ask();
    let ticket = replies.ticket(number, courier.len());
    let order = || TraceOrder::new(number, every, volume, records_max);
    courier.send_all(|| Message::Trace(Box::new(order())));
    replies.forget(number);
    ticket
}

/// Ends the trace, whose ticket is over, and waits a bounded time for the records of the cores, which run on these processors.
pub(super) fn end(
    courier: &Courier<Post>,
    replies: &Replies,
    processors: &[usize],
) -> Vec<CoreTrace> {
    replies.drop_over();
    let number = replies.ask();
    courier.send_all(|| Message::EndTrace(number));
    let given = replies.wait(number, courier.len(), STATUS_PATIENCE);
    let mut given: BTreeMap<CoreId, Reply> = given.into_iter().collect();
    let trace_of = |(core, processor): (CoreId, &usize)| {
        let traced = match given.remove(&core) {
            Some(Reply::Traced(traced)) => Some(*traced),
            _ => None,
        };
        CoreTrace { processor: *processor, traced }
    };
    (0..).map(CoreId).zip(processors).map(trace_of).collect()
}
