//! The loop of a server that passes each request on to a third party, and answers when that has
//! answered.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::end::{End, Side, Sleeper};
use super::error::FloorError;
use super::exchange::Exchange;
use super::spec::FloorSpec;
use super::usage::Usage;
use crate::cpu::CpuMeter;

/// The loop until `stop`. Each socket to a client has one to the third party.
pub(super) fn relay(
    (to_clients, to_third): (&[TcpStream], &[TcpStream]),
    relayed: Exchange,
    spec: &FloorSpec,
    stop: &AtomicBool,
) -> Result<Usage, FloorError> {
    let mut side = Side::new(&spec.tuning);
    let mut sleeper = Sleeper::new(spec.waits);
    let inner = to_clients.iter().map(|socket| End::new(socket, spec.exchange.request_len));
    let outer = to_third.iter().map(|socket| End::new(socket, relayed.answer_len));
    let mut ends: Vec<End<'_>> = inner.chain(outer).collect();
    let (request_len, answer_len) =
        (relayed.request_len.to_usize(), spec.exchange.answer_len.to_usize());
    let (start, cpu) = (Instant::now(), CpuMeter::start());
    while !stop.load(Ordering::Relaxed) {
        sleeper.rest(&mut ends, |end| end)?;
        let (clients, thirds) = ends.split_at_mut(to_clients.len());
        for (client, third) in clients.iter_mut().zip(thirds) {
            let (_, asked) = client.receive(&mut side)?;
            third.due += asked * request_len;
            third.send(&side)?;
            let (_, answered) = third.receive(&mut side)?;
            client.due += answered * answer_len;
            client.send(&side)?;
        }
    }
    Ok(Usage::since(start, &cpu, spec.waits))
}
