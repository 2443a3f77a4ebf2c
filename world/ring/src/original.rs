//! The socket that a descriptor was of when it was made.
//!
//! A library in a program cannot keep the program from closing its descriptors and from opening files of
//! its own under their numbers. It must not use, and not close, such a descriptor.

use std::os::fd::BorrowedFd;

use rustix::fs::fstat;

/// The identity of a socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Original {
    device: u64,
    inode: u64,
}

impl Original {
    /// The socket that a descriptor is of; `None` if it is not open.
    pub fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let of = fstat(fd).ok()?;
        Some(Self { device: of.st_dev, inode: of.st_ino })
    }

    /// Whether the number is still that of a descriptor of this socket.
    pub fn is(self, fd: BorrowedFd<'_>) -> bool {
        Self::of(fd) == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_duplicate_is_of_the_same_socket_and_another_socket_is_not() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let original = Original::of(one.as_fd()).unwrap();
        assert!(original.is(one.try_clone().unwrap().as_fd()));
        assert!(!original.is(other.as_fd()));
    }
}
