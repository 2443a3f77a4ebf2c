//! A machine: what one node has for itself outside its cores. These are its devices, the memory that
//! clients share with it, the events and the mail of its cores, its clock, and its power.
//!
//! Machines share only the network and the moment at which each event occurs. A machine's own clock
//! tells another time: it began elsewhere, and runs a little too fast or too slow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use nearflash_device::DeviceRequest;
use nearflash_engine::CoreId;
use nearflash_shard::{Event, Message};
use nearflash_units::Nanos;

use crate::disk::{Disk, touches};
use crate::faults::CoreFaults;
use crate::ring::Rings;
use crate::witness::Tick;

/// A node, and the machine on which it runs.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(pub usize);

/// A machine's clock: it shows `base` at the beginning of the run, and gains `drift_ppm` microseconds
/// in each second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Its time at the beginning.
    pub base: Nanos,
    /// How much too fast it runs, or, if negative, too slow.
    pub drift_ppm: i32,
}

const MILLION: u128 = 1_000_000;

impl Clock {
    fn rate(&self) -> u128 {
        u128::try_from(1_000_000 + i64::from(self.drift_ppm)).expect("a clock runs forwards")
    }

    /// Its time at a moment of the run.
    pub(crate) fn at(&self, moment: Nanos) -> Nanos {
        let elapsed = u128::from(moment.0) * self.rate() / MILLION;
        self.base.plus(Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX)))
    }

    /// The first moment of the run at which it shows `time`, or more.
    pub(crate) fn moment_of(&self, time: Nanos) -> Nanos {
        if time == Nanos::NEVER {
            return time;
        }
        let elapsed = u128::from(time.since(self.base).0);
        let moment = (elapsed * MILLION).div_ceil(self.rate());
        Nanos(u64::try_from(moment).unwrap_or(u64::MAX))
    }
}

/// The sender of a message (`None`: the control plane) and the receiving core.
pub(crate) type Road = (Option<CoreId>, CoreId);

#[derive(Debug, Default)]
struct Mailbag {
    messages: VecDeque<Message>,
    last_arrival: Nanos,
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) clock: Clock,
    pub(crate) disks: Vec<Disk>,
    pub(crate) rings: Rings,
    pub(crate) cores: CoreFaults,
    pub(crate) inboxes: Vec<VecDeque<Event>>,
    /// By core: when its inbox was last empty before its latest turn, and at it.
    pub(crate) settled_at: Vec<(Nanos, Nanos)>,
    /// Cores that have a new event in their inbox.
    pub(crate) woken: BTreeSet<CoreId>,
    /// The size of the first volume in blocks, and since when; `None` while it changes.
    pub(crate) size: Option<(Tick, u64)>,
    /// Bytes of a device that nobody may touch: their owner has no grants.
    pub(crate) forbidden: Option<(usize, Range<u64>)>,
    /// Bytes of devices that are replicas of another node's volumes.
    pub(crate) copies: Vec<(usize, Range<u64>)>,
    /// Bytes of devices that are the primary's replicas of its own volumes.
    pub(crate) originals: Vec<(usize, Range<u64>)>,
    /// The number of starts of the node.
    pub(crate) starts: u32,
    /// The node was told to drain.
    pub(crate) is_draining: bool,
    /// A peer has requested a reset that ends all sessions.
    pub(crate) ends_sessions: bool,
    /// Its cores take no turns before this moment.
    pub(crate) paused_until: Nanos,
    mail: BTreeMap<Road, Mailbag>,
}

impl Machine {
    pub(crate) fn new(clock: Clock, disks: Vec<Disk>, cores: CoreFaults) -> Self {
        Self {
            clock,
            disks,
            rings: Rings::default(),
            cores,
            inboxes: Vec::new(),
            settled_at: Vec::new(),
            woken: BTreeSet::new(),
            size: None,
            forbidden: None,
            copies: Vec::new(),
            originals: Vec::new(),
            starts: 0,
            is_draining: false,
            ends_sessions: false,
            paused_until: Nanos(0),
            mail: BTreeMap::new(),
        }
    }

    /// Whether an operation is on a replica of another node's volume.
    pub(crate) fn is_on_copy(&self, disk: usize, request: &DeviceRequest) -> bool {
        is_on(&self.copies, disk, request)
    }

    /// Whether an operation is on a replica of any volume.
    pub(crate) fn is_on_mirror(&self, disk: usize, request: &DeviceRequest) -> bool {
        is_on(&self.copies, disk, request) || is_on(&self.originals, disk, request)
    }

    /// Whether the node has a reason to end connections that keep the protocol.
    pub(crate) fn may_end_connections(&self) -> bool {
        self.is_draining || self.ends_sessions
    }

    /// Whether its cores were paused in the last `span` before now.
    pub(crate) fn has_paused_since(&self, now: Nanos, span: Nanos) -> bool {
        self.paused_until > Nanos(0) && now < self.paused_until.plus(span)
    }

    /// Puts an event into a core's inbox.
    pub(crate) fn drop_in(&mut self, core: CoreId, event: Event) {
        self.inboxes[usize::from(core.0)].push_back(event);
        self.woken.insert(core);
    }

    /// Sends a message that arrives at `at`, or with the last message before it on its road. Returns
    /// when it arrives.
    pub(crate) fn send(&mut self, road: Road, message: Message, at: Nanos) -> Nanos {
        let bag = self.mail.entry(road).or_default();
        bag.last_arrival = bag.last_arrival.max(at);
        bag.messages.push_back(message);
        bag.last_arrival
    }

    /// The oldest message on a road arrives.
    pub(crate) fn deliver_mail(&mut self, road: Road) {
        let bag = self.mail.get_mut(&road).expect("mail is on a road");
        let message = bag.messages.pop_front().expect("a message arrives once");
        self.drop_in(road.1, Event::Message(message));
    }

    /// The power goes, and comes back: nothing is left but the content of the devices.
    pub(crate) fn lose_power(&mut self) {
        self.paused_until = Nanos(0);
        self.mail.clear();
        self.woken.clear();
        self.rings.lose_node();
        self.disks.iter_mut().for_each(Disk::lose_power);
    }
}

fn is_on(places: &[(usize, Range<u64>)], disk: usize, request: &DeviceRequest) -> bool {
    places.iter().any(|(on, bytes)| *on == disk && touches(request, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_right_shows_the_moment() {
        let clock = Clock::default();
        for moment in [0, 1, 999_999, 1 << 60] {
            assert_eq!(clock.at(Nanos(moment)), Nanos(moment));
            assert_eq!(clock.moment_of(Nanos(moment)), Nanos(moment));
        }
        assert_eq!(clock.moment_of(Nanos::NEVER), Nanos::NEVER);
    }

    #[test]
    fn a_deadline_is_reached_at_its_moment_and_not_before() {
        for drift_ppm in [-10_000, -1, 7, 10_000] {
            let clock = Clock { base: Nanos(1_000_000_007), drift_ppm };
            for time in [1_000_000_007, 1_000_000_010, 1_300_000_001, 90_000_000_000] {
                let moment = clock.moment_of(Nanos(time));
                assert!(clock.at(moment) >= Nanos(time));
                assert!(moment.0 == 0 || clock.at(Nanos(moment.0 - 1)) < Nanos(time));
            }
        }
    }
}
