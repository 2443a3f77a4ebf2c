//! Traces of requests, for one caller at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearflash_api::{
    ApiError, ErrorCode, StageTimes, TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX, Trace, TraceRun,
    TracedRequest,
};
use nearflash_engine::{Asking, Moment, Moments, TRACE_RECORDS_MAX, TraceRecord, Traced};
use nearflash_request::VolumeId;
use nearflash_shard::{Protocol, connection_number};
use nearflash_space::Name;
use nearflash_units::Nanos;

use super::Node;
use crate::Ticket;
use crate::error::NodeError;
use crate::runtime::{CoreTrace, TraceSpec};
use nearflash_config::ValueError;

// One core can have all requests of an answer.
const _: () = assert!(TRACE_REQUESTS_MAX as usize <= TRACE_RECORDS_MAX);

/// The trace that is under way, if there is one.
#[derive(Debug, Default)]
pub(super) struct Tracing(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// A trace is under way until its ticket is over.
    Running(Ticket),
    /// The node ends.
    Ending,
}

impl Tracing {
    /// Begins a trace whose ticket is made by the function. `None` if one is under way, or the node ends.
    fn begin(&self, ticket: impl FnOnce() -> Ticket) -> Option<Ticket> {
        let mut state = self.lock();
        match &*state {
            State::Idle => {
                let ticket = ticket();
                *state = State::Running(ticket.clone());
                Some(ticket)
            }
            State::Running(_) | State::Ending => None,
        }
    }

    /// The trace is over.
    fn over(&self) {
        let mut state = self.lock();
        if let State::Running(_) = &*state {
            *state = State::Idle;
        }
    }

    /// Ends the trace under way, and lets none begin.
    pub(super) fn end(&self) {
        if let State::Running(ticket) = std::mem::replace(&mut *self.lock(), State::Ending) {
            ticket.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Traces requests for a time, and returns those that ended in it.
    pub(super) fn trace(&self, call: &TraceRun) -> Result<Trace, ApiError> {
        check(call)?;
        let volume = call.volume.as_deref().map(|name| self.volume_named(name)).transpose()?;
        let records_max = part_of_each(call.records, self.cores.core_count());
        let spec = TraceSpec { every: call.every, volume, records_max };
        let Some(ticket) = self.tracing.begin(|| self.cores.begin_trace(&spec)) else {
            let message = "another trace is under way: try again when it has ended";
            return Err(ApiError::new(ErrorCode::Busy, message));
        };
        ticket.wait(Duration::from_secs(call.seconds));
        ticket.end();
        let cores = self.cores.end_trace();
        self.tracing.over();
        Ok(self.shown_trace(call.every, records_max, &cores))
    }

    /// The volume of this name.
    fn volume_named(&self, name: &str) -> Result<VolumeId, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        let found = self.served().recorded.space.volume(&name).map(|volume| volume.id);
        Ok(found.ok_or(nearflash_space::VolumeError::NotFound(name))?)
    }

    fn shown_trace(&self, every: u32, records_max: usize, cores: &[CoreTrace]) -> Trace {
        let mut trace = Trace { every, ..Trace::default() };
        let names: Vec<(VolumeId, String)> = {
            let served = self.served();
            let volumes = served.recorded.space.volumes();
            volumes.map(|volume| (volume.id, volume.name.to_string())).collect()
        };
        for CoreTrace { processor, traced } in cores {
            let Some(traced) = traced else {
                trace.silent.push(*processor);
                continue;
            };
            trace.is_full |= traced.records.len() == records_max;
            for record in &traced.records {
                match shown((*processor, traced), record, &names) {
                    Some(request) => trace.requests.push(request),
                    None => trace.unfinished += 1,
                }
            }
        }
        trace
    }
}

/// Refuses values that are out of range.
fn check(call: &TraceRun) -> Result<(), ApiError> {
    let refusals = [
        (
            call.seconds == 0 || call.seconds > TRACE_SECONDS_MAX,
            format!("a trace takes 1 to {TRACE_SECONDS_MAX} seconds, not {}", call.seconds),
        ),
        (call.every == 0, "a trace takes one in 1 or more requests, not one in 0".to_owned()),
        (
            call.records == 0 || call.records > TRACE_REQUESTS_MAX,
            format!("a trace has 1 to {TRACE_REQUESTS_MAX} requests, not {}", call.records),
        ),
    ];
    match refusals.into_iter().find(|(is_refused, _)| *is_refused) {
        Some((_, message)) => Err(ApiError::new(ErrorCode::InvalidValue, message)),
        None => Ok(()),
    }
}

/// The records of each core, so that all together have no more than these.
fn part_of_each(records: u32, cores: u16) -> usize {
    let part = (records / u32::from(cores.max(1))).max(1);
    usize::try_from(part).unwrap_or(TRACE_RECORDS_MAX)
}

/// A request of a core as callers see it; `None` if its answer has not been sent.
fn shown(
    (core, traced): (usize, &Traced),
    record: &TraceRecord,
    names: &[(VolumeId, String)],
) -> Option<TracedRequest> {
    let (received, stages) = stages(record.moments)?;
    let host = match traced.host(record) {
        Asking::Host(name) => Some(name.to_string()),
        Asking::Unnamed | Asking::Others => None,
    };
    let volume = names.iter().find(|(id, _)| *id == record.volume);
    let protocol = Protocol::ALL.get(usize::from(record.protocol)).copied();
    Some(TracedRequest {
        core,
        connection: connection_number(record.owner),
        protocol: protocol.map_or("", Protocol::name).to_owned(),
        host,
        volume: volume.map(|(_, name)| name.clone()),
        operation: record.operation.to_owned(),
        bytes: record.len.0,
        in_flight: record.in_flight,
        received_ns: received.0,
        stages,
    })
}

/// The first moment of a request and the lengths of its stages. A moment that it has not passed counts as passed
/// together with the one before. `None` if its answer has not been sent.
fn stages(moments: Moments) -> Option<(Nanos, StageTimes)> {
    moments.at(Moment::Sent)?;
    let received = moments.at(Moment::Received)?;
    let mut before = received;
    let times = [1, 2, 3, 4, 5, 6].map(|index| {
        let at = moments.at(Moment::ALL[index]).unwrap_or(before);
        let stage = at.since(before);
        before = at;
        stage.0
    });
    Some((received, StageTimes::of(times)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(call: TraceRun) -> String {
        let error = check(&call).expect_err("it is refused");
        assert_eq!(error.code, ErrorCode::InvalidValue);
        error.message
    }

    #[test]
    fn values_out_of_range_are_refused_before_anything_is_traced() {
        let call = TraceRun::default;
        assert_eq!(check(&call()), Ok(()));
        for seconds in [0, 61, u64::MAX] {
            assert!(refusal(TraceRun { seconds, ..call() }).contains("1 to 60 seconds"));
        }
        assert!(refusal(TraceRun { every: 0, ..call() }).contains("one in 1 or more"));
        for records in [0, 10_001, u32::MAX] {
            assert!(refusal(TraceRun { records, ..call() }).contains("1 to 10000 requests"));
        }
    }

    #[test]
    fn all_cores_together_have_no_more_records_than_asked_for() {
        assert_eq!(part_of_each(1000, 1), 1000);
        assert_eq!(part_of_each(1000, 3), 333);
        assert_eq!(part_of_each(1, 64), 1, "each core can have one");
        assert!(part_of_each(TRACE_REQUESTS_MAX, 1) <= TRACE_RECORDS_MAX);
    }

    #[test]
    fn a_node_traces_for_one_caller_at_a_time_and_for_nobody_once_it_ends() {
        let tracing = Tracing::default();
        let begin = || tracing.begin(|| Ticket::waiting(1));
        assert!(begin().is_some() && begin().is_none());
        tracing.over();
        let second = begin().unwrap();
        tracing.end();
        assert!(second.is_over(), "the caller waits no longer");
        tracing.over();
        assert!(begin().is_none(), "the node still ends");
    }
}
