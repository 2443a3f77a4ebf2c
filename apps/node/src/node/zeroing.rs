//! Zeroing the places of new rows on the slices of this node, which jobs of the cluster wait for. [`Places`] decides
//! which place is next.
//!
//! Each slice has threads of its own, so that a device that hangs holds up no other one. They operate on the device
//! itself, next to the cores. The space of a place counts as in use meanwhile ([`Withdrawn`]): nothing else is served or
//! zeroed there before the operations have ended, also if the job is undone.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nearflash_cluster::compile::ToZero;
use nearflash_control::Places;
use nearflash_device::DeviceId;
use nearflash_records::state::NewPlace;
use nearflash_space::Extent;
use nearflash_units::{ByteLen, OneLine};

use super::Node;
use super::withdrawn::Withdrawn;
use crate::Ticket;
use crate::asker::Event;
use crate::crew::Crew;
use crate::prepare::zero;

/// The number of places on a slice that are zeroed at a time.
const ZEROING_THREADS: usize = 2;

/// The places that this node zeroes.
#[derive(Default)]
pub(super) struct Zeroing {
    places: Mutex<Places<NewPlace, Work>>,
    has_work: Condvar,
    crew: Mutex<Crew>,
}

/// A place to zero.
#[derive(Clone, Debug)]
struct Work {
    wanted: ToZero,
    extent: Extent,
    ticket: Ticket,
}

impl Zeroing {
    /// Waits for the next place on this device. `None` when the node ends.
    fn next(&self, device: DeviceId) -> Option<Work> {
        let waits = |places: &mut Places<NewPlace, Work>| places.waits(device);
        let places = self.has_work.wait_while(self.lock(), waits);
        places.unwrap_or_else(PoisonError::into_inner).poll_work(device)
    }

    /// The bytes of a place that this node has zeroed.
    pub(super) fn done(&self, place: &NewPlace) -> ByteLen {
        self.lock().done(place)
    }

    /// The node ends. Returns the threads.
    pub(super) fn end(&self) -> Crew {
        self.lock().handle_stop();
        self.has_work.notify_all();
        std::mem::take(&mut *self.crew.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Places<NewPlace, Work>> {
        // No code panics while the lock is held.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the threads of a slice.
pub(super) fn start(node: &Arc<Node>, device: DeviceId) -> io::Result<()> {
    let mut crew = node.zeroing.crew.lock().unwrap_or_else(PoisonError::into_inner);
    for number in 0..ZEROING_THREADS {
        let node = Arc::clone(node);
        let work = move || {
            while let Some(work) = node.zeroing.next(device) {
                run(&node, &work);
            }
        };
        crew.start(format!("zero-{}-{number}", device.0), work)?;
    }
    Ok(())
}

/// Begins to zero the places that jobs wait for, except where something may still be under way.
pub(super) fn begin(node: &Node) {
    let wanted = node.shared().tables.to_zero.clone();
    let kept = wanted.iter().map(|it| it.place).collect();
    let unbegun = node.zeroing.lock().handle_wanted(&kept);
    // Their space is free, as nothing of it was touched.
    unbegun.iter().for_each(|work| work.ticket.settle());
    for wanted in wanted {
        let NewPlace { slice, start, .. } = wanted.place;
        if node.zeroing.lock().has(&wanted.place) {
            continue;
        }
        let extent = {
            let shared = node.shared();
            let extent =
                shared.slices.get(&slice).map(|&device| Extent { device, start, len: wanted.len });
            extent.filter(|extent| shared.withdrawals.are_free(&[*extent]))
        };
        let Some(extent) = extent else { continue };
        let ticket = Ticket::waiting(1);
        node.await_older(Withdrawn::zeroed(extent, ticket.clone()));
        let work = Work { wanted, extent, ticket };
        node.zeroing.lock().handle_work((wanted.place, extent.device), work);
        node.zeroing.has_work.notify_all();
    }
}

/// Zeroes a place, durably, and tells the job.
fn run(node: &Node, work: &Work) {
    let Work { wanted, extent, ticket } = work;
    let mut goes_on = |len: ByteLen| node.zeroing.lock().handle_progress(&wanted.place, len);
    let zeroed = match goes_on(ByteLen(0)) {
        true => zero(&node.devices(), &[*extent], wanted.provisioning, &mut goes_on),
        false => Ok(false),
    };
    ticket.settle();
    let Some(follower) = node.cluster.get() else { return };
    match zeroed {
        Ok(true) => follower.zeroed(wanted.place),
        Ok(false) => {}
        Err(error) => {
            // It may have made its device suspect.
            node.asker.tell(Event::Suspect);
            let (job, error) = (wanted.job, OneLine(error).to_string());
            tracing::error!("job {job} of the cluster failed here: {error}");
            follower.zeroing_failed(job, error);
        }
    }
}
