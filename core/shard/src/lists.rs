//! The connections that a turn has something to do for. A connection is in each list once at most:
//! its marks say in which.

use crate::connections::Key;

/// Connections that are received from in every turn. An empty receive costs a tenth of a
/// microsecond; beyond this many, waiting for readiness events costs less.
pub(crate) const POLLED_MAX: usize = 16;

/// The lists of a shard.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    polled: Vec<Key>,
    dirty: Vec<Key>,
    woken: Vec<Key>,
}

/// What the lists know of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Listed {
    /// It is received from now, or in every turn.
    polled: bool,
    /// It has something to send.
    dirty: bool,
    /// Its input waits for a buffer, or for answers to be sent.
    stopped: bool,
    /// Its input is stopped, and may go on now.
    woken: bool,
}

impl Listed {
    pub(crate) const fn is_polled(self) -> bool {
        self.polled
    }

    pub(crate) const fn is_stopped(self) -> bool {
        self.stopped
    }

    /// It is received from no more until it has input again.
    pub(crate) const fn stop_polling(&mut self) {
        self.polled = false;
    }

    /// It has left the list of those that have something to send.
    pub(crate) fn clean(&mut self) {
        assert!(self.dirty, "a connection is in a list as its marks say");
        self.dirty = false;
    }

    /// It has left the list of those that were woken.
    pub(crate) fn look(&mut self) {
        assert!(self.woken, "a connection is in a list as its marks say");
        self.woken = false;
    }

    /// Its input waits.
    pub(crate) const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Its input goes on.
    pub(crate) fn start(&mut self) {
        assert!(self.stopped && !self.woken, "input goes on that was stopped and woken");
        self.stopped = false;
    }
}

impl Lists {
    /// A connection has input. Returns whether it is received from in every turn from now on, for
    /// which there must be room; otherwise it is received from once.
    pub(crate) fn start_polling(&mut self, key: Key, listed: &mut Listed, stays: bool) -> bool {
        assert!(!listed.polled, "a connection is polled once");
        listed.polled = true;
        let has_room = stays && self.polled.len() < POLLED_MAX;
        if has_room {
            self.polled.push(key);
        }
        has_room
    }

    #[inline]
    pub(crate) fn polled(&self, index: usize) -> Option<Key> {
        self.polled.get(index).copied()
    }

    /// A connection that was received from in every turn no longer is.
    pub(crate) fn drop_polled(&mut self, index: usize, listed: Option<&mut Listed>) {
        self.polled.swap_remove(index);
        listed.into_iter().for_each(Listed::stop_polling);
    }

    /// Every polled connection, to be watched instead.
    pub(crate) fn take_polled(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.polled)
    }

    /// A connection has something to send, or its session may have changed otherwise: if its input
    /// is stopped, it may go on.
    #[inline]
    pub(crate) fn mark(&mut self, key: Key, listed: &mut Listed) {
        if !listed.dirty {
            listed.dirty = true;
            self.dirty.push(key);
        }
        self.wake(key, listed);
    }

    #[inline]
    pub(crate) fn dirty(&self, index: usize) -> Option<Key> {
        self.dirty.get(index).copied()
    }

    /// A connection has nothing to send, or is watched for room to send.
    #[inline]
    pub(crate) fn drop_dirty(&mut self, index: usize, listed: Option<&mut Listed>) {
        self.dirty.swap_remove(index);
        listed.into_iter().for_each(Listed::clean);
    }

    /// Every connection that has something to send, to be cleaned.
    pub(crate) fn take_dirty(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.dirty)
    }

    /// The input of a connection may go on, if it was stopped.
    #[inline]
    pub(crate) fn wake(&mut self, key: Key, listed: &mut Listed) {
        if listed.stopped && !listed.woken {
            listed.woken = true;
            self.woken.push(key);
        }
    }

    /// How many have been woken.
    #[inline]
    pub(crate) fn woken_len(&self) -> usize {
        self.woken.len()
    }

    /// Every woken connection, to be looked at.
    pub(crate) fn take_woken(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.woken)
    }
}
