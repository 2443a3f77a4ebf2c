//! Wakes the other side when it sleeps: each side has one of a pair of connected sockets.
//!
//! An eventfd would be one open file description for both sides: a side that clears its
//! `O_NONBLOCK` and fills its counter would make the other wait in `write`. Each socket of a pair
//! has its own description, and every call here is non-blocking by its own flags.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};

use crate::original::Original;
use crate::sleep::Ring;

/// One end of the pair.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    /// The socket of a descriptor that the program may have replaced.
    original: Option<Original>,
}

/// The reason for the end of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Woken {
    /// One of the descriptors is ready.
    Yes,
    /// The time-out has passed.
    TimedOut,
}

impl Bell {
    /// Creates both ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self::from_node(one), Self::from_node(other)))
    }

    /// The end that the node has sent.
    pub(crate) fn from_node(fd: OwnedFd) -> Self {
        Self { fd, original: None }
    }

    /// Checks from now on, before each use of the descriptor, that it is still of the same socket.
    pub(crate) fn guard(&mut self) {
        self.original = Original::of(self.fd.as_fd());
    }

    /// Whether the descriptor is still of the socket that it was guarded with.
    pub(crate) fn is_original(&self) -> bool {
        self.original.is_none_or(|original| original.is(self.fd.as_fd()))
    }

    /// Clears the bell, in bounded time whatever the other side does. Returns whether the other
    /// side still has its end.
    pub(crate) fn silence(&self) -> bool {
        if !self.is_original() {
            return false;
        }
        let mut rung = [0u8; 256];
        match recv(&self.fd, &mut rung, RecvFlags::DONTWAIT) {
            Ok((len, _)) => len > 0,
            Err(errno) => matches!(errno, Errno::AGAIN | Errno::INTR),
        }
    }

    /// Waits until the bell rings, or `socket` is readable, closed, or, if `is_writing`, writable.
    pub(crate) fn wait(
        &self,
        socket: BorrowedFd<'_>,
        is_writing: bool,
        timeout: Timespec,
    ) -> io::Result<Woken> {
        if !self.is_original() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let interest = if is_writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds =
            [PollFd::new(&self.fd, PollFlags::IN), PollFd::from_borrowed_fd(socket, interest)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => Ok(Woken::TimedOut),
            Ok(_) | Err(Errno::INTR) => Ok(Woken::Yes),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The descriptor, to send to the other side.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl Ring for Bell {
    /// When the socket is full, the other side already has a wake-up; when it is closed, that side
    /// is gone. A caller whose descriptor was replaced finds that out when it waits.
    fn ring(&self) {
        if self.is_original() {
            let _ = send(&self.fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_bell_that_nobody_silences_does_not_make_its_ringer_wait() {
        let (one, other) = Bell::pair().unwrap();
        for _ in 0..100_000 {
            one.ring();
        }
        assert!(other.silence());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn the_other_side_cannot_make_our_end_wait() {
        let (one, other) = Bell::pair().unwrap();
        let flags = rustix::fs::fcntl_getfl(&other.fd).unwrap();
        rustix::fs::fcntl_setfl(&other.fd, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        assert!(one.silence(), "nothing rang, and that is known at once");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_guarded_bell_whose_descriptor_is_of_another_socket_is_not_used() {
        let ((mut one, other), (third, fourth)) = (Bell::pair().unwrap(), Bell::pair().unwrap());
        one.guard();
        one.ring();
        assert!(other.silence() && one.is_original());
        rustix::io::dup2(&third.fd, &mut one.fd).unwrap();
        one.ring();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert!(!one.is_original() && !one.silence());
        assert!(one.wait(third.as_fd(), false, now).is_err());
        let waited = fourth.wait(third.as_fd(), false, now).unwrap();
        assert_eq!(waited, Woken::TimedOut, "nothing was sent to the other socket");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_bell_whose_other_end_is_gone_says_so() {
        let (one, other) = Bell::pair().unwrap();
        drop(other);
        one.ring();
        assert!(!one.silence());
    }
}
