//! Where blocks lie: turns what the engine asks of a volume into operations on devices, follows
//! each of them until it has ended, and gives the engine one result for each IO. Pure.
//!
//! Every device operation leaves by [`Layout::poll_device`], and every result comes back by
//! [`Layout::handle_device`], under a name that no other operation has at that time.
//!
//! Knows nothing of requests, of who asked, of fences, or of what buffers hold.

mod flight;
mod flush;
mod io;
mod layout;
#[cfg(test)]
mod tests;

pub use io::{BlockIo, IoId, IoKind, IoResult};
pub use layout::{Layout, OPERATIONS_PER_IO_MAX};
