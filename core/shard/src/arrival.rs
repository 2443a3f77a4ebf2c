//! The age of what a connection brings.
//!
//! A core sees when it reads a command, not when the command came. If the machine stood still in between,
//! the host may have given the connection up, and have repeated the command over another node. So a core
//! keeps a time for each connection after which all that is unread has come: when its socket or ring was
//! last seen empty. The input of a connection that is never empty gets *marks*: at most every
//! [`MARK_PERIOD`] the core asks how much waits, and when that much has been read, all that follows has
//! come after the question.
//!
//! Invariant: an age is never too low. It may be too high, by the time in which the core looked at nothing
//! and by the time that the input needs through the kernel's buffer.

use nearflash_units::Nanos;

use crate::world::PeerState;

/// The greatest age at which a change of a volume that several nodes serve begins, unless the host gives a
/// connection up earlier.
pub const AGE_MAX: Nanos = Nanos::from_secs(2);

/// The age from which on the system is asked whether the peer is still there, and the least time between two
/// questions about a connection.
pub(crate) const YOUNG: Nanos = Nanos::from_millis(5);

/// The time between two marks of a connection.
const MARK_PERIOD: Nanos = Nanos::from_millis(100);

/// How long a peer may leave what was sent to it unacknowledged before it counts as deaf.
const DEAF_AFTER: Nanos = Nanos::from_secs(1);

/// The time between two questions about a peer that sends.
const LISTEN_PERIOD: Nanos = Nanos::from_millis(500);

/// So much waited at a moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Nanos,
    /// The count of what was taken once all of it has been.
    upto: u64,
}

/// The known times of arrival of one connection's input: of bytes, or of entries of its ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    /// Unread input came after this time.
    unread: Nanos,
    /// The input that was taken last came after this time.
    taken: Nanos,
    count: u64,
    mark: Option<Mark>,
    asked_at: Nanos,
}

impl Arrivals {
    pub(crate) const fn new(now: Nanos) -> Self {
        Self { unread: now, taken: now, count: 0, mark: None, asked_at: now }
    }

    /// Nothing waited at this time.
    #[inline]
    pub(crate) fn seen_empty(&mut self, at: Nanos) {
        if at > self.unread {
            self.unread = at;
            self.mark = None;
        }
    }

    /// So much was taken.
    #[inline]
    pub(crate) fn took(&mut self, len: usize) {
        self.taken = self.unread;
        self.count += u64::try_from(len).expect("usize has at most 64 bits");
        if let Some(mark) = self.mark.take_if(|mark| mark.upto <= self.count) {
            self.unread = mark.at;
        }
    }

    /// Whether it is time to ask how much waits.
    #[inline]
    pub(crate) fn wants_mark(&self, now: Nanos) -> bool {
        now.since(self.unread.max(self.asked_at)) >= MARK_PERIOD
    }

    /// So much waited at this time.
    pub(crate) fn mark(&mut self, at: Nanos, waiting: usize) {
        let waiting = u64::try_from(waiting).expect("usize has at most 64 bits");
        if waiting == 0 {
            return self.seen_empty(at);
        }
        self.asked_at = at;
        // An earlier mark is reached earlier.
        self.mark.get_or_insert(Mark { at, upto: self.count + waiting });
    }

    /// The time after which what was taken last has come.
    #[inline]
    pub(crate) const fn since(&self) -> Nanos {
        self.taken
    }
}

/// The system's answers about a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vigil {
    asked_at: Nanos,
    /// The bytes that had reached the peer, and since when no further one has.
    reached: u64,
    stuck_since: Option<Nanos>,
}

impl Vigil {
    pub(crate) const fn new(now: Nanos) -> Self {
        Self { asked_at: now, reached: 0, stuck_since: None }
    }

    /// Whether the system must be asked before input of this age is taken: it may have a closed connection's
    /// last bytes, or those of a peer that hears nothing.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos, age: Nanos) -> bool {
        let silent = now.since(self.asked_at);
        age > YOUNG && silent >= YOUNG || silent >= LISTEN_PERIOD
    }

    /// The system's answer.
    pub(crate) fn heard(&mut self, now: Nanos, state: PeerState) {
        self.asked_at = now;
        if !state.owes || state.reached != self.reached {
            self.stuck_since = state.owes.then_some(now);
            self.reached = state.reached;
        }
    }

    /// Whether the peer receives nothing: it may have given the connection up, and its end does not arrive.
    #[inline]
    pub(crate) fn is_deaf(&self, now: Nanos) -> bool {
        self.stuck_since.is_some_and(|since| now.since(since) >= DEAF_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn what_is_read_after_an_empty_look_came_after_it() {
        let mut arrivals = Arrivals::new(ms(0));
        arrivals.seen_empty(ms(10));
        arrivals.took(100);
        assert_eq!(arrivals.since(), ms(10));
        arrivals.took(100);
        assert_eq!(arrivals.since(), ms(10), "it has not been seen empty since");
        arrivals.seen_empty(ms(30));
        arrivals.took(1);
        assert_eq!(arrivals.since(), ms(30));
    }

    #[test]
    fn an_earlier_look_tells_nothing_new() {
        let mut arrivals = Arrivals::new(ms(50));
        arrivals.seen_empty(ms(10));
        arrivals.took(1);
        assert_eq!(arrivals.since(), ms(50));
    }

    #[test]
    fn what_is_behind_a_mark_came_after_it() {
        let mut arrivals = Arrivals::new(ms(0));
        assert!(!arrivals.wants_mark(ms(99)) && arrivals.wants_mark(ms(100)));
        arrivals.mark(ms(100), 150);
        assert!(!arrivals.wants_mark(ms(199)) && arrivals.wants_mark(ms(200)));
        arrivals.mark(ms(200), 150);
        arrivals.took(100);
        assert_eq!(arrivals.since(), ms(0));
        arrivals.took(100);
        assert_eq!(arrivals.since(), ms(0), "some of these bytes are before the mark");
        arrivals.took(1);
        assert_eq!(arrivals.since(), ms(100), "the first mark counts");
        assert!(arrivals.wants_mark(ms(300)));
        arrivals.mark(ms(300), 0);
        arrivals.took(1);
        assert_eq!(arrivals.since(), ms(300));
    }

    #[test]
    fn a_peer_is_asked_for_before_old_input_and_now_and_then() {
        let vigil = Vigil::new(ms(0));
        assert!(!vigil.is_due(ms(100), ms(5)) && vigil.is_due(ms(100), ms(6)));
        assert!(!vigil.is_due(ms(4), ms(6)), "it has just been asked for");
        assert!(vigil.is_due(ms(500), ms(0)));
    }

    #[test]
    fn a_peer_is_deaf_while_nothing_that_was_sent_reaches_it() {
        let mut vigil = Vigil::new(ms(0));
        let state = |owes, reached| PeerState { is_over: false, owes, reached };
        vigil.heard(ms(0), state(true, 10));
        vigil.heard(ms(900), state(true, 10));
        assert!(!vigil.is_deaf(ms(999)) && vigil.is_deaf(ms(1_000)));
        vigil.heard(ms(1_000), state(true, 11));
        assert!(!vigil.is_deaf(ms(1_900)), "something has arrived");
        vigil.heard(ms(1_900), state(false, 20));
        assert!(!vigil.is_deaf(ms(9_000)));
    }
}
