//! The steps of [`Take`] over one connection.

use std::io::IoSliceMut;
use std::time::Instant;

use nearflash_direct::ownership::{OWNER_BLOCK_LEN, Take, TakeStep, Term};
use nearflash_units::Nanos;

use super::super::client::Client;
use super::super::error::Error;
use super::super::options::QueueOptions;
use super::super::worker::{Job, Reconnection, Worker};
use super::{OwnerOptions, TakeError};

/// A connection with an identity of its own, which is never replaced: a flush over another connection
/// would not cover the term.
pub(super) fn observer(
    client: &Client,
    volume: &str,
    deadline: Option<Instant>,
) -> Result<Worker, Error> {
    let options = QueueOptions::default().depth(1).shared_len(0);
    let pair = client.queue_pair_until(volume, options, deadline)?;
    let mut worker = Worker::new(pair, client.options().spin_max, Reconnection::Never);
    worker.begin(deadline);
    Ok(worker)
}

pub(super) fn read_block(worker: &mut Worker, offset: u64) -> Result<[u8; OWNER_BLOCK_LEN], Error> {
    let mut block = [0; OWNER_BLOCK_LEN];
    worker.read(&mut [IoSliceMut::new(&mut block)], offset)?;
    Ok(block)
}

/// Makes the next term this process's. Returns it, and the volume's UUID.
pub(super) fn take_term(
    client: &Client,
    volume: &str,
    options: &OwnerOptions,
) -> Result<(Term, [u8; 16]), TakeError> {
    let offset = options.offset;
    if !offset.is_multiple_of(OWNER_BLOCK_LEN as u64) {
        return Err(TakeError::Offset { offset });
    }
    let mut worker = observer(client, volume, None)?;
    let mut take = Take::new(options.take_over);
    let start = Instant::now();
    loop {
        match take.step() {
            TakeStep::Read { at } => {
                std::thread::sleep(at.since(nanos_since(start)).to_duration());
                let now = nanos_since(start);
                take.handle_read(now, &read_block(&mut worker, offset)?);
            }
            TakeStep::Swap { expected, new } => {
                let (expected, new) = (expected.0, new.0);
                let found = worker.one(Job::CompareAndSwap { offset, expected, new })?;
                take.handle_swapped(Term(found));
            }
            TakeStep::Flush => {
                worker.one(Job::Flush)?;
                take.handle_flushed();
            }
            TakeStep::Taken(term) => return Ok((term, worker.info().uuid)),
            TakeStep::Refused(refusal) => return Err(TakeError::of(refusal, volume, offset)),
        }
    }
}

fn nanos_since(start: Instant) -> Nanos {
    Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
