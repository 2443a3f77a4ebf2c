//! The state that the connections of a session share: its command window and the negotiated
//! parameters.
//!
//! Spec: RFC 7143, 4.2.2.1. Different threads may drive the connections, so these are atomics. With
//! MaxConnections 1, they are used without atomic read-modify-write operations, which would be a
//! tenth of the cost of a command.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::login::Established;
use crate::params::SessionParams;
use crate::pdu::Serial;

/// The command window of a session: CmdSN of the next command and MaxCmdSN.
#[derive(Debug)]
pub struct CommandWindow {
    next: AtomicU32,
    max: AtomicU32,
    agreed: OnceLock<(u16, SessionParams)>,
}

impl CommandWindow {
    /// The window of a session that begins with this CmdSN.
    pub const fn new(cmd_sn: u32) -> Self {
        Self {
            next: AtomicU32::new(cmd_sn),
            max: AtomicU32::new(cmd_sn.wrapping_sub(1)),
            agreed: OnceLock::new(),
        }
    }

    /// The session's TSIH, for further connections; `None` until the leading one is logged in.
    pub fn tsih(&self) -> Option<u16> {
        self.agreed.get().map(|(tsih, _)| *tsih)
    }

    /// CmdSN of the next command. Immediate commands carry it, too, without using it.
    #[inline]
    pub fn next(&self) -> Serial {
        Serial(self.next.load(Ordering::Relaxed))
    }

    /// Whether the target accepts a command now.
    #[inline]
    pub fn is_open(&self) -> bool {
        !Serial(self.max.load(Ordering::Relaxed)).is_before(self.next())
    }

    /// The number of commands that the target accepts now; some targets widen it with answers.
    pub fn width(&self) -> u32 {
        match self.is_open() {
            true => self.max.load(Ordering::Relaxed).wrapping_sub(self.next().0).wrapping_add(1),
            false => 0,
        }
    }

    /// Takes a CmdSN for a command; `None` if the target accepts none now. `is_shared`: the session
    /// may have other connections.
    #[inline]
    pub(super) fn take(&self, is_shared: bool) -> Option<Serial> {
        let max = Serial(self.max.load(Ordering::Relaxed));
        let is_open = |next| !max.is_before(Serial(next));
        if !is_shared {
            let next = Some(self.next()).filter(|next| is_open(next.0))?;
            self.next.store(next.next().0, Ordering::Relaxed);
            return Some(next);
        }
        let following = |next| is_open(next).then(|| Serial(next).next().0);
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, following);
        taken.ok().map(Serial)
    }

    /// Updates the window from a PDU. RFC 7143, 4.2.2.1: older values are ignored.
    #[inline]
    pub(super) fn update(&self, exp_cmd_sn: Serial, max_cmd_sn: Serial, is_shared: bool) {
        // MaxCmdSN below ExpCmdSN - 1 is not valid.
        if max_cmd_sn.next().is_before(exp_cmd_sn) {
            return;
        }
        let known = self.max.load(Ordering::Relaxed);
        if !Serial(known).is_before(max_cmd_sn) {
            return;
        }
        if is_shared {
            let newer = |known| Serial(known).is_before(max_cmd_sn).then_some(max_cmd_sn.0);
            // This fails if another connection stored a newer value.
            let _ = self.max.fetch_update(Ordering::Relaxed, Ordering::Relaxed, newer);
        } else {
            self.max.store(max_cmd_sn.0, Ordering::Relaxed);
        }
    }

    /// A connection is logged in: returns the parameters that the leading one negotiated.
    pub(super) fn agree(&self, established: &Established) -> SessionParams {
        let (_, session) = self.agreed.get_or_init(|| (established.tsih, established.session));
        self.update(established.exp_cmd_sn, established.max_cmd_sn, true);
        *session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_numbered_within_the_window_across_its_wrap() {
        for is_shared in [false, true] {
            let window = CommandWindow::new(u32::MAX);
            assert_eq!((window.take(is_shared), window.is_open()), (None, false), "no login");
            window.update(Serial(u32::MAX), Serial(1), is_shared);
            let taken: Vec<_> = std::iter::from_fn(|| window.take(is_shared)).collect();
            assert_eq!(taken, [Serial(u32::MAX), Serial(0), Serial(1)]);
            assert!(!window.is_open());
        }
    }

    #[test]
    fn the_width_is_how_many_commands_are_taken() {
        let window = CommandWindow::new(u32::MAX);
        assert_eq!(window.width(), 0, "not before a login");
        window.update(Serial(u32::MAX), Serial(2), false);
        assert_eq!(window.width(), 4);
    }

    #[test]
    fn what_is_older_or_no_window_is_ignored() {
        for is_shared in [false, true] {
            let window = CommandWindow::new(10);
            window.update(Serial(10), Serial(20), is_shared);
            window.update(Serial(10), Serial(15), is_shared);
            window.update(Serial(30), Serial(25), is_shared);
            assert_eq!(std::iter::from_fn(|| window.take(is_shared)).count(), 11);
        }
    }
}
