//! The protocol's session, as the connection of a stream drives it.

use nearflash_direct::client::ClientSession;

use super::slots::Slots;
use crate::stream;

/// One connection with its session and the buffers of operations in flight.
pub(super) type Connection = stream::Connection<ClientSession, Slots>;
