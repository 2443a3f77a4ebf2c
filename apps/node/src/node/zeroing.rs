//! Zeroing the places of new rows on the slices of this node, which jobs of the cluster wait for.
//!
//! The threads operate on the devices themselves, next to the cores. The space of a place counts as in use
//! meanwhile ([`Withdrawn`]): nothing else is served or zeroed there before the operations have ended, also if
//! the job is undone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nearflash_cluster::compile::ToZero;
use nearflash_records::state::NewPlace;
use nearflash_space::Extent;
use nearflash_units::{ByteLen, OneLine};

use super::Node;
use super::withdrawn::Withdrawn;
use crate::Ticket;
use crate::asker::Event;
use crate::prepare::zero;

/// The places that this node zeroes.
#[derive(Debug, Default)]
pub(super) struct Zeroing {
    works: Mutex<Works>,
    has_work: Condvar,
}

#[derive(Debug, Default)]
struct Works {
    /// Those that jobs wait for, also when they have ended here.
    all: BTreeMap<NewPlace, Arc<Work>>,
    waiting: VecDeque<Arc<Work>>,
    is_ending: bool,
}

/// A place that is being zeroed.
#[derive(Debug)]
pub(super) struct Work {
    wanted: ToZero,
    extent: Extent,
    /// The bytes that have been zeroed.
    done: AtomicU64,
    /// No job waits for it any more, or the node ends.
    is_over: AtomicBool,
    ticket: Ticket,
}

impl Zeroing {
    /// Ends the work on all other places.
    fn keep(&self, wanted: &BTreeSet<NewPlace>) {
        let mut works = self.lock();
        let waiting = std::mem::take(&mut works.waiting).into_iter();
        let (kept, unbegun): (VecDeque<_>, VecDeque<_>) =
            waiting.partition(|work| wanted.contains(&work.wanted.place));
        works.waiting = kept;
        works.all.retain(|place, work| {
            let is_wanted = wanted.contains(place);
            work.is_over.fetch_or(!is_wanted, Ordering::Relaxed);
            is_wanted
        });
        drop(works);
        // Their space is free, as nothing of it was touched.
        unbegun.iter().for_each(|work| work.ticket.settle());
    }

    fn has(&self, place: &NewPlace) -> bool {
        self.lock().all.contains_key(place)
    }

    fn begin(&self, work: Work) {
        let (place, work) = (work.wanted.place, Arc::new(work));
        let mut works = self.lock();
        works.all.insert(place, Arc::clone(&work));
        works.waiting.push_back(work);
        self.has_work.notify_one();
    }

    /// Waits for the next place to zero. `None` when the node ends.
    pub(super) fn next(&self) -> Option<Arc<Work>> {
        let nothing = |works: &mut Works| !works.is_ending && works.waiting.is_empty();
        let works = self.has_work.wait_while(self.lock(), nothing);
        let mut works = works.unwrap_or_else(PoisonError::into_inner);
        if works.is_ending { None } else { works.waiting.pop_front() }
    }

    /// The bytes of a place that this node has zeroed.
    pub(super) fn done(&self, place: &NewPlace) -> ByteLen {
        let done = self.lock().all.get(place).map(|work| work.done.load(Ordering::Relaxed));
        ByteLen(done.unwrap_or_default())
    }

    /// The node ends.
    pub(super) fn end(&self) {
        let mut works = self.lock();
        works.is_ending = true;
        works.all.values().for_each(|work| work.is_over.store(true, Ordering::Relaxed));
        self.has_work.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Works> {
        // No code panics while the lock is held.
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to zero the places that jobs wait for, except where something may still be under way.
pub(super) fn begin(node: &Node) {
    let wanted = node.shared().tables.to_zero.clone();
    node.zeroing.keep(&wanted.iter().map(|it| it.place).collect());
    for wanted in wanted {
        let NewPlace { slice, start, .. } = wanted.place;
        if node.zeroing.has(&wanted.place) {
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
        let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        node.zeroing.begin(Work { wanted, extent, done, is_over, ticket });
    }
}

/// Zeroes a place, durably, and tells the job.
pub(super) fn run(node: &Node, work: &Work) {
    let Work { wanted, extent, done, is_over, ticket } = work;
    let mut goes_on = |len: ByteLen| {
        done.fetch_add(len.0, Ordering::Relaxed);
        !is_over.load(Ordering::Relaxed)
    };
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
