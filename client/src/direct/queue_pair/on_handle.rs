//! Posts on another volume, or on a sealed object: every operation, without a method of its own.

use std::ops::{Deref, DerefMut};

use super::super::handle::Handle;
use super::QueuePair;

/// A queue pair for posts on one of its handles, from [`QueuePair::on`].
#[derive(Debug)]
pub struct OnHandle<'a> {
    pair: &'a mut QueuePair,
    before: Handle,
}

impl QueuePair {
    /// The same queue pair, whose posts through this value are on the volume or the sealed object of a
    /// handle, instead of the queue pair's own. Everything else, such as [`Self::len`], [`Self::poll`] and
    /// [`Self::revoke`], is as before.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), nearflash::Error> {
    /// # let client = nearflash::Client::connect("direct://a", nearflash::Credentials::NONE)?;
    /// # let mut pair = client.queue_pair("data", nearflash::QueueOptions::default())?;
    /// let other = pair.open("other")?;
    /// pair.on(other).post_write_zeroes(0, 4096)?;
    /// pair.on(other).post_fetch_add(8192, 1)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(&mut self, handle: Handle) -> OnHandle<'_> {
        let before = self.aim(handle);
        OnHandle { pair: self, before }
    }
}

impl QueuePair {
    /// Posts are on this handle from now on. Returns the one before.
    pub(in super::super) fn aim(&mut self, handle: Handle) -> Handle {
        std::mem::replace(&mut self.target, handle)
    }
}

impl Deref for OnHandle<'_> {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        self.pair
    }
}

impl DerefMut for OnHandle<'_> {
    fn deref_mut(&mut self) -> &mut QueuePair {
        self.pair
    }
}

impl Drop for OnHandle<'_> {
    fn drop(&mut self) {
        self.pair.target = self.before;
    }
}
