//! The connections for which a turn has work. A connection is in each list at most once; its marks
//! ([`Listed`]) record in which.

use nearflash_units::Nanos;

use crate::connections::Key;

/// The maximum number of connections that are polled, that is, received from in every turn. An
/// empty receive costs a tenth of a microsecond. With more connections, waiting for readiness
/// events costs less.
pub(crate) const POLLED_MAX: usize = 16;

/// The lists of a shard.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// The connections that the shard receives from in every turn.
    pub(crate) polled: Vec<Key>,
    /// The connections with output to send.
    pub(crate) dirty: Vec<Key>,
    /// The connections whose stopped input may be able to resume.
    pub(crate) woken: Vec<Key>,
    /// The connections whose input was stopped, and whose end is not watched yet.
    pub(crate) halted: Vec<Key>,
    /// When the ends of such connections were last watched.
    pub(crate) halted_at: Nanos,
}

/// The marks of a connection: the lists that it is in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Listed {
    /// The shard receives from it now, or in every turn.
    pub(crate) polled: bool,
    /// It has output to send.
    dirty: bool,
    /// Its input waits for a buffer, or for answers to be sent.
    pub(crate) stopped: bool,
    /// Its input is stopped, and may be able to resume.
    woken: bool,
    /// Its input was stopped, and its end is not watched yet.
    halted: bool,
}

impl Listed {
    /// It has left the list of connections with output to send.
    pub(crate) fn clean(&mut self) {
        assert!(self.dirty, "a connection's marks match the lists");
        self.dirty = false;
    }

    /// It has left the list of woken connections.
    pub(crate) fn look(&mut self) {
        assert!(self.woken, "a connection's marks match the lists");
        self.woken = false;
    }

    /// It has left the list of connections whose end is not watched. Returns whether its input is still
    /// stopped.
    pub(crate) fn unhalt(&mut self) -> bool {
        assert!(self.halted, "a connection's marks match the lists");
        self.halted = false;
        self.stopped
    }

    /// Its input resumes.
    pub(crate) fn start(&mut self) {
        assert!(self.stopped && !self.woken, "only stopped input resumes");
        self.stopped = false;
    }
}

impl Lists {
    /// A connection has input. Returns whether it is received from in every turn from now on. That
    /// needs room in the list; without room, it is received from once.
    pub(crate) fn start_polling(&mut self, key: Key, listed: &mut Listed, stays: bool) -> bool {
        assert!(!listed.polled, "a connection is polled once");
        listed.polled = true;
        let has_room = stays && self.polled.len() < POLLED_MAX;
        if has_room {
            self.polled.push(key);
        }
        has_room
    }

    /// The input of a connection has stopped.
    pub(crate) fn halt(&mut self, key: Key, listed: &mut Listed) {
        listed.stopped = true;
        if !listed.halted {
            listed.halted = true;
            self.halted.push(key);
        }
    }

    /// A connection has output to send, or its session may have changed in another way. If its
    /// input is stopped, it may be able to resume.
    #[inline]
    pub(crate) fn mark(&mut self, key: Key, listed: &mut Listed) {
        if !listed.dirty {
            listed.dirty = true;
            self.dirty.push(key);
        }
        self.wake(key, listed);
    }

    /// If the input of a connection is stopped, it may be able to resume.
    #[inline]
    pub(crate) fn wake(&mut self, key: Key, listed: &mut Listed) {
        if listed.stopped && !listed.woken {
            listed.woken = true;
            self.woken.push(key);
        }
    }
}
