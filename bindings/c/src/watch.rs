//! A watch over the descriptors of a queue pair.

use std::io;
use std::os::fd::OwnedFd;

use nearflash::QueuePair;
use rustix::event::epoll;

/// An epoll instance that watches the socket and the bell of a queue pair. It stays the same over
/// reconnects; the system drops the descriptors of a lost connection from it when they are closed.
pub(crate) struct Watch {
    pub(crate) epoll: OwnedFd,
    is_writing: bool,
}

impl Watch {
    pub(crate) fn new(pair: &QueuePair) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut watch = Self { epoll, is_writing: false };
        watch.renew(pair)?;
        Ok(watch)
    }

    /// Watches the descriptors of a new connection.
    pub(crate) fn renew(&mut self, pair: &QueuePair) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        self.is_writing = false;
        epoll::add(&self.epoll, pair.socket(), data, epoll::EventFlags::IN)?;
        if let Some(bell) = pair.bell() {
            epoll::add(&self.epoll, bell, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    /// Also watches for room in the socket, as long as there is data that it has not accepted.
    pub(crate) fn watch_room(&mut self, pair: &QueuePair) -> io::Result<()> {
        let is_writing = pair.has_unsent();
        if is_writing != self.is_writing {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_writing);
            epoll::modify(&self.epoll, pair.socket(), epoll::EventData::new_u64(0), flags)?;
            self.is_writing = is_writing;
        }
        Ok(())
    }
}
