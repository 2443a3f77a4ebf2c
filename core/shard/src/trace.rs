//! The shard's part of a trace: it decides with the engine's tracer which requests are traced, and reads the clock
//! for their moments. While nobody asks, each function is one comparison.

use nearflash_device::DeviceRequest;
use nearflash_engine::{Engine, Owner, TraceId};
use nearflash_request::Request;
use nearflash_units::Nanos;

use crate::connection::Connection;
use crate::connections::Key;
use crate::gauges::Protocol;
use crate::notice::Notice;
use crate::shard::Shard;
use crate::world::World;

/// The number of a connection on its core, which is used again after its end.
pub fn connection_number(owner: Owner) -> u32 {
    Key::from_owner(owner).slot()
}

/// Bytes or entries have been received. Requests that are decoded from now on were in them.
#[inline]
pub(crate) fn note_receipt<W: World>(engine: &mut Engine, world: &W) {
    if engine.tracer().is_on() {
        let now = world.clock();
        engine.tracer().receive(now);
    }
}

/// Bytes that were received at that time are decoded now.
#[inline]
pub(crate) fn note_earlier_receipt(engine: &mut Engine, received: Nanos) {
    if engine.tracer().is_on() {
        engine.tracer().receive(received);
    }
}

/// Reads the clock for the moments that follow.
#[inline]
pub(crate) fn tick<W: World>(engine: &mut Engine, world: &W) {
    if engine.tracer().is_on() {
        let now = world.clock();
        engine.tracer().tick(now);
    }
}

/// Begins the record of a request if it is due.
#[inline]
pub(crate) fn sample<W: World>(
    engine: &mut Engine,
    (key, connection): (Key, &Connection),
    request: &Request,
    world: &W,
) -> TraceId {
    if !engine.tracer().is_due(request.volume) {
        return TraceId::NONE;
    }
    tick(engine, world);
    engine.trace((key.to_owner(), Protocol::of(&connection.session) as u8), request)
}

/// An operation is about to be handed to a device or to another node.
#[inline]
pub(crate) fn note_submission<W: World>(engine: &mut Engine, request: &DeviceRequest, world: &W) {
    if engine.tracer().is_on() && engine.is_traced(request) {
        tick(engine, world);
        engine.trace_submission(request);
    }
}

/// The session of a connection has the answer to a request.
#[inline]
pub(crate) fn note_answer<W: World>(
    engine: &mut Engine,
    (owner, trace): (Owner, TraceId),
    world: &W,
) {
    if trace.is_some() {
        tick(engine, world);
        engine.tracer().answered(owner, trace);
    }
}

/// The socket or the ring of a connection has taken all its output.
#[inline]
pub(crate) fn note_sent<W: World>(engine: &mut Engine, key: Key, world: &mut W) {
    if engine.tracer().has_unsent() {
        tick(engine, world);
        if let Some(number) = engine.tracer().sent(key.to_owner()) {
            world.notice(Notice::TraceComplete(engine.core(), number));
        }
    }
}

impl Shard {
    /// Ends the trace, and reports its records.
    pub(crate) fn end_trace<W: World>(&mut self, number: u64, world: &mut W) {
        let traced = Box::new(self.engine.end_trace());
        world.notice(Notice::Traced(self.config.core, number, traced));
    }
}
