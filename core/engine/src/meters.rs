//! The meters of one core: one for each pair of a host's name and a volume. A meter survives
//! reconnects, until its volume is removed.
//!
//! The account of a connection keeps the meters that it used last, so that a request finds its
//! meter without a lookup. At most [`PAIRS_MAX`] pairs have a meter of their own. All further hosts
//! of a volume share one, so that the meters of a volume always add up to the volume's figures.
//!
//! Invariants: the meter of a request stays until the request is answered; a connection's account
//! names no removed meter.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_request::{Outcome, Request, VolumeId};
use nearflash_space::VolumeTable;
use nearflash_units::Nanos;
use slab::Slab;

use crate::accounts::{AccountId, Accounts};
use crate::job::Job;
use crate::meter::Meter;
use crate::stamp::{Kind, MeterId, Stamp, TraceId};

/// The number of pairs of a host and a volume that have meters of their own on one core. A meter
/// whose host reads and writes takes 4 KiB; no meter takes more than 11 KiB.
pub const PAIRS_MAX: usize = 2048;

/// The pairs that hosts which have proved their names find when the others have all that they can have: names
/// without a proof are free.
const PROVED_PAIRS: usize = PAIRS_MAX / 4;

/// The host that a meter counts for.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Asking {
    /// A host, an initiator, or a credential.
    Host(Arc<str>),
    /// All connections without such a name.
    Unnamed,
    /// The hosts that came when [`PAIRS_MAX`] pairs had meters; for removed volumes, all hosts.
    Others,
}

/// A new meter.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The volume; `None` for requests to removed volumes.
    pub volume: Option<VolumeId>,
    /// The host.
    pub host: Asking,
    /// The meter, which counts until the volume is removed.
    pub meter: Arc<Meter>,
}

type Pair = (Option<VolumeId>, Asking);

#[derive(Debug, Default)]
pub(crate) struct Meters {
    meters: Slab<Arc<Meter>>,
    pairs: BTreeMap<Pair, MeterId>,
    /// Not yet announced.
    opened: VecDeque<Opened>,
    pub(crate) now: Nanos,
}

impl Meters {
    #[inline]
    fn of(&self, MeterId(id): MeterId) -> &Meter {
        &self.meters[id as usize]
    }

    /// The meter of a pair. If there are too many pairs, the one that all further hosts share.
    fn open(&mut self, pair: Pair, is_proved: bool) -> MeterId {
        let is_known = self.pairs.contains_key(&pair);
        let max = if is_proved { PAIRS_MAX } else { PAIRS_MAX - PROVED_PAIRS };
        let pair = if is_known || self.pairs.len() < max { pair } else { (pair.0, Asking::Others) };
        let (meters, opened) = (&mut self.meters, &mut self.opened);
        *self.pairs.entry(pair).or_insert_with_key(|(volume, host)| {
            let meter = Arc::new(Meter::default());
            let id = meters.insert(Arc::clone(&meter));
            opened.push_back(Opened { volume: *volume, host: host.clone(), meter });
            MeterId(u32::try_from(id).expect("few hosts and volumes"))
        })
    }

    /// The hosts and their volumes, by the numbers of their meters.
    pub(crate) fn hosts(&self) -> Vec<(u32, Option<VolumeId>, Asking)> {
        let number = |((volume, host), id): (&Pair, &MeterId)| (id.0, *volume, host.clone());
        let mut hosts: Vec<_> = self.pairs.iter().map(number).collect();
        hosts.sort_by_key(|(number, ..)| *number);
        hosts
    }

    /// Counts the arrival of a request in the meter of the connection's host and the request's volume.
    #[inline]
    pub(crate) fn stamp(
        &mut self,
        accounts: &mut Accounts,
        (account, request): (AccountId, &Request),
        volumes: &VolumeTable,
        trace: TraceId,
    ) -> Stamp {
        let known = accounts.meter(account, request.volume);
        let meter =
            known.unwrap_or_else(|| self.find(accounts, (account, request.volume), volumes));
        self.of(meter).arrive();
        Stamp { meter, kind: Kind::of(&request.operation), trace, came: self.now }
    }

    #[cold]
    fn find(
        &mut self,
        accounts: &mut Accounts,
        (account, volume): (AccountId, VolumeId),
        volumes: &VolumeTable,
    ) -> MeterId {
        if volumes.get(volume).is_none() {
            return self.open((None, Asking::Others), false);
        }
        let name = accounts.name_of(account);
        let host = name.map_or(Asking::Unnamed, |name| Asking::Host(Arc::clone(name)));
        let meter = self.open((Some(volume), host), accounts.is_proved(account));
        accounts.keep_meter(account, volume, meter);
        meter
    }

    /// Counts a request that waits for its turn.
    pub(crate) fn note_wait(&self, stamp: Stamp) {
        self.of(stamp.meter).wait();
    }

    /// Counts a request that waited, and now begins or ends without having begun.
    pub(crate) fn note_turn(&self, stamp: Stamp) {
        self.of(stamp.meter).waited(stamp.kind, self.now.since(stamp.came));
    }

    /// Counts the answer to a request.
    #[inline]
    pub(crate) fn note_answer(&self, job: &Job, outcome: Outcome, volumes: &VolumeTable) {
        let block_size = volumes.get(job.volume).map(|entry| entry.block_size);
        let time = self.now.since(job.stamp.came);
        self.of(job.stamp.meter).answered(job, outcome, block_size, time);
    }

    /// The next meter that was opened.
    #[inline]
    pub(crate) fn poll_opened(&mut self) -> Option<Opened> {
        self.opened.pop_front()
    }

    /// Drops the meters of removed volumes. A meter with a request under way is dropped at a later
    /// change.
    pub(crate) fn keep(&mut self, volumes: &VolumeTable) {
        let meters = &mut self.meters;
        self.pairs.retain(|(volume, _), MeterId(id)| {
            let exists = volume.is_none_or(|volume| volumes.get(volume).is_some());
            let stays = exists || meters[*id as usize].in_flight() > 0;
            if !stays {
                meters.remove(*id as usize);
            }
            stays
        });
    }
}
