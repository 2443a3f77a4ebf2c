//! The target's end of one connection.
